"""Ops on `SparseTensor`s: to and from dense ones, products, sums, order and shape."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array, as_dtype, int64
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import UNKNOWN, TensorShape, unknown_shape
from stepscope.graph.sparse_tensor import SparseTensor, SparseTensorValue
from stepscope.ops.arrays import indexing, shaping
from stepscope.ops.arrays.constants import (
    fill,
    placeholder,
    placeholder_with_default,
    zeros,
    zeros_like,
)
from stepscope.ops.arrays.constants import range as range_of
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.math.comparison import not_equal, where_v2
from stepscope.ops.math.elementwise import multiply
from stepscope.ops.math.reductions import reduce_sum
from stepscope.ops.math.unary import conj
from stepscope.ops.signatures import exactly_rank, output_of

__all__ = [
    "SparseTensor",
    "SparseTensorValue",
    "sparse_add",
    "sparse_concat",
    "sparse_from_dense",
    "sparse_placeholder",
    "sparse_reduce_max",
    "sparse_reduce_sum",
    "sparse_reorder",
    "sparse_split",
    "sparse_tensor_dense_matmul",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
]

_PARTS = ("input_indices: int64", "input_values: T", "input_shape: int64")


def _sparse(value: Any) -> SparseTensor:
    return SparseTensor.from_value(value)


def _rank(c: ShapeContext, shape: int) -> int | None:
    axes = c.input(shape).axes
    return axes[0] if axes else None


def _flat(indices: Array, shape: Sequence[int]) -> Array:
    """The places as numbers in the order of rows."""
    dims = [int(n) for n in shape]
    if not dims:
        return np.zeros(len(indices), np.int64)
    strides = np.append(np.cumprod(dims[:0:-1])[::-1], 1).astype(np.int64)
    found: Array = indices @ strides
    return found


# -- SparseToDense -----------------------------------------------------------------------------


def _to_dense_kernel(node: KernelNode) -> Kernel:
    checked, dtype = node.attr("validate_indices"), node.output_dtypes[0].numpy

    def call(indices: Any, shape: Any, values: Any, default: Any) -> Array:
        sizes = tuple(int(n) for n in np.reshape(shape, -1))
        places = np.asarray(indices).reshape(-1, len(sizes))
        if len(places) and ((places < 0).any() or (places >= sizes).any()):
            bad = next(i for i, p in enumerate(places) if (p < 0).any() or (p >= sizes).any())
            raise InvalidArgumentError.without_op(
                f"indices[{bad}] = {places[bad].tolist()} is out of bounds: need 0 <= index < "
                f"{list(sizes)}"
            )
        if checked and len(places) > 1:
            _check_order(_flat(places, sizes), places)
        out = np.full(sizes, default, dtype)
        out[tuple(places.T)] = values
        return out

    return Kernel(call)


def _check_order(flat: Array, places: Array) -> None:
    wrong = np.flatnonzero(flat[1:] <= flat[:-1])
    if len(wrong):
        at = int(wrong[0]) + 1
        what = "is repeated" if flat[at] == flat[at - 1] else (
            "is out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` "
            "to create a correctly ordered copy.\n\n"
        )  # fmt: skip
        raise InvalidArgumentError.without_op(f"indices[{at}] = {places[at].tolist()} {what}")


register(
    "SparseToDense",
    inputs=("sparse_indices: Tindices", "output_shape: Tindices", "sparse_values: T",
            "default_value: T"),
    outputs=("dense: T",),
    attrs=("validate_indices: bool = true", "T: type", "Tindices: type"),
    shape=lambda c: c.constant_as_shape(1),
    kernel=_to_dense_kernel,
)  # fmt: skip


@gradient("SparseToDense")
def _to_dense_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    places = op.inputs[0]
    if places.shape.rank == 1:
        places = shaping.expand_dims(places, -1)
    there = indexing.gather_nd(grad, places)
    return [None, None, there, reduce_sum(grad) - reduce_sum(there)]


def sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0,
    validate_indices: bool = True, name: str | None = None,
) -> Tensor:  # fmt: skip
    """A dense tensor with values at places, in order and none twice, and a default elsewhere."""
    values = convert_to_tensor(sparse_values) if isinstance(sparse_values, Tensor) else (
        sparse_values
    )  # fmt: skip
    return output_of(
        "SparseToDense", sparse_indices, output_shape, values, default_value,
        validate_indices=validate_indices, name=name,
    )  # fmt: skip


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The dense tensor; what is not there is 0, "" or False, or the default."""
    source = _sparse(sp_input)
    default = zeros([], source.dtype) if default_value is None else default_value
    return output_of(
        "SparseToDense", source.indices, source.dense_shape, source.values, default,
        validate_indices=validate_indices, name=name,
    )  # fmt: skip


def sparse_from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements that are not zero."""
    with name_scope(name, "dense_to_sparse"):
        dense = convert_to_tensor(tensor)
        indices = where_v2(not_equal(dense, zeros_like(dense)))
        values = indexing.gather_nd(dense, indices)
        return SparseTensor(indices, values, shaping.shape(dense, out_type=int64))


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A `SparseTensor` that is fed: a `SparseTensorValue`, or (indices, values, dense_shape)."""
    prefix = f"{name}/" if name is not None else ""
    if shape is None:
        count, dense_shape = None, placeholder(
            int64, [None], f"{prefix}shape" if name is not None else None
        )  # fmt: skip
    elif isinstance(shape, Tensor):
        axes = shape.shape.axes
        count, dense_shape = (axes[0] if axes else None), shape
    else:
        lengths = [-1 if n is None else int(n) for n in TensorShape(shape).axes or ()]
        count = len(lengths)
        dense_shape = _static_shape(lengths, prefix)
    values = placeholder(as_dtype(dtype), [None], f"{prefix}values" if prefix else None)
    indices = placeholder(int64, [None, count], f"{prefix}indices" if prefix else None)
    return SparseTensor(indices, values, dense_shape)


def _static_shape(lengths: list[int], prefix: str) -> Tensor:
    """The shape as a default that may be fed; -1 for what is not known."""
    default_name = f"{prefix}shape_default" if prefix else None
    default = convert_to_tensor(np.array(lengths, np.int64), name=default_name)
    shape_name = f"{prefix}shape" if prefix else None
    return placeholder_with_default(default, default.shape, shape_name)


# -- SparseTensorDenseMatMul -------------------------------------------------------------------


def _product_shape(c: ShapeContext) -> TensorShape:
    a, b = c.constant_as_shape(2), exactly_rank(c.input(3), 2)
    rows = None
    if a.axes is not None and len(a.axes) == 2:
        rows = a.axes[1 if c.attr("adjoint_a") else 0]
    columns = None if b.axes is None else b.axes[0 if c.attr("adjoint_b") else 1]
    return TensorShape([rows, columns])


def _product_kernel(node: KernelNode) -> Kernel:
    flip_a, flip_b = node.attr("adjoint_a"), node.attr("adjoint_b")

    def call(indices: Any, values: Any, shape: Any, b: Any) -> Array:
        rows, inner = (int(n) for n in shape)
        left, right = indices[:, 0], indices[:, 1]
        if flip_a:
            rows, inner, left, right, values = inner, rows, right, left, np.conj(values)
        if flip_b:
            b = np.conj(b).T
        if b.shape[0] != inner:
            raise InvalidArgumentError.without_op(
                f"Cannot multiply A and B because inner dimension does not match: {inner} vs. "
                f"{b.shape[0]}.  Did you forget a transpose?  Dimensions of A: [{rows}, {inner}).  "
                f"Dimensions of B: {TensorShape(b.shape).brief()}"
            )
        for what, bound in ((left, rows), (right, inner)):
            if len(what) and (what.min() < 0 or what.max() >= bound):
                raise InvalidArgumentError.without_op(
                    f"An index of A is out of bounds: {int(what.max())} not in [0, {bound})"
                )
        out = np.zeros((rows, b.shape[1]), b.dtype)
        # Rows of the same place are added up by runs: much faster than adding one by one.
        order = np.argsort(left, kind="stable")
        terms = np.asarray(values)[order, None] * b[right[order]]
        if len(terms):
            firsts = np.flatnonzero(np.r_[True, np.diff(left[order]) != 0])
            out[left[order][firsts]] = np.add.reduceat(terms, firsts, axis=0)
        return out

    return Kernel(call)


register(
    "SparseTensorDenseMatMul",
    inputs=("a_indices: Tindices", "a_values: T", "a_shape: int64", "b: T"),
    outputs=("product: T",),
    attrs=("T: type", "Tindices: type = int64", "adjoint_a: bool = false",
           "adjoint_b: bool = false"),
    shape=_product_shape,
    kernel=_product_kernel,
)  # fmt: skip


@gradient("SparseTensorDenseMatMul")
def _product_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    indices, values, shape, b = op.inputs
    flip_a, flip_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
    for_b = output_of(op.type, indices, values, shape, grad, adjoint_a=not flip_a)
    if flip_b:
        for_b, b = conj(shaping.transpose(for_b)), conj(shaping.transpose(b))
    rows, columns = indices[:, 0], indices[:, 1]
    of_grad = indexing.gather(grad, columns if flip_a else rows)
    of_b = indexing.gather(b, rows if flip_a else columns)
    for_values = reduce_sum(multiply(of_grad, conj(of_b)), axis=-1)
    return [None, conj(for_values) if flip_a else for_values, None, for_b]


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """The product of a sparse matrix and a dense one (or of a dense and a sparse one)."""
    if isinstance(b, (SparseTensor, SparseTensorValue)):
        flips = (adjoint_a, adjoint_b) if adjoint_a != adjoint_b else (
            not adjoint_a, not adjoint_b
        )  # fmt: skip
        return shaping.transpose(sparse_tensor_dense_matmul(b, sp_a, *flips))
    source = _sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [source.indices, source.values, b]) as scope:
        dense = convert_to_tensor(b, name="b")
        result = output_of(
            "SparseTensorDenseMatMul", source.indices, source.values, source.dense_shape, dense,
            adjoint_a=adjoint_a, adjoint_b=adjoint_b,
        )  # fmt: skip
        del scope
        return result


# -- SparseReorder -----------------------------------------------------------------------------


def _reorder_kernel(_node: KernelNode) -> Kernel:
    def call(indices: Any, values: Any, _shape: Any) -> Any:
        order = np.lexsort(indices.T[::-1]) if indices.shape[1] else np.arange(len(indices))
        return indices[order], np.asarray(values)[order]

    return Kernel(call)


register(
    "SparseReorder",
    inputs=_PARTS,
    outputs=("output_indices: int64", "output_values: T"),
    attrs=("T: type",),
    shape=lambda c: [exactly_rank(c.input(0), 2), exactly_rank(c.input(1), 1)],
    kernel=_reorder_kernel,
)


@gradient("SparseReorder")
def _reorder_gradient(op: Operation, _indices: Tensor, grad: Tensor) -> list[Tensor | None]:
    count = shaping.shape(op.inputs[0])[0]
    ordered = sparse_reorder(SparseTensor(op.inputs[0], range_of(count), op.inputs[2]))
    return [None, indexing.gather(grad, shaping.invert_permutation(ordered.values)), None]


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The same elements in the order of rows."""
    source = _sparse(sp_input)
    indices, values = apply_op("SparseReorder", *source.parts(), name=name).values()
    known = source.shape.known
    shape: Any = identity(source.dense_shape) if known is None else list(known)
    return SparseTensor(indices, values, shape)


# -- SparseReduceSum, SparseReduceMax ----------------------------------------------------------


def _reduced_shape(c: ShapeContext) -> TensorShape:
    shape, axes = c.constant_as_shape(2), c.constant(3)
    if c.constant(2) is None or shape.axes is None or axes is None:
        return UNKNOWN
    taken = {int(a) % len(shape.axes) for a in np.reshape(axes, -1)} if shape.axes else set()
    if not np.size(axes):
        taken = set()
    if c.attr("keep_dims"):
        return TensorShape([1 if i in taken else n for i, n in enumerate(shape.axes)])
    return TensorShape([n for i, n in enumerate(shape.axes) if i not in taken])


def _reduce_kernel(node: KernelNode) -> Kernel:
    keep = node.attr("keep_dims")
    largest = node.op.type == "SparseReduceMax"

    def call(indices: Any, values: Any, shape: Any, axes: Any) -> Any:
        sizes = [int(n) for n in shape]
        taken = {int(a) % len(sizes) for a in np.reshape(axes, -1)}
        left = [i for i in range(len(sizes)) if i not in taken]
        out = np.zeros([sizes[i] for i in left], np.asarray(values).dtype)
        flat = out.reshape(-1)
        where = _flat(indices[:, left], [sizes[i] for i in left])
        if largest and len(where):
            flat[where] = values
            np.maximum.at(flat, where, values)
        else:
            np.add.at(flat, where, values)
        kept = [1 if i in taken else n for i, n in enumerate(sizes)]
        return out.reshape(kept) if keep else out[()] if not left else out

    return Kernel(call)


for _name in ("SparseReduceSum", "SparseReduceMax"):
    register(
        _name,
        inputs=(*_PARTS, "reduction_axes: int32"),
        outputs=("output: T",),
        attrs=("keep_dims: bool = false", "T: type"),
        shape=_reduced_shape,
        kernel=_reduce_kernel,
    )


@gradient("SparseReduceSum")
def _reduce_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    indices, _values, shape, axes = op.inputs
    rank = shaping.size(shape)
    ones = fill(shaping.shape(axes), convert_to_tensor(1, int64))
    kept = output_of(
        "DynamicStitch", [range_of(rank), output_of("FloorMod", axes + rank, rank)], [shape, ones]
    )  # fmt: skip
    scale = output_of("FloorDiv", shape, kept)
    places = output_of("FloorDiv", indices, scale)
    return [None, indexing.gather_nd(shaping.reshape(grad, kept), places), None, None]


def _reduction_axes(source: SparseTensor, axis: Any) -> Any:
    if axis is not None:
        return axis
    rank = source.shape.rank
    if rank is not None:
        return convert_to_tensor(np.arange(rank, dtype=np.int32))
    return range_of(0, shaping.size(source.dense_shape))


def _reduced(op_type: str, source: Any, axis: Any, keep: Any) -> Tensor:
    sparse = _sparse(source)
    return output_of(op_type, *sparse.parts(), _reduction_axes(sparse, axis), keep_dims=bool(keep))


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The sum over axes (all of them without `axis`), as a dense tensor."""
    axis = reduction_axes if axis is None else axis
    return _reduced("SparseReduceSum", sp_input, axis, keepdims or keep_dims)


def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The largest element over axes (of those that are there), as a dense tensor."""
    axis = reduction_axes if axis is None else axis
    return _reduced("SparseReduceMax", sp_input, axis, keepdims or keep_dims)


# -- SparseAdd, SparseConcat, SparseSplit ------------------------------------------------------


def _three(rank: int | None) -> list[TensorShape]:
    return [TensorShape([None, rank]), unknown_shape(1), TensorShape([rank])]


def _add_kernel(_node: KernelNode) -> Kernel:
    def call(
        a_indices: Any, a_values: Any, a_shape: Any, b_indices: Any, b_values: Any, b_shape: Any,
        threshold: Any,
    ) -> Any:  # fmt: skip
        if not np.array_equal(a_shape, b_shape):
            raise InvalidArgumentError.without_op(
                f"Operands' shapes do not match: {a_shape.tolist()} and {b_shape.tolist()}"
            )
        places = np.concatenate([a_indices, b_indices])
        unique, inverse = np.unique(places, axis=0, return_inverse=True)
        values = np.zeros(len(unique), np.asarray(a_values).dtype)
        np.add.at(values, inverse.reshape(-1), np.concatenate([a_values, b_values]))
        both = len(unique) and float(threshold) > 0
        kept = np.abs(values) >= threshold if both else np.ones(len(unique), bool)
        return unique[kept], values[kept], np.array(a_shape)

    return Kernel(call)


register(
    "SparseAdd",
    inputs=("a_indices: int64", "a_values: T", "a_shape: int64", "b_indices: int64",
            "b_values: T", "b_shape: int64", "thresh: Treal"),
    outputs=("sum_indices: int64", "sum_values: T", "sum_shape: int64"),
    attrs=("T: type", "Treal: type"),
    shape=lambda c: _three(_rank(c, 2)),
    kernel=_add_kernel,
)  # fmt: skip


def _add_grad_kernel(_node: KernelNode) -> Kernel:
    def call(grad: Any, a: Any, b: Any, of_sum: Any) -> Any:
        at = {tuple(place): i for i, place in enumerate(of_sum.tolist())}

        def of(places: Any) -> Array:
            out = np.zeros(len(places), np.asarray(grad).dtype)
            for i, place in enumerate(places.tolist()):
                if tuple(place) in at:
                    out[i] = grad[at[tuple(place)]]
            return out

        return of(a), of(b)

    return Kernel(call)


register(
    "SparseAddGrad",
    inputs=("backprop_val_grad: T", "a_indices: int64", "b_indices: int64", "sum_indices: int64"),
    outputs=("a_val_grad: T", "b_val_grad: T"),
    attrs=("T: type",),
    shape=lambda c: [c.input(1)[:1], c.input(2)[:1]],
    kernel=_add_grad_kernel,
)


@gradient("SparseAdd")
def _add_gradient(op: Operation, _i: Tensor, grad: Tensor, _s: Tensor) -> list[Tensor | None]:
    a, b = op.inputs[0], op.inputs[3]
    for_a, for_b = apply_op("SparseAddGrad", grad, a, b, op.outputs[0]).values()
    return [None, for_a, None, None, for_b, None, None]


def _dense_add_kernel(_node: KernelNode) -> Kernel:
    def call(indices: Any, values: Any, _shape: Any, b: Any) -> Array:
        out = np.array(b)
        np.add.at(out, tuple(np.asarray(indices).T), values)
        return out

    return Kernel(call)


register(
    "SparseTensorDenseAdd",
    inputs=("a_indices: Tindices", "a_values: T", "a_shape: Tindices", "b: T"),
    outputs=("output: T",),
    attrs=("T: type", "Tindices: type"),
    shape=lambda c: c.input(3),
    kernel=_dense_add_kernel,
)


@gradient("SparseTensorDenseAdd")
def _dense_add_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [None, indexing.gather_nd(grad, op.inputs[0]), None, grad]


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """The sum: sparse of two sparse ones, dense of a sparse and a dense one.

    Elements of a sparse sum whose absolute value is below `threshold` are left out.
    """
    kinds = (SparseTensor, SparseTensorValue)
    if not isinstance(a, kinds) and not isinstance(b, kinds):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if not (isinstance(a, kinds) and isinstance(b, kinds)):
        first, second = (b, a) if isinstance(b, kinds) else (a, b)
        return output_of("SparseTensorDenseAdd", *_sparse(first).parts(), second)
    first, second = _sparse(a), _sparse(b)
    least = threshold if threshold is not None else thresh if thresh is not None else 0
    least = convert_to_tensor(least, first.dtype.real_dtype.base_dtype, "threshold")
    found = apply_op("SparseAdd", *first.parts(), *second.parts(), least).values()
    first.shape.assert_is_compatible_with(second.shape)
    known = first.shape.known
    return SparseTensor(found[0], found[1], found[2] if known is None else list(known))


def _concat_shape(c: ShapeContext) -> list[TensorShape]:
    count = c.attr("N")
    places, values, shape = _three(_rank(c, 2 * count))
    lengths = [c.input(i).with_rank(2).as_list()[0] for i in range(count)]
    if None in lengths:
        return [places, values, shape]
    total = sum(n or 0 for n in lengths)
    return [TensorShape([total, *places.as_list()[1:]]), TensorShape([total]), shape]


def _concat_kernel(node: KernelNode) -> Kernel:
    count, axis = node.attr("N"), node.attr("concat_dim")

    def call(*parts: Any) -> Any:
        indices, values, shapes = parts[:count], parts[count : 2 * count], parts[2 * count :]
        at, moved, total = axis % len(shapes[0]), [], 0
        for each, shape in zip(indices, shapes, strict=True):
            if np.delete(shape, at).tolist() != np.delete(shapes[0], at).tolist():
                raise InvalidArgumentError.without_op(
                    f"Input shapes must match: expected {shapes[0].tolist()} but got "
                    f"{shape.tolist()}"
                )
            moved.append(each + np.eye(len(shape), dtype=np.int64)[at] * total)
            total += int(shape[at])
        places, found = np.concatenate(moved), np.concatenate(values)
        order = np.lexsort(places.T[::-1])
        result = np.array(shapes[0])
        result[at] = total
        return places[order], found[order], result

    return Kernel(call)


register(
    "SparseConcat",
    inputs=("indices: N * int64", "values: N * T", "shapes: N * int64"),
    outputs=("output_indices: int64", "output_values: T", "output_shape: int64"),
    attrs=("concat_dim: int", "N: int", "T: type"),
    shape=_concat_shape,
    kernel=_concat_kernel,
)


no_gradient("SparseAddGrad", "SparseConcat")


def sparse_concat(
    axis: int, sp_inputs: Any, name: str | None = None, concat_dim: int | None = None
) -> SparseTensor:
    """Sparse tensors one after the other along an axis."""
    sources = [_sparse(source) for source in sp_inputs]
    if len(sources) == 1:
        return sources[0]
    indices, values, shapes = zip(*(source.parts() for source in sources), strict=True)
    axis = axis if concat_dim is None else concat_dim
    found = apply_op(
        "SparseConcat", list(indices), list(values), list(shapes), concat_dim=axis, name=name
    ).values()
    known = [source.shape.known for source in sources]
    if any(shape is None for shape in known):
        return SparseTensor(*found)
    total = list(known[0] or ())
    total[axis] = sum((shape or ())[axis] for shape in known)
    return SparseTensor(found[0], found[1], convert_to_tensor(total, int64))


def _split_kernel(node: KernelNode) -> Kernel:
    count = node.attr("num_split")

    def call(dim: Any, indices: Any, values: Any, shape: Any) -> Any:
        axis = int(dim) % len(shape)
        size, rest = divmod(int(shape[axis]), count)
        ends = np.cumsum([0, *(size + (i < rest) for i in range(count))])
        parts: list[list[Array]] = [[], [], []]
        for first, last in itertools.pairwise(ends):
            inside = (indices[:, axis] >= first) & (indices[:, axis] < last)
            unit = np.eye(len(shape), dtype=np.int64)[axis]
            parts[0].append(indices[inside] - unit * first)
            parts[1].append(np.asarray(values)[inside])
            parts[2].append(np.where(unit, last - first, shape).astype(np.int64))
        return tuple(array for part in parts for array in part)

    return Kernel(call)


def _split_shape(c: ShapeContext) -> list[TensorShape]:
    places, values, shape = _three(_rank(c, 3))
    count = c.attr("num_split")
    return [places] * count + [values] * count + [shape] * count


register(
    "SparseSplit",
    inputs=("split_dim: int64", "indices: int64", "values: T", "shape: int64"),
    outputs=("output_indices: num_split * int64", "output_values: num_split * T",
             "output_shape: num_split * int64"),
    attrs=("num_split: int", "T: type"),
    shape=_split_shape,
    kernel=_split_kernel,
)  # fmt: skip


def sparse_split(
    keyword_required: Any = None, sp_input: Any = None, num_split: int | None = None,
    axis: Any = None, name: str | None = None, split_dim: Any = None,
) -> list[SparseTensor]:  # fmt: skip
    """Parts along an axis, as long as each other but for the first ones, which are longer."""
    if keyword_required is not None or sp_input is None or num_split is None:
        raise ValueError("sparse_split takes keyword arguments: sp_input, num_split and axis.")
    source = _sparse(sp_input)
    dim = axis if axis is not None else split_dim
    found = apply_op("SparseSplit", dim, *source.parts(), num_split=num_split, name=name).values()
    parts = [found[i * num_split : (i + 1) * num_split] for i in range(3)]
    return [SparseTensor(*each) for each in zip(*parts, strict=True)]
