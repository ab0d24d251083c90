"""Integers bit by bit: and, or, exclusive or, not, and shifts (`tf.bitwise`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, no_gradient, register
from stepscope.ops.signatures import (
    SIGNED,
    UNSIGNED,
    broadcast_shape,
    limited,
    output_of,
)

__all__ = [
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift",
]  # fmt: skip


def _shift_kernel(node: KernelNode) -> Kernel:
    shift = np.left_shift if node.op.type == "LeftShift" else np.right_shift
    most = node.output_dtypes[0].numpy.itemsize * 8 - 1

    def call(x: Any, y: Any, out: Array | None = None) -> Any:
        # As TensorFlow does it: by at least 0 and at most all bits but one.
        return shift(x, np.clip(y, 0, most).astype(np.asarray(x).dtype), out)

    return Kernel(call, out="positional", forwards=(0,))


for _name in ("LeftShift", "RightShift"):
    register(
        _name,
        inputs=("x: T", "y: T"),
        outputs=("z: T",),
        attrs=("T: type",),
        shape=limited(broadcast_shape, SIGNED + UNSIGNED),
        kernel=_shift_kernel,
    )
no_gradient("LeftShift", "RightShift")


def bitwise_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits that both have."""
    return output_of("BitwiseAnd", x, y, name=name)


def bitwise_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits that either has."""
    return output_of("BitwiseOr", x, y, name=name)


def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits that one of them has."""
    return output_of("BitwiseXor", x, y, name=name)


def invert(x: Any, name: str | None = None) -> Tensor:
    """Every bit the other way."""
    return output_of("Invert", x, name=name)


def left_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits of `x` moved up by `y`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.bitwise.left_shift([1, 3], [4, 1])).tolist()
    [16, 6]
    """
    return output_of("LeftShift", x, y, name=name)


def right_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The bits of `x` moved down by `y`; of signed numbers the sign stays."""
    return output_of("RightShift", x, y, name=name)
