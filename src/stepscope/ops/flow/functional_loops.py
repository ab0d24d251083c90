"""`map_fn`, `scan`, `foldl` and `foldr`: a function applied to the rows of tensors, in a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import as_dtype
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.ops import structures
from stepscope.ops.arrays.shaping import shape as shape_of
from stepscope.ops.flow.loops import while_loop
from stepscope.ops.flow.tensor_array import TensorArray

__all__ = ["foldl", "foldr", "map_fn", "scan"]


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """`fn` of each row of `elems`, along a new first axis.

    `elems` is a tensor or a nested structure of tensors with equally many rows; `fn` gets the same
    structure of rows. What it gives may be of another structure: then `dtype` has that structure.

    Example:
        >>> import stepscope.tf1 as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     squares = tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3]))
        ...     session.run(squares).tolist()
        [1, 4, 9]
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with name_scope(name, "map", structures.leaves(elems)):
        rows = _Rows(elems)
        types = structures.mapped(as_dtype, rows.dtypes() if dtype is None else dtype)
        arrays = [
            TensorArray(kind, rows.count, dynamic_size=False, infer_shape=infer_shape)
            for kind in structures.leaves(types)
        ]

        def step(i: Tensor, made: Sequence[TensorArray]) -> tuple[Any, Any]:
            given = fn(rows.read(i))
            structures.check_same(types, given, "fn must give the structure of dtype")
            written = zip(made, structures.leaves(given), strict=True)
            return i + 1, [array.write(i, value) for array, value in written]

        _, arrays = while_loop(
            lambda i, _: i < rows.count, step, (convert_to_tensor(0), arrays),
            parallel_iterations=parallel_iterations or 10, back_prop=back_prop,
            swap_memory=swap_memory, maximum_iterations=rows.count,
        )  # fmt: skip
        return structures.packed(types, [rows.stacked(array) for array in arrays])


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All that a fold goes through: `a = fn(a, row)` for each row, along a new first axis.

    `a` begins as `initializer`, or else as the first row (the last one with `reverse`).

    Example:
        >>> import stepscope.tf1 as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     sums = tf.scan(lambda a, x: a + x, tf.constant([1, 2, 3]))
        ...     session.run(sums).tolist()
        [1, 3, 6]
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with name_scope(name, "scan", structures.leaves(elems)):
        rows = _Rows(elems)
        last = rows.count - 1
        if initializer is None:
            like: Any = elems
            first = rows.read(last if reverse else 0)
            start = convert_to_tensor(1)
        else:
            like = initializer
            first = structures.mapped(convert_to_tensor, initializer)
            start = convert_to_tensor(0)
        flat = structures.leaves(first)
        arrays = [
            TensorArray(t.dtype, rows.count, infer_shape=infer_shape,
                        element_shape=t.shape if infer_shape else None)
            for t in flat
        ]  # fmt: skip
        if initializer is None:
            at = last if reverse else 0
            arrays = [a.write(at, t) for a, t in zip(arrays, flat, strict=True)]
        if reverse:
            start = last - start

        def step(i: Tensor, so_far: Sequence[Tensor], made: Sequence[TensorArray]) -> Any:
            given = fn(structures.packed(like, list(so_far)), rows.read(i))
            structures.check_same(like, given, "fn must give the structure of its first argument")
            values = [convert_to_tensor(v) for v in structures.leaves(given)]
            written = [a.write(i, v) for a, v in zip(made, values, strict=True)]
            return i - 1 if reverse else i + 1, values, written

        *_, arrays = while_loop(
            lambda i, *_: i >= 0 if reverse else i < rows.count, step, (start, flat, arrays),
            parallel_iterations=parallel_iterations, back_prop=back_prop, swap_memory=swap_memory,
            maximum_iterations=rows.count,
        )  # fmt: skip
        return structures.packed(like, [rows.stacked(array) for array in arrays])


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """`a = fn(a, row)` for each row from the first on; `a` begins as `initializer` or a row."""
    options = {"back_prop": back_prop, "swap_memory": swap_memory,
               "parallel_iterations": parallel_iterations}  # fmt: skip
    return _fold(fn, elems, initializer, name, "foldl", options, reverse=False)


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """`a = fn(a, row)` for each row from the last on; `a` begins as `initializer` or a row."""
    options = {"back_prop": back_prop, "swap_memory": swap_memory,
               "parallel_iterations": parallel_iterations}  # fmt: skip
    return _fold(fn, elems, initializer, name, "foldr", options, reverse=True)


def _fold(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, name: str | None, default: str,
    options: dict[str, Any], *, reverse: bool,
) -> Any:  # fmt: skip
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with name_scope(name, default, structures.leaves(elems)):
        rows = _Rows(elems)
        begin: Any = rows.count - 1 if reverse else convert_to_tensor(0)
        if initializer is None:
            start = rows.read(begin)
            begin = begin - 1 if reverse else begin + 1
        else:
            start = structures.mapped(convert_to_tensor, initializer)
        _, result = while_loop(
            lambda i, _: i >= 0 if reverse else i < rows.count,
            lambda i, a: (i - 1 if reverse else i + 1, fn(a, rows.read(i))),
            (begin, start), maximum_iterations=rows.count, **options,
        )  # fmt: skip
        return result


class _Rows:
    """The rows of tensors that have equally many."""

    def __init__(self, elems: Any) -> None:
        self._like = elems
        self._tensors = [convert_to_tensor(e, name="elem") for e in structures.leaves(elems)]
        if not self._tensors:
            raise ValueError("elems must be a Tensor or (possibly nested) sequence of Tensors.")
        for tensor in self._tensors:
            if tensor.shape.rank == 0:
                raise ValueError(
                    f"elements in elems must be 1+ dimensional Tensors, not scalars: {tensor.name}"
                )
        self.static: int | None = None
        for tensor in self._tensors:
            axes = tensor.shape.axes
            rows = axes[0] if axes else None
            if rows is not None and self.static not in (None, rows):
                raise ValueError(f"elems have {self.static} rows and {rows} rows")
            self.static = rows if self.static is None else self.static
        known = self.static
        self.count: Any = known if known is not None else shape_of(self._tensors[0])[0]
        self._arrays = [
            TensorArray(t.dtype.base_dtype, self.count, infer_shape=True,
                        clear_after_read=False).unstack(t)
            for t in self._tensors
        ]  # fmt: skip

    def dtypes(self) -> Any:
        return structures.packed(self._like, [t.dtype.base_dtype for t in self._tensors])

    def read(self, index: Any) -> Any:
        return structures.packed(self._like, [a.read(index) for a in self._arrays])

    def stacked(self, array: TensorArray) -> Tensor:
        """The elements that were made of the rows."""
        made = array.stack()
        size = constant_value(convert_to_tensor(self.count))
        rows = None if size is None else int(size)
        made.set_shape(TensorShape([rows]).concatenate(array.element_shape))
        return made
