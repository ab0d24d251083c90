"""The nodes of a `GraphDef` as calls of ops: what each is given and gives, by the graph alone.

Shapes are those that the graph itself tells in `_output_shapes` attributes, which
`graph.as_graph_def(add_shapes=True)` writes; no op type has to be known for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepscope.analysis.work.op_work import KnownTensor, OpCall, Shape

__all__ = ["completed_shapes", "data_inputs", "graph_calls", "output_shapes"]

_UNKNOWN = KnownTensor(None)


def graph_calls(
    graph: Any, run_shapes: Mapping[str, tuple[Shape | None, ...]] | None = None
) -> Iterator[tuple[Any, OpCall]]:
    """Every node with its call; sizes in bytes are left out.

    `run_shapes`, by node name, are shapes that a run found: they stand in for what the graph does
    not know in full, where the run tells as many outputs as the graph.
    """
    found = run_shapes or {}
    outputs = {
        node.name: tuple(map(KnownTensor, completed_shapes(node, found.get(node.name))))
        for node in graph.node
    }
    for node in graph.node:
        inputs = tuple(
            _at(outputs.get(source, ()), slot) for source, slot in data_inputs(node.input)
        )
        yield node, OpCall(node.op, inputs, outputs[node.name], node.attr)


def output_shapes(node: Any) -> tuple[Shape | None, ...]:
    """The shapes of a node's outputs, -1 for a dimension that is not known, None for a rank."""
    if "_output_shapes" not in node.attr:
        return ()
    return tuple(
        None if shape.unknown_rank else tuple(dim.size for dim in shape.dim)
        for shape in node.attr["_output_shapes"].list.shape
    )


def completed_shapes(node: Any, found: tuple[Shape | None, ...] | None) -> tuple[Shape | None, ...]:
    """As `output_shapes`; what it does not know in full is as a run found it."""
    known = output_shapes(node)
    if found is None or len(found) != len(known):
        return known
    return tuple(
        there if here is None or min(here, default=0) < 0 else here
        for here, there in zip(known, found, strict=True)
    )


def data_inputs(inputs: Any) -> Iterator[tuple[str, int]]:
    """The node and the output that each input is: "x" is ("x", 0); control inputs are left out."""
    for reference in inputs:
        if not reference.startswith("^"):
            name, colon, slot = reference.rpartition(":")
            yield (name, int(slot)) if colon and slot.isdecimal() else (reference, 0)


def _at(tensors: tuple[KnownTensor, ...], slot: int) -> KnownTensor:
    return tensors[slot] if slot < len(tensors) else _UNKNOWN
