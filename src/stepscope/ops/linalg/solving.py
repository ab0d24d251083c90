"""Inverses, determinants, and systems of linear equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape, broadcast
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.diagonals import matrix_band_part
from stepscope.ops.arrays.joining import concat
from stepscope.ops.linalg.matrices import (
    TYPES,
    checked_square,
    solvable,
    square_matrices,
    square_shape,
)
from stepscope.ops.math.broadcasting import summed_to
from stepscope.ops.math.matmul import matmul
from stepscope.ops.math.unary import negative
from stepscope.ops.signatures import at_least_rank, limited, merge_dims, output_of

__all__ = [
    "matrix_determinant", "matrix_inverse", "matrix_solve", "matrix_triangular_solve", "slogdet",
]  # fmt: skip

_SINGULAR = "Input matrix is not invertible."


def _turned(matrix: Array, adjoint: bool) -> Array:
    return np.conj(np.swapaxes(matrix, -1, -2)) if adjoint else matrix


# -- inverses and determinants -----------------------------------------------------------------


def _inverse_kernel(node: KernelNode) -> Kernel:
    adjoint = node.attr("adjoint")

    def call(matrix: Any) -> Any:
        found = solvable("Input is not invertible.", np.linalg.inv, checked_square(matrix))
        return np.ascontiguousarray(_turned(found, adjoint))

    return Kernel(call, threaded=True)


register(
    "MatrixInverse",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: type"],
    shape=limited(square_shape, TYPES),
    kernel=_inverse_kernel,
)


@gradient("MatrixInverse")
def _inverse_gradient(op: Operation, grad: Tensor) -> Tensor:
    inverse, adjoint = op.outputs[0], op.get_attr("adjoint")
    inner = matmul(grad, inverse, adjoint_a=adjoint, adjoint_b=not adjoint)
    return negative(matmul(inverse, inner, adjoint_a=not adjoint))


def _outer_shape(c: ShapeContext) -> TensorShape:
    return square_matrices(c.input(0))[:-2]


register(
    "MatrixDeterminant",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=limited(_outer_shape, TYPES),
    kernel=lambda _node: Kernel(lambda x: np.linalg.det(checked_square(x)), threaded=True),
)


def _log_determinant_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy

    def call(matrix: Any) -> Any:
        sign, logarithm = np.linalg.slogdet(checked_square(matrix))
        return np.asarray(sign, dtype)[()], np.asarray(logarithm, dtype)[()]

    return Kernel(call, threaded=True)


register(
    "LogMatrixDeterminant",
    inputs=["input: T"],
    outputs=["sign: T", "log_abs_determinant: T"],
    attrs=["T: type"],
    shape=limited(lambda c: [_outer_shape(c)] * 2, TYPES),
    kernel=_log_determinant_kernel,
)


def _of_each(factor: Tensor, matrix: Tensor) -> Tensor:
    """The inverse adjoint matrices, each times its factor."""
    shape = concat([shaping.shape(factor), [1, 1]], 0)
    inverse = output_of("MatrixInverse", matrix, adjoint=True)
    return shaping.reshape(factor, shape) * inverse


@gradient("MatrixDeterminant")
def _determinant_gradient(op: Operation, grad: Tensor) -> Tensor:
    return _of_each(grad * op.outputs[0], op.inputs[0])


@gradient("LogMatrixDeterminant")
def _log_determinant_gradient(op: Operation, _sign: Tensor, grad: Tensor) -> Tensor:
    return _of_each(grad, op.inputs[0])


def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of each matrix (of its adjoint); InvalidArgumentError where there is none."""
    return output_of("MatrixInverse", input, adjoint=adjoint, name=name)


def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """The determinant of each matrix."""
    return output_of("MatrixDeterminant", input, name=name)


def slogdet(input: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The sign of each determinant and the logarithm of its absolute value."""
    sign, logarithm = apply_op("LogMatrixDeterminant", input, name=name).values()
    return sign, logarithm


# -- equations ---------------------------------------------------------------------------------


def _solve_shape(c: ShapeContext) -> TensorShape:
    matrix, right = square_matrices(c.input(0)), at_least_rank(c.input(1), 2)
    if matrix.axes is None or right.axes is None:
        return right
    outer = matrix[:-2].merge_with(right[:-2])
    size = merge_dims(matrix.axes[-1], right.axes[-2])
    return outer.concatenate([size, right.axes[-1]])


def _solve_kernel(node: KernelNode) -> Kernel:
    adjoint = node.attr("adjoint")

    def call(matrix: Any, right: Any) -> Any:
        return solvable(_SINGULAR, np.linalg.solve, _turned(checked_square(matrix), adjoint), right)

    return Kernel(call, threaded=True)


register(
    "MatrixSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: type"],
    shape=limited(_solve_shape, TYPES),
    kernel=_solve_kernel,
)


def _for_matrix(solution: Tensor, for_right: Tensor, adjoint: bool) -> Tensor:
    pair = (solution, for_right) if adjoint else (for_right, solution)
    return negative(matmul(*pair, adjoint_b=True))


@gradient("MatrixSolve")
def _solve_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    adjoint = op.get_attr("adjoint")
    for_right = matrix_solve(op.inputs[0], grad, adjoint=not adjoint)
    return [_for_matrix(op.outputs[0], for_right, adjoint), for_right]


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The x of `matrix x = rhs` (of the adjoint matrix).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.matrix_solve([[2.0, 0.0], [1.0, 1.0]], [[4.0], [5.0]])).tolist()
    [[2.0], [3.0]]
    """
    return output_of("MatrixSolve", matrix, rhs, adjoint=adjoint, name=name)


def _triangular_shape(c: ShapeContext) -> TensorShape:
    matrix, right = square_matrices(c.input(0)), at_least_rank(c.input(1), 2)
    if matrix.axes is None or right.axes is None:
        return TensorShape(None)
    outer = broadcast(matrix[:-2], right[:-2])
    size = merge_dims(matrix.axes[-1], right.axes[-2])
    return outer.concatenate([size, right.axes[-1]])


def _triangular_kernel(node: KernelNode) -> Kernel:
    lower, adjoint = node.attr("lower"), node.attr("adjoint")

    def call(matrix: Any, right: Any) -> Any:
        triangle = np.tril(checked_square(matrix)) if lower else np.triu(checked_square(matrix))
        return solvable(_SINGULAR, np.linalg.solve, _turned(triangle, adjoint), right)

    return Kernel(call, threaded=True)


register(
    "MatrixTriangularSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["lower: bool = true", "adjoint: bool = false", "T: type"],
    shape=limited(_triangular_shape, TYPES),
    kernel=_triangular_kernel,
)


@gradient("MatrixTriangularSolve")
def _triangular_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    matrix, right = op.inputs
    adjoint, lower = op.get_attr("adjoint"), op.get_attr("lower")
    for_right = output_of("MatrixTriangularSolve", matrix, grad, lower=lower, adjoint=not adjoint)
    whole = _for_matrix(op.outputs[0], for_right, adjoint)
    for_matrix = matrix_band_part(whole, *((-1, 0) if lower else (0, -1)))
    outer = matrix.shape.known, right.shape.known
    if outer[0] is not None and outer[1] is not None and outer[0][:-2] == outer[1][:-2]:
        return [for_matrix, for_right]
    # Batches were repeated: the matrices' own last two axes were not.
    return [summed_to(for_matrix, matrix, for_matrix), summed_to(for_right, right, for_right)]


def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """The x of `matrix x = rhs`, where of the matrix one triangle alone is looked at."""
    with name_scope(name, "triangular_solve", [matrix, rhs]):
        matrix = convert_to_tensor(matrix) if isinstance(matrix, Tensor) else matrix
        return output_of("MatrixTriangularSolve", matrix, rhs, lower=lower, adjoint=adjoint)
