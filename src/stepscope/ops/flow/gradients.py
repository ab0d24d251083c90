"""`gradients`: the graph that computes derivatives, built by going back from results to causes.

Each op type brings its own gradient function (`graph.registry.gradient`), beside its kernel.
`backward` is the way back through them, `loop_gradients` that through a loop.
"""

from __future__ import annotations

from collections.abc import Sequence, ValuesView
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import string
from stepscope.graph.graph import graph_of, name_scope
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays import constants
from stepscope.ops.flow.backward import Backward, Part, as_dense
from stepscope.ops.flow.flow_contexts import current_context
from stepscope.ops.flow.loop_gradients import through_loop

__all__ = ["as_dense", "gradients"]


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
) -> list[Part | None]:
    """The derivative of the sum of `ys` with respect to each of `xs`; None where there is none.

    Nothing goes through integers: with respect to what is behind them there is no gradient. Through
    a `while_loop` gradients go back iteration by iteration, unless it was made without `back_prop`;
    what they need of its intermediate values is kept while it runs.
    `grad_ys` weighs the elements of `ys` (ones if left out); `stop_gradients` are taken for
    constants; with `unconnected_gradients="zero"` zeros come in the place of None. With
    `gate_gradients` the gradients of one op's inputs are available all at once: none is used, say
    to change a variable, while another still reads it. An op on the way that has no gradient is a
    LookupError naming it.
    """
    del aggregation_method
    if unconnected_gradients not in ("none", "zero"):
        raise ValueError(
            f"unconnected_gradients must be 'none' or 'zero'; it was {unconnected_gradients!r}"
        )
    results, causes = _tensors(ys, "ys"), _tensors(xs, "xs")
    stops = _tensors(stop_gradients, "stop_gradients") if stop_gradients is not None else []
    graph = graph_of([*results, *causes])
    context = current_context(graph)
    with name_scope(name, "gradients", [*results, *causes]) as scope:
        seeds = _seeds(results, grad_ys)
        way = Backward(
            results, causes, through_loop, stops=stops, gated=gate_gradients,
            colocated=colocate_gradients_with_ops,
            level=None if context is None else context.loop,
        )  # fmt: skip
        with graph.gradient_source(scope.rstrip("/")):
            found = way.run(seeds)
        if unconnected_gradients == "zero":
            given = _as_list(xs)
            return [
                constants.zeros_like(x) if g is None else g
                for x, g in zip(given, found, strict=True)
            ]
        return found


def _tensors(values: Any, what: str) -> list[Tensor]:
    items = list(values) if isinstance(values, (list, tuple, ValuesView)) else [values]
    tensors = []
    for item in items:
        # A variable is differentiated through what it is, not through one read of it.
        handle = getattr(item, "_gradient_source", None)
        tensors.append(handle() if handle is not None else convert_to_tensor(item, name=what))
    return tensors


def _seeds(results: Sequence[Tensor], given: Any) -> list[Part]:
    weights = [None] * len(results) if given is None else list(_as_list(given))
    if len(weights) != len(results):
        raise ValueError(f"grad_ys has {len(weights)} entries for {len(results)} ys")
    seeds: list[Part] = []
    for number, (y, weight) in enumerate(zip(results, weights, strict=True)):
        if y.dtype.base_dtype is string:
            raise TypeError(
                f"Gradients of {y.name} cannot be taken: it is of type string, and only numbers "
                "have gradients"
            )
        if weight is None:
            seeds.append(constants.ones_like(y, name=f"grad_ys_{number}"))
        elif isinstance(weight, IndexedSlices):
            seeds.append(weight)
        else:
            seeds.append(convert_to_tensor(weight, y.dtype.base_dtype, f"grad_ys_{number}"))
    return seeds


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]
