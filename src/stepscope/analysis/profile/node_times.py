"""The nodes of a run with what each took in it, and the time of one node over runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.analysis.intervals import self_times, sums_at
from stepscope.analysis.profile.layers import layers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import RunMetadata

__all__ = ["NodeTimes", "node_times"]

_CHUNK: Final = 500_000


class NodeTimes(NamedTuple):
    """Nodes, those with the most self time first.

    `longest` is the row of a node's longest execution, -1 of one that did not run; `node` its place
    among the graph's nodes. `own` is the self time of every execution of the run.
    """

    name: list[str]
    type: list[str]
    line: list[str]
    layer: list[str]
    phase: list[str]
    self_ns: list[int]
    calls: list[int]
    longest: list[int]
    node: list[int]
    own: NDArray[np.integer]


def node_times(run: RunMetadata) -> NodeTimes:
    """What each node of a run's graph took."""
    ops = run.ops
    facts, node = ops.facts, ops.node
    own = self_times(ops.start_ns, ops.end_ns, ops.thread)
    if len(own) and own.max() < 1 << 32:
        own = own.astype(np.uint32)
    sums = sums_at(node, own, len(facts))
    calls = sums_at(node, np.broadcast_to(np.int64(1), node.shape), len(facts))
    longest = _longest(node, ops.end_ns, ops.start_ns, len(facts))
    order = np.lexsort((np.arange(len(facts)), -sums))
    names = facts.names.values[order].tolist()
    places = layers_of(run)
    sources = run.sources
    return NodeTimes(
        name=names,
        type=facts.ops.values[order].tolist(),
        line=[sources.get(name, "") for name in names],
        layer=[places[i].layer for i in order.tolist()],
        phase=[places[i].phase for i in order.tolist()],
        self_ns=sums[order].tolist(),
        calls=calls[order].tolist(),
        longest=longest[order].tolist(),
        node=order.tolist(),
        own=own,
    )


def _longest(
    node: NDArray[np.int32], end: NDArray[np.int64], start: NDArray[np.int64], nodes: int
) -> NDArray[np.int64]:
    """The row of the longest execution of each node, the last of several; -1 of one without."""
    most = np.full(nodes, -1, np.int64)
    longest = np.full(nodes, -1, np.int64)
    for first in range(0, len(node), _CHUNK):
        rows = slice(first, first + _CHUNK)
        of, ns = node[rows], np.maximum(end[rows] - start[rows], 0)
        np.maximum.at(most, of, ns)
        found = np.flatnonzero(ns == most[of])
        longest[of[found]] = first + found
    return longest
