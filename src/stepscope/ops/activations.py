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
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelFactory, KernelNode, register
from stepscope.ops import constants, conversion, elementwise, joining, shaping, unary
from stepscope.ops.signatures import (
    COMPLEX,
    FLOATS,
    REALS,
    argument,
    at_least_rank,
    limited,
    one_name,
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
        raise InvalidArgumentError(
            None,
            None,
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
