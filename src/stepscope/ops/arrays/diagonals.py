"""Tensors and matrices from and with diagonals, bands of matrices, and `eye`."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import float32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.arrays.constants import ones, zeros, zeros_like
from stepscope.ops.signatures import at_least_rank, merge_dims


def _offset(k: Any) -> int:
    flat = np.reshape(k, -1)
    if len(flat) > 1 and flat[0] != flat[1]:
        raise UnimplementedError.without_op(
            f"Bands of diagonals (k={flat.tolist()}); use one diagonal at a time."
        )
    return int(flat[0])


def _set_diagonal(matrix: Any, diagonal: Any, offset: int) -> None:
    count = diagonal.shape[-1]
    at = np.arange(count)
    matrix[..., at + max(-offset, 0), at + max(offset, 0)] = diagonal


def _diag_size(offset: int, length: int, rows: int, cols: int) -> tuple[int, int]:
    """The matrix a diagonal goes into; what is given as -1 is the least that holds it."""
    least_rows, least_cols = length + max(-offset, 0), length + max(offset, 0)
    if rows == -1 and cols == -1:
        return max(least_rows, least_cols), max(least_rows, least_cols)
    rows, cols = (least_rows if rows == -1 else rows), (least_cols if cols == -1 else cols)
    if rows < least_rows or cols < least_cols:
        raise ValueError(f"A diagonal of {length} elements does not fit {rows} x {cols}")
    return rows, cols


def _diag_shape(c: ShapeContext) -> TensorShape:
    axes = c.input(0).axes
    k, rows, cols = (c.constant(i) for i in (1, 2, 3))
    if axes is None:
        return UNKNOWN
    if not axes:
        raise ValueError("A diagonal has at least one axis, not shape []")
    if k is None or rows is None or cols is None or axes[-1] is None:
        return TensorShape(axes[:-1]).concatenate(unknown_shape(2))
    size = _diag_size(_offset(k), axes[-1], int(rows), int(cols))
    return TensorShape((*axes[:-1], *size))


def _diag_kernel(_node: KernelNode) -> Kernel:
    def call(diagonal: Any, k: Any, rows: Any, cols: Any, padding: Any) -> Any:
        offset = _offset(k)
        size = _diag_size(offset, diagonal.shape[-1], int(rows), int(cols))
        result = np.full((*diagonal.shape[:-1], *size), padding, dtype=diagonal.dtype)
        _set_diagonal(result, diagonal, offset)
        return result

    return Kernel(call)


register(
    "MatrixDiagV3",
    inputs=["diagonal: T", "k: int32", "num_rows: int32", "num_cols: int32", "padding_value: T"],
    outputs=["output: T"],
    attrs=["T: type", "align: string = 'RIGHT_LEFT'"],
    shape=_diag_shape,
    kernel=_diag_kernel,
)


def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with `diagonal` on the k-th diagonal and `padding_value` elsewhere."""
    return apply_op(
        "MatrixDiagV3", diagonal, k, num_rows, num_cols, padding_value, align=align, name=name
    ).values()[0]


def _set_diag_kernel(_node: KernelNode) -> Kernel:
    def call(matrix: Any, diagonal: Any, k: Any) -> Any:
        result = matrix.copy()
        _set_diagonal(result, diagonal, _offset(k))
        return result

    return Kernel(call)


register(
    "MatrixSetDiagV3",
    inputs=["input: T", "diagonal: T", "k: int32"],
    outputs=["output: T"],
    attrs=["T: type", "align: string = 'RIGHT_LEFT'"],
    shape=lambda c: c.input(0),
    kernel=_set_diag_kernel,
)


def matrix_set_diag(
    input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The matrices with their k-th diagonal replaced."""
    return apply_op("MatrixSetDiagV3", input, diagonal, k, align=align, name=name).values()[0]


def _diag_part_shape(c: ShapeContext) -> TensorShape:
    axes, k = c.input(0).axes, c.constant(1)
    if axes is None:
        return UNKNOWN
    if len(axes) < 2:
        raise ValueError(f"Shape must be at least rank 2 but is {c.input(0).brief()}")
    rows, cols = axes[-2:]
    length = None if k is None or rows is None or cols is None else _length(_offset(k), rows, cols)
    return TensorShape((*axes[:-2], length))


def _length(offset: int, rows: int, cols: int) -> int:
    return min(rows + min(offset, 0), cols - max(offset, 0))


def _diag_part_kernel(_node: KernelNode) -> Kernel:
    def call(matrix: Any, k: Any, _padding: Any) -> Any:
        return np.array(np.diagonal(matrix, _offset(k), -2, -1))

    return Kernel(call)


register(
    "MatrixDiagPartV3",
    inputs=["input: T", "k: int32", "padding_value: T"],
    outputs=["diagonal: T"],
    attrs=["T: type", "align: string = 'RIGHT_LEFT'"],
    shape=_diag_part_shape,
    kernel=_diag_part_kernel,
)


def matrix_diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:  # fmt: skip
    """The k-th diagonal of each matrix."""
    return apply_op("MatrixDiagPartV3", input, k, padding_value, align=align, name=name).values()[0]


# -- gradients ---------------------------------------------------------------------------------


@gradient("MatrixDiagV3")
def _diag_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    part = matrix_diag_part(grad, k=op.inputs[1], align=op.get_attr("align"))
    return [part, None, None, None, None]


@gradient("MatrixSetDiagV3")
def _set_diag_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    _matrix, diagonal, k = op.inputs
    align = op.get_attr("align")
    part = matrix_diag_part(grad, k=k, align=align)
    return [matrix_set_diag(grad, zeros_like(diagonal), k=k, align=align), part, None]


@gradient("MatrixDiagPartV3")
def _diag_part_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    matrix, k, _padding = op.inputs
    into = zeros_like(matrix)
    return [matrix_set_diag(into, grad, k=k, align=op.get_attr("align")), None, None]


# -- tensors whose axes come twice -------------------------------------------------------------


def _tensor_diag_shape(c: ShapeContext) -> TensorShape:
    shape = at_least_rank(c.input(0), 1)
    return shape.concatenate(shape)


def _tensor_diag_kernel(_node: KernelNode) -> Kernel:
    def call(diagonal: Any) -> Any:
        result = np.zeros((diagonal.size, diagonal.size), diagonal.dtype)
        np.fill_diagonal(result, diagonal)
        return result.reshape(diagonal.shape * 2)

    return Kernel(call)


register(
    "Diag",
    inputs=["diagonal: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=_tensor_diag_shape,
    kernel=_tensor_diag_kernel,
)


@gradient("Diag")
def _tensor_diag_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return diag_part(grad)


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """The tensor of twice the rank with `diagonal` where both halves of an index are the same.

    >>> import stepscope.tf1 as tf
    >>> tf.Session().run(tf.diag([3, 4])).tolist()
    [[3, 0], [0, 4]]
    """
    return apply_op("Diag", diagonal, name=name).values()[0]


def _tensor_diag_part_shape(c: ShapeContext) -> TensorShape:
    axes = c.input(0).axes
    if axes is None:
        return UNKNOWN
    if not axes or len(axes) % 2:
        raise ValueError(f"Input must have even and non-zero rank, input rank is {len(axes)}")
    half = len(axes) // 2
    return TensorShape([merge_dims(a, b) for a, b in zip(axes[:half], axes[half:], strict=True)])


def _tensor_diag_part_kernel(_node: KernelNode) -> Kernel:
    def call(x: Any) -> Any:
        half = x.ndim // 2
        axes = x.shape[:half]
        if not x.ndim or axes != x.shape[half:]:
            raise InvalidArgumentError.without_op(
                f"The second half of the axes must be as the first, found shape {list(x.shape)}"
            )
        count = int(np.prod(axes))
        return np.array(np.diagonal(x.reshape(count, count))).reshape(axes)

    return Kernel(call)


register(
    "DiagPart",
    inputs=["input: T"],
    outputs=["diagonal: T"],
    attrs=["T: type"],
    shape=_tensor_diag_part_shape,
    kernel=_tensor_diag_part_kernel,
)


@gradient("DiagPart")
def _tensor_diag_part_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return diag(grad)


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """The elements at which both halves of an index are the same: what `diag` was made of.

    >>> import stepscope.tf1 as tf
    >>> tf.Session().run(tf.diag_part([[3, 1], [2, 4]])).tolist()
    [3, 4]
    """
    return apply_op("DiagPart", input, name=name).values()[0]


# -- bands -------------------------------------------------------------------------------------


def _band_kernel(_node: KernelNode) -> Kernel:
    def call(matrix: Any, below: Any, above: Any) -> Any:
        if np.ndim(matrix) < 2:
            raise InvalidArgumentError.without_op(
                f"The input must have at least two axes, found shape {list(np.shape(matrix))}"
            )
        rows, cols = matrix.shape[-2:]
        for what, given, most in (("num_lower", below, rows), ("num_upper", above, cols)):
            if given > most:
                raise InvalidArgumentError.without_op(
                    f"{what} must be negative or less or equal to {most}, got: {int(given)}"
                )
        offset = np.arange(cols) - np.arange(rows)[:, None]
        inside = np.ones((rows, cols), bool)
        if below >= 0:
            inside &= offset >= -int(below)
        if above >= 0:
            inside &= offset <= int(above)
        return np.where(inside, matrix, np.zeros((), matrix.dtype))

    return Kernel(call)


register(
    "MatrixBandPart",
    inputs=["input: T", "num_lower: Tindex", "num_upper: Tindex"],
    outputs=["band: T"],
    attrs=["T: type", "Tindex: type = int64"],
    shape=lambda c: c.input(0),
    kernel=_band_kernel,
)


@gradient("MatrixBandPart")
def _band_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [matrix_band_part(grad, op.inputs[1], op.inputs[2]), None, None]


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """The matrices with zeros but on so many diagonals below and above the main one; -1 keeps all.

    >>> import stepscope.tf1 as tf
    >>> tf.Session().run(tf.matrix_band_part([[1, 2], [3, 4]], -1, 0)).tolist()
    [[1, 0], [3, 4]]
    """
    return apply_op("MatrixBandPart", input, num_lower, num_upper, name=name).values()[0]


def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """The identity matrix, or a batch of them."""
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        batch = [] if batch_shape is None else list(batch_shape)
        if num_columns is None or num_columns is num_rows:
            return matrix_diag(ones([*batch, num_rows], dtype))
        diagonal = ones([*batch, min(num_rows, num_columns)], dtype)
        return matrix_set_diag(zeros([*batch, num_rows, num_columns], dtype), diagonal)
