"""Trees of scopes or of source files, with what each part of them took: what an icicle draws."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from stepscope.analysis.profile.op_profile import UNKNOWN, op_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.analysis.compare.diff import Diff
    from stepscope.analysis.runs import Runs

__all__ = ["Icicle", "IcicleNode", "diff_icicle", "icicle"]

Of: TypeAlias = Literal["scope", "file"]
MOST: Final = 3_000


class IcicleNode(NamedTuple):
    """A part. `parent` is its place among the nodes, which come after their parents; -1 the root's.

    `values` are with all that is below it, `own` without. `type` is the op type that most of it is.
    """

    name: str
    parent: int
    values: tuple[float, ...]
    own: tuple[float, ...]
    calls: int
    type: str


class Icicle(NamedTuple):
    """The tree, its root first. `folded` parts were too small, and stand in "(n others)"."""

    nodes: tuple[IcicleNode, ...]
    folded: int


class _Leaf(NamedTuple):
    path: tuple[str, ...]
    values: tuple[float, ...]
    calls: int
    type: str


@dataclass(slots=True)
class _Part:
    values: list[float]
    own: list[float]
    calls: int = 0
    types: Counter[str] = field(default_factory=Counter)
    below: dict[str, _Part] = field(default_factory=dict)


def icicle(runs: Runs, of: Of = "scope", most: int = MOST) -> Icicle:
    """Self time and output bytes of runs by scope of names, or by file and line of the program.

    Each node has two values: nanoseconds and bytes.
    """
    if of == "scope":
        rows = op_profile(runs, "name").rows
        paths: list[tuple[str, ...]] = [_scopes(row.key) for row in rows]
    else:
        rows = op_profile(runs, "line").rows
        paths = [_files(row.key) for row in rows]
    return _tree(
        [
            _Leaf(path, (float(row.self_ns), float(row.bytes)), row.calls, row.op)
            for path, row in zip(paths, rows, strict=True)
        ],
        2,
        most,
    )


def diff_icicle(found: Diff, most: int = MOST) -> Icicle:
    """The time of the ops of a comparison: the values of a node are those of base and new."""
    leaves = [
        _Leaf(_scopes(row.name), (row.base, row.new), 1, row.op)
        for row in found.rows
        if row.metric == "time"
    ]
    leaves += [_Leaf(_scopes(name), (0.0, ns), 1, "") for name, ns in found.appeared.items()]
    leaves += [_Leaf(_scopes(name), (ns, 0.0), 1, "") for name, ns in found.gone.items()]
    return _tree(leaves, 2, most)


def _scopes(name: str) -> tuple[str, ...]:
    return tuple(part for part in name.split("/") if part) or (name,)


def _files(line: str) -> tuple[str, ...]:
    path, colon, number = line.rpartition(":")
    return (path, f"line {number}") if colon and line != UNKNOWN else (line,)


def _tree(leaves: Iterable[_Leaf], values: int, most: int) -> Icicle:
    root = _Part([0.0] * values, [0.0] * values)
    count = 1
    for leaf in leaves:
        part = root
        _add(part, leaf)
        for name in leaf.path:
            inner = part.below.get(name)
            if inner is None:
                inner = part.below[name] = _Part([0.0] * values, [0.0] * values)
                count += 1
            part = inner
            _add(part, leaf)
        for i, value in enumerate(leaf.values):
            part.own[i] += value
    least = _least(root, most) if count > most else -1.0
    nodes: list[IcicleNode] = []
    folded = _nodes(root, "", -1, least, nodes)
    return Icicle(tuple(nodes), folded)


def _add(part: _Part, leaf: _Leaf) -> None:
    for i, value in enumerate(leaf.values):
        part.values[i] += value
    part.calls += leaf.calls
    part.types[leaf.type] += int(max(leaf.values))


def _size(part: _Part) -> float:
    return max(part.values)


def _least(root: _Part, most: int) -> float:
    """How large a part has to be to be among the largest."""
    sizes: list[float] = []
    waiting = [root]
    while waiting:
        part = waiting.pop()
        sizes += [_size(inner) for inner in part.below.values()]
        waiting += part.below.values()
    # Half of them may be for those that stand for others.
    return sorted(sizes, reverse=True)[most // 2]


def _nodes(part: _Part, name: str, parent: int, least: float, found: list[IcicleNode]) -> int:
    """Add a part and what is below it; how many were folded."""
    waiting: list[tuple[_Part, str, int]] = [(part, name, parent)]
    folded = 0
    while waiting:
        part, name, parent = waiting.pop()
        place = len(found)
        kind = part.types.most_common(1)[0][0] if part.types else ""
        found.append(
            IcicleNode(name, parent, tuple(part.values), tuple(part.own), part.calls, kind)
        )
        items = sorted(part.below.items(), key=lambda item: (_size(item[1]), item[0]))
        large = [(inner, key, place) for key, inner in items if _size(inner) > least]
        small = [inner for _, inner in items if _size(inner) <= least]
        if small:
            folded += len(small)
            found.append(_others(small, place))
        waiting += large
    return folded


def _others(parts: Sequence[_Part], parent: int) -> IcicleNode:
    sums = tuple(sum(values) for values in zip(*(part.values for part in parts), strict=True))
    calls = sum(part.calls for part in parts)
    return IcicleNode(f"({len(parts):,} others)", parent, sums, sums, calls, "")
