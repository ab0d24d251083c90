"""Matrices as products: Cholesky, QR, eigenvectors, singular values, with their gradients.

The signs of columns are LAPACK's, which need not be TensorFlow's (Eigen's): the product is the
same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.constants import ones_like, zeros_like
from stepscope.ops.arrays.diagonals import (
    matrix_band_part,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
)
from stepscope.ops.arrays.joining import concat
from stepscope.ops.linalg.matrices import (
    TYPES,
    adjoint,
    checked_square,
    matrix_transpose,
    solvable,
    square_matrices,
    square_shape,
)
from stepscope.ops.linalg.solving import matrix_triangular_solve
from stepscope.ops.math.matmul import matmul
from stepscope.ops.math.unary import real, reciprocal, square
from stepscope.ops.signatures import at_least_rank, limited, output_of

__all__ = ["cholesky", "qr", "self_adjoint_eig", "self_adjoint_eigvals", "svd"]


def _safe_reciprocal(x: Tensor) -> Tensor:
    return x * reciprocal(x * x + 1e-20)


def _empty(dtype: Any) -> Any:
    return np.empty(0, dtype)


# -- Cholesky ----------------------------------------------------------------------------------

_NOT_POSITIVE = "Cholesky decomposition was not successful. The input might not be valid."

register(
    "Cholesky",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=limited(square_shape, TYPES),
    kernel=lambda _node: Kernel(
        lambda x: solvable(_NOT_POSITIVE, np.linalg.cholesky, checked_square(x)), threaded=True
    ),
)


@gradient("Cholesky")
def _cholesky_gradient(op: Operation, grad: Tensor) -> Tensor:
    lower = op.outputs[0]
    unit = matrix_diag(ones_like(matrix_diag_part(lower)))
    inverse = matrix_triangular_solve(lower, unit)
    middle = matmul(lower, grad, adjoint_a=True)
    middle = matrix_set_diag(middle, 0.5 * matrix_diag_part(middle))
    middle = matrix_band_part(middle, -1, 0)
    whole = matmul(matmul(inverse, middle, adjoint_a=True), inverse)
    return (whole + adjoint(whole)) * 0.5


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """The lower triangle of which each positive definite matrix is the square.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.cholesky([[4.0, 2.0], [2.0, 10.0]])).tolist()
    [[2.0, 0.0], [1.0, 3.0]]
    """
    return output_of("Cholesky", input, name=name)


# -- QR ----------------------------------------------------------------------------------------


def _sides(c: ShapeContext) -> tuple[TensorShape, int | None, int | None, int | None] | None:
    """The batch, rows, columns, and the smaller of these."""
    shape = at_least_rank(c.input(0), 2)
    if shape.axes is None:
        return None
    rows, columns = shape.axes[-2:]
    least = None if rows is None or columns is None else min(rows, columns)
    return shape[:-2], rows, columns, least


def _qr_shape(c: ShapeContext) -> list[TensorShape]:
    sides = _sides(c)
    if sides is None:
        return [TensorShape(None)] * 2
    outer, rows, columns, least = sides
    inner = rows if c.attr("full_matrices") else least
    return [outer.concatenate([rows, inner]), outer.concatenate([inner, columns])]


def _qr_kernel(node: KernelNode) -> Kernel:
    mode: Any = "complete" if node.attr("full_matrices") else "reduced"

    def call(matrix: Any) -> Any:
        q, r = np.linalg.qr(np.asarray(matrix), mode)
        return q, r

    return Kernel(call, threaded=True)


register(
    "Qr",
    inputs=["input: T"],
    outputs=["q: T", "r: T"],
    attrs=["full_matrices: bool = false", "T: type"],
    shape=limited(_qr_shape, TYPES),
    kernel=_qr_kernel,
)


@gradient("Qr")
def _qr_gradient(op: Operation, for_q: Tensor, for_r: Tensor) -> Tensor:
    q, r = op.outputs
    sides = q.shape.axes, r.shape.axes
    if sides[0] is None or sides[1] is None or None in (*sides[0][-2:], *sides[1][-2:]):
        raise NotImplementedError(
            f"QrGrad not implemented with dynamic shapes. Received r.shape: {r.shape}"
        )
    rows, inner, columns = *sides[0][-2:], sides[1][-1]
    assert rows is not None
    assert inner is not None
    assert columns is not None
    if inner > columns and rows == inner:
        raise NotImplementedError(
            "QrGrad not implemented when nrows > ncols and full_matrices is true. Received "
            f"r.shape={r.shape} with nrows={inner}and ncols={columns}."
        )
    if q.dtype.is_complex:
        raise NotImplementedError("The gradient of QR of complex matrices is not there.")
    if rows >= columns:
        return _deep_gradient(q, r, for_q, for_r)
    rest, for_rest = op.inputs[0][..., rows:], for_r[..., rows:]
    for_first = for_q + matmul(rest, for_rest, adjoint_b=True)
    first = _deep_gradient(q, r[..., :rows], for_first, for_r[..., :rows])
    return concat([first, matmul(q, for_rest)], -1)


def _deep_gradient(q: Tensor, r: Tensor, for_q: Tensor, for_r: Tensor) -> Tensor:
    def solved(x: Tensor) -> Tensor:
        return adjoint(matrix_triangular_solve(r, adjoint(x), lower=False))

    of_q, of_r = matmul(q, for_q, adjoint_a=True), matmul(r, for_r, adjoint_b=True)
    triangle = matrix_band_part(of_q - adjoint(of_q) + of_r - adjoint(of_r), -1, 0)
    first = matmul(q, for_r + solved(triangle))
    return first + solved(for_q - matmul(q, of_q))


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Each matrix as an orthogonal one times an upper triangle."""
    q, r = apply_op("Qr", input, full_matrices=full_matrices, name=name).values()
    return q, r


# -- eigenvectors ------------------------------------------------------------------------------


def _eigen_shape(c: ShapeContext) -> list[TensorShape]:
    matrix = square_matrices(c.input(0))
    return [matrix[:-1], matrix if c.attr("compute_v") else TensorShape([0])]


def _eigen_kernel(node: KernelNode) -> Kernel:
    vectors, dtype = node.attr("compute_v"), node.output_dtypes[0].numpy
    failed = "Self-adjoint eigen decomposition was not successful. The input might not be valid."

    def call(matrix: Any) -> Any:
        array = checked_square(matrix)
        if not vectors:
            return solvable(failed, np.linalg.eigvalsh, array).astype(dtype), _empty(dtype)
        values, found = solvable(failed, np.linalg.eigh, array)
        return values.astype(dtype), found

    return Kernel(call, threaded=True)


register(
    "SelfAdjointEigV2",
    inputs=["input: T"],
    outputs=["e: T", "v: T"],
    attrs=["compute_v: bool = true", "T: type"],
    shape=limited(_eigen_shape, TYPES),
    kernel=_eigen_kernel,
)


@gradient("SelfAdjointEigV2")
def _eigen_gradient(op: Operation, for_values: Tensor, for_vectors: Tensor) -> Tensor:
    middle, values = matrix_diag(for_values), op.outputs[0]
    if op.get_attr("compute_v"):
        vectors = op.outputs[1]
        apart = shaping.expand_dims(values, -2) - shaping.expand_dims(values, -1)
        factor = matrix_set_diag(_safe_reciprocal(apart), zeros_like(values))
        middle = middle + factor * matmul(vectors, for_vectors, adjoint_a=True)
    else:
        vectors = self_adjoint_eig(op.inputs[0])[1]
    whole = matmul(vectors, matmul(middle, vectors, adjoint_b=True))
    lower = matrix_band_part(whole + adjoint(whole), -1, 0)
    return matrix_set_diag(lower, 0.5 * matrix_diag_part(lower))


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The eigenvalues of each symmetric matrix, the least first, and its eigenvectors (columns)."""
    values, vectors = apply_op("SelfAdjointEigV2", tensor, compute_v=True, name=name).values()
    return values, vectors


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """The eigenvalues of each symmetric matrix, the least first."""
    return output_of("SelfAdjointEigV2", tensor, compute_v=False, name=name)


# -- singular values ---------------------------------------------------------------------------


def _svd_shape(c: ShapeContext) -> list[TensorShape]:
    sides, nothing = _sides(c), TensorShape([0])
    vectors = c.attr("compute_uv")
    if sides is None:
        return [TensorShape(None)] * 3 if vectors else [TensorShape(None), nothing, nothing]
    outer, rows, columns, least = sides
    values = outer.concatenate([least])
    if not vectors:
        return [values, nothing, nothing]
    full = c.attr("full_matrices")
    left = outer.concatenate([rows, rows if full else least])
    return [values, left, outer.concatenate([columns, columns if full else least])]


def _svd_kernel(node: KernelNode) -> Kernel:
    vectors, full = node.attr("compute_uv"), node.attr("full_matrices")
    dtype = node.output_dtypes[0].numpy

    def call(matrix: Any) -> Any:
        array = np.asarray(matrix)
        if array.ndim < 2:
            raise InvalidArgumentError.without_op("Input must be at least rank 2.")
        if not vectors:
            values = np.linalg.svd(array, compute_uv=False)
            return values.astype(dtype), _empty(dtype), _empty(dtype)
        left, values, right = np.linalg.svd(array, full_matrices=full)
        turned = np.ascontiguousarray(np.conj(np.swapaxes(right, -1, -2)))
        return values.astype(dtype), left, turned

    return Kernel(call, threaded=True)


register(
    "Svd",
    inputs=["input: T"],
    outputs=["s: T", "u: T", "v: T"],
    attrs=["compute_uv: bool = true", "full_matrices: bool = false", "T: type"],
    shape=limited(_svd_shape, TYPES),
    kernel=_svd_kernel,
)


@gradient("Svd")
def _svd_gradient(op: Operation, for_s: Tensor, for_u: Tensor, for_v: Tensor) -> Tensor:
    a = op.inputs[0]
    if not op.get_attr("compute_uv"):
        _, u, v = apply_op("Svd", a, compute_uv=True).values()
        return matmul(u, matmul(matrix_diag(for_s), v, adjoint_b=True))
    rows, columns = a.shape.with_rank(a.shape.rank or 2).axes[-2:]  # type: ignore[index]
    if rows is None or columns is None:
        raise NotImplementedError(
            "SVD gradient has not been implemented for input with unknown inner matrix shape."
        )
    if a.dtype.is_complex:
        raise NotImplementedError("The gradient of singular vectors of complex matrices.")
    if op.get_attr("full_matrices") and abs(rows - columns) > 1:
        raise NotImplementedError(
            "svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True. "
            f"Received: m={rows} and n={columns} from op input={a} with shape={a.shape}."
        )
    s, u, v = op.outputs
    if rows > columns:
        return matrix_transpose(
            _wide_gradient(s, v, u, for_s, for_v, for_u, columns, op.get_attr("full_matrices"))
        )
    return _wide_gradient(s, u, v, for_s, for_u, for_v, rows, op.get_attr("full_matrices"))


def _wide_gradient(
    s: Tensor, u: Tensor, v: Tensor, for_s: Tensor, for_u: Tensor, for_v: Tensor, rows: int,
    full: bool,
) -> Tensor:  # fmt: skip
    """That of a matrix with at least as many columns as rows."""
    diagonal, squares = matrix_diag(s), square(s)
    apart = shaping.expand_dims(squares, -2) - shaping.expand_dims(squares, -1)
    factor = matrix_set_diag(_safe_reciprocal(apart), zeros_like(s))
    first, for_first = v[..., :rows], for_v[..., :rows]
    of_u = factor * matmul(u, for_u, adjoint_a=True)
    of_v = factor * matmul(first, for_first, adjoint_a=True)
    middle = (
        matrix_diag(for_s)
        + matmul(of_u + adjoint(of_u), diagonal)
        + matmul(diagonal, of_v + adjoint(of_v))
    )
    result = matmul(u, matmul(middle, first, adjoint_b=True))
    columns = v.shape.axes[-2] if v.shape.axes is not None else None
    if columns == rows:
        return result
    turned = adjoint(for_first)
    rest = turned - matmul(matmul(turned, first), first, adjoint_b=True)
    if full:
        others, for_others = v[..., rows:], for_v[..., rows:]
        across = matmul(first, for_others, adjoint_a=True)
        rest = rest - matmul(across, others, adjoint_b=True)
    return result + matmul(matmul(u, matrix_diag(_safe_reciprocal(s))), rest)


def svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """The singular values of each matrix, the largest first, and with `compute_uv` the vectors.

    `(s, u, v)` where the matrix is `u diag(s) v'`; the values alone without `compute_uv`.
    """
    op = apply_op("Svd", tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    s, u, v = op.values()
    values = real(s)
    return (values, u, v) if compute_uv else values
