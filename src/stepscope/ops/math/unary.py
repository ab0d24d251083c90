"""Elementwise functions of one tensor: signs, powers, logarithms, angles, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor, define_operator
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
from stepscope.ops.math.broadcasting import conjugate, for_both
from stepscope.ops.signatures import (
    COMPLEX,
    FLOATS,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    broadcast_shape,
    limited,
    output_of,
    same_shape,
)

# -- kernels -----------------------------------------------------------------------------------


def _ufunc(call: Callable[..., Any]) -> KernelFactory:
    kernel = Kernel(call, out="positional", forwards=(0,))
    return lambda _node: kernel


def _rsqrt(x: Array, out: Array | None = None) -> Any:
    return np.reciprocal(np.sqrt(x, out), out)


def _elementwise_python(function: Callable[[float], float]) -> KernelFactory:
    """A function of Python floats over the elements, in double precision."""

    def factory(node: KernelNode) -> Kernel:
        dtype = node.output_dtypes[0].numpy

        def call(x: Array) -> Array:
            flat = np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size)
            return flat.astype(dtype).reshape(x.shape)

        count = node.input_shapes[0].num_elements()
        return Kernel(call, cost_ns=None if count is None else 60.0 * count)

    return factory


def _round_kernel(node: KernelNode) -> Kernel:
    whole = node.input_dtypes[0].is_integer
    return Kernel(np.positive if whole else np.rint, out="positional", forwards=(0,))


def _sign_kernel(node: KernelNode) -> Kernel:
    if not node.input_dtypes[0].is_complex:
        return Kernel(np.sign, out="positional", forwards=(0,))
    dtype = node.output_dtypes[0].numpy

    def direction(x: Array) -> Array:
        length = np.asarray(np.abs(x))
        result = np.zeros(length.shape, dtype)
        np.divide(x, length, out=result, where=length != 0)
        return result

    return Kernel(direction)


# -- op types ----------------------------------------------------------------------------------


def _unary(name: str, kernel: KernelFactory, allowed: tuple[DType, ...]) -> None:
    register(
        name,
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=("T: type",),
        shape=limited(same_shape, allowed),
        kernel=kernel,
    )


_FLOATING = FLOATS + COMPLEX

_unary("Neg", _ufunc(np.negative), FLOATS + SIGNED + COMPLEX)
_unary("Abs", _ufunc(np.absolute), FLOATS + SIGNED)
_unary("Sign", _sign_kernel, FLOATS + SIGNED + COMPLEX)
_unary("Square", _ufunc(np.square), NUMBERS)
_unary("Sqrt", _ufunc(np.sqrt), _FLOATING)
_unary("Rsqrt", _ufunc(_rsqrt), _FLOATING)
_unary("Reciprocal", _ufunc(np.reciprocal), _FLOATING)
_unary("Inv", _ufunc(np.reciprocal), _FLOATING)
_unary("Exp", _ufunc(np.exp), _FLOATING)
_unary("Expm1", _ufunc(np.expm1), _FLOATING)
_unary("Log", _ufunc(np.log), _FLOATING)
_unary("Log1p", _ufunc(np.log1p), _FLOATING)
_unary("Sin", _ufunc(np.sin), _FLOATING)
_unary("Cos", _ufunc(np.cos), _FLOATING)
_unary("Tan", _ufunc(np.tan), _FLOATING)
_unary("Asin", _ufunc(np.arcsin), _FLOATING)
_unary("Acos", _ufunc(np.arccos), _FLOATING)
_unary("Atan", _ufunc(np.arctan), _FLOATING)
_unary("Sinh", _ufunc(np.sinh), _FLOATING)
_unary("Cosh", _ufunc(np.cosh), _FLOATING)
_unary("Tanh", _ufunc(np.tanh), _FLOATING)
_unary("Floor", _ufunc(np.floor), FLOATS)
_unary("Ceil", _ufunc(np.ceil), FLOATS)
_unary("Round", _round_kernel, FLOATS + SIGNED)
_unary("Rint", _ufunc(np.rint), FLOATS)
_unary("Erf", _elementwise_python(math.erf), FLOATS)
_unary("Erfc", _elementwise_python(math.erfc), FLOATS)

register(
    "ComplexAbs",
    inputs=("x: T",),
    outputs=("y: Tout",),
    attrs=("T: type = complex64", "Tout: type = float32"),
    shape=limited(same_shape, COMPLEX),
    kernel=lambda _node: Kernel(np.absolute, out="positional"),
)


register(
    "Conj",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type = complex64",),
    shape=limited(same_shape, COMPLEX),
    kernel=_ufunc(np.conjugate),
)
for _name, _part in (("Real", np.real), ("Imag", np.imag)):
    register(
        _name,
        inputs=("input: T",),
        outputs=("output: Tout",),
        attrs=("T: type = complex64", "Tout: type = float32"),
        shape=limited(same_shape, COMPLEX),
        kernel=lambda _node, part=_part: Kernel(part, views=(0,)),  # type: ignore[misc]
    )


def _complex_shape(ctx: ShapeContext) -> TensorShape:
    wanted = dt.complex128 if ctx.dtypes[0].base_dtype is dt.float64 else dt.complex64
    if ctx.attr("Tout") is not wanted:
        raise TypeError(
            f"Complex makes {wanted.name} of {ctx.dtypes[0].name}, not {ctx.attr('Tout').name}."
        )
    return broadcast_shape(ctx)


def _complex_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy

    def call(real: Array, imag: Array, out: Array | None = None) -> Array:
        if out is None:
            out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), dtype)
        out.real, out.imag = real, imag
        return out

    return Kernel(call, out="keyword")


register(
    "Complex",
    inputs=("real: T", "imag: T"),
    outputs=("out: Tout",),
    attrs=("T: type = float32", "Tout: type = complex64"),
    shape=limited(_complex_shape, (dt.float32, dt.float64)),
    kernel=_complex_kernel,
)


def _test(name: str, call: Callable[..., Any]) -> None:
    register(
        name,
        inputs=("x: T",),
        outputs=("y: bool",),
        attrs=("T: type",),
        shape=limited(same_shape, FLOATS),
        kernel=lambda _node: Kernel(call, out="positional"),
    )


_test("IsNan", np.isnan)
_test("IsInf", np.isinf)
_test("IsFinite", np.isfinite)


def _invert_kernel(node: KernelNode) -> Kernel:
    del node
    return Kernel(np.invert, out="positional", forwards=(0,))


_unary("Invert", _invert_kernel, SIGNED + UNSIGNED)


# -- functions ---------------------------------------------------------------------------------


def _function(op_type: str, doc: str) -> Callable[..., Tensor]:
    """`f(x, name=None)`: the op under its own name."""

    def call(x: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, x, name=name).values()[0]

    call.__doc__ = doc
    call.__name__ = call.__qualname__ = op_type.lower()
    return call


negative = _function("Neg", "-x.")
square = _function("Square", "x squared.")
sqrt = _function("Sqrt", "The square root; NaN below zero.")
rsqrt = _function("Rsqrt", "1 / sqrt(x).")
reciprocal = _function("Reciprocal", "1 / x.")
exp = _function("Exp", "e to the power of x.")
expm1 = _function("Expm1", "exp(x) - 1, precise near zero.")
log = _function("Log", "The natural logarithm.")
log1p = _function("Log1p", "log(1 + x), precise near zero.")
sin = _function("Sin", "The sine of radians.")
cos = _function("Cos", "The cosine of radians.")
tan = _function("Tan", "The tangent of radians.")
asin = _function("Asin", "The inverse of sin.")
acos = _function("Acos", "The inverse of cos.")
atan = _function("Atan", "The inverse of tan.")
sinh = _function("Sinh", "The hyperbolic sine.")
cosh = _function("Cosh", "The hyperbolic cosine.")
tanh = _function("Tanh", "The hyperbolic tangent.")
floor = _function("Floor", "The largest whole number not above x.")
ceil = _function("Ceil", "The smallest whole number not below x.")
rint = _function("Rint", "The nearest whole number; halves go to the even one.")
erf = _function("Erf", "The Gauss error function.")
erfc = _function("Erfc", "1 - erf(x), precise for large x.")
is_nan = _function("IsNan", "Whether x is not a number.")
is_inf = _function("IsInf", "Whether x is an infinity.")
is_finite = _function("IsFinite", "Whether x is neither an infinity nor NaN.")


def abs(x: Any, name: str | None = None) -> Tensor:
    """The magnitude; of complex numbers a real tensor."""
    with name_scope(name, "Abs", [x]) as scope:
        tensor = convert_to_tensor(x, name="x")
        base = tensor.dtype.base_dtype
        if base.is_complex:
            return apply_op("ComplexAbs", tensor, Tout=base.real_dtype, name=scope).values()[0]
        return apply_op("Abs", tensor, name=scope).values()[0]


def sign(x: Any, name: str | None = None) -> Tensor:
    """-1, 0 or 1 (NaN stays); of complex numbers x / |x|, and 0 for 0."""
    tensor = convert_to_tensor(x)
    base = tensor.dtype.base_dtype
    if not base.is_complex:
        return apply_op("Sign", tensor, name=name).values()[0]
    length = apply_op("ComplexAbs", tensor, Tout=base.real_dtype).values()[0]
    divisor = apply_op("Cast", length, DstT=base).values()[0]
    return apply_op("DivNoNan", tensor, divisor, name=name).values()[0]


def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; real numbers are themselves."""
    tensor = convert_to_tensor(x, name="x")
    if not tensor.dtype.is_complex:
        return tensor
    return apply_op("Conj", tensor, name=name).values()[0]


def real(input: Any, name: str | None = None) -> Tensor:
    """The real part; real numbers are themselves."""
    with name_scope(name, "Real", [input]) as scope:
        tensor = convert_to_tensor(input, name="input")
        return _part_of("Real", tensor, scope) if tensor.dtype.is_complex else tensor


def imag(input: Any, name: str | None = None) -> Tensor:
    """The imaginary part; of real numbers zeros."""
    with name_scope(name, "Imag", [input]) as scope:
        tensor = convert_to_tensor(input, name="input")
        if tensor.dtype.is_complex:
            return _part_of("Imag", tensor, scope)
        return apply_op("ZerosLike", tensor).values()[0]


def _part_of(op_type: str, tensor: Tensor, name: str) -> Tensor:
    return apply_op(op_type, tensor, Tout=tensor.dtype.real_dtype, name=name).values()[0]


def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest whole number; halves go to the even one. Integers are themselves."""
    tensor = convert_to_tensor(x, name="x")
    if tensor.dtype.is_integer:
        return tensor
    return apply_op("Round", tensor, name=name).values()[0]


def _invert_operator(x: Tensor) -> Tensor:
    if x.dtype.base_dtype is dt.bool_:
        return apply_op("LogicalNot", x).values()[0]
    return apply_op("Invert", x).values()[0]


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """The complex numbers with these real and imaginary parts."""
    with name_scope(name, "Complex", [real, imag]) as scope:
        real = convert_to_tensor(real, name="real")
        imag = convert_to_tensor(imag, name="imag")
        wide = real.dtype.base_dtype is dt.float64
        kind = dt.complex128 if wide else dt.complex64
        return output_of("Complex", real, imag, Tout=kind, name=scope)


# -- gradients ---------------------------------------------------------------------------------


def of_result(name: str, call: Callable[..., Any]) -> None:
    """A gradient op: `call(y, dy, out=None)` from an op's result and its gradient."""
    register(
        name,
        inputs=("y: T", "dy: T"),
        outputs=("z: T",),
        attrs=("T: type",),
        shape=limited(same_shape, _FLOATING),
        kernel=lambda _node: Kernel(call, out="positional"),
    )


def _tanh_gradient(y: Array, dy: Array, out: Array | None = None) -> Any:
    return np.multiply(dy, np.subtract(y.dtype.type(1), np.multiply(y, y)), out)


def _sqrt_gradient(y: Array, dy: Array, out: Array | None = None) -> Any:
    return np.divide(np.multiply(dy, y.dtype.type(0.5)), np.conjugate(y), out)


def _rsqrt_gradient(y: Array, dy: Array, out: Array | None = None) -> Any:
    conjugated = np.conjugate(y)
    cube = np.multiply(np.multiply(conjugated, conjugated), conjugated)
    return np.multiply(np.multiply(dy, y.dtype.type(-0.5)), cube, out)


def _reciprocal_gradient(y: Array, dy: Array, out: Array | None = None) -> Any:
    conjugated = np.conjugate(y)
    return np.negative(np.multiply(np.multiply(conjugated, conjugated), dy), out)


of_result("TanhGrad", _tanh_gradient)
of_result("SqrtGrad", _sqrt_gradient)
of_result("RsqrtGrad", _rsqrt_gradient)
of_result("ReciprocalGrad", _reciprocal_gradient)
of_result("InvGrad", _reciprocal_gradient)

for _name, _type in (
    ("Sqrt", "SqrtGrad"),
    ("Rsqrt", "RsqrtGrad"),
    ("Reciprocal", "ReciprocalGrad"),
    ("Inv", "ReciprocalGrad"),
):
    gradient(_name)(lambda op, grad, kind=_type: output_of(kind, op.outputs[0], grad))
gradient("Tanh")(lambda op, grad: output_of("TanhGrad", conjugate(op.outputs[0]), grad))


def _slope(slope: Callable[[Tensor], Tensor]) -> Gradient:
    """The gradient of y = f(x) from f' as a function of x."""
    return lambda op, grad: grad * conjugate(slope(op.inputs[0]))


gradient("Neg")(lambda _op, grad: negative(grad))
gradient("Conj")(lambda _op, grad: conj(grad))
gradient("Abs")(lambda op, grad: grad * sign(op.inputs[0]))
gradient("Exp")(lambda op, grad: grad * conjugate(op.outputs[0]))
gradient("Square")(_slope(lambda x: x * 2))
gradient("Expm1")(_slope(lambda x: exp(x)))
gradient("Log")(_slope(lambda x: reciprocal(x)))
gradient("Log1p")(_slope(lambda x: reciprocal(x + 1)))
gradient("Sin")(_slope(lambda x: cos(x)))
gradient("Cos")(_slope(lambda x: -sin(x)))
gradient("Tan")(_slope(lambda x: square(reciprocal(cos(x)))))
gradient("Asin")(_slope(lambda x: reciprocal(sqrt(1 - square(x)))))
gradient("Acos")(_slope(lambda x: -reciprocal(sqrt(1 - square(x)))))
gradient("Atan")(_slope(lambda x: reciprocal(square(x) + 1)))
gradient("Sinh")(_slope(lambda x: cosh(x)))
gradient("Cosh")(_slope(lambda x: sinh(x)))
gradient("Erf")(_slope(lambda x: exp(-square(x)) * (2 / math.sqrt(math.pi))))
gradient("Erfc")(_slope(lambda x: exp(-square(x)) * (-2 / math.sqrt(math.pi))))
no_gradient("Floor", "Ceil", "Round", "Rint", "Invert")


@gradient("Sign")
def _no_slope(op: Operation, _grad: Tensor) -> Tensor:
    return output_of("ZerosLike", op.inputs[0])


@gradient("TanhGrad")
def _tanh_second(op: Operation, grad: Tensor) -> list[Tensor]:
    y, dy = (conjugate(t) for t in op.inputs)
    return [grad * -2 * dy * y, output_of("TanhGrad", y, grad)]


@gradient("SqrtGrad")
def _sqrt_second(op: Operation, grad: Tensor) -> list[Tensor]:
    ratio = grad / op.inputs[0]
    return [-conjugate(ratio) * op.outputs[0], ratio * 0.5]


@gradient("RsqrtGrad")
def _rsqrt_second(op: Operation, grad: Tensor) -> list[Tensor]:
    y = conjugate(op.inputs[0])
    bent = conjugate(grad) * -1.5 * op.inputs[1] * square(y)
    return [bent, output_of("RsqrtGrad", y, grad)]


@gradient("ReciprocalGrad", "InvGrad")
def _reciprocal_second(op: Operation, grad: Tensor) -> list[Tensor]:
    y = conjugate(op.inputs[0])
    bent = conjugate(grad) * -2 * op.inputs[1] * y
    return [bent, output_of("ReciprocalGrad", y, grad)]


@gradient("Real")
def _real_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return complex(grad, convert_to_tensor(0, grad.dtype.base_dtype))


@gradient("Imag")
def _imag_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return complex(convert_to_tensor(0, grad.dtype.base_dtype), grad)


@gradient("Complex")
def _complex_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    return for_both(op, real(grad), imag(grad))


@gradient("ComplexAbs")
def _magnitude_gradient(op: Operation, grad: Tensor) -> Tensor:
    zero = output_of("ZerosLike", grad)
    along = complex(grad, zero) * op.inputs[0]
    return output_of("DivNoNan", along, complex(op.outputs[0], zero))


define_operator("__neg__", negative)
define_operator("__abs__", abs)
define_operator("__invert__", _invert_operator)
