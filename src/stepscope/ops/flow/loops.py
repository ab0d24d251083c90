"""`while_loop`: ops that execute again and again, for as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import Graph, graph_of, name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape, as_shape
from stepscope.ops import structures
from stepscope.ops.flow.flow_contexts import LoopContext, LoopVariable
from stepscope.ops.flow.switches import (
    exit_loop,
    identity_in_loop,
    loop_cond,
    merge,
    next_iteration,
    switch,
)
from stepscope.ops.flow.tensor_array import TensorArray, as_flow, with_flow
from stepscope.ops.math.comparison import less, logical_and

__all__ = ["while_loop"]


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """The loop variables after `body(*loop_vars)` was applied while `cond(*loop_vars)` was true.

    Both are called once, now, to build their ops. `loop_vars` is a list or tuple of tensors,
    TensorArrays and nested structures of them; a list of one comes back as its element unless
    `return_same_structure`. A variable whose shape changes from one iteration to the next needs its
    `shape_invariants`, and `maximum_iterations` ends the loop at the latest. Up to
    `parallel_iterations` iterations may be under way at once. A loop without `back_prop` has no
    gradients. `swap_memory` changes nothing: there is no other memory here.

    Example:
        >>> import stepscope.tf1 as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     x = tf.constant(3.0)
        ...     _, cube = tf.while_loop(
        ...         lambda i, _: i < 3, lambda i, y: (i + 1, y * x), (0, 1.0)
        ...     )
        ...     values = session.run([cube, tf.gradients(cube, x)[0]])
        >>> [float(v) for v in values]
        [27.0, 27.0]
    """
    del swap_memory
    if not callable(cond) or not callable(body):
        raise TypeError("'cond' and 'body' must be callable.")
    if not isinstance(loop_vars, (list, tuple)):
        loop_vars = [loop_vars]
    if not loop_vars:
        raise ValueError("'loop_vars' must be provided.")
    if parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    with name_scope(name, "while", structures.leaves(loop_vars)):
        graph = graph_of(structures.leaves(loop_vars))
        counted = maximum_iterations is not None
        if counted:
            limit = convert_to_tensor(maximum_iterations, name="maximum_iterations")
            if limit.shape.rank not in (0, None):
                raise ValueError(
                    f"'maximum_iterations' must be a scalar. It has shape {limit.shape}."
                )
            cond, body, loop_vars = _counting(limit, cond, body, loop_vars)
            if shape_invariants is not None:
                shape_invariants = (TensorShape(()), shape_invariants)
        loop = _Loop(graph, loop_vars, shape_invariants, parallel_iterations, back_prop)
        result = loop.build(cond, body)
        if counted:
            result = result[1]
    single = isinstance(result, (list, tuple)) and len(result) == 1
    return result[0] if single and not return_same_structure else result


def _counting(
    limit: Tensor, cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any
) -> tuple[Callable[..., Any], Callable[..., Any], Any]:
    """The same loop with a counter as its first variable."""
    counter = convert_to_tensor(0, limit.dtype.base_dtype, name="iteration_counter")

    def counted_cond(i: Tensor, values: Any) -> Tensor:
        return logical_and(less(i, limit), cond(*values))

    def counted_body(i: Tensor, values: Any) -> tuple[Any, Any]:
        following = i + 1
        given = body(*values)
        return following, _like(values, given) if len(values) == 1 else given

    return counted_cond, counted_body, (counter, loop_vars)


def _like(values: Any, given: Any) -> Any:
    """A body with one variable may give it bare."""
    if isinstance(given, (list, tuple)) and len(given) == 1:
        return given
    return type(values)([given]) if not hasattr(values, "_fields") else type(values)(given)


class _Loop:
    """One loop while it is built."""

    def __init__(
        self, graph: Graph, loop_vars: Any, shape_invariants: Any, parallel_iterations: int,
        back_prop: bool,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._given = loop_vars
        self._originals = structures.leaves(loop_vars)
        self._tensors = [
            as_flow(v) if isinstance(v, TensorArray) else convert_to_tensor(v)
            for v in self._originals
        ]
        self._invariants = self._shapes(shape_invariants)
        self._context = LoopContext(graph, parallel_iterations, back_prop)

    def _shapes(self, given: Any) -> list[TensorShape]:
        if given is None:
            return [t.shape for t in self._tensors]
        shapes = [as_shape(s) for s in _shape_leaves(self._given, given)]
        for tensor, shape in zip(self._tensors, shapes, strict=True):
            if not _covers(shape, tensor.shape):
                raise ValueError(
                    f"The shape invariant specified for {tensor.name} is not compatible with the "
                    f"initial shape of the loop variable. It enters the loop with shape "
                    f"{tensor.shape}, but the specified shape invariant is {shape}."
                )
        return shapes

    def build(self, cond: Callable[..., Any], body: Callable[..., Any]) -> Any:
        context = self._context
        entered = [context.enter_variable(t) for t in self._tensors]
        for tensor, shape in zip(entered, self._invariants, strict=True):
            tensor.set_shape(shape)
        with context.entered():
            merged = [merge([t, t])[0] for t in entered]
            context.pivot_for_pred = merged[0]
            goes_on = convert_to_tensor(cond(*self._packed(merged)))
            pivot = context.goes_on = loop_cond(goes_on, name="LoopCond")
            switched = [switch(t, pivot) for t in merged]
            inside = [identity_in_loop(true) for _, true in switched]
            context.pivot_for_body = inside[0]
            given = body(*self._packed(inside))
            results = []
            for m, value in zip(merged, self._results(given), strict=True):
                following = next_iteration(value)
                self._check_shape(m, following)
                m.op._set_inputs([m.op.inputs[0], following])
                results.append(following.op.inputs[0])
            left = [exit_loop(false) for false, _ in switched]
        context.variables = [
            LoopVariable(e, m, i, out, value, isinstance(original, TensorArray))
            for e, m, i, out, value, original in zip(
                entered, merged, inside, left, results, self._originals, strict=True
            )
        ]
        if context.outer is not None:
            context.outer._know(left)
        return self._packed(left)

    def _packed(self, tensors: Sequence[Tensor]) -> Any:
        flat = [with_flow(o, t) for o, t in zip(self._originals, tensors, strict=True)]
        return structures.packed(self._given, flat)

    def _results(self, given: Any) -> list[Tensor]:
        given = _like(self._given, given) if len(self._given) == 1 else given
        structures.check_same(self._given, given, "The body of a loop must give its loop variables")
        results = []
        for before, after in zip(self._tensors, structures.leaves(given), strict=True):
            flow = as_flow(after) if isinstance(after, TensorArray) else after
            tensor = convert_to_tensor(flow, before.dtype.base_dtype)
            results.append(tensor)
        return results

    def _check_shape(self, merged: Tensor, following: Tensor) -> None:
        if not _covers(merged.shape, following.shape):
            entered = merged.op.inputs[0]
            raise ValueError(
                f"Input tensor {entered.op.inputs[0].name!r} enters the loop with shape "
                f"{entered.shape}, but has shape {following.shape} after one iteration. To allow "
                "the shape to vary across iterations, use the `shape_invariants` argument of "
                "tf.while_loop to specify a less-specific shape."
            )


def _shape_leaves(structure: Any, shapes: Any) -> list[Any]:
    """The shapes, one per leaf of the structure; a shape may itself be a list."""
    if isinstance(structure, dict):
        if not isinstance(shapes, dict) or set(shapes) != set(structure):
            raise ValueError("'shape_invariants' must have the structure of 'loop_vars'.")
        return [s for k in sorted(structure) for s in _shape_leaves(structure[k], shapes[k])]
    if isinstance(structure, (list, tuple)):
        if not isinstance(shapes, (list, tuple)) or len(shapes) != len(structure):
            raise ValueError("'shape_invariants' must have the structure of 'loop_vars'.")
        return [s for a, b in zip(structure, shapes, strict=True) for s in _shape_leaves(a, b)]
    return [shapes]


def _covers(general: TensorShape, special: TensorShape) -> bool:
    """Whether whatever has the special shape has the general one."""
    if general.axes is None:
        return True
    if special.axes is None or len(general.axes) != len(special.axes):
        return False
    return all(a is None or a == b for a, b in zip(general.axes, special.axes, strict=True))
