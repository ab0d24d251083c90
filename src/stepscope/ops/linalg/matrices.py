"""What ops on batches of square matrices have in common: types, shapes, the transposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import Array, complex64, complex128, float32, float64
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import ShapeContext
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.constants import range as range_of
from stepscope.ops.arrays.joining import concat
from stepscope.ops.math.broadcasting import conjugate
from stepscope.ops.signatures import at_least_rank, merge_dims

__all__ = ["adjoint", "matrix_transpose"]

TYPES: Final = (float32, float64, complex64, complex128)


def square_matrices(shape: TensorShape) -> TensorShape:
    """The shape of a batch of square matrices; ValueError for one that is known to be none."""
    if at_least_rank(shape, 2).axes is None:
        return shape
    assert shape.axes is not None
    size = merge_dims(*shape.axes[-2:])
    return TensorShape([*shape.axes[:-2], size, size])


def square_shape(c: ShapeContext) -> TensorShape:
    """The output is shaped as the first input, which is a batch of square matrices."""
    return square_matrices(c.input(0))


def checked_square(matrix: Any) -> Array:
    """The matrices; InvalidArgumentError unless they are square."""
    array = np.asarray(matrix)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise InvalidArgumentError.without_op(
            f"Input matrix must be square, got {list(array.shape)}"
        )
    return array


def solvable(message: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call gives; InvalidArgumentError with the message where NumPy finds no answer."""
    try:
        return call(*arguments)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError.without_op(message) from None


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """The last two axes exchanged.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.matrix_transpose([[[1, 2], [3, 4]]])).tolist()
    [[[1, 3], [2, 4]]]
    """
    with name_scope(name, None, [a]):
        a = convert_to_tensor(a, name="a")
        rank = a.shape.rank
        if rank is None:
            own = shaping.rank(a)
            swapped = [own - 1, own - 2]
            order: Any = concat([range_of(own - 2), swapped], 0)
        elif rank < 2:
            raise ValueError(
                "Argument `a` should be a (batch) matrix with rank >= 2.  Received `a` = "
                f"{a.name} with shape: {a.shape}"
            )
        else:
            order = [*range(rank - 2), rank - 1, rank - 2]
        turned = shaping.transpose(a, order)
        return _conjugated(turned) if conjugate else turned


def _conjugated(x: Tensor) -> Tensor:
    return conjugate(x)


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The last two axes exchanged, each element its complex conjugate."""
    with name_scope(name, "adjoint", [matrix]):
        return matrix_transpose(convert_to_tensor(matrix, name="matrix"), conjugate=True)
