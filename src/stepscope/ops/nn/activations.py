"""Activations and softmax: functions of a layer's outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelFactory,
    KernelNode,
    ShapeContext,
    gradient,
    register,
)
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays import constants, conversion, joining, shaping
from stepscope.ops.math import comparison, elementwise, unary
from stepscope.ops.math.broadcasting import conjugate
from stepscope.ops.signatures import (
    COMPLEX,
    FLOATS,
    REALS,
    argument,
    at_least_rank,
    limited,
    one_name,
    output_of,
    same_shape,
)

_sum: Callable[..., Any] = np.add.reduce
_max: Callable[..., Any] = np.maximum.reduce

# -- activations -------------------------------------------------------------------------------


def _numbers(node: KernelNode) -> Callable[[float], Array]:
    """Makes constants of the node's dtype: arrays, which ufuncs take sooner than scalars."""
    dtype = node.output_dtypes[0].numpy
    return lambda value: np.array(value, dtype)


def _relu_kernel(node: KernelNode) -> Kernel:
    zero, larger = _numbers(node)(0), np.maximum
    return Kernel(lambda x, out=None: larger(x, zero, out=out), out="positional", forwards=(0,))


def _relu6_kernel(node: KernelNode) -> Kernel:
    number = _numbers(node)
    zero, six = number(0), number(6)

    def relu6(x: Array, out: Array | None = None) -> Any:
        return np.minimum(np.maximum(x, zero, out=out), six, out=out)

    return Kernel(relu6, out="positional", forwards=(0,))


def _elu_kernel(node: KernelNode) -> Kernel:
    zero = _numbers(node)(0)

    def elu(x: Array, out: Array | None = None) -> Any:
        return np.add(np.maximum(x, zero), np.expm1(np.minimum(x, zero)), out)

    return Kernel(elu, out="positional", forwards=(0,))


_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def _selu_kernel(node: KernelNode) -> Kernel:
    number = _numbers(node)
    zero, scale, below = number(0), number(_SELU_SCALE), number(_SELU_SCALE * _SELU_ALPHA)

    def selu(x: Array, out: Array | None = None) -> Any:
        positive = np.multiply(np.maximum(x, zero), scale)
        return np.add(positive, np.multiply(np.expm1(np.minimum(x, zero)), below), out)

    return Kernel(selu, out="positional", forwards=(0,))


def _leaky_relu_kernel(node: KernelNode) -> Kernel:
    number = _numbers(node)
    alpha, zero = number(node.attr("alpha")), number(0)
    if 0 <= alpha <= 1:
        return Kernel(
            lambda x, out=None: np.maximum(x, np.multiply(x, alpha), out=out),
            out="positional",
            forwards=(0,),
        )
    return Kernel(lambda x: np.where(np.greater(x, zero), x, np.multiply(x, alpha)))


def _softplus_kernel(node: KernelNode) -> Kernel:
    zero = _numbers(node)(0)
    return Kernel(lambda x, out=None: np.logaddexp(x, zero, out), out="positional", forwards=(0,))


def _softsign_kernel(node: KernelNode) -> Kernel:
    one = _numbers(node)(1)

    def softsign(x: Array, out: Array | None = None) -> Any:
        return np.divide(x, np.add(np.abs(x), one), out)

    return Kernel(softsign, out="positional", forwards=(0,))


def _sigmoid_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy
    one = _numbers(node)(1)

    def sigmoid(x: Array, out: Array | None = None) -> Array:
        result = np.empty(np.shape(x), dtype) if out is None else out
        np.negative(x, result)
        np.exp(result, result)
        np.add(result, one, result)
        np.reciprocal(result, result)
        return result

    return Kernel(sigmoid, out="positional", forwards=(0,))


def _activation(name: str, kernel: KernelFactory, allowed: tuple[DType, ...] = FLOATS) -> None:
    register(
        name,
        inputs=("features: T",),
        outputs=("activations: T",),
        attrs=("T: type",),
        shape=limited(same_shape, allowed),
        kernel=kernel,
    )


_activation("Relu", _relu_kernel, REALS)
_activation("Relu6", _relu6_kernel, REALS)
_activation("Elu", _elu_kernel)
_activation("Selu", _selu_kernel)
_activation("Softplus", _softplus_kernel)
_activation("Softsign", _softsign_kernel)
register(
    "LeakyRelu",
    inputs=("features: T",),
    outputs=("activations: T",),
    # Attributes are single precision on the wire; this is 0.2 there.
    attrs=("alpha: float = 0.20000000298023224", "T: type = float32"),
    shape=limited(same_shape, FLOATS),
    kernel=_leaky_relu_kernel,
)
register(
    "Sigmoid",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=("T: type",),
    shape=limited(same_shape, FLOATS + COMPLEX),
    kernel=_sigmoid_kernel,
)


# -- softmax -----------------------------------------------------------------------------------


def _softmax(x: Array, out: Array | None = None) -> Array:
    result = np.empty(x.shape, x.dtype) if out is None else out
    if x.size:
        np.subtract(x, _max(x, -1, None, None, True), result)
        np.exp(result, result)
        np.divide(result, _sum(result, -1, None, None, True), result)
    return result


def _log_softmax(x: Array, out: Array | None = None) -> Array:
    result = np.empty(x.shape, x.dtype) if out is None else out
    if x.size:
        np.subtract(x, _max(x, -1, None, None, True), result)
        total = _sum(np.exp(result), -1, None, None, True)
        np.subtract(result, np.log(total), result)
    return result


for _name, _output, _call in (
    ("Softmax", "softmax: T", _softmax),
    ("LogSoftmax", "logsoftmax: T", _log_softmax),
):
    register(
        _name,
        inputs=("logits: T",),
        outputs=(_output,),
        attrs=("T: type",),
        shape=limited(lambda ctx: at_least_rank(ctx.input(0), 1), FLOATS),
        kernel=lambda _node, call=_call: Kernel(call, out="positional", forwards=(0,)),  # type: ignore[misc]
    )


# -- gradients ---------------------------------------------------------------------------------


def _both_shape(ctx: ShapeContext) -> TensorShape:
    return ctx.input(0).merge_with(ctx.input(1))


def _gradient_op(
    name: str,
    second: str,
    kernel: KernelFactory,
    allowed: tuple[DType, ...] = FLOATS,
    attrs: tuple[str, ...] = ("T: type",),
) -> None:
    register(
        name,
        inputs=("gradients: T", f"{second}: T"),
        outputs=("backprops: T",),
        attrs=attrs,
        shape=limited(_both_shape, allowed),
        kernel=kernel,
    )


def _relu_gradient_kernel(node: KernelNode) -> Kernel:
    zero, greater, multiply = _numbers(node)(0), np.greater, np.multiply

    def back(grad: Array, y: Array, out: Array | None = None) -> Any:
        return multiply(grad, greater(y, zero), out)

    return Kernel(back, out="positional", forwards=(0,))


def _relu6_gradient_kernel(node: KernelNode) -> Kernel:
    number = _numbers(node)
    zero, six = number(0), number(6)

    def back(grad: Array, y: Array, out: Array | None = None) -> Any:
        return np.multiply(grad, np.logical_and(np.greater(y, zero), np.less(y, six)), out)

    return Kernel(back, out="positional", forwards=(0,))


def _exponential_gradient_kernel(above: float, below: float) -> KernelFactory:
    """Of a unit that is `above` times x above zero and `below` times (exp(x) - 1) below."""

    def factory(node: KernelNode) -> Kernel:
        number = _numbers(node)
        zero, high, low = number(0), number(above), number(below)

        def back(grad: Array, y: Array, out: Array | None = None) -> Any:
            slope = np.where(np.less(y, zero), np.add(y, low), high)
            return np.multiply(grad, slope, out)

        return Kernel(back, out="positional", forwards=(0,))

    return factory


def _leaky_relu_gradient_kernel(node: KernelNode) -> Kernel:
    number = _numbers(node)
    zero, one, alpha = number(0), number(1), number(node.attr("alpha"))

    def back(grad: Array, x: Array, out: Array | None = None) -> Any:
        return np.multiply(grad, np.where(np.greater(x, zero), one, alpha), out)

    return Kernel(back, out="positional", forwards=(0,))


def _softplus_gradient_kernel(node: KernelNode) -> Kernel:
    one = _numbers(node)(1)

    def back(grad: Array, x: Array, out: Array | None = None) -> Any:
        return np.divide(grad, np.add(np.exp(np.negative(x)), one), out)

    return Kernel(back, out="positional", forwards=(0,))


def _softsign_gradient_kernel(node: KernelNode) -> Kernel:
    one = _numbers(node)(1)

    def back(grad: Array, x: Array, out: Array | None = None) -> Any:
        return np.divide(grad, np.square(np.add(np.abs(x), one)), out)

    return Kernel(back, out="positional", forwards=(0,))


_ALPHA = ("alpha: float = 0.20000000298023224", "T: type = float32")
_gradient_op("ReluGrad", "features", _relu_gradient_kernel, REALS)
_gradient_op("Relu6Grad", "features", _relu6_gradient_kernel, REALS)
_gradient_op("EluGrad", "outputs", _exponential_gradient_kernel(1, 1))
_gradient_op(
    "SeluGrad", "outputs", _exponential_gradient_kernel(_SELU_SCALE, _SELU_SCALE * _SELU_ALPHA)
)
_gradient_op("LeakyReluGrad", "features", _leaky_relu_gradient_kernel, FLOATS, _ALPHA)
_gradient_op("SoftplusGrad", "features", _softplus_gradient_kernel)
_gradient_op("SoftsignGrad", "features", _softsign_gradient_kernel)

for _name in ("Relu", "Relu6", "Elu", "Selu"):
    gradient(_name)(lambda op, grad: output_of(f"{op.type}Grad", grad, op.outputs[0]))
for _name in ("Softplus", "Softsign"):
    gradient(_name)(lambda op, grad: output_of(f"{op.type}Grad", grad, op.inputs[0]))


def _sigmoid_gradient(y: Array, dy: Array, out: Array | None = None) -> Any:
    return np.multiply(dy, np.multiply(y, np.subtract(y.dtype.type(1), y)), out)


unary.of_result("SigmoidGrad", _sigmoid_gradient)
gradient("Sigmoid")(lambda op, grad: output_of("SigmoidGrad", conjugate(op.outputs[0]), grad))


@gradient("SigmoidGrad")
def _sigmoid_second(op: Operation, grad: Tensor) -> list[Tensor]:
    y, dy = (conjugate(t) for t in op.inputs)
    product = grad * dy
    return [product - product * 2 * y, output_of("SigmoidGrad", y, grad)]


@gradient("LeakyRelu")
def _leaky_relu_gradient(op: Operation, grad: Tensor) -> Tensor:
    return output_of("LeakyReluGrad", grad, op.inputs[0], alpha=op.get_attr("alpha"))


@gradient("ReluGrad", "Relu6Grad", "LeakyReluGrad")
def _straight_second(op: Operation, grad: Tensor) -> list[Tensor]:
    x = op.inputs[1]
    attrs = {"alpha": op.get_attr("alpha")} if op.type == "LeakyReluGrad" else {}
    return [output_of(op.type, grad, x, **attrs), constants.zeros_like(x)]


@gradient("EluGrad", "SeluGrad")
def _exponential_second(op: Operation, grad: Tensor) -> list[Tensor]:
    before, y = op.inputs
    below = comparison.less(y, 0)
    bent = comparison.where(below, grad * before, constants.zeros_like(y))
    return [output_of(op.type, grad, y), bent]


@gradient("SoftplusGrad")
def _softplus_second(op: Operation, grad: Tensor) -> list[Tensor]:
    before, x = op.inputs
    curve = unary.exp(-x) + 2.0 + unary.exp(x)
    return [output_of("SoftplusGrad", grad, x), grad * before / curve]


@gradient("Softmax")
def _softmax_gradient(op: Operation, grad: Tensor) -> Tensor:
    y = op.outputs[0]
    return (grad - output_of("Sum", grad * y, [-1], keep_dims=True)) * y


@gradient("LogSoftmax")
def _log_softmax_gradient(op: Operation, grad: Tensor) -> Tensor:
    total = output_of("Sum", grad, [-1], keep_dims=True)
    return grad - total * unary.exp(op.outputs[0])


# -- functions ---------------------------------------------------------------------------------


def _function(op_type: str, doc: str) -> Callable[..., Tensor]:
    def call(features: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, features, name=name).values()[0]

    call.__doc__ = doc
    call.__name__ = call.__qualname__ = op_type.lower()
    return call


relu = _function("Relu", "max(x, 0).")
relu6 = _function("Relu6", "x limited to the range from 0 to 6.")
elu = _function("Elu", "x above zero, exp(x) - 1 below.")
selu = _function("Selu", "The self-normalising exponential linear unit.")
softplus = _function("Softplus", "log(1 + exp(x)).")
softsign = _function("Softsign", "x / (1 + |x|).")


def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
    with name_scope(name, "Sigmoid", [x]) as scope:
        return apply_op("Sigmoid", argument(x, "x"), name=scope).values()[0]


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """The logarithm of sigmoid, computed without overflow."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        x = argument(x, "x")
        return unary.negative(softplus(unary.negative(x)), name=scope)


def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Tensor:
    """The features where above zero, alpha times them below."""
    with name_scope(name, "LeakyRelu", [features]) as scope:
        features = argument(features, "features")
        if features.dtype.is_integer:
            features = conversion.cast(features, dt.float32)
        if isinstance(alpha, Tensor):
            raise TypeError(f"Expected float for argument 'alpha' not {alpha!r}.")
        # The attribute is a single-precision number on the wire.
        rounded = float(np.float32(alpha))
        return apply_op("LeakyRelu", features, alpha=rounded, name=scope).values()[0]


def softmax(
    logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along the axis (the last)."""
    return _along_axis("Softmax", logits, one_name("axis", axis, "dim", dim), name)


def log_softmax(
    logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """The logarithm of softmax, computed without overflow."""
    return _along_axis("LogSoftmax", logits, one_name("axis", axis, "dim", dim), name)


def _along_axis(op_type: str, logits: Any, axis: int | None, name: str | None) -> Tensor:
    """The op, which works on the last axis, on another one: swapped there and back."""
    logits = convert_to_tensor(logits)
    static = logits.shape
    if axis is None or axis == -1 or (static.rank is not None and axis == static.rank - 1):
        return apply_op(op_type, logits, name=name).values()[0]
    if static.rank is None:
        raise ValueError(
            f"{op_type} along axis {axis} needs a tensor of known rank; {logits.name} has shape "
            f"{static}."
        )
    if not -static.rank <= axis < static.rank:
        raise InvalidArgumentError.without_op(
            f"`dim` must be in the range [{-static.rank}, {static.rank}) where {static.rank} is "
            f"the number of dimensions in the input. Received: dim={axis}",
        )
    shaping.rank(logits)
    rank = shaping.rank(logits)
    index = axis % static.rank
    swapped = _swap_with_last(logits, index, elementwise.subtract(rank, 1))
    computed = apply_op(op_type, swapped).values()[0]
    result = _swap_with_last(computed, index, elementwise.subtract(rank, 1), name)
    result.set_shape(static)
    return result


def _swap_with_last(x: Tensor, index: int, last: Tensor, name: str | None = None) -> Tensor:
    before = constants.range(index)
    between = constants.range(index + 1, last)
    order = joining.concat([before, [last], between, [index]], 0)
    return shaping.transpose(x, order, name=name)
