"""Where the time went by layer: a tree of scopes, forward, backward and optimizer together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepscope.analysis.profile import layers
from stepscope.analysis.profile.op_profile import by_place, profile_by
from stepscope.analysis.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepscope.analysis.profile.op_profile import OpRow
    from stepscope.analysis.runs import Runs

__all__ = ["LayerProfile", "LayerRow", "layer_profile"]

_APART = "\t"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer with all that is below it.

    `key` is its path, `depth` how far down it is, 0 for the outermost. `self_ns` is the time of its
    ops (see `OpRow`) and `share` the part of the whole; `own_ns` is the time of those of them that
    are in no layer below it. `forward_ns`, `backward_ns`, `optimizer_ns` and `other_ns` (of input,
    metrics and eager code, which have no such parts) add up to `self_ns`.
    """

    key: str
    depth: int
    calls: int
    self_ns: int
    share: float
    own_ns: int
    forward_ns: int
    backward_ns: int
    optimizer_ns: int
    other_ns: int
    total_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LayerProfile(Result):
    """Rows in the order of the tree: a layer before those below it, the largest first.

    The rest is as in `OpProfile`, and the same; rows of depth 0 add up to it. `named` is the part
    of the time that is in a named layer.
    """

    rows: tuple[LayerRow, ...]
    runs: int
    calls: int
    total_ns: int
    self_ns: int
    covered_ns: int
    named: float
    not_ok: Mapping[str, int] = field(default_factory=dict)

    @property
    def parallelism(self) -> float:
        """How many ops ran at once, on average over the time in which any did."""
        return self.self_ns / self.covered_ns if self.covered_ns else 0.0

    def __iter__(self) -> Iterator[LayerRow]:
        """Over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    self_ns: int = 0
    own_ns: int = 0
    total_ns: int = 0
    bytes: int = 0
    phases: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    below: dict[str, _Sums] = field(default_factory=dict)


def layer_profile(runs: Runs, depth: int | None = None) -> LayerProfile:
    """Sum up the executions of runs by layer, down to so many levels (1 or more); None for all."""
    if depth is not None and depth < 1:
        raise ValueError(f"depth must be 1 or more; it was {depth}")
    flat = profile_by(runs, "layer", by_place(lambda place: place.layer + _APART + place.phase))
    top = _tree(flat.rows, depth)
    unnamed = top.below.get(layers.NO_LAYER)
    return LayerProfile(
        rows=tuple(_rows(top, flat.self_ns, "", 0)),
        runs=flat.runs,
        calls=flat.calls,
        total_ns=flat.total_ns,
        self_ns=flat.self_ns,
        covered_ns=flat.covered_ns,
        named=1 - (unnamed.self_ns / flat.self_ns if unnamed and flat.self_ns else 0.0),
        not_ok=flat.not_ok,
    )


def _tree(rows: Iterable[OpRow], depth: int | None) -> _Sums:
    top = _Sums()
    for row in rows:
        path, _, phase = row.key.rpartition(_APART)
        node = top
        for part in path.split("/")[:depth]:
            node = node.below.setdefault(part, _Sums())
            node.calls += row.calls
            node.self_ns += row.self_ns
            node.total_ns += row.total_ns
            node.bytes += row.bytes
            node.phases[phase] += row.self_ns
        node.own_ns += row.self_ns
    return top


def _rows(node: _Sums, whole: int, above: str, depth: int) -> Iterator[LayerRow]:
    for name, sums in sorted(node.below.items(), key=lambda item: (-item[1].self_ns, item[0])):
        path = f"{above}/{name}" if above else name
        yield LayerRow(
            key=path,
            depth=depth,
            calls=sums.calls,
            self_ns=sums.self_ns,
            share=sums.self_ns / whole if whole else 0.0,
            own_ns=sums.own_ns,
            forward_ns=sums.phases[layers.FORWARD],
            backward_ns=sums.phases[layers.BACKWARD],
            optimizer_ns=sums.phases[layers.OPTIMIZER],
            other_ns=sums.phases[layers.OTHER],
            total_ns=sums.total_ns,
            bytes=sums.bytes,
        )
        yield from _rows(sums, whole, path, depth + 1)
