"""Tensors and matrices from and with diagonals, bands of matrices, and `eye`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import float32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.arrays.constants import ones, zeros, zeros_like
from stepscope.ops.signatures import at_least_rank, merge_dims


class _Band(NamedTuple):
    """The diagonals of a matrix from the lowest to the highest, all in one array.

    More than one are rows as long as the longest, the highest first. Shorter ones stand at the left
    or the right end of their row, as `align` has it: first for those above the main diagonal, then
    for those below.

    >>> band = _Band.of((-1, 1), b"RIGHT_LEFT")
    >>> band.shape(3, 4), [(d, place) for d, _row, place in band.places(3, 4)]
    ((3, 3), [(1, slice(0, 3, None)), (0, slice(0, 3, None)), (-1, slice(0, 2, None))])
    """

    lowest: int
    highest: int
    align: bytes

    @classmethod
    def of(cls, k: Any, align: bytes) -> _Band:
        """The band that `k` names: one diagonal, or the lowest and the highest."""
        flat = [int(n) for n in np.reshape(k, -1)]
        if len(flat) not in (1, 2):
            raise ValueError(f"k must be one diagonal or two, not {flat}")
        if flat[0] > flat[-1]:
            raise ValueError(
                f"lower_diag_index is greater than upper_diag_index: {flat[0]} > {flat[-1]}"
            )
        return cls(flat[0], flat[-1], align)

    @property
    def rows(self) -> int:
        return self.highest - self.lowest + 1

    def check(self, rows: int, cols: int) -> None:
        """ValueError if a matrix of that size has no such diagonals."""
        for what, index in (("lower", self.lowest), ("upper", self.highest)):
            if index and not -rows < index < cols:
                raise ValueError(
                    f"{what}_diag_index is out of bound: {index} in a matrix of {rows} x {cols}"
                )

    def shape(self, rows: int, cols: int) -> tuple[int, ...]:
        """The last axes of the array."""
        longest = min(rows + min(self.highest, 0), cols - max(self.lowest, 0))
        return (longest,) if self.rows == 1 else (self.rows, longest)

    def places(self, rows: int, cols: int) -> Iterator[tuple[int, int, slice]]:
        """Each diagonal, the row of the array it is in, and where in that."""
        longest = self.shape(rows, cols)[-1]
        above, below = (side == b"LEFT" for side in self.align.split(b"_"))
        for row, d in enumerate(range(self.highest, self.lowest - 1, -1)):
            length = min(rows + min(d, 0), cols - max(d, 0))
            left = (d >= 0 and above) or (d <= 0 and below)
            start = 0 if left else longest - length
            yield d, row, slice(start, start + length)

    def matrix(self, diagonals: Sequence[int | None], rows: int, cols: int) -> tuple[int, int]:
        """The matrix that an array of these axes goes into; -1 is the least that holds it."""
        if self.rows > 1 and diagonals[-2] != self.rows:
            raise ValueError(
                "The number of rows of `diagonal` doesn't match the number of diagonals implied "
                f"from `d_lower` and `d_upper`: {diagonals[-2]} and {self.rows}"
            )
        longest = int(diagonals[-1] or 0)
        least = longest - min(self.highest, 0), longest + max(self.lowest, 0)
        if rows == cols == -1:
            return max(least), max(least)
        size = least[0] if rows == -1 else rows, least[1] if cols == -1 else cols
        for what, found, wanted in zip(("rows", "cols"), size, least, strict=True):
            if found < wanted:
                raise ValueError(f"num_{what} is too small: {found}, and at least {wanted} needed")
        if size[0] != least[0] and size[1] != least[1]:
            raise ValueError(
                "The number of rows or columns is not consistent with the specified d_lower, "
                f"d_upper, and diagonal: {size[0]} x {size[1]}, at least {least[0]} x {least[1]}"
            )
        return size

    def fill(self, matrix: Any, diagonals: Any) -> None:
        """Write the diagonals into the matrix."""
        rows, cols = matrix.shape[-2:]
        for d, row, place in self.places(rows, cols):
            part = diagonals[..., place] if self.rows == 1 else diagonals[..., row, place]
            at = np.arange(place.stop - place.start)
            matrix[..., at + max(-d, 0), at + max(d, 0)] = part


@contextmanager
def _as_invalid_argument() -> Iterator[None]:
    """What is wrong in a graph is a ValueError, what is found out in a run has an error code."""
    try:
        yield
    except ValueError as error:
        raise InvalidArgumentError.without_op(str(error)) from None


def _diag_shape(c: ShapeContext) -> TensorShape:
    axes = c.input(0).axes
    k, rows, cols = (c.constant(i) for i in (1, 2, 3))
    if axes is None or k is None:
        return UNKNOWN
    if not axes:
        raise ValueError("A diagonal has at least one axis, not shape []")
    band = _Band.of(k, c.attr("align"))
    batch = TensorShape(axes[: -1 if band.rows == 1 else -2])
    if rows is None or cols is None or axes[-1] is None:
        return batch.concatenate(unknown_shape(2))
    return batch.concatenate(TensorShape(band.matrix(axes, int(rows), int(cols))))


def _diag_kernel(node: KernelNode) -> Kernel:
    align = node.attr("align")

    def call(diagonal: Any, k: Any, rows: Any, cols: Any, padding: Any) -> Any:
        with _as_invalid_argument():
            band = _Band.of(k, align)
            size = band.matrix(diagonal.shape, int(rows), int(cols))
        batch = diagonal.shape[: -1 if band.rows == 1 else -2]
        result = np.full((*batch, *size), padding, dtype=diagonal.dtype)
        band.fill(result, diagonal)
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
    """Matrices with `diagonal` on the k-th diagonal and `padding_value` elsewhere.

    With `k` of two numbers the rows of `diagonal` are all diagonals from the second to the first.

    >>> import stepscope.tf1 as tf
    >>> tf.Session().run(tf.matrix_diag([[0, 8, 9], [1, 2, 3]], k=(0, 1))).tolist()
    [[1, 8, 0], [0, 2, 9], [0, 0, 3]]
    """
    return apply_op(
        "MatrixDiagV3", diagonal, k, num_rows, num_cols, padding_value, align=align, name=name
    ).values()[0]


def _set_diag_kernel(node: KernelNode) -> Kernel:
    align = node.attr("align")

    def call(matrix: Any, diagonal: Any, k: Any) -> Any:
        with _as_invalid_argument():
            band = _Band.of(k, align)
            band.check(*matrix.shape[-2:])
            wanted = matrix.shape[:-2] + band.shape(*matrix.shape[-2:])
            if diagonal.shape != wanted:
                raise ValueError(
                    f"The diagonals must have shape {list(wanted)}, not {list(diagonal.shape)}"
                )
        result = matrix.copy()
        band.fill(result, diagonal)
        return result

    return Kernel(call)


def _set_diag_shape(c: ShapeContext) -> TensorShape:
    matrix, k = at_least_rank(c.input(0), 2), c.constant(2)
    if k is not None:
        band = _Band.of(k, c.attr("align"))
        if matrix.axes is not None and None not in (size := matrix.axes[-2:]):
            band.check(*(n or 0 for n in size))
    return matrix


register(
    "MatrixSetDiagV3",
    inputs=["input: T", "diagonal: T", "k: int32"],
    outputs=["output: T"],
    attrs=["T: type", "align: string = 'RIGHT_LEFT'"],
    shape=_set_diag_shape,
    kernel=_set_diag_kernel,
)


def matrix_set_diag(
    input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The matrices with their k-th diagonal, or those of a band, replaced.

    >>> import stepscope.tf1 as tf
    >>> tf.Session().run(tf.matrix_set_diag([[1, 1], [1, 1]], [5], k=1)).tolist()
    [[1, 5], [1, 1]]
    """
    return apply_op("MatrixSetDiagV3", input, diagonal, k, align=align, name=name).values()[0]


def _diag_part_shape(c: ShapeContext) -> TensorShape:
    axes, k = c.input(0).axes, c.constant(1)
    if axes is None:
        return UNKNOWN
    if len(axes) < 2:
        raise ValueError(f"Shape must be at least rank 2 but is {c.input(0).brief()}")
    if k is None:
        return UNKNOWN
    band = _Band.of(k, c.attr("align"))
    rows, cols = axes[-2:]
    if rows is None or cols is None:
        found: tuple[int | None, ...] = (None,) if band.rows == 1 else (band.rows, None)
    else:
        band.check(rows, cols)
        found = band.shape(rows, cols)
    return TensorShape((*axes[:-2], *found))


def _diag_part_kernel(node: KernelNode) -> Kernel:
    align = node.attr("align")

    def call(matrix: Any, k: Any, padding: Any) -> Any:
        rows, cols = matrix.shape[-2:]
        with _as_invalid_argument():
            band = _Band.of(k, align)
            band.check(rows, cols)
        if band.rows == 1:
            return np.array(np.diagonal(matrix, band.lowest, -2, -1))
        result = np.full(matrix.shape[:-2] + band.shape(rows, cols), padding, matrix.dtype)
        for d, row, place in band.places(rows, cols):
            result[..., row, place] = np.diagonal(matrix, d, -2, -1)
        return result

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
    """The k-th diagonal of each matrix; with `k` of two numbers, the diagonals between them.

    >>> import stepscope.tf1 as tf
    >>> tf.Session().run(tf.matrix_diag_part([[1, 2, 3], [4, 5, 6]], k=(0, 1))).tolist()
    [[2, 6], [1, 5]]
    """
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
    align, size = op.get_attr("align"), matrix.shape[-2:]
    if size.is_fully_defined():
        rows, cols = size.as_list()
        return [matrix_diag(grad, k=k, num_rows=rows, num_cols=cols, align=align), None, None]
    return [matrix_set_diag(zeros_like(matrix), grad, k=k, align=align), None, None]


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
