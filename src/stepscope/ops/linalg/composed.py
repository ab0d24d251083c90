"""What is made of other ops: norms, traces, least squares, equations by Cholesky factors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import complex128
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.diagonals import matrix_diag, matrix_diag_part
from stepscope.ops.linalg.factors import cholesky, svd
from stepscope.ops.math import elementwise, reductions, unary
from stepscope.ops.math.broadcasting import conjugate
from stepscope.ops.math.matmul import matmul
from stepscope.ops.signatures import one_name, output_of

__all__ = ["cholesky_solve", "logdet", "matrix_solve_ls", "norm", "trace"]


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """The x of `matrix x = rhs` by the matrix's Cholesky factor."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        between = output_of("MatrixTriangularSolve", chol, rhs, lower=True, adjoint=False)
        return output_of("MatrixTriangularSolve", chol, between, lower=True, adjoint=True)


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """The least squares x of `matrix x = rhs`, or the shortest of many, by Cholesky factors.

    The sides of the matrix are known when the graph is built; `fast=False` is not there.
    """
    if not fast:
        raise NotImplementedError(
            "matrix_solve_ls(fast=False) is not there on Stepscope's embedded engine: use the "
            "default, or tf.svd; `stepscope run --engine tensorflow` runs it on TensorFlow."
        )
    matrix = convert_to_tensor(matrix, name="matrix")
    if matrix.dtype.base_dtype is complex128 and l2_regularizer != 0:
        raise NotImplementedError("matrix_solve_ls of complex128 with an l2_regularizer.")
    axes = matrix.shape.axes
    if axes is None or None in axes[-2:]:
        raise NotImplementedError(f"matrix_solve_ls of a matrix of unknown sides: {matrix.shape}")
    with name_scope(name, "matrix_solve_ls", [matrix, rhs]):
        rhs = convert_to_tensor(rhs, matrix.dtype.base_dtype, "rhs")
        deep = int(axes[-2] or 0) >= int(axes[-1] or 0)
        squares = matmul(matrix, matrix, adjoint_a=deep, adjoint_b=not deep)
        if l2_regularizer:
            diagonal = matrix_diag_part(squares)
            squares = squares + matrix_diag(_filled_like(diagonal, l2_regularizer))
        factor = cholesky(squares)
        if deep:
            return cholesky_solve(factor, matmul(matrix, rhs, adjoint_a=True))
        return matmul(matrix, cholesky_solve(factor, rhs), adjoint_a=True)


def _filled_like(x: Tensor, value: float) -> Tensor:
    return output_of("Fill", shaping.shape(x), convert_to_tensor(value, x.dtype.base_dtype))


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of each positive definite matrix."""
    with name_scope(name, "logdet", [matrix]):
        diagonal = matrix_diag_part(cholesky(matrix))
        return 2.0 * reductions.reduce_sum(unary.log(unary.real(diagonal)), axis=[-1])


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of each matrix's diagonal."""
    with name_scope(name, "Trace", [x]) as scope:
        found = convert_to_tensor(x, name="x")
        return reductions.reduce_sum(matrix_diag_part(found), [-1], name=scope)


_EUCLIDEAN: Final = ("fro", "euclidean", 2, 2.0)


def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None,
    name: str | None = None, keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm of vectors along an axis, of matrices along two, of all elements without any.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.norm([[3.0, 4.0], [0.0, 5.0]], axis=1)).tolist()
    [5.0, 5.0]
    """
    keep = bool(one_name("keepdims", keepdims, "keep_dims", keep_dims))
    matrices = isinstance(axis, (list, tuple)) and len(axis) == 2
    if matrices and (not all(isinstance(a, int) for a in axis) or axis[0] == axis[1]):
        raise ValueError(
            f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
        )
    if not matrices and not (axis is None or isinstance(axis, int)):
        raise ValueError(
            f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
        )
    known = ord in ("euclidean", 1, 2, np.inf) or (matrices and ord == "fro")
    if not known and (matrices or isinstance(ord, str) or ord <= 0):
        kind = "matrix" if matrices else "vector"
        raise ValueError(f"'ord' must be a supported {kind} norm, got {ord}")
    axes = tuple(axis) if matrices else None if axis is None else (axis,)
    with name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        if matrices and ord == 2:
            return _spectral(x, tuple(axis), keep)
        result = _of_elements(x, ord, axes, matrices)
        return result if keep else shaping.squeeze(result, axes)


def _of_elements(x: Tensor, ord: Any, axes: Any, matrices: bool) -> Tensor:
    if ord in _EUCLIDEAN:
        return unary.sqrt(reductions.reduce_sum(x * conjugate(x), axes, keepdims=True))
    sizes = unary.abs(x)
    if ord == 1:
        first = None if axes is None else axes[0]
        found = reductions.reduce_sum(sizes, first, keepdims=True)
        return reductions.reduce_max(found, axes[-1], keepdims=True) if matrices else found
    if ord == np.inf:
        if matrices:
            sizes = reductions.reduce_sum(sizes, axes[1], keepdims=True)
        return reductions.reduce_max(sizes, None if axes is None else axes[0], keepdims=True)
    powers = reductions.reduce_sum(elementwise.pow(sizes, ord), axes, keepdims=True)
    return elementwise.pow(powers, 1.0 / ord)


def _spectral(x: Tensor, axes: tuple[int, int], keep: bool) -> Tensor:
    """The largest singular value of the matrices along two axes."""
    rank = x.shape.rank
    if rank is None:
        raise NotImplementedError("The 2-norm of matrices in a tensor of unknown rank.")
    inner = [a % rank for a in axes]
    order = [*(a for a in range(rank) if a not in inner), *inner]
    moved = x if order == list(range(rank)) else shaping.transpose(x, order)
    largest = reductions.reduce_max(svd(moved, compute_uv=False), axis=-1)
    if not keep:
        return largest
    for axis in sorted(inner):
        largest = shaping.expand_dims(largest, axis)
    return largest
