"""Every op accounted for: which nodes of a graph were measured, and why others were not."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from stepscope.analysis.coverage.executed import executed
from stepscope.analysis.coverage.reasons import Reasons
from stepscope.analysis.coverage.spaces import spaces_of
from stepscope.analysis.coverage.users_graph import XLA_LAUNCH, OpenedGraph
from stepscope.analysis.result import Result, made_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.analysis.coverage.fate import Fate
    from stepscope.metadata import RunMetadata

__all__ = ["STATES", "Coverage", "CoverageRow", "coverage"]

STATES: Final[Mapping[str, str]] = {
    "measured": "it ran under its own name and has a time",
    "constant": "it ran, but a constant has no time of its own",
    "fed": "its value was given to the run",
    "pruned": "nothing the run was asked for needs it",
    "folded": "its value was computed once, before the run",
    "fused": "another op does its work",
    "duplicate": "another node computes the same value",
    "no-op": "it changes nothing and was taken out",
    "rewritten": "an optimiser put another op in its place",
    "lowered": "a conditional or loop became Switch, Merge, Enter and the like",
    "inlined": "its function's nodes run in its place",
    "branch not taken": "execution did not come by",
    "in XLA cluster": "XLA compiled it together with others",
    "inside another op": "that op executes the function it is in, and is measured as a whole",
    "too cheap": "the profiler's level leaves out ops this cheap",
    "not reached": "the run ended before its turn",
    "unknown": "nothing in the metadata tells",
}
"""The states a node may have, in the order tables show them, and what each means."""

_STRONGEST: Final = (
    *("measured", "constant", "fused", "rewritten", "folded", "duplicate", "no-op", "lowered"),
    *("inlined", "in XLA cluster", "unknown", "too cheap", "not reached", "inside another op"),
    *("branch not taken", "fed", "pruned"),
)
_RANK: Final = {state: rank for rank, state in enumerate(_STRONGEST)}
_SENTENCES: Final = {
    "fused": "fused into {}",
    "duplicate": "duplicate of {}",
    "rewritten": "rewritten as {}",
    "in XLA cluster": "in XLA cluster {}",
    "inside another op": "inside another op: {}",
}


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """What became of one node of the user's graph.

    `function` is the function of the graph's library that holds the node, "" for the graph itself;
    a function called from several places has one row per node, measured if any of the calls was.
    `state` is a key of `STATES`. `detail` names the other party: the node it was fused into or is
    a duplicate of, the branch, the cluster, the function inlined. `executions` and `total_ns` are
    those of the node or of what stands in its place; of a lowered conditional or loop, those of
    its control nodes.
    """

    name: str
    op: str
    state: str
    detail: str = ""
    executions: int = 0
    total_ns: int = 0
    function: str = ""

    @property
    def reason(self) -> str:
        """State and detail in words: "fused into relu"."""
        if not self.detail:
            return self.state
        if self.detail.startswith(("with ", "only ", "into ", "to ", "as ")):
            return f"{self.state} {self.detail}"
        return _SENTENCES.get(self.state, "{}: {}").format(
            *((self.detail,) if self.state in _SENTENCES else (self.state, self.detail))
        )


@dataclass(frozen=True, slots=True)
class Coverage(Result):
    """A row per node of the user's graph: first the graph's, then those of its functions.

    `added` are the executions, by op type, of what the engine or an optimiser added and no node of
    the user's stands for: arguments, results, transfers between devices; `added_ns` their time.
    """

    rows: tuple[CoverageRow, ...]
    added: Mapping[str, int] = field(default_factory=dict)
    added_ns: int = 0

    def __iter__(self) -> Iterator[CoverageRow]:
        """Over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.rows)

    def __getitem__(self, name: str) -> CoverageRow:
        """The row of a node by name: of the graph itself, or of the first function with it."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no node {name!r} in the graph; it has {len(self.rows)} nodes")

    def counts(self) -> dict[str, int]:
        """The number of nodes by state, in the order of `STATES`; states without nodes left out."""
        counted = Counter(row.state for row in self.rows)
        return {state: counted[state] for state in STATES if counted[state]}

    def where(self, state: str) -> tuple[CoverageRow, ...]:
        """The rows of one state."""
        if state not in STATES:
            raise ValueError(f"state must be one of {', '.join(STATES)}; it was {state!r}")
        return tuple(row for row in self.rows if row.state == state)

    @property
    def unknown(self) -> float:
        """The part of the nodes that nothing explains, 0 to 1."""
        return self.counts().get("unknown", 0) / len(self.rows) if self.rows else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON or a data frame."""
        return {
            "counts": self.counts(),
            "unknown": self.unknown,
            "rows": [
                {
                    "name": row.name,
                    "op": row.op,
                    "function": row.function,
                    "state": row.state,
                    "detail": row.detail,
                    "executions": row.executions,
                    "total_ns": row.total_ns,
                }
                for row in self.rows
            ],
            "added": dict(self.added),
            "added_ns": self.added_ns,
        }


def coverage(metadata: RunMetadata, graph: Any) -> Coverage:
    """Account for every node of `graph` in the run that `metadata` tells of.

    `graph` is what the user built: a `GraphDef` (TensorFlow's, TensorBoard's or ours), or anything
    with `as_graph_def()`: a TensorFlow or Stepscope graph, for a `tf.function` the graph of the
    concrete function. Functions in its library are accounted for as well.

    Where the metadata have the graphs as executed (a full trace of a function, or any run with
    `output_partition_graphs`), the reasons come from comparing the two. Without them only what
    names tell can be said, and more is unknown; of a run that ended early, what it had not come to
    is "not reached", also where nothing tells whether it was needed.
    """
    definition = _definition(graph)
    run = executed(metadata)
    results = _results(graph) if run.arguments else []
    if run.arguments:
        run.name_results(node.name for node in definition.node)
        run.fetched.update((name, "") for name in results if name not in run.fetched)

    def survives(path: str, op: str, space: int) -> bool:
        if space:
            return True
        graphs = [nodes[path].op for nodes in run.graphs if path in nodes]
        ops = graphs if run.graphs else [row.op for row in run.ran.get(path, ())]
        return op in ops

    opened = OpenedGraph(definition, survives, _compiled(metadata, graph, definition))
    cheap = any("cheap" in loss.reason + loss.what for loss in metadata.completeness.losses)
    reasons = Reasons(
        opened,
        run,
        spaces_of(opened, run),
        ended_early=metadata.status.known and not metadata.status.ok,
        lost_cheap_ops=cheap,
        in_flight=metadata.status.in_flight,
        cut=not metadata.status.known,
        fetches_known=bool(results),
    )
    verdicts = reasons.find()
    rows = _rows(opened, verdicts)
    return made_of(Coverage(tuple(rows), dict(reasons.added), reasons.added_ns), metadata)


def _definition(graph: Any) -> Any:
    if hasattr(graph, "as_graph_def"):
        return graph.as_graph_def()
    if hasattr(graph, "node") and hasattr(graph, "library"):
        return graph
    raise TypeError(
        f"coverage() takes a GraphDef or an object with as_graph_def(), "
        f"not {type(graph).__name__}; "
        "for a tf.function pass the graph of its concrete function"
    )


def _compiled(metadata: RunMetadata, graph: Any, definition: Any) -> str:
    """The execution that a function is which XLA compiled as a whole; "" where it is none.

    It is named after the function; a GraphDef does not tell the name of its own.
    """
    ops = metadata.ops
    launched: set[str] = set()
    if XLA_LAUNCH in ops.ops.table:
        launched.update(ops.names[ops.ops.codes == ops.ops.table.index(XLA_LAUNCH)].present())
    own = launched.intersection(node.name for node in definition.node)
    called = re.escape(getattr(graph, "name", "")) or ".+"
    found = (name for name in launched - own if re.fullmatch(rf"__\w+?_{called}_\d+", name))
    return min(found, default="")


def _results(graph: Any) -> list[str]:
    """The nodes that make a function's results, where the graph is an object that tells."""
    return [tensor.op.name for tensor in getattr(graph, "outputs", ()) if hasattr(tensor, "op")]


def _rows(graph: OpenedGraph, verdicts: list[Fate]) -> list[CoverageRow]:
    merged: dict[tuple[str, str], tuple[str, list[Fate]]] = {}
    for place, verdict in zip(graph.places, verdicts, strict=True):
        key = (place.scope.function, place.name)
        merged.setdefault(key, (place.op, []))[1].append(verdict)
    rows = []
    for (function, name), (op, found) in merged.items():
        best = found[0] if len(found) == 1 else min(found, key=lambda v: _RANK[v.state])
        executions = sum(verdict.executions for verdict in found)
        total_ns = sum(verdict.total_ns for verdict in found)
        rows.append(CoverageRow(name, op, best.state, best.detail, executions, total_ns, function))
    for function in graph.uncalled:
        rows += [
            CoverageRow(
                node.name, node.op, "pruned", "its function is not called", function=function
            )
            for node in graph.library[function].node_def
        ]
    return rows
