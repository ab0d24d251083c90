"""The graphs that a run executed, wherever its metadata keep them."""

from __future__ import annotations

from typing import Any

__all__ = ["executed_graphs"]


def executed_graphs(metadata: Any) -> list[Any]:
    """The graphs as executed, one `GraphDef` per device; none where the metadata have none.

    `metadata` is a `RunMetadata`, ours or a message. Sessions, and runs that were asked for them
    (`output_partition_graphs`), have them as `partition_graphs`; a full trace of a function has
    them with the graph as written, in `function_graphs`.
    """
    graphs = list(metadata.partition_graphs)
    if not graphs:
        for function in metadata.function_graphs:
            graphs += function.partition_graphs or [function.post_optimization_graph]
    return graphs
