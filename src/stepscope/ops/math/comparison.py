"""Comparisons, logic on booleans and bits, and choosing by condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Operation, Tensor, define_operator
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape, broadcast, unknown_shape
from stepscope.ops.math.broadcasting import summed_to
from stepscope.ops.signatures import (
    REALS,
    SIGNED,
    UNSIGNED,
    broadcast_shape,
    define_binary_operator,
    limited,
    merge_dims,
    same_shape,
)

# -- comparisons -------------------------------------------------------------------------------


def _ordering(name: str, call: Callable[..., Any]) -> None:
    register(
        name,
        inputs=("x: T", "y: T"),
        outputs=("z: bool",),
        attrs=("T: type",),
        shape=limited(broadcast_shape, REALS),
        kernel=lambda _node: Kernel(call, out="positional"),
    )


_ordering("Less", np.less)
_ordering("LessEqual", np.less_equal)
_ordering("Greater", np.greater)
_ordering("GreaterEqual", np.greater_equal)


def _equality_shape(ctx: ShapeContext) -> TensorShape:
    if ctx.attr("incompatible_shape_error"):
        return broadcast_shape(ctx)
    try:
        shape = broadcast_shape(ctx)
    except ValueError:
        return SCALAR
    # An unknown axis may still turn out to clash, and then the result is a scalar.
    return shape if all(s.known is not None for s in ctx.inputs) else UNKNOWN


def _equality(name: str, call: Callable[..., Any], when_clashing: bool) -> None:
    def factory(node: KernelNode) -> Kernel:
        if node.attr("incompatible_shape_error"):
            return Kernel(call, out="positional")
        otherwise = np.bool_(when_clashing)

        def lenient(x: Array, y: Array) -> Any:
            try:
                np.broadcast_shapes(np.shape(x), np.shape(y))
            except ValueError:
                return otherwise
            return call(x, y)

        return Kernel(lenient)

    register(
        name,
        inputs=("x: T", "y: T"),
        outputs=("z: bool",),
        attrs=("T: type", "incompatible_shape_error: bool = true"),
        shape=_equality_shape,
        kernel=factory,
    )


_equality("Equal", np.equal, when_clashing=False)
_equality("NotEqual", np.not_equal, when_clashing=True)

# -- logic -------------------------------------------------------------------------------------

_call: Callable[..., Any]
for _name, _call in (("LogicalAnd", np.logical_and), ("LogicalOr", np.logical_or)):
    register(
        _name,
        inputs=("x: bool", "y: bool"),
        outputs=("z: bool",),
        shape=broadcast_shape,
        kernel=lambda _node, call=_call: Kernel(call, out="positional", forwards=(0, 1)),  # type: ignore[misc]
    )
register(
    "LogicalNot",
    inputs=("x: bool",),
    outputs=("y: bool",),
    shape=same_shape,
    kernel=lambda _node: Kernel(np.logical_not, out="positional", forwards=(0,)),
)
for _name, _call in (
    ("BitwiseAnd", np.bitwise_and),
    ("BitwiseOr", np.bitwise_or),
    ("BitwiseXor", np.bitwise_xor),
):
    register(
        _name,
        inputs=("x: T", "y: T"),
        outputs=("z: T",),
        attrs=("T: type",),
        shape=limited(broadcast_shape, SIGNED + UNSIGNED),
        kernel=lambda _node, call=_call: Kernel(call, out="positional", forwards=(0, 1)),  # type: ignore[misc]
    )

# -- choosing ----------------------------------------------------------------------------------


def _select_shape(ctx: ShapeContext) -> TensorShape:
    condition = ctx.input(0)
    both = ctx.input(1).merge_with(ctx.input(2))
    if condition.rank is None or condition.rank == 0:
        return both
    if both.rank is None:
        return UNKNOWN if condition.rank == 1 else condition
    if condition.rank == 1 and both.rank != 1:
        assert condition.axes is not None
        assert both.axes is not None
        if both.rank == 0:
            raise ValueError(
                f"Shapes must be equal rank, but are {condition.rank} and {both.rank}: the "
                f"condition {condition.brief()} does not fit values of shape {both.brief()}"
            )
        return TensorShape((merge_dims(condition.axes[0], both.axes[0]), *both.axes[1:]))
    return condition.merge_with(both)


def _select_kernel(node: KernelNode) -> Kernel:
    condition, values = node.input_shapes[0], node.input_shapes[1]
    if condition.rank is not None and (condition.rank == 0 or condition.rank == values.rank):
        return Kernel(np.where)

    def by_row(c: Array, t: Array, e: Array) -> Any:
        rows, rank = np.shape(c), np.ndim(t)
        if len(rows) == 1 and rank > 1 and rows[0] == np.shape(t)[0]:
            return np.where(c.reshape((-1,) + (1,) * (rank - 1)), t, e)
        if rows and rows != np.shape(t):
            raise InvalidArgumentError.without_op(
                f"The condition of shape {list(rows)} selects neither the rows nor the elements "
                f"of values of shape {list(np.shape(t))}.",
            )
        return np.where(c, t, e)

    return Kernel(by_row)


register(
    "Select",
    inputs=("condition: bool", "t: T", "e: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=_select_shape,
    kernel=_select_kernel,
)
register(
    "SelectV2",
    inputs=("condition: bool", "t: T", "e: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=lambda ctx: broadcast(ctx.input(0), broadcast(ctx.input(1), ctx.input(2))),
    kernel=lambda _node: Kernel(np.where),
)


def _where_shape(ctx: ShapeContext) -> TensorShape:
    rank = ctx.input(0).rank
    return unknown_shape(2) if rank is None else TensorShape((None, rank))


register(
    "Where",
    inputs=("input: T",),
    outputs=("index: int64",),
    attrs=("T: type = bool",),
    shape=_where_shape,
    kernel=lambda _node: Kernel(lambda x: np.ascontiguousarray(np.argwhere(x))),
)


# -- gradients ---------------------------------------------------------------------------------


no_gradient(
    "Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr",
    "LogicalNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
)  # fmt: skip


@gradient("Select")
def _select_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    condition = op.inputs[0]
    zeros = apply_op("ZerosLike", grad).values()[0]
    return [None, where(condition, grad, zeros), where(condition, zeros, grad)]


@gradient("SelectV2")
def _select_v2_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    condition, x, y = op.inputs
    zero, result = convert_to_tensor(0, grad.dtype.base_dtype), op.outputs[0]
    return [
        None,
        summed_to(where_v2(condition, grad, zero), x, result),
        summed_to(where_v2(condition, zero, grad), y, result),
    ]


# -- functions ---------------------------------------------------------------------------------


def _function(op_type: str, doc: str) -> Callable[..., Tensor]:
    def call(x: Any, y: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, x, y, name=name).values()[0]

    call.__doc__ = doc
    call.__name__ = call.__qualname__ = op_type.lower()
    return call


less = _function("Less", "x < y.")
less_equal = _function("LessEqual", "x <= y.")
greater = _function("Greater", "x > y.")
greater_equal = _function("GreaterEqual", "x >= y.")
equal = _function("Equal", "x == y.")
not_equal = _function("NotEqual", "x != y.")
logical_and = _function("LogicalAnd", "Both.")
logical_or = _function("LogicalOr", "Either or both.")


def logical_not(x: Any, name: str | None = None) -> Tensor:
    """True where x is False."""
    return apply_op("LogicalNot", x, name=name).values()[0]


def logical_xor(x: Any, y: Any, name: str | None = "LogicalXor") -> Tensor:
    """One of the two, not both."""
    return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=name)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Elements (or rows) of x where the condition holds, of y elsewhere.

    With the condition alone: the indices of its true elements, one row each.
    """
    if x is None and y is None:
        condition = convert_to_tensor(condition, None, "condition", preferred_dtype=dt.bool_)
        return apply_op("Where", condition, name=name).values()[0]
    _both(x, y)
    return apply_op("Select", condition, x, y, name=name).values()[0]


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """As `where`, but the three arguments broadcast against each other."""
    if x is None and y is None:
        return where(condition, name=name)
    _both(x, y)
    return apply_op("SelectV2", condition, x, y, name=name).values()[0]


def _both(x: Any, y: Any) -> None:
    if x is None or y is None:
        raise ValueError("x and y must both be given or both be left out.")


# -- operators ---------------------------------------------------------------------------------


def _logic_operator(on_bools: Callable[..., Tensor], on_bits: str) -> Callable[..., Tensor]:
    def call(x: Any, y: Any, name: str | None = None) -> Tensor:
        if x.dtype.base_dtype is dt.bool_:
            return on_bools(x, y, name=name)
        return apply_op(on_bits, x, y).values()[0]

    return call


def _xor_bools(x: Any, y: Any, name: str | None = None) -> Tensor:
    return logical_xor(x, y, name)


define_operator("__lt__", less)
define_operator("__le__", less_equal)
define_operator("__gt__", greater)
define_operator("__ge__", greater_equal)
define_binary_operator("and", _logic_operator(logical_and, "BitwiseAnd"))
define_binary_operator("or", _logic_operator(logical_or, "BitwiseOr"))
define_binary_operator("xor", _logic_operator(_xor_bools, "BitwiseXor"))
