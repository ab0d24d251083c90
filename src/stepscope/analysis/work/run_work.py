"""What each execution of a run took: floating-point operations and bytes, by recorded shapes.

The shapes of an execution's outputs are in its run (a full trace has them); those of its inputs are
the outputs of the nodes that it names, of their latest execution before. Which nodes these are, and
attributes, the graph that was executed tells; where the run has none, the timeline labels tell the
inputs, and rules that need an attribute say that it is lacking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.work.graph_calls import data_inputs
from stepscope.analysis.work.op_work import KnownTensor, OpCall, op_work
from stepscope.metadata.executed_graphs import executed_graphs
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, RunMetadata

    Ints: TypeAlias = NDArray[np.int64]

__all__ = ["UNCOUNTED", "RunWork", "WorkOfRuns"]

UNCOUNTED = -1
_NO_SHAPES = "no shapes were recorded"


class RunWork(NamedTuple):
    """Per execution operations and bytes; `UNCOUNTED` where they are not known.

    `lacking` says what is missing, and of how many executions.
    """

    flops: Ints
    bytes: Ints
    lacking: Counter[str]


class WorkOfRuns:
    """Works out the runs of one program: what is alike is looked at once."""

    def __init__(self) -> None:
        self._known: dict[Any, RunWork] = {}

    def of(self, run: RunMetadata) -> RunWork:
        """What each row of the run's `ops` took."""
        ops = run.ops
        if not len(ops):
            nothing = np.empty(0, np.int64)
            return RunWork(nothing, nothing, Counter())
        # Threads make runs of one graph differ in their order, and in nothing that matters here.
        order = np.lexsort((ops.start_ns, ops.node))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        tensors = ops.tensors
        at = np.lexsort((tensors.slot, rank[tensors.op_index]))
        key = (
            ops.facts.key,
            ops.node[order].tobytes(),
            rank[tensors.op_index][at].tobytes(),
            tensors.slot[at].tobytes(),
            tensors.bytes[at].tobytes(),
            tuple(tensors.shape[at]),
        )
        if key not in self._known:
            found = _work_of(run, ops)
            self._known[key] = RunWork(found.flops[order], found.bytes[order], found.lacking)
        known = self._known[key]
        return RunWork(known.flops[rank], known.bytes[rank], known.lacking)


def _work_of(run: RunMetadata, ops: OpColumns) -> RunWork:
    flops = np.full(len(ops), UNCOUNTED, np.int64)
    moved = np.full(len(ops), UNCOUNTED, np.int64)
    lacking: Counter[str] = Counter()
    if not len(ops.tensors):
        return RunWork(flops, moved, Counter({_NO_SHAPES: len(ops)}))
    outputs = _outputs(ops)
    nodes = {node.name: node for graph in executed_graphs(run) for node in graph.node}
    latest: dict[str, tuple[KnownTensor, ...]] = {}
    names, kinds, labels = ops.name, ops.op, ops.label
    for row in np.argsort(ops.start_ns, kind="stable").tolist():
        name, kind = str(names[row]), str(kinds[row])
        node = nodes.get(name)
        if node is not None and node.op == kind:
            references, attrs = node.input, node.attr
        else:
            references, attrs = parse_label(name, str(labels[row]))[1], None
        inputs = tuple(_input(latest, *source) for source in data_inputs(references))
        put_out = outputs.get(row, ())
        work = op_work(OpCall(kind, inputs, put_out, attrs))
        latest[name] = put_out
        if work.flops is not None:
            flops[row] = work.flops
        else:
            lacking[work.lacking] += 1
        if work.bytes is not None:
            moved[row] = work.bytes
    return RunWork(flops, moved, lacking)


def _outputs(ops: OpColumns) -> dict[int, tuple[KnownTensor, ...]]:
    """Per row what it put out, by slot."""
    tensors = ops.tensors
    found: dict[int, dict[int, KnownTensor]] = {}
    columns = (tensors.op_index, tensors.slot, tensors.shape, tensors.bytes)
    for row, slot, shape, size in zip(*(column.tolist() for column in columns), strict=True):
        known = shape is not None and all(length >= 0 for length in shape)
        found.setdefault(row, {})[slot] = KnownTensor(shape, size if known else None)
    unknown = KnownTensor(None)
    return {
        row: tuple(slots.get(slot, unknown) for slot in range(max(slots) + 1))
        for row, slots in found.items()
    }


def _input(latest: Mapping[str, tuple[KnownTensor, ...]], name: str, slot: int) -> KnownTensor:
    known = latest.get(name, ())
    return known[slot] if slot < len(known) else KnownTensor(None)
