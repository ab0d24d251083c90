"""Elementwise arithmetic on two or more tensors, with broadcasting, and its operators.

Division and remainders are in `division`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    register,
)
from stepscope.graph.shapes import TensorShape
from stepscope.ops.math.broadcasting import conjugate, for_both, summed_to
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
    tensor_dtype,
)

# -- kernels -----------------------------------------------------------------------------------


def ufunc(call: Callable[..., Any], out: Any = "positional") -> KernelFactory:
    """The same callable for every node; it may write into either input's buffer."""
    kernel = Kernel(call, out=out, forwards=(0, 1))
    return lambda _node: kernel


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
                    raise InvalidArgumentError.without_op(
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


def register_binary(
    name: str,
    kernel: KernelFactory,
    allowed: tuple[DType, ...] = NUMBERS,
    inputs: tuple[str, str] = ("x: T", "y: T"),
) -> None:
    """Register an op type of two tensors of one of the dtypes that broadcast."""
    register(
        name,
        inputs=inputs,
        outputs=("z: T",),
        attrs=("T: type",),
        shape=limited(broadcast_shape, allowed),
        kernel=kernel,
    )


register_binary("AddV2", _add_kernel)
register_binary("Add", _add_kernel, (*NUMBERS, dt.string))
register_binary("Sub", ufunc(np.subtract))
register_binary("Mul", ufunc(np.multiply))
register_binary("Pow", ufunc(np.power), FLOATS + SIGNED + COMPLEX)
register_binary("Maximum", ufunc(np.maximum, "keyword"), REALS)
register_binary("Minimum", ufunc(np.minimum, "keyword"), REALS)
register_binary(
    "SquaredDifference", _squared_difference_kernel, (*FLOATS, dt.int32, dt.int64, *COMPLEX)
)
register_binary("Atan2", ufunc(np.arctan2), FLOATS, ("y: T", "x: T"))
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


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The sum of x and y."""
    with name_scope(name, "Add", [x, y]) as scope:
        x = argument(x, "x", tensor_dtype(y))
        y = argument(y, "y", x.dtype.base_dtype)
        return output_of("Add" if x.dtype.base_dtype is dt.string else "AddV2", x, y, name=scope)


def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The difference of x and y."""
    return output_of("Sub", x, y, name=name)


def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The product of x and y."""
    return output_of("Mul", x, y, name=name)


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The power of x to y."""
    return output_of("Pow", x, y, name=name)


def maximum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The larger of each pair; NaN where either is."""
    return output_of("Maximum", x, y, name=name)


def minimum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The smaller of each pair; NaN where either is."""
    return output_of("Minimum", x, y, name=name)


def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """(x - y) squared."""
    return output_of("SquaredDifference", x, y, name=name)


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """The angle of the point (x, y)."""
    return output_of("Atan2", y, x, name=name)


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of tensors of one shape and dtype."""
    several = isinstance(inputs, Iterable) and not isinstance(inputs, Tensor)
    items = list(inputs) if several else []
    if not items:
        raise ValueError(
            "add_n needs a list of at least one tensor, all of the same dtype and shape; got "
            f"{inputs!r}."
        )
    if len(items) > 1:
        tensors = [convert_to_tensor(item) for item in items]
        return apply_op("AddN", tensors, name=name).values()[0]
    only = convert_to_tensor(items[0])
    return output_of("Identity", only, name=name) if name else only


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
    scaled = output_of("RealDiv", grad, add(output_of("Square", x), output_of("Square", y)))
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
    if any(tensor_dtype(v) is dt.bool_ for v in (x, y)):
        x, y = (output_of("Cast", convert_to_tensor(v), DstT=dt.int32) for v in (x, y))
        return output_of("Cast", multiply(x, y, name), DstT=dt.bool_)
    return multiply(x, y, name)


define_binary_operator("add", add)
define_binary_operator("sub", subtract)
define_binary_operator("mul", _multiply_operator)
define_binary_operator("pow", pow)
