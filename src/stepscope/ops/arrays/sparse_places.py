"""Ops on the places of `SparseTensor`s, and on their values where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.constants import constant_as_shape, constant_value
from stepscope.graph.dtypes import Array, int64
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape, unknown_shape
from stepscope.graph.sparse_tensor import SparseTensor
from stepscope.ops.arrays import indexing, joining, shaping
from stepscope.ops.arrays.constants import fill
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.arrays.sparse_tensors import sparse_reorder, sparse_tensor_to_dense
from stepscope.ops.math.comparison import where_v2
from stepscope.ops.signatures import output_of

__all__ = [
    "sparse_fill_empty_rows",
    "sparse_mask",
    "sparse_merge",
    "sparse_reshape",
    "sparse_retain",
    "sparse_slice",
    "sparse_softmax",
    "sparse_to_indicator",
    "sparse_transpose",
]

_sparse = SparseTensor.from_value

# -- SparseReshape -----------------------------------------------------------------------------


def _reshape_kernel(_node: KernelNode) -> Kernel:
    def call(indices: Any, shape: Any, wanted: Any) -> Any:
        total, new = int(np.prod(shape)), np.array(wanted, np.int64)
        if (new == -1).sum() > 1:
            raise InvalidArgumentError.without_op("only one output dimension may be -1")
        if (new == -1).any():
            new[new == -1] = total // max(1, int(np.prod(new[new != -1])))
        if int(np.prod(new)) != total:
            raise InvalidArgumentError.without_op(
                f"Input to reshape is a tensor with {total} dense values, but the requested shape "
                f"has {int(np.prod(new))}. input_shape= {list(map(int, shape))} output_shape= "
                f"{new.tolist()}"
            )
        if not len(indices):
            return np.zeros((0, len(new)), np.int64), new
        flat = np.ravel_multi_index(tuple(indices.T), tuple(shape))
        return np.stack(np.unravel_index(flat, tuple(new)), axis=1).astype(np.int64), new

    return Kernel(call)


def _reshape_shape(c: ShapeContext) -> list[TensorShape]:
    rank = c.input(2).axes
    return [
        TensorShape([c.input(0).with_rank(2).as_list()[0], rank[0] if rank else None]),
        TensorShape([rank[0] if rank else None]),
    ]


register(
    "SparseReshape",
    inputs=("input_indices: int64", "input_shape: int64", "new_shape: int64"),
    outputs=("output_indices: int64", "output_shape: int64"),
    shape=_reshape_shape,
    kernel=_reshape_kernel,
)


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in another dense shape, of which one length may be -1."""
    source = _sparse(sp_input)
    wanted = cast(shape, int64)
    with name_scope(name, "SparseReshape", [source.indices]) as scope:
        op = apply_op("SparseReshape", source.indices, source.dense_shape, wanted, name=scope)
        indices, found = op.values()
        known, new = source.shape.known, constant_as_shape(wanted).axes
        if known is not None and new is not None:
            total, sizes = int(np.prod(known)), list(new)
            if sizes.count(None) == 1 and 0 not in sizes:
                rest = int(np.prod([n for n in sizes if n is not None]))
                sizes[sizes.index(None)] = total // rest
            if None not in sizes:
                if int(np.prod([n or 0 for n in sizes])) != total:
                    raise ValueError(
                        f"Cannot reshape a tensor with {total} elements to shape {list(new)}."
                    )
                found = convert_to_tensor([n or 0 for n in sizes], int64)
        return SparseTensor(indices, identity(source.values), found)


# -- SparseSlice -------------------------------------------------------------------------------


def _slice_kernel(_node: KernelNode) -> Kernel:
    def call(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
        end = np.minimum(np.asarray(start) + size, shape)
        inside = ((indices >= start) & (indices < end)).all(axis=1)
        return indices[inside] - start, np.asarray(values)[inside], np.maximum(end - start, 0)

    return Kernel(call)


register(
    "SparseSlice",
    inputs=("indices: int64", "values: T", "shape: int64", "start: int64", "size: int64"),
    outputs=("output_indices: int64", "output_values: T", "output_shape: int64"),
    attrs=("T: type",),
    shape=lambda c: [
        TensorShape([None]).concatenate(c.input(2)), unknown_shape(1), c.input(2)
    ],
    kernel=_slice_kernel,
)  # fmt: skip


def _slice_grad_kernel(_node: KernelNode) -> Kernel:
    def call(grad: Any, indices: Any, start: Any, found: Any) -> Array:
        at = {tuple(place): i for i, place in enumerate((found + start).tolist())}
        out = np.zeros(len(indices), np.asarray(grad).dtype)
        for i, place in enumerate(indices.tolist()):
            if tuple(place) in at:
                out[i] = grad[at[tuple(place)]]
        return out

    return Kernel(call)


register(
    "SparseSliceGrad",
    inputs=("backprop_val_grad: T", "input_indices: int64", "input_start: int64",
            "output_indices: int64"),
    outputs=("val_grad: T",),
    attrs=("T: type",),
    shape=lambda c: c.input(1).with_rank(2)[:1],
    kernel=_slice_grad_kernel,
)  # fmt: skip


@gradient("SparseSlice")
def _slice_gradient(
    op: Operation, _indices: Tensor, grad: Tensor, _shape: Tensor
) -> list[Tensor | None]:
    indices, start = op.inputs[0], op.inputs[3]
    back = output_of("SparseSliceGrad", grad, indices, start, op.outputs[0])
    return [None, back, None, None, None]


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The elements from `start` on, as far as `size` reaches."""
    source = _sparse(sp_input)
    first, length = convert_to_tensor(start, int64), convert_to_tensor(size, int64)
    with name_scope(name, "SparseSlice", [source.indices]) as scope:
        found = apply_op("SparseSlice", *source.parts(), first, length, name=scope).values()
        return SparseTensor(*found)


# -- SparseFillEmptyRows -----------------------------------------------------------------------


def _fill_shape(c: ShapeContext) -> list[TensorShape]:
    rows = c.constant_as_shape(2).axes
    return [
        TensorShape([None]).concatenate(c.input(0).with_rank(2)[1:]), unknown_shape(1),
        TensorShape([rows[0] if rows else None]), c.input(0).with_rank(2)[:1],
    ]  # fmt: skip


def _fill_kernel(_node: KernelNode) -> Kernel:
    def call(indices: Any, values: Any, shape: Any, default: Any) -> Any:
        empty = np.ones(int(shape[0]), bool)
        empty[indices[:, 0]] = False
        rows = np.flatnonzero(empty)
        added = np.zeros((len(rows), indices.shape[1]), np.int64)
        added[:, 0] = rows
        places = np.concatenate([indices, added])
        fills = np.full(len(rows), default, dtype=np.asarray(values).dtype)
        order = np.argsort(places[:, 0], kind="stable")
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return places[order], np.concatenate([values, fills])[order], empty, back[: len(indices)]

    return Kernel(call)


register(
    "SparseFillEmptyRows",
    inputs=("indices: int64", "values: T", "dense_shape: int64", "default_value: T"),
    outputs=("output_indices: int64", "output_values: T", "empty_row_indicator: bool",
             "reverse_index_map: int64"),
    attrs=("T: type",),
    shape=_fill_shape,
    kernel=_fill_kernel,
)  # fmt: skip


def _fill_grad_kernel(_node: KernelNode) -> Kernel:
    def call(back: Any, grad: Any) -> Any:
        chosen = np.asarray(grad)[back]
        mask = np.ones(len(grad), bool)
        mask[back] = False
        return chosen, np.asarray(grad)[mask].sum(dtype=np.asarray(grad).dtype)

    return Kernel(call)


register(
    "SparseFillEmptyRowsGrad",
    inputs=("reverse_index_map: int64", "grad_values: T"),
    outputs=("d_values: T", "d_default_value: T"),
    attrs=("T: type",),
    shape=lambda c: [c.input(0), TensorShape([])],
    kernel=_fill_grad_kernel,
)


@gradient("SparseFillEmptyRows")
def _fill_gradient(
    op: Operation, _indices: Tensor, grad: Tensor, _empty: Tensor, _back: Tensor
) -> list[Tensor | None]:
    values, default = apply_op("SparseFillEmptyRowsGrad", op.outputs[3], grad).values()
    return [None, values, None, default]


def sparse_fill_empty_rows(
    sp_input: Any, default_value: Any, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """The tensor with a default in the first column of rows that are empty; and which these are."""
    source = _sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [source.indices]):
        default = convert_to_tensor(default_value, source.dtype.base_dtype)
        indices, values, empty, _ = apply_op(
            "SparseFillEmptyRows", *source.parts(), default
        ).values()
        return SparseTensor(indices, values, source.dense_shape), empty


# -- SparseSoftmax, and elements times and through dense ones ----------------------------


def _softmax_kernel(_node: KernelNode) -> Kernel:
    def call(indices: Any, values: Any, _shape: Any) -> Array:
        _, row = np.unique(indices[:, :-1], axis=0, return_inverse=True)
        row = row.reshape(-1)
        count = int(row.max()) + 1 if len(row) else 0
        largest = np.full(count, -np.inf, np.asarray(values).dtype)
        np.maximum.at(largest, row, values)
        powers = np.exp(values - largest[row])
        return np.asarray(powers / np.bincount(row, powers, count)[row], powers.dtype)

    return Kernel(call)


register(
    "SparseSoftmax",
    inputs=("sp_indices: int64", "sp_values: T", "sp_shape: int64"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=lambda c: c.input(1),
    kernel=_softmax_kernel,
)


@gradient("SparseSoftmax")
def _softmax_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    indices, shape = op.inputs[0], op.inputs[2]
    found = op.outputs[0]
    weighted = found * grad
    last = shaping.reshape(shaping.size(shape) - 1, [1])
    sums = output_of("SparseReduceSum", indices, weighted, shape, last)
    of_rows = indexing.gather_nd(sums, indices[:, :-1])
    return [None, (grad - of_rows) * found, None]


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Softmax over the last axis of what is there."""
    source = _sparse(sp_input)
    with name_scope(name, "SparseSoftmax", [source.indices, source.values]) as scope:
        del scope
        return source.with_values(output_of("SparseSoftmax", *source.parts()))


def _elementwise_kernel(node: KernelNode) -> Kernel:
    function = np.multiply if node.op.type == "SparseDenseCwiseMul" else np.divide

    def call(indices: Any, values: Any, shape: Any, dense: Any) -> Array:
        whole = np.broadcast_to(dense, tuple(int(n) for n in shape))
        return np.asarray(
            function(values, whole[tuple(np.asarray(indices).T)]), np.asarray(values).dtype
        )

    return Kernel(call)


for _name in ("SparseDenseCwiseMul", "SparseDenseCwiseDiv"):
    register(
        _name,
        inputs=("sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"),
        outputs=("output: T",),
        attrs=("T: type",),
        shape=lambda c: c.input(0).with_rank(2)[:1],
        kernel=_elementwise_kernel,
    )


def _at_places(op: Operation) -> Tensor:
    """What of the dense input stands beside each element."""
    indices, shape, dense = op.inputs[0], op.inputs[2], op.inputs[3]
    whole = output_of("BroadcastTo", dense, shape)
    return indexing.gather_nd(whole, indices)


@gradient("SparseDenseCwiseMul")
def _times_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [None, grad * _at_places(op), None, _dense_part(op, grad * op.inputs[1])]


@gradient("SparseDenseCwiseDiv")
def _through_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    below = _at_places(op)
    return [None, grad / below, None, _dense_part(op, -grad * op.inputs[1] / below / below)]


def _dense_part(op: Operation, values: Tensor) -> Tensor:
    """Gradients at places as a tensor shaped as the dense input."""
    indices, shape, dense = op.inputs[0], op.inputs[2], op.inputs[3]
    spread = indexing.scatter_nd(indices, values, shape)
    own = shaping.shape(dense, out_type=int64)
    second = apply_op("BroadcastGradientArgs", shape, own).values()[1]
    return shaping.reshape(output_of("Sum", spread, second), own)


def _with_dense(op_type: str, name: str) -> Any:
    def combine(source: SparseTensor, dense: Any) -> SparseTensor:
        with name_scope(None, name, [*source.parts(), dense]) as scope:
            other = convert_to_tensor(dense, source.dtype.base_dtype, "y")
            return source.with_values(output_of(op_type, *source.parts(), other, name=scope))

    return combine


for _operator, _type, _scope in (
    ("__mul__", "SparseDenseCwiseMul", "mul"),
    ("__truediv__", "SparseDenseCwiseDiv", "truediv"),
    ("__div__", "SparseDenseCwiseDiv", "div"),
):
    setattr(SparseTensor, _operator, _with_dense(_type, _scope))

# -- made of others ----------------------------------------------------------------------------


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None,
    already_sorted: bool = False,
) -> SparseTensor:  # fmt: skip
    """The values at the places that the ids say, instead of the last column of their own."""
    ids: Any = sp_ids
    sizes: Any = vocab_size
    if isinstance(sp_ids, (SparseTensor, tuple)) and not isinstance(vocab_size, (list, tuple)):
        ids, sizes = [sp_ids], [vocab_size]
    if not isinstance(ids, (list, tuple)) or not isinstance(sizes, (list, tuple)):
        raise TypeError("sp_ids has to be a SparseTensor or list thereof, as vocab_size of sizes.")
    if len(ids) != len(sizes):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    with name_scope(name, "SparseMerge", [sp_values.indices]):
        sources = [_sparse(each) for each in ids]
        columns = []
        for source in sources:
            column = source.values
            if column.dtype.base_dtype is not int64:
                column = cast(column, int64)
            columns.append(shaping.expand_dims(column, axis=1))
        lengths = [cast(size, int64) for size in sizes]
        first = sources[0]
        places = joining.concat([first.indices[:, :-1], *columns], 1)
        shape = joining.concat([first.dense_shape[:-1], lengths], 0)
        result = SparseTensor(places, _sparse(sp_values).values, shape)
        if already_sorted:
            return result
        ordered = sparse_reorder(result)
        return SparseTensor(ordered.indices, ordered.values, shape)


def sparse_to_indicator(sp_input: Any, vocab_size: int, name: str | None = None) -> Tensor:
    """Per row a vector that is True at the ids that are in it."""
    source = _sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [source.indices]) as scope:
        count = shaping.shape(source.indices)[0]
        there = fill(shaping.expand_dims(count, 0), True)
        merged = sparse_merge(source, source.with_values(there), vocab_size, scope)
        return sparse_tensor_to_dense(
            merged, default_value=False, validate_indices=False, name=scope
        )


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The elements where `to_retain` is True."""
    source = _sparse(sp_input)
    mask = convert_to_tensor(to_retain)
    where = shaping.reshape(where_v2(mask), [-1])
    return SparseTensor(
        indexing.gather(source.indices, where), indexing.gather(source.values, where),
        identity(source.dense_shape),
    )  # fmt: skip


def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> Any:
    """The rows of IndexedSlices whose indices are not in `mask_indices`."""
    from stepscope.graph.indexed_slices import IndexedSlices

    with name_scope(name, "sparse_mask", [a.values, mask_indices]) as scope:
        del scope
        kept, places = apply_op("ListDiff", a.indices, mask_indices).values()
        return IndexedSlices(indexing.gather(a.values, places), kept, a.dense_shape)


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """The axes in another order; reversed without `perm`."""
    source = _sparse(sp_input)
    with name_scope(name, "SparseTranspose", [source.indices]):
        rank = source.shape.rank
        if perm is None:
            if rank is None:
                raise ValueError("sparse_transpose of a tensor of unknown rank needs `perm`.")
            perm = rank - 1 - np.arange(0, rank, 1)
        places = shaping.transpose(indexing.gather(shaping.transpose(source.indices), perm))
        axes, known = constant_value(convert_to_tensor(perm)), source.shape.known
        shape: Any = indexing.gather(source.dense_shape, perm) if axes is None or known is None \
            else [known[int(p)] for p in axes]  # fmt: skip
        return sparse_reorder(SparseTensor(places, source.values, shape))
