"""The dataflow graph of a run, looked at scope by scope.

The nodes are those that the run executed, and those of the user's graph that it did not: fused,
folded, pruned, not reached. A scope shows what lies directly in it; what lies deeper is folded into
scopes, and what it is connected with outside stands beside it, folded as far as can be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.intervals import self_times, sums_at
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepscope.analysis.coverage.report import Coverage
    from stepscope.metadata import RunMetadata

__all__ = ["Dataflow", "DataflowEdge", "DataflowNode", "DataflowScope", "dataflow"]

MIXED: Final = "mixed"
_MOST: Final = 500
_FEW_ALIKE: Final = 4
_ONE_SCOPE: Final = 0.9
"""A scope with so much of what lies in scopes at all is the only one that matters."""


@dataclass(frozen=True, slots=True)
class DataflowNode:
    """A node, or a scope with all that is in it (`kind` is "op", "scope" or "others").

    `state` is one of `coverage.STATES`, "mixed" of a scope with several, "" where nothing is known.
    """

    id: str
    label: str
    kind: str
    type: str
    ops: int
    self_ns: int
    bytes: int
    device: str
    state: str
    detail: str
    on_path: bool
    line: str


class DataflowEdge(NamedTuple):
    """From a node to another, as places among those of a scope and then those outside."""

    source: int
    target: int
    edges: int
    bytes: int
    control: bool


class DataflowScope(NamedTuple):
    """What lies in a scope, what is connected with it outside, and the edges among all these."""

    scope: str
    nodes: tuple[DataflowNode, ...]
    outside: tuple[DataflowNode, ...]
    edges: tuple[DataflowEdge, ...]
    folded: int


class _Input(NamedTuple):
    node: int
    control: bool


@dataclass(slots=True)
class Dataflow:
    """All nodes of a run's graph; see `scope`."""

    names: list[str]
    types: list[str]
    devices: list[str]
    lines: list[str]
    states: list[str]
    details: list[str]
    self_ns: list[int]
    bytes: list[int]
    on_path: list[bool]
    inputs: list[list[_Input]]
    _paths: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        scopes = {name[:i] for name in self.names for i in _slashes(name)}
        for name in self.names:
            parts = tuple(name.split("/"))
            # An op with the name of a scope lies in it.
            self._paths.append((*parts, f"({parts[-1]})") if name in scopes else parts)

    def __len__(self) -> int:
        return len(self.names)

    def scopes(self) -> list[str]:
        """All scopes that hold something, the outermost, "", first."""
        found = {"/".join(path[:i]) for path in self._paths for i in range(len(path))}
        return sorted(found, key=lambda scope: (scope.count("/") + bool(scope), scope))

    def opening(self) -> str:
        """The outermost scope with something to see: not a single one with all the work in it.

        A step of Keras is one call of a function, with its arguments beside it: it is looked at
        inside of the call. `""` is the whole graph.
        """
        at: tuple[str, ...] = ()
        while True:
            ops, ns = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
            for path, own in zip(self._paths, self.self_ns, strict=True):
                if path[: len(at)] == at:
                    ns[path[: len(at) + 1]] += own
                    ops[path[: len(at) + 1]] += len(path) > len(at) + 1
            inner, count = ops.most_common(1)[0] if ops else ((), 0)
            if count < max(2, _ONE_SCOPE * ops.total()) or ns[inner] < ns.total() / 2:
                return "/".join(at)
            at = inner

    def scope(self, scope: str = "", most: int = _MOST) -> DataflowScope:
        """What lies in a scope; not more than `most` of it, the smallest folded into one."""
        at = tuple(scope.split("/")) if scope else ()
        depth = len(at)
        groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
        place_of: dict[int, tuple[str, ...]] = {}
        for node, path in enumerate(self._paths):
            if path[:depth] == at and len(path) > depth:
                place_of[node] = path[: depth + 1]
                groups[path[: depth + 1]].append(node)
        if len(groups) > most:
            groups, place_of = self._folded(groups, at, most)
        inside = {path: number for number, path in enumerate(groups)}
        outside: dict[tuple[str, ...], list[int]] = defaultdict(list)
        pairs: Counter[tuple[tuple[str, ...], tuple[str, ...], bool]] = Counter()
        moved: Counter[tuple[tuple[str, ...], tuple[str, ...], bool]] = Counter()
        for target, inputs in enumerate(self.inputs):
            for source, control in inputs:
                a, b = place_of.get(source), place_of.get(target)
                if a is None and b is None:
                    continue
                if a is None:
                    a = self._beside(at, source)
                    outside[a].append(source)
                if b is None:
                    b = self._beside(at, target)
                    outside[b].append(target)
                if a != b:
                    pairs[a, b, control] += 1
                    moved[a, b, control] += 0 if control else self.bytes[source]
        alike = self._alike(outside, {a for a, _, _ in pairs})
        beside: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for path, nodes in outside.items():
            beside[alike.get(path, path)] += nodes
        for path in beside:
            inside[path] = len(inside)
        drawn: Counter[tuple[int, int, bool]] = Counter()
        sizes: Counter[tuple[int, int, bool]] = Counter()
        for (a, b, control), count in pairs.items():
            edge = inside[alike.get(a, a)], inside[alike.get(b, b)], control
            drawn[edge] += count
            sizes[edge] += moved[a, b, control]
        edges = [
            DataflowEdge(source, target, count, sizes[source, target, control], control)
            for (source, target, control), count in drawn.items()
        ]
        return DataflowScope(
            scope,
            tuple(self._node(path, nodes, depth) for path, nodes in groups.items()),
            tuple(self._node(path, sorted(set(nodes)), 0) for path, nodes in beside.items()),
            tuple(edges),
            sum(len(nodes) for path, nodes in groups.items() if path[-1] == _OTHERS),
        )

    def _alike(
        self, outside: Mapping[tuple[str, ...], list[int]], sources: set[tuple[str, ...]]
    ) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Single ops beside a scope of which there are many of a type: those are one.

        The arguments of a function, a box for each, would be wider than all that is in it.
        """
        groups: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
        for path, nodes in outside.items():
            if self._paths[nodes[0]] == path:
                to_or_from = "to" if path in sources else "from"
                groups[to_or_from, self.types[nodes[0]], _OTHERS].append(path)
        return {
            path: group
            for group, paths in groups.items()
            if len(paths) > _FEW_ALIKE
            for path in paths
        }

    def _folded(
        self, groups: Mapping[tuple[str, ...], list[int]], at: tuple[str, ...], most: int
    ) -> tuple[dict[tuple[str, ...], list[int]], dict[int, tuple[str, ...]]]:
        by_time = sorted(groups, key=lambda path: -sum(self.self_ns[n] for n in groups[path]))
        kept = {path: groups[path] for path in by_time[: most - 1]}
        others = (*at, _OTHERS)
        kept[others] = [node for path in by_time[most - 1 :] for node in groups[path]]
        return kept, {node: path for path, nodes in kept.items() for node in nodes}

    def _beside(self, at: tuple[str, ...], node: int) -> tuple[str, ...]:
        """The largest scope that holds a node and not this scope."""
        path = self._paths[node]
        same = 0
        while same < min(len(at), len(path) - 1) and at[same] == path[same]:
            same += 1
        return path[: same + 1]

    def _node(self, path: tuple[str, ...], nodes: list[int], depth: int) -> DataflowNode:
        alone = len(nodes) == 1 and self._paths[nodes[0]] == path
        first = nodes[0]
        states = Counter(self.states[node] for node in nodes)
        types = Counter[str]()
        for node in nodes:
            types[self.types[node]] += self.self_ns[node] + 1
        devices = {self.devices[node] for node in nodes}
        kind = "op" if alone else "others" if path[-1] == _OTHERS else "scope"
        state = next(iter(states)) if len(states) == 1 else MIXED
        what = path[1] if kind == "others" and depth == 0 and len(path) == 3 else "others"
        said = ", ".join(f"{count:,} {name}" for name, count in states.most_common() if name)
        return DataflowNode(
            id=self.names[first] if alone else "/".join(path),
            label="/".join(path[depth:]) if kind != "others" else f"({len(nodes):,} {what})",
            kind=kind,
            type=types.most_common(1)[0][0],
            ops=len(nodes),
            self_ns=sum(self.self_ns[node] for node in nodes),
            bytes=sum(self.bytes[node] for node in nodes),
            device=next(iter(devices)) if len(devices) == 1 else "",
            state=state,
            detail=self.details[first] if alone else said,
            on_path=any(self.on_path[node] for node in nodes),
            line=self.lines[first] if alone else "",
        )


_OTHERS: Final = "\0others"


def dataflow(
    run: RunMetadata,
    covered: Coverage | None = None,
    graph: Any = None,
    path: Iterable[str] = (),
) -> Dataflow:
    """The graph of a run; `covered` and `graph` add the nodes of the user's that did not run.

    `path` names the nodes of the critical path.
    """
    ops = run.ops
    facts = ops.facts
    # A node that ran on several devices, or a transfer between any two of them, is one node here.
    first: dict[str, int] = {}
    place = np.array([first.setdefault(name, len(first)) for name in facts.names.values], np.int32)
    names = list(first)
    nodes = place[ops.node] if len(ops) else place[:0]
    own = self_times(ops.start_ns, ops.end_ns, ops.thread)
    ran = np.zeros(len(names), bool)
    ran[nodes] = True
    types, devices = [""] * len(names), [set[str]() for _ in names]
    inputs: list[list[_Input]] = [[] for _ in names]
    columns = (facts.names, facts.ops, facts.devices, facts.all_labels)
    rows = zip(place.tolist(), *(column.values.tolist() for column in columns), strict=True)
    for node, name, kind, device, label in rows:
        types[node] = types[node] or kind
        devices[node].add(device)
        inputs[node] += _known(parse_label(name, label)[1], first)
    sources, on_path = run.sources, set(path)
    state = {} if covered is None else {row.name: row for row in covered.rows if not row.function}
    found = Dataflow(
        names=names,
        types=types,
        devices=[next(iter(known)) if len(known) == 1 else "" for known in devices],
        lines=[sources.get(name, "") for name in names],
        states=[
            state[name].state if name in state else "measured" if ran[node] else ""
            for node, name in enumerate(names)
        ],
        details=[state[name].detail if name in state else "" for name in names],
        self_ns=sums_at(nodes, own, len(names)).tolist(),
        bytes=sums_at(nodes, ops.output_bytes, len(names)).tolist(),
        on_path=[name in on_path for name in names],
        inputs=[list(dict.fromkeys(known)) for known in inputs],
    )
    return found if covered is None else _with_unmeasured(found, covered, graph, first, sources)


def _with_unmeasured(
    found: Dataflow,
    covered: Coverage,
    graph: Any,
    first: dict[str, int],
    sources: Mapping[str, str],
) -> Dataflow:
    """With the nodes of the user's graph that have no execution of their own."""
    written = {} if graph is None else {node.name: node for node in graph.node}
    added = [row for row in covered.rows if row.name not in first and not row.function]
    place = {**first, **{row.name: len(found) + i for i, row in enumerate(added)}}
    inputs = [list(known) for known in found.inputs]
    for row in added:
        node = written.get(row.name)
        inputs.append([] if node is None else _known(node.input, place))
    return Dataflow(
        names=[*found.names, *(row.name for row in added)],
        types=[*found.types, *(row.op for row in added)],
        devices=[*found.devices, *("" for _ in added)],
        lines=[*found.lines, *(sources.get(row.name, "") for row in added)],
        states=[*found.states, *(row.state for row in added)],
        details=[*found.details, *(row.detail for row in added)],
        self_ns=[*found.self_ns, *(0 for _ in added)],
        bytes=[*found.bytes, *(0 for _ in added)],
        on_path=[*found.on_path, *(False for _ in added)],
        inputs=inputs,
    )


def _known(references: Iterable[str], place: Mapping[str, int]) -> list[_Input]:
    found = []
    for reference in references:
        node = place.get(input_node(reference))
        if node is not None:
            found.append(_Input(node, reference.startswith("^")))
    return found


def _slashes(name: str) -> list[int]:
    return [i for i, letter in enumerate(name) if letter == "/"]
