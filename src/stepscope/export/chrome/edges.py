"""Which execution used the output of which: from the labels of a run, or from its graphs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.cluster.messages import traffic
from stepscope.analysis.cluster.tasks import task_column
from stepscope.export.timeline.label_table import parse_labels
from stepscope.metadata.executed_graphs import executed_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, RunMetadata

    Ints: TypeAlias = NDArray[np.int64]


_ROWS = 1 << 16
_RECEIVED = re.compile(r"(/_|_S)\d+\Z")


class DrawnEdges(NamedTuple):
    """Rows of ops: `consumer[i]` used an output of `producer[i]`."""

    producer: Ints
    consumer: Ints


def edges_of(metadata: RunMetadata, lanes: Ints, end: Ints) -> Iterator[DrawnEdges]:
    """The edges between ops that are drawn on different lanes and took some time.

    On one lane an arrow would run along it; and one cannot be drawn from or to a slice without
    length. A node that ran several times gave what it had last put out when the other one began.
    What a task of a cluster received goes by way of the transfer, where that has a time.
    """
    ops = metadata.ops
    lasts = end > ops.start_ns
    moved = _transfers(ops, lasts, end)
    through = {pair for way in moved for pair in way.instead}
    if moved:
        ways = [(a, b) for way in moved for a, b in way.edges if lanes[a] != lanes[b]]
        pairs = np.array(sorted(ways), np.int64).reshape(-1, 2)
        yield DrawnEdges(pairs[:, 0], pairs[:, 1])
    for edges in _by_inputs(metadata, lanes, end, lasts):
        if through:
            both = zip(edges.producer.tolist(), edges.consumer.tolist(), strict=True)
            direct = np.array([pair not in through for pair in both], bool)
            edges = DrawnEdges(edges.producer[direct], edges.consumer[direct])
        yield edges


class _Way(NamedTuple):
    """How a tensor came from one task to another, and the edges that this stands for."""

    edges: list[tuple[int, int]]
    instead: list[tuple[int, int]]


def _transfers(ops: OpColumns, lasts: NDArray[np.bool_], end: Ints) -> list[_Way]:
    """The transfers that can be drawn: from the producer to the receive, and on to its users."""
    # What a task got from another has its producer in the run only where both have rows there.
    if "RecvTensor" not in ops.ops.table or len(task_column(ops).table) < 2:
        return []
    ways = []
    for message in traffic(ops).messages:
        made, receive = message.producer, message.receive
        if made < 0 or not (lasts[made] and lasts[receive]) or end[made] > ops.start_ns[receive]:
            continue
        users = [row for row in message.consumers if lasts[row]]
        edges = [(made, receive), *((receive, row) for row in users)]
        ways.append(_Way(edges, [(made, row) for row in users]))
    return ways


def _by_inputs(
    metadata: RunMetadata, lanes: Ints, end: Ints, lasts: NDArray[np.bool_]
) -> Iterator[DrawnEdges]:
    """The edges that the inputs of nodes tell."""
    ops = metadata.ops
    codes = ops.names.codes if ops.labels is None else ops.labels.codes
    first, wanted = _inputs(ops, metadata)
    if not len(wanted):
        return
    # Rows by node, those of a node by their end.
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(ops), np.int64)
    rank[by_end] = np.arange(len(ops))
    keys = ops.names.codes.astype(np.int64) * (len(ops) + 1) + rank
    del rank
    rows_by_key = np.argsort(keys)
    keys = keys[rows_by_key]
    ends = end[by_end]
    del by_end
    for begin in range(0, len(ops), _ROWS):
        rows = slice(begin, begin + _ROWS)
        counts = first[codes[rows] + 1] - first[codes[rows]]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        at = wanted[np.repeat(first[codes[rows]], counts) + within].astype(np.int64)
        ended_before = np.searchsorted(ends, ops.start_ns[rows], side="right")
        sought = at * (len(ops) + 1) + np.repeat(ended_before, counts)
        found = np.searchsorted(keys, sought) - 1
        consumer = np.repeat(np.arange(begin, begin + len(counts)), counts)
        producer = rows_by_key[np.maximum(found, 0)]
        drawn = (found >= 0) & (ops.names.codes[producer] == at)
        drawn &= (lanes[producer] != lanes[consumer]) & lasts[producer] & lasts[consumer]
        yield DrawnEdges(producer[drawn], consumer[drawn])


def _inputs(ops: OpColumns, metadata: RunMetadata) -> tuple[Ints, NDArray[np.int32]]:
    """The nodes whose outputs each label (or, without labels, each node) names as its inputs.

    Those of label `i` are `wanted[first[i] : first[i + 1]]`; all are numbers in the tables of the
    columns.
    """
    number = dict(zip(ops.names.table, range(len(ops.names.table)), strict=True))
    told = {} if ops.labels is not None else _inputs_in_graphs(metadata)
    table = ops.names.table if ops.labels is None else ops.labels.table
    counts = [np.zeros(1, np.int64)]
    wanted = [np.empty(0, np.int32)]
    for begin in range(0, len(table), _ROWS):
        block = table[begin : begin + _ROWS]
        if ops.labels is None:
            inputs = [told.get(name, "") for name in block]
        else:
            inputs = parse_labels(block)[1]
        of_label, nodes = _numbered(inputs, number)
        known = nodes >= 0
        counts.append(np.bincount(of_label[known], minlength=len(block)))
        wanted.append(nodes[known].astype(np.int32))
    return np.cumsum(np.concatenate(counts)), np.concatenate(wanted)


def _numbered(inputs: list[str], number: dict[str, int]) -> tuple[Ints, Ints]:
    """Each input of each label: which label, and the number of its node, -1 for an unknown one."""
    counts = np.array([many.count(", ") + 1 if many else 0 for many in inputs], np.int64)
    of_label = np.repeat(np.arange(len(inputs)), counts)
    names = ", ".join(filter(None, inputs)).split(", ") if len(of_label) else []
    nodes = np.array([number.get(name, -1) for name in names], np.int64)
    for i in np.flatnonzero(nodes < 0).tolist():
        if not names[i].startswith("^"):
            nodes[i] = number.get(_node(names[i]), -1)
    return of_label, nodes


def _node(tensor: str) -> str:
    """The node of a tensor: "a" of "a:1".

    Partitioning puts unrecorded receive nodes between nodes of different devices and gives them the
    producer's name with a suffix, `/_N` in one process and `_SN` between tasks; the edge is drawn
    from the producer.
    """
    name, colon, slot = tensor.rpartition(":")
    if not (colon and slot.isdecimal()):
        name = tensor
    return _RECEIVED.sub("", name)


def _inputs_in_graphs(metadata: RunMetadata) -> dict[str, str]:
    graphs = executed_graphs(metadata)
    return {node.name: ", ".join(node.input) for graph in graphs for node in graph.node}
