"""Values that are known while the graph is built: constants and what follows from them.

Shape rules ask here (`reshape` needs its shape argument, a reduction its axes). An op is
evaluated only if it is stateless, small and all of its inputs are known.

Any tensor may be fed, constants too. What a shape rule made of a value (`known_value`) is no harm:
plans find shapes anew for what comes after a fed tensor. But a function that builds one graph or
another by a value (`constant_value`) cannot be told of another one later, so that from then on such
a tensor may not be fed, as in TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.graph.dtypes import Array
from stepscope.graph.registry import KernelNode
from stepscope.graph.shapes import UNKNOWN, TensorShape, unknown_shape

if TYPE_CHECKING:
    from stepscope.graph.operation import Operation, Tensor

_MAX_ELEMENTS: Final = 4096
_UNKNOWN: Final = object()
PLACEHOLDERS: Final = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
"""What is made to be fed: its value is never taken for known."""
_NEVER: Final = PLACEHOLDERS | {
    "NoOp", "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"
}  # fmt: skip
"""What is fed, what is dead on some branch, and what changes from iteration to iteration."""
_OF_SHAPES: Final = frozenset({"Shape", "Size", "Rank", "ShapeN"})
"""What looks at the shapes of its inputs, not at their values."""


def constant_value(tensor: Tensor) -> Array | None:
    """The value of the tensor where the graph alone decides it, else None. Never write to it.

    If it has one, the caller may build by it: neither the tensor nor what its value was found from
    can be fed any more.

    >>> from stepscope.graph import Graph, constant_op
    >>> with Graph().as_default() as graph:
    ...     shape = constant_op([2, 3])
    >>> graph.is_feedable(shape), constant_value(shape), graph.is_feedable(shape)
    (True, array([2, 3], dtype=int32), False)
    """
    value = known_value(tensor)
    if value is None:
        return None
    stack = [tensor]
    while stack:
        found = stack.pop()
        if found.graph.prevent_feeding(found) and found.op.type not in _OF_SHAPES:
            stack += [t for t in found.op.inputs if known_value(t) is not None]
    return value


def known_value(tensor: Tensor) -> Array | None:
    """As `constant_value`, for callers that are asked again once another value is fed."""
    stack = [tensor.op]
    while stack:
        op = stack[-1]
        if op._constant is not None:
            stack.pop()
            continue
        pending = [] if _knows_without_inputs(op) else _unevaluated_inputs(op)
        if pending:
            stack.extend(pending)
            continue
        op._constant = _evaluate(op)
        stack.pop()
    values = tensor.op._constant
    return None if values is _UNKNOWN else values[tensor.value_index]


def _knows_without_inputs(op: Operation) -> bool:
    return op.type == "Const" or op.type in _OF_SHAPES or not _foldable(op)


def _unevaluated_inputs(op: Operation) -> list[Operation]:
    return [t.op for t in op.inputs if t.op._constant is None]


def _foldable(op: Operation) -> bool:
    if op.op_type.stateful or op.op_type.kernel is None or op.type in _NEVER or not op.inputs:
        return False
    for out in op.values():
        count = out.shape.num_elements()
        is_number = out.dtype.is_integer or out.dtype.is_bool or out.dtype.is_floating
        if not is_number or count is None or count > _MAX_ELEMENTS:
            return False
    return True


def _evaluate(op: Operation) -> Any:
    if op.type == "Const":
        return (op.get_attr("value"),)
    if op.type in ("Shape", "Size", "Rank"):
        return _evaluate_shape_op(op)
    if not _foldable(op):
        return _UNKNOWN
    values = []
    for t in op.inputs:
        known = t.op._constant
        # Inputs of a ShapeN are not looked at beforehand: it needs their shapes alone.
        value = None if known is None or known is _UNKNOWN else known[t.value_index]
        if value is None:
            return _part_of_shape(op)
        values.append(value)
    assert op.op_type.kernel is not None
    node = KernelNode(
        op=op,
        input_shapes=tuple(TensorShape(np.shape(v)) for v in values),
        output_shapes=tuple(t.shape for t in op.values()),
        input_dtypes=tuple(t.dtype for t in op.inputs),
        output_dtypes=tuple(t.dtype for t in op.values()),
        constants=tuple(values),
        resources=None,
    )
    try:
        kernel = op.op_type.kernel(node)
        if kernel.context or kernel.opaque:
            return _UNKNOWN
        with np.errstate(all="ignore"):
            result = kernel.call(*values)
    except Exception:  # noqa: BLE001 - an op that cannot be evaluated now fails when it runs
        return _UNKNOWN
    outputs = result if isinstance(result, tuple) else (result,)
    return tuple(np.asarray(o) for o in outputs)


def _evaluate_shape_op(op: Operation) -> Any:
    shape = op.inputs[0].shape
    out = op.values()[0].dtype.numpy
    if op.type == "Rank":
        return _UNKNOWN if shape.rank is None else (np.asarray(shape.rank, dtype=np.int32),)
    known = shape.known
    if known is None:
        return _UNKNOWN
    if op.type == "Size":
        return (np.asarray(shape.num_elements(), dtype=out),)
    return (np.asarray(known, dtype=out),)


def _part_of_shape(op: Operation) -> Any:
    """The elements taken out of a shape of which only some are known (`tf.shape(x)[1]`).

    A tuple with None for the outputs that are not known.
    """
    if op.type not in ("StridedSlice", "Unpack"):
        return _UNKNOWN
    axes = constant_as_shape(op.inputs[0]).axes
    if axes is None:
        return _UNKNOWN
    dtype = op.values()[0].dtype.numpy
    if op.type == "Unpack":
        return tuple(None if d is None else np.asarray(d, dtype) for d in axes)
    part = _slice_of_shape(op, axes)
    if part is None or None in part:
        return _UNKNOWN
    return (np.asarray(part, dtype).reshape(op.values()[0].shape.known),)


def _slice_of_shape(op: Operation, axes: tuple[int | None, ...]) -> tuple[int | None, ...] | None:
    """`axes[begin:end:stride]` of a StridedSlice of one axis; None if it is anything else."""
    begin, end, stride = (known_value(t) for t in op.inputs[1:])
    if begin is None or end is None or stride is None or len(begin) != 1:
        return None
    if op.get_attr("ellipsis_mask") or op.get_attr("new_axis_mask"):
        return None
    start, stop, step = int(begin[0]), int(end[0]), int(stride[0])
    if op.get_attr("shrink_axis_mask"):
        return (axes[start],) if -len(axes) <= start < len(axes) else None
    first = None if op.get_attr("begin_mask") else start
    last = None if op.get_attr("end_mask") else stop
    return axes[first:last:step]


def constant_as_shape(tensor: Tensor) -> TensorShape:
    """A tensor that holds a shape, as far as it is known; -1 in it means unknown."""
    value = known_value(tensor)
    if value is not None:
        return TensorShape([None if d < 0 else int(d) for d in np.atleast_1d(value)])
    op = tensor.op
    if op.type == "Shape":
        return op.inputs[0].shape
    if op.type == "Pack" and op.get_attr("axis") == 0:
        axes: list[int | None] = []
        for item in op.inputs:
            known = known_value(item)
            axes.append(None if known is None or int(known) < 0 else int(known))
        return TensorShape(axes)
    if op.type == "ConcatV2":
        shape = TensorShape(())
        for item in op.inputs[:-1]:
            shape = shape.concatenate(constant_as_shape(item))
        return shape
    if op.type in ("Identity", "Cast"):
        return constant_as_shape(op.inputs[0])
    if op.type == "StridedSlice" and tensor.shape.rank == 1:
        whole = constant_as_shape(op.inputs[0]).axes
        part = None if whole is None else _slice_of_shape(op, whole)
        if part is not None:
            return TensorShape(part)
    length = tensor.shape.axes[0] if tensor.shape.rank == 1 and tensor.shape.axes else None
    return UNKNOWN if length is None else unknown_shape(length)
