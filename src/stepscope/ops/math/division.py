"""Division and remainders, elementwise with broadcasting, and their operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Gradient,
    Kernel,
    KernelFactory,
    KernelNode,
    gradient,
    no_gradient,
)
from stepscope.ops.math.broadcasting import conjugate, for_both
from stepscope.ops.math.elementwise import multiply, register_binary, ufunc
from stepscope.ops.signatures import (
    COMPLEX,
    FLOATS,
    REALS,
    argument,
    define_binary_operator,
    output_of,
    tensor_dtype,
)

# -- kernels -----------------------------------------------------------------------------------


def _is_integer(node: KernelNode) -> bool:
    return node.input_dtypes[0].is_integer


def _whole(node: KernelNode, call: Callable[..., Any]) -> Kernel:
    """An integer division: refuses zeros, unless the divisor is known to have none."""
    known = node.constants[1]
    if known is not None and np.all(known):
        return Kernel(call, out="positional", forwards=(0, 1))

    def checked(x: Array, y: Array, out: Array | None = None) -> Any:
        # An empty result divides nothing, whatever the divisor is.
        if not np.all(y) and np.size(x):
            raise InvalidArgumentError.without_op("Integer division by zero")
        return call(x, y, out)

    return Kernel(checked, out="positional", forwards=(0, 1))


def _truncating_divide(x: Array, y: Array, out: Array | None = None) -> Any:
    # What C's remainder leaves is a multiple of the divisor, so the floor is exact.
    return np.floor_divide(np.subtract(x, np.fmod(x, y)), y, out)


def _truncating_real_divide(x: Array, y: Array, out: Array | None = None) -> Any:
    return np.trunc(np.divide(x, y, out), out)


def _floor_real_divide(x: Array, y: Array, out: Array | None = None) -> Any:
    # Not numpy.floor_divide: that takes 1.0 // 0.1 for 9, the floor of the quotient is 10.
    return np.floor(np.divide(x, y, out), out)


def _divide_no_nan(x: Array, y: Array, out: Array | None = None) -> Any:
    zero = np.equal(y, 0)
    result = np.asarray(np.divide(x, y, out))
    np.copyto(result, 0, where=zero)
    return result


def _by_kind(whole: Callable[..., Any], real: Callable[..., Any]) -> KernelFactory:
    """One callable for integers (with the check for zeros), another for all else."""
    kernel = Kernel(real, out="positional", forwards=(0, 1))
    return lambda node: _whole(node, whole) if _is_integer(node) else kernel


# -- op types ----------------------------------------------------------------------------------


register_binary("Div", _by_kind(_truncating_divide, np.divide))
register_binary("RealDiv", ufunc(np.divide), FLOATS + COMPLEX)
register_binary("FloorDiv", _by_kind(np.floor_divide, _floor_real_divide), REALS)
register_binary("TruncateDiv", _by_kind(_truncating_divide, _truncating_real_divide), REALS)
register_binary("FloorMod", _by_kind(np.remainder, np.remainder), REALS)
register_binary("Mod", _by_kind(np.fmod, np.fmod), (dt.int32, dt.int64, *FLOATS))
register_binary("TruncateMod", _by_kind(np.fmod, np.fmod), (dt.int32, dt.int64, *FLOATS))
register_binary("DivNoNan", ufunc(_divide_no_nan), FLOATS + COMPLEX)


# -- functions ---------------------------------------------------------------------------------


_TRUE_QUOTIENT = {
    dt.uint8: dt.float32, dt.int8: dt.float32, dt.uint16: dt.float32, dt.int16: dt.float32,
    dt.uint32: dt.float64, dt.int32: dt.float64, dt.uint64: dt.float64, dt.int64: dt.float64,
}  # fmt: skip


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient as Python 3 divides: integers become floats (int32 and wider: float64) first."""
    with name_scope(name, "truediv", [x, y]) as scope:
        x = argument(x, "x")
        y = argument(y, "y", x.dtype.base_dtype)
        _same_dtype(x, y)
        wanted = _TRUE_QUOTIENT.get(x.dtype.base_dtype)
        if wanted is not None:
            x = output_of("Cast", x, DstT=wanted)
            y = output_of("Cast", y, DstT=wanted)
        return output_of("RealDiv", x, y, name=scope)


def _same_dtype(x: Tensor, y: Tensor) -> None:
    if x.dtype.base_dtype is not y.dtype.base_dtype:
        raise TypeError(
            "`x` and `y` must have the same dtype, got "
            f"{x.dtype.base_dtype!r} != {y.dtype.base_dtype!r}."
        )


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient as Python 2 divides: of integers its floor."""
    with name_scope(name, "div", [x, y]) as scope:
        x = argument(x, "x")
        y = convert_to_tensor(y, x.dtype.base_dtype, "y")
        whole = x.dtype.is_integer
        return output_of("FloorDiv" if whole else "RealDiv", x, y, name=scope)


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient as Python 3 divides."""
    if not isinstance(x, Tensor) and not hasattr(x, "_as_tensor") and name is None:
        x = convert_to_tensor(x, tensor_dtype(y))
    return truediv(x, y, name)


def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient of floats."""
    return output_of("RealDiv", x, y, name=name)


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The floor of x / y."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return output_of("FloorDiv", x, y, name=scope)


def floor_div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The floor of x / y, under the op's own name."""
    return output_of("FloorDiv", x, y, name=name)


def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient rounded towards zero."""
    return output_of("TruncateDiv", x, y, name=name)


def floormod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder of `floordiv`: it has the divisor's sign."""
    return output_of("FloorMod", x, y, name=name)


mod = floormod


def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder of `truncatediv`: it has the dividend's sign."""
    return output_of("TruncateMod", x, y, name=name)


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient, and 0 where y is 0."""
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        x = argument(x, "x", tensor_dtype(y))
        y = argument(y, "y", x.dtype.base_dtype)
        return output_of("DivNoNan", x, y, name=scope)


# -- gradients ---------------------------------------------------------------------------------


def _quotient_gradient(divide_type: str) -> Gradient:
    def back(op: Operation, grad: Tensor) -> list[Tensor]:
        x, y = (conjugate(t) for t in op.inputs)
        down = output_of(divide_type, output_of(divide_type, output_of("Neg", x), y), y)
        return for_both(op, output_of(divide_type, grad, y), multiply(grad, down))

    return back


gradient("Div", "RealDiv")(_quotient_gradient("RealDiv"))
gradient("DivNoNan")(_quotient_gradient("DivNoNan"))
no_gradient("FloorDiv", "TruncateDiv")


@gradient("FloorMod")
def _remainder_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, y = op.inputs
    return for_both(op, grad, multiply(grad, output_of("Neg", floor_div(x, y))))


# -- operators ---------------------------------------------------------------------------------


define_binary_operator("truediv", truediv)
define_binary_operator("floordiv", floordiv)
define_binary_operator("mod", floormod)
