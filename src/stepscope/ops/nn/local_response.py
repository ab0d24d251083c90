"""Local response normalization: activity divided by that of the neighbouring channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.graph.dtypes import Array, float16, float32
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.signatures import exactly_rank, limited, output_of

__all__ = ["local_response_normalization", "lrn"]

_ATTRS = (
    "depth_radius: int = 5",
    "bias: float = 1.0",
    "alpha: float = 1.0",
    "beta: float = 0.5",
    "T: type = float32",
)


def _near(x: Array, radius: int) -> Array:
    """For each channel the sum over those at most `radius` away."""
    depth = x.shape[-1]
    result = x.copy()
    for away in range(1, min(radius, depth - 1) + 1):
        result[..., away:] += x[..., : depth - away]
        result[..., : depth - away] += x[..., away:]
    return result


def _shape(ctx: ShapeContext) -> TensorShape:
    found = exactly_rank(ctx.input(0), 4)
    for index in range(1, len(ctx.inputs)):
        found = found.merge_with(exactly_rank(ctx.input(index), 4))
    return found


def _kernel(node: KernelNode) -> Kernel:
    radius, bias, alpha, beta = _settings(node)

    def call(x: Array) -> Array:
        exact = x.astype(np.float32, copy=False)
        scale = bias + alpha * _near(exact * exact, radius)
        result: Array = exact * scale**-beta
        return result.astype(x.dtype, copy=False)

    return Kernel(call)


def _settings(node: KernelNode) -> tuple[int, Any, Any, Any]:
    numbers = [np.float32(node.attr(name)) for name in ("bias", "alpha", "beta")]
    return int(node.attr("depth_radius")), numbers[0], numbers[1], numbers[2]


def _grad_kernel(node: KernelNode) -> Kernel:
    radius, bias, alpha, beta = _settings(node)

    def call(grad: Array, x: Array, y: Array) -> Array:
        g, given, gave = (a.astype(np.float32, copy=False) for a in (grad, x, y))
        scale = bias + alpha * _near(given * given, radius)
        # A channel is in the scales of its neighbours, as they are in its own.
        others = _near(g * gave / scale, radius)
        slope: Array = g * scale**-beta - np.float32(2) * alpha * beta * given * others
        return slope.astype(x.dtype, copy=False)

    return Kernel(call)


register(
    "LRN",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=limited(_shape, (float16, float32)),
    kernel=_kernel,
)
register(
    "LRNGrad",
    inputs=("input_grads: T", "input_image: T", "output_image: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_shape,
    kernel=_grad_kernel,
)


@gradient("LRN")
def _gradient(op: Operation, grad: Tensor) -> Tensor:
    attrs = {name: op.get_attr(name) for name in ("depth_radius", "bias", "alpha", "beta")}
    return output_of("LRNGrad", grad, op.inputs[0], op.outputs[0], **attrs)


def lrn(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Input / (bias + alpha * sum of squares within `depth_radius` channels) ** beta."""
    return output_of(
        "LRN", input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name
    )


local_response_normalization = lrn
