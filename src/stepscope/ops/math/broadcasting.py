"""Gradients of ops that broadcast: summed back to the shape each input had."""

from __future__ import annotations

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, no_gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.shaping import reshape, shape
from stepscope.ops.signatures import output_of


def _reduced_axes(s0: Array, s1: Array) -> tuple[Array, Array]:
    """Per shape the axes of the common result along which it has length 1, or no axis at all."""
    rank = max(len(s0), len(s1))
    padded = [[1] * (rank - len(s)) + list(s) for s in (s0, s1)]
    if any(a != b and 1 not in (a, b) for a, b in zip(*padded, strict=True)):
        raise InvalidArgumentError.without_op(
            f"Incompatible shapes: {list(map(int, s0))} vs. {list(map(int, s1))}"
        )
    first, second = (np.array([i for i, n in enumerate(p) if n == 1], s0.dtype) for p in padded)
    return first, second


register(
    "BroadcastGradientArgs",
    inputs=("s0: T", "s1: T"),
    outputs=("r0: T", "r1: T"),
    attrs=("T: type = int32",),
    shape=lambda _ctx: [TensorShape((None,))] * 2,
    kernel=lambda _node: Kernel(_reduced_axes),
)
no_gradient("BroadcastGradientArgs")


def summed_to(gradient_of_result: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of a broadcast result as one of `x`: summed over the axes x was widened along.

    `y` is what x was broadcast against.
    """
    mine, other, result = x.shape.known, y.shape.axes, gradient_of_result.shape.axes
    if mine is not None and mine == result:
        return gradient_of_result
    axes = x.shape.axes
    if axes is not None and other is not None and len(other) <= len(axes):
        aligned = zip(axes[len(axes) - len(other) :], other, strict=True)
        if all(b == 1 or (a is not None and a > 1) for a, b in aligned):
            return gradient_of_result  # nothing could have widened x
    if mine is not None and result is not None:
        lead = len(result) - len(mine)
        widened = (lead + i for i, n in enumerate(mine) if n == 1 != result[lead + i])
        gone = np.array([*range(lead), *widened], np.int32)
        total = output_of("Sum", gradient_of_result, gone, keep_dims=False)
        return total if total.shape.known == mine else reshape(total, list(mine))
    shape_x, shape_y = shape(x), shape(y)
    axes_x = output_of("BroadcastGradientArgs", shape_x, shape_y)
    return reshape(output_of("Sum", gradient_of_result, axes_x, keep_dims=False), shape_x)


def for_both(op: Operation, for_x: Tensor, for_y: Tensor) -> list[Tensor]:
    """The gradients of a binary op's result, each as one of its input."""
    x, y = op.inputs
    return [summed_to(for_x, x, y), summed_to(for_y, y, x)]


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    return output_of("Conj", x) if x.dtype.is_complex else x
