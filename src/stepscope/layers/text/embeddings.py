"""Rows of tables by number: one each, or some of them combined (`embedding_lookup_sparse`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import as_dtype, float16, float32, int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import unknown_shape
from stepscope.graph.sparse_tensor import SparseTensor
from stepscope.layers.clipping import clip_by_norm
from stepscope.ops.arrays import constants, conversion, indexing, joining, shaping
from stepscope.ops.arrays.padding import tile
from stepscope.ops.arrays.partitions import dynamic_partition
from stepscope.ops.arrays.slicing import slice_
from stepscope.ops.arrays.sparse_places import (
    sparse_fill_empty_rows,
    sparse_reshape,
    sparse_retain,
)
from stepscope.ops.math import comparison, division, elementwise, reductions, unary
from stepscope.ops.math.segments import unique
from stepscope.ops.math.sorted_segments import (
    segment_sum,
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
)
from stepscope.ops.signatures import output_of

__all__ = ["embedding_lookup", "embedding_lookup_sparse", "safe_embedding_lookup_sparse"]


def _parts(params: Any) -> list[Any]:
    """The parts of a table: one, or those of a list."""
    if params is None:
        raise ValueError("params must be specified")
    parts = list(params) if isinstance(params, (list, tuple)) else [params]
    if not parts:
        raise ValueError("Length of params is currently 0. Need at least one param.")
    return parts


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Tensor:
    """The rows of `params` at `ids`; its gradient holds those rows alone.

    A list is one table in parts: row i is in part `i % n` ("mod"), or the parts are one after the
    other ("div"). Rows longer than `max_norm` are scaled down to it.
    """
    del validate_indices
    parts = _parts(params)
    with name_scope(name, "embedding_lookup", [*parts, ids]) as scope:
        ids = convert_to_tensor(ids, name="ids")
        if len(parts) == 1:
            found = _clipped(indexing.gather(parts[0], ids, name=scope), ids, max_norm)
            return conversion.identity(found)
        return _clipped(_of_parts(parts, ids, partition_strategy, scope), ids, max_norm)


def _clipped(rows: Tensor, ids: Tensor, max_norm: Any) -> Tensor:
    if max_norm is None:
        return rows
    first, rank = ids.shape.rank, rows.shape.rank
    if first is None or rank is None:
        raise ValueError("max_norm needs a table and ids of known rank.")
    clipped: Tensor = clip_by_norm(rows, max_norm, axes=list(range(first, rank)))
    return clipped


def _of_parts(parts: Sequence[Any], ids: Tensor, strategy: str, scope: str) -> Tensor:
    flat: Any = shaping.reshape(ids, [-1])
    places = constants.range(shaping.size(flat))
    count = len(parts)
    if strategy == "mod":
        owner, row = flat % count, flat // count
    elif strategy == "div":
        owner, row = _one_after_the_other(parts, flat)
    else:
        raise ValueError(
            f"Unrecognized partition strategy: {strategy}. Must be one of either `mod` or `div`."
        )
    owner = conversion.cast(owner, int32)
    rows = dynamic_partition(row, owner, count)
    where = dynamic_partition(places, owner, count)
    found = [indexing.gather(part, at) for part, at in zip(parts, rows, strict=True)]
    stitched = output_of("ParallelDynamicStitch", where, found, name=scope)
    inner = found[0].shape[1:]
    for other in found[1:]:
        inner = inner.merge_with(other.shape[1:])
    known = inner.known
    rest: Any = shaping.shape(stitched)[1:] if known is None else list(known)
    result = shaping.reshape(stitched, joining.concat([shaping.shape(ids), rest], 0))
    result.set_shape(ids.shape.concatenate(inner))
    return result


def _one_after_the_other(parts: Sequence[Any], flat: Any) -> tuple[Tensor, Tensor]:
    """Whose row each is, and which: the first parts have a row more where it does not come out."""
    kind, lengths = flat.dtype.base_dtype, [part.shape.as_list()[0] for part in parts]
    total: Any
    if None in lengths:
        sizes = joining.stack([shaping.shape(part)[0] for part in parts])
        total = reductions.reduce_sum(conversion.cast(sizes, kind))
    else:
        total = convert_to_tensor(sum(lengths), kind)
    each, longer = total // len(parts), total % len(parts)
    owner = elementwise.maximum(flat // (each + 1), (flat - longer) // each)
    row = comparison.where(owner < longer, flat % (each + 1), (flat - longer) % each)
    return owner, row


_COMBINERS: Final[dict[str, Callable[..., Tensor]]] = {
    "sum": sparse_segment_sum,
    "mean": sparse_segment_mean,
    "sqrtn": sparse_segment_sqrt_n,
}


def embedding_lookup_sparse(
    params: Any,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
) -> Tensor:
    """Per row of `sp_ids`, the table's rows with its ids combined: their sum, mean, or the sum
    divided by the root of their number ("sqrtn"). Weights, where given, count for each id.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([2, 0, 1]), [2, 2])
    ...     table = tf.constant([[1.0], [2.0], [4.0]])
    ...     session.run(tf.nn.embedding_lookup_sparse(table, ids, None)).tolist()
    [[2.5], [2.0]]
    """
    combiner = combiner or "mean"
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(sp_ids)}")
    if sp_weights is not None:
        if not isinstance(sp_weights, SparseTensor):
            raise TypeError(
                f"sp_weights must be either None or SparseTensor,got {type(sp_weights)}"
            )
        for part in ("values", "indices", "dense_shape"):
            other = getattr(sp_weights, part).shape
            getattr(sp_ids, part).shape.assert_is_compatible_with(other)
    parts = _parts(params)
    with name_scope(name, "embedding_lookup_sparse", [*parts, sp_ids.values]) as scope:
        segments = conversion.cast(sp_ids.indices[:, 0], int32)
        ids, which = unique(sp_ids.values)
        rows = embedding_lookup(parts, ids, partition_strategy, max_norm=max_norm)
        if sp_weights is None:
            return _COMBINERS[combiner](rows, which, segments, name=scope)
        return _weighted(rows, which, segments, sp_weights.values, combiner, scope)


def _weighted(
    rows: Tensor, which: Tensor, segments: Tensor, weights: Tensor, combiner: str, scope: str
) -> Tensor:
    rows = indexing.gather(rows, which)
    own = rows.dtype.base_dtype
    kind = float32 if own is float16 else own
    rows, weights = conversion.cast(rows, kind), conversion.cast(weights, kind)
    inner = constants.ones(shaping.expand_dims(shaping.rank(rows) - 1, 0), dtype=int32)
    weights = shaping.reshape(weights, joining.concat([shaping.shape(weights), inner], 0))
    if rows.shape.rank is not None:
        weights.set_shape([rows.shape.as_list()[0], *[1] * (rows.shape.rank - 1)])
    total = segment_sum(rows * weights, segments)
    if combiner == "mean":
        total = division.div_no_nan(total, segment_sum(weights, segments))
    elif combiner == "sqrtn":
        squares = segment_sum(elementwise.pow(weights, 2), segments)
        total = division.div_no_nan(total, unary.sqrt(squares))
    return conversion.identity(conversion.cast(total, own), name=scope)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
) -> Tensor:
    """`embedding_lookup_sparse` of ids of any rank, where negative ids and weights are left out.

    Rows without ids are those of `default_id`, or zeros.
    """
    dtype = None if sparse_weights is None else as_dtype(sparse_weights.dtype)
    if embedding_weights is None:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    tables = _parts(embedding_weights)
    tables = [t if hasattr(t, "_as_tensor") else convert_to_tensor(t, dtype) for t in tables]
    with name_scope(name, "embedding_lookup", [sparse_ids.values]) as scope:
        original = sparse_ids.dense_shape
        rank = original.shape.as_list()[0]
        last: Any = (shaping.size(original) if rank is None else rank) - 1
        outer = reductions.reduce_prod(slice_(original, [0], [last]))
        ids = sparse_reshape(sparse_ids, [outer, indexing.gather(original, last)])
        weights = sparse_weights
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        ids, weights = _pruned(ids, weights, combiner)
        ids, empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        result = embedding_lookup_sparse(
            tables, ids, weights, partition_strategy, None if default_id is None else scope,
            combiner, max_norm,
        )  # fmt: skip
        if default_id is None:
            width = shaping.shape(result)[1]
            empty = tile(shaping.reshape(empty, [-1, 1]), joining.stack([1, width]))
            result = comparison.where(empty, constants.zeros_like(result), result, name=scope)
        rows = slice_(conversion.cast(original, int32), [0], [last])
        inner = slice_(shaping.shape(result), [1], [-1])
        final = shaping.reshape(result, joining.concat([rows, inner], 0))
        shape = unknown_shape(None if rank is None else rank - 1)
        final.set_shape(shape.concatenate(result.shape[1:]))
        return final


def _pruned(
    ids: SparseTensor, weights: SparseTensor | None, combiner: str
) -> tuple[SparseTensor, SparseTensor | None]:
    """Without negative ids and, but for sums, without those whose weight is not positive."""
    valid = comparison.greater_equal(ids.values, 0)
    if weights is not None and combiner != "sum":
        valid = comparison.logical_and(valid, comparison.greater(weights.values, 0))
    kept = None if weights is None else sparse_retain(weights, valid)
    return sparse_retain(ids, valid), kept
