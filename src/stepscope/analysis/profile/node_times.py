"""The nodes of a run with what each took in it, and the time of one node over runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analysis.intervals import self_times, sums_at
from stepscope.analysis.profile.layers import layers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import RunMetadata

__all__ = ["NodeTimes", "node_times"]


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
    own: NDArray[np.int64]


def node_times(run: RunMetadata) -> NodeTimes:
    """What each node of a run's graph took."""
    ops = run.ops
    facts, node = ops.facts, ops.node.astype(np.int64)
    own = self_times(ops.start_ns, ops.end_ns, ops.thread)
    sums = sums_at(node, own, len(facts))
    calls = np.bincount(node, minlength=len(facts))
    longest = np.full(len(facts), -1, np.int64)
    by_length = np.argsort(np.maximum(ops.end_ns - ops.start_ns, 0), kind="stable")
    longest[node[by_length]] = by_length
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
