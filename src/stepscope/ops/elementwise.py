"""Elementwise arithmetic on two or more tensors, with broadcasting, and its operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Gradient,
    Kernel,
    KernelFactory,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import TensorShape
from stepscope.ops.broadcasting import conjugate, for_both, summed_to
from stepscope.ops.signatures import (
    COMPLEX,
    FLOATS,
    NUMBERS,
    REALS,
    SIGNED,
    argument,
    broadcast_shape,
    define_binary_operator,
    limited,
    output_of,
)

# -- kernels -----------------------------------------------------------------------------------


def _ufunc(call: Callable[..., Any], out: Any = "positional") -> KernelFactory:
    """The same callable for every node; it may write into either input's buffer."""
    kernel = Kernel(call, out=out, forwards=(0, 1))
    return lambda _node: kernel


def _is_integer(node: KernelNode) -> bool:
    return node.input_dtypes[0].is_integer


def _whole(node: KernelNode, call: Callable[..., Any]) -> Kernel:
    """An integer division: refuses zeros, unless the divisor is known to have none."""
    known = node.constants[1]
    if known is not None and np.all(known):
        return Kernel(call, out="positional", forwards=(0, 1))

    def checked(x: Array, y: Array, out: Array | None = None) -> Any:
        if not np.all(y):
            raise InvalidArgumentError(None, None, "Integer division by zero")
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


def _squared_difference(x: Array, y: Array, out: Array | None = None) -> Any:
    difference = np.subtract(x, y, out)
    return np.multiply(difference, difference, out)


def _complex_squared_difference(x: Array, y: Array, out: Array | None = None) -> Any:
    difference = np.subtract(x, y, out)
    return np.multiply(difference, np.conjugate(difference), out)


def _join(x: Array, y: Array) -> Any:
    return np.asarray(np.add(x, y), dtype=object)


_ADD = Kernel(np.add, out="positional", forwards=(0, 1))


def _add_kernel(node: KernelNode) -> Kernel:
    return Kernel(_join) if node.input_dtypes[0].base_dtype is dt.string else _ADD


def _by_kind(whole: Callable[..., Any], real: Callable[..., Any]) -> KernelFactory:
    """One callable for integers (with the check for zeros), another for all else."""
    kernel = Kernel(real, out="positional", forwards=(0, 1))
    return lambda node: _whole(node, whole) if _is_integer(node) else kernel


def _squared_difference_kernel(node: KernelNode) -> Kernel:
    is_complex = node.input_dtypes[0].is_complex
    call = _complex_squared_difference if is_complex else _squared_difference
    return Kernel(call, out="positional", forwards=(0, 1))


_SMALL_BYTES = 4096


def _add_n_kernel(node: KernelNode) -> Kernel:
    if len(node.input_shapes) == 1:
        return Kernel(np.positive, out="positional", forwards=(0,))
    dtype = node.output_dtypes[0].numpy
    alike = all(s.known is not None and s == node.input_shapes[0] for s in node.input_shapes)
    if alike and len(node.input_shapes) == 2:
        return _ADD
    first = node.input_shapes[0].known
    if alike and first and np.prod(first) * dtype.itemsize <= _SMALL_BYTES:
        stacked = (len(node.input_shapes), *first)

        def total_of_small(*arrays: Array, out: Array | None = None) -> Any:
            # One call that copies many small arrays together beats a call for each of them.
            together = np.concatenate(arrays).reshape(stacked)
            return np.add.reduce(together, axis=0, dtype=dtype, out=out)

        return Kernel(total_of_small, out="keyword")

    def total(*arrays: Array, out: Array | None = None) -> Array:
        shape = np.shape(arrays[0])
        if not alike:
            for other in arrays:
                if np.shape(other) != shape:
                    raise InvalidArgumentError(
                        None,
                        None,
                        "Inputs to operation must have the same size and shape. Input 0: "
                        f"{TensorShape(shape).brief()} != {TensorShape(np.shape(other)).brief()}",
                    )
        if out is None:
            out = np.empty(shape, dtype)
        np.add(arrays[0], arrays[1], out)
        for other in arrays[2:]:
            np.add(out, other, out)
        return out

    return Kernel(total, out="keyword")


def _add_n_shape(ctx: ShapeContext) -> TensorShape:
    return reduce(lambda a, b: a.merge_with(b), ctx.inputs)


def _clip_kernel(node: KernelNode) -> Kernel:
    del node

    def clip(t: Array, low: Array, high: Array, out: Array | None = None) -> Any:
        return np.maximum(np.minimum(t, high), low, out=out)

    return Kernel(clip, out="keyword")


# -- op types ----------------------------------------------------------------------------------


def _binary(
    name: str,
    kernel: KernelFactory,
    allowed: tuple[DType, ...] = NUMBERS,
    inputs: tuple[str, str] = ("x: T", "y: T"),
) -> None:
    register(
        name,
        inputs=inputs,
        outputs=("z: T",),
        attrs=("T: type",),
        shape=limited(broadcast_shape, allowed),
        kernel=kernel,
    )


_binary("AddV2", _add_kernel)
_binary("Add", _add_kernel, (*NUMBERS, dt.string))
_binary("Sub", _ufunc(np.subtract))
_binary("Mul", _ufunc(np.multiply))
_binary("Div", _by_kind(_truncating_divide, np.divide))
_binary("RealDiv", _ufunc(np.divide), FLOATS + COMPLEX)
_binary("FloorDiv", _by_kind(np.floor_divide, _floor_real_divide), REALS)
_binary("TruncateDiv", _by_kind(_truncating_divide, _truncating_real_divide), REALS)
_binary("FloorMod", _by_kind(np.remainder, np.remainder), REALS)
_binary("Mod", _by_kind(np.fmod, np.fmod), (dt.int32, dt.int64, *FLOATS))
_binary("TruncateMod", _by_kind(np.fmod, np.fmod), (dt.int32, dt.int64, *FLOATS))
_binary(
    "DivNoNan",
    lambda _node: Kernel(_divide_no_nan, out="positional", forwards=(0, 1)),
    FLOATS + COMPLEX,
)
_binary("Pow", _ufunc(np.power), FLOATS + SIGNED + COMPLEX)
_binary("Maximum", _ufunc(np.maximum, "keyword"), REALS)
_binary("Minimum", _ufunc(np.minimum, "keyword"), REALS)
_binary("SquaredDifference", _squared_difference_kernel, (*FLOATS, dt.int32, dt.int64, *COMPLEX))
_binary("Atan2", _ufunc(np.arctan2), FLOATS, ("y: T", "x: T"))
register(
    "AddN",
    inputs=("inputs: N * T",),
    outputs=("sum: T",),
    attrs=("N: int", "T: type"),
    shape=limited(_add_n_shape, NUMBERS),
    kernel=_add_n_kernel,
)
register(
    "ClipByValue",
    inputs=("t: T", "clip_value_min: T", "clip_value_max: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=limited(lambda ctx: ctx.input(0), REALS),
    kernel=_clip_kernel,
)


# -- functions ---------------------------------------------------------------------------------


def _apply(op_type: str, *args: Any, name: str | None) -> Tensor:
    return apply_op(op_type, *args, name=name).values()[0]


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The sum of x and y."""
    with name_scope(name, "Add", [x, y]) as scope:
        x = argument(x, "x", _tensor_dtype(y))
        y = argument(y, "y", x.dtype.base_dtype)
        return _apply("Add" if x.dtype.base_dtype is dt.string else "AddV2", x, y, name=scope)


def _tensor_dtype(value: Any) -> DType | None:
    return value.dtype.base_dtype if isinstance(value, Tensor) else None


def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The difference of x and y."""
    return _apply("Sub", x, y, name=name)


def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The product of x and y."""
    return _apply("Mul", x, y, name=name)


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
            x = _apply_cast(x, wanted)
            y = _apply_cast(y, wanted)
        return _apply("RealDiv", x, y, name=scope)


def _apply_cast(x: Tensor, dtype: DType) -> Tensor:
    return apply_op("Cast", x, DstT=dtype).values()[0]


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
        return _apply("FloorDiv" if whole else "RealDiv", x, y, name=scope)


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient as Python 3 divides."""
    if not isinstance(x, Tensor) and not hasattr(x, "_as_tensor") and name is None:
        x = convert_to_tensor(x, _tensor_dtype(y))
    return truediv(x, y, name)


def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient of floats."""
    return _apply("RealDiv", x, y, name=name)


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The floor of x / y."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return _apply("FloorDiv", x, y, name=scope)


def floor_div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The floor of x / y, under the op's own name."""
    return _apply("FloorDiv", x, y, name=name)


def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient rounded towards zero."""
    return _apply("TruncateDiv", x, y, name=name)


def floormod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder of `floordiv`: it has the divisor's sign."""
    return _apply("FloorMod", x, y, name=name)


mod = floormod


def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder of `truncatediv`: it has the dividend's sign."""
    return _apply("TruncateMod", x, y, name=name)


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The quotient, and 0 where y is 0."""
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        x = argument(x, "x", _tensor_dtype(y))
        y = argument(y, "y", x.dtype.base_dtype)
        return _apply("DivNoNan", x, y, name=scope)


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The power of x to y."""
    return _apply("Pow", x, y, name=name)


def maximum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The larger of each pair; NaN where either is."""
    return _apply("Maximum", x, y, name=name)


def minimum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The smaller of each pair; NaN where either is."""
    return _apply("Minimum", x, y, name=name)


def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """(x - y) squared."""
    return _apply("SquaredDifference", x, y, name=name)


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """The angle of the point (x, y)."""
    return _apply("Atan2", y, x, name=name)


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of tensors of one shape and dtype."""
    items = list(inputs) if isinstance(inputs, (list, tuple)) else []
    if not items:
        raise ValueError(
            "add_n needs a list of at least one tensor, all of the same dtype and shape; got "
            f"{inputs!r}."
        )
    if len(items) > 1:
        tensors = [convert_to_tensor(item) for item in items]
        return apply_op("AddN", tensors, name=name).values()[0]
    only = convert_to_tensor(items[0])
    return _apply("Identity", only, name=name) if name else only


# -- gradients ---------------------------------------------------------------------------------


@gradient("Add", "AddV2")
def _add_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    return for_both(op, grad, grad)


@gradient("Sub")
def _subtract_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    return for_both(op, grad, output_of("Neg", grad))


@gradient("Mul")
def _multiply_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, y = op.inputs
    return for_both(op, multiply(grad, conjugate(y)), multiply(grad, conjugate(x)))


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


@gradient("Pow")
def _power_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, y = (conjugate(t) for t in op.inputs)
    base = multiply(multiply(grad, y), pow(x, subtract(y, 1)))
    # A negative base has no real logarithm: its exponent gets no gradient.
    is_complex = x.dtype.is_complex
    defined = output_of("NotEqual" if is_complex else "Greater", x, 0)
    safe = output_of("Select", defined, x, output_of("OnesLike", x))
    log = output_of("Select", defined, output_of("Log", safe), output_of("ZerosLike", x))
    exponent = multiply(multiply(grad, conjugate(op.outputs[0])), log)
    return for_both(op, base, exponent)


def _extreme_gradient(chooses_x: str) -> Gradient:
    def back(op: Operation, grad: Tensor) -> list[Tensor]:
        x, y = op.inputs
        chosen, zero = output_of(chooses_x, x, y), convert_to_tensor(0, grad.dtype.base_dtype)
        return for_both(
            op, output_of("SelectV2", chosen, grad, zero), output_of("SelectV2", chosen, zero, grad)
        )

    return back


gradient("Maximum")(_extreme_gradient("GreaterEqual"))
gradient("Minimum")(_extreme_gradient("LessEqual"))


@gradient("SquaredDifference")
def _squared_difference_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, y = op.inputs
    both = multiply(multiply(grad, convert_to_tensor(2, grad.dtype.base_dtype)), subtract(x, y))
    return for_both(op, both, output_of("Neg", both))


@gradient("Atan2")
def _atan2_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    y, x = op.inputs
    scaled = realdiv(grad, add(output_of("Square", x), output_of("Square", y)))
    return for_both(op, multiply(x, scaled), multiply(output_of("Neg", y), scaled))


@gradient("AddN")
def _add_n_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    return [grad] * len(op.inputs)


@gradient("ClipByValue")
def _clip_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, low, high = op.inputs
    zero = convert_to_tensor(0, grad.dtype.base_dtype)
    below, above = output_of("Less", x, low), output_of("Greater", x, high)
    inside = output_of("SelectV2", output_of("LogicalOr", below, above), zero, grad)
    at_low = output_of("SelectV2", below, grad, zero)
    at_high = output_of("SelectV2", above, grad, zero)
    return [inside, summed_to(at_low, low, x), summed_to(at_high, high, x)]


# -- operators ---------------------------------------------------------------------------------


def _multiply_operator(x: Any, y: Any, name: str | None = None) -> Tensor:
    if any(_tensor_dtype(v) is dt.bool_ for v in (x, y)):
        x, y = (_apply_cast(convert_to_tensor(v), dt.int32) for v in (x, y))
        return _apply_cast(multiply(x, y, name), dt.bool_)
    return multiply(x, y, name)


define_binary_operator("add", add)
define_binary_operator("sub", subtract)
define_binary_operator("mul", _multiply_operator)
define_binary_operator("truediv", truediv)
define_binary_operator("floordiv", floordiv)
define_binary_operator("mod", floormod)
define_binary_operator("pow", pow)
