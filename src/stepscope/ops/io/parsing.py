"""Example and SequenceExample messages as tensors: ParseExampleV2, ParseSequenceExampleV2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.dtypes import float32 as float_type
from stepscope.graph.dtypes import int64 as int_type
from stepscope.graph.dtypes import string as text_type
from stepscope.graph.graph import control_dependencies, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import TensorShape
from stepscope.graph.sparse_tensor import SparseTensor
from stepscope.metadata.wire.example_messages import Example, SequenceExample
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.arrays.sparse_places import sparse_merge
from stepscope.ops.flow import ordering
from stepscope.ops.io.feature_configs import (
    FeaturePlan,
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
)
from stepscope.ops.math import comparison

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "VarLenFeature",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]

_KINDS = {
    float_type: ("float_list", "float"),
    int_type: ("int64_list", "int64"),
    text_type: ("bytes_list", "string"),
}
_SAID = dict(_KINDS.values())

Values = Sequence[Any] | None
"""What a feature has in one message; None where it is missing."""


def _values(feature: Any, dtype: DType, what: str) -> Values:
    """The values of a Feature of that type; None if it says nothing."""
    kind = feature.WhichOneof("kind") if feature is not None else None
    if kind is None:
        return None
    field, wanted = _KINDS[dtype]
    if kind != field:
        raise InvalidArgumentError.without_op(
            f"{what}  Data types don't match. Data type: {_SAID[kind]} but expected type: {wanted}"
        )
    found: Values = getattr(feature, field).value
    return found


def _array(values: Values, dtype: DType) -> Array:
    if dtype is text_type:
        out = np.empty(len(values or ()), dtype=object)
        out[:] = list(values or ())
        return out
    return np.array(values if values is not None else [], dtype.numpy)


def _messages(kind: Any, serialized: Any, names: Any) -> tuple[list[Any], list[str]]:
    texts = np.asarray(serialized, dtype=object).reshape(-1)
    said = [n.decode(errors="replace") for n in np.asarray(names, dtype=object).reshape(-1)]
    said += ["<unknown>"] * (len(texts) - len(said))
    found = []
    for i, text in enumerate(texts):
        try:
            found.append(kind.FromString(text))
        except Exception as error:  # protobuf's errors differ from version to version
            raise InvalidArgumentError.without_op(
                f"Name: {said[i]}, Could not parse example input, value: {text!r}"
            ) from error
    return found, said


# -- one key over all messages -----------------------------------------------------------------


def _sparse(columns: Sequence[Values], dtype: DType, batched: bool) -> tuple[Array, Array, Array]:
    """(indices, values, shape) of a key; with a first column for the message if batched."""
    lengths = [len(c) if c is not None else 0 for c in columns]
    values = np.concatenate([_array(c, dtype) for c in columns] or [_array(None, dtype)])
    places = np.concatenate([np.arange(n) for n in lengths] or [np.arange(0)])
    longest = max(lengths, default=0)
    if not batched:
        return places[:, None].astype(np.int64), values, np.array([longest], np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    shape = np.array([len(lengths), longest], np.int64)
    return np.stack([rows, places], axis=1).astype(np.int64), values, shape


class _Dense:
    """A dense key: how its rows become one array."""

    def __init__(self, key: str, shape: TensorShape, dtype: DType, default: Array) -> None:
        self.key, self.dtype, self.default = key, dtype, default
        axes = shape.axes or ()
        self.grows = bool(axes) and axes[0] is None
        self.inner = tuple(n or 0 for n in (axes[1:] if self.grows else axes))
        self.size = int(np.prod(self.inner, dtype=np.int64))

    def rows(self, columns: Sequence[Values], names: Sequence[str], batched: bool) -> Array:
        found = [self._row(values, i, names[i]) for i, values in enumerate(columns)]
        if not batched:
            return found[0]
        if not self.grows:
            empty = np.zeros((0, *self.inner), self.dtype.numpy)
            return np.stack(found) if found else empty
        longest = max((len(row) for row in found), default=0)
        out = np.full((len(found), longest, *self.inner), self._padding(), self.dtype.numpy)
        for i, row in enumerate(found):
            out[i, : len(row)] = row
        return out

    def _padding(self) -> Any:
        value = np.asarray(self.default).reshape(-1)
        return value[0] if value.size else (b"" if self.dtype is text_type else 0)

    def _row(self, values: Values, index: int, name: str) -> Array:
        _, kind = _KINDS[self.dtype]
        if values is None:
            if self.grows:
                return np.zeros((0, *self.inner), self.dtype.numpy)
            if self.default.size == 0 and self.size != 0:
                raise InvalidArgumentError.without_op(
                    f"Name: {name}, Feature: {self.key} (data type: {kind}) is required but "
                    "could not be found."
                )
            return np.asarray(self.default).reshape(self.inner)
        found = _array(values, self.dtype)
        if self.grows and self.size and len(found) % self.size == 0:
            return found.reshape((-1, *self.inner))
        if self.grows or len(found) != self.size:
            raise InvalidArgumentError.without_op(
                f"Name: {name}, Key: {self.key}, Index: {index}.  Number of {kind} values != "
                f"expected.  values size: {len(found)} but output shape: "
                f"{TensorShape(self.inner).brief()}"
            )
        return found.reshape(self.inner)


def _keys(value: Any) -> list[str]:
    return [key.decode() for key in np.asarray(value, dtype=object).reshape(-1)]


def _no_ragged(keys: Any) -> None:
    if np.size(keys):
        raise UnimplementedError.without_op(
            "Ragged features: there are no ragged tensors here; use VarLenFeature."
        )


def _columns(maps: Sequence[Any], key: str, dtype: DType, names: Sequence[str]) -> list[Values]:
    return [
        _values(m.get(key), dtype, f"Name: {names[i]}, Key: {key}, Index: {i}.")
        for i, m in enumerate(maps)
    ]


def _parsed(
    maps: Sequence[Any], names: Sequence[str], sparse: Iterable[tuple[str, DType]],
    dense: Iterable[_Dense], batched: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Indices of all sparse keys, their values, their shapes, then the dense ones."""
    found = [_sparse(_columns(maps, k, t, names), t, batched) for k, t in sparse]
    rows = [d.rows(_columns(maps, d.key, d.dtype, names), names, batched) for d in dense]
    return (*(f[0] for f in found), *(f[1] for f in found), *(f[2] for f in found), *rows)


# -- ParseExampleV2 ----------------------------------------------------------------------------


def _sparse_shapes(count: int, rank: int | None) -> list[TensorShape]:
    return (
        [TensorShape([None, rank])] * count + [TensorShape([None])] * count
        + [TensorShape([rank])] * count
    )  # fmt: skip


def _example_shape(ctx: ShapeContext) -> list[TensorShape]:
    batch = ctx.input(0)
    rank = None if batch.rank is None else batch.rank + 1
    dense = [batch.concatenate(s) for s in ctx.attr("dense_shapes")]
    return [*_sparse_shapes(ctx.attr("num_sparse"), rank), *dense]


def _single(outputs: Sequence[Array]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _example_kernel(node: KernelNode) -> Kernel:
    sparse_types, types = node.attr("sparse_types"), node.attr("Tdense")
    shapes = node.attr("dense_shapes")

    def call(
        serialized: Any, names: Any, sparse: Any, dense: Any, ragged: Any, *defaults: Any
    ) -> Any:
        _no_ragged(ragged)
        examples, said = _messages(Example, serialized, names)
        maps = [example.features.feature for example in examples]
        wanted = [_Dense(*each) for each in zip(_keys(dense), shapes, types, defaults, strict=True)]
        sparse_keys = zip(_keys(sparse), sparse_types, strict=True)
        return _single(_parsed(maps, said, sparse_keys, wanted, np.ndim(serialized) == 1))

    return Kernel(call)


register(
    "ParseExampleV2",
    inputs=("serialized: string", "names: string", "sparse_keys: string", "dense_keys: string",
            "ragged_keys: string", "dense_defaults: Tdense"),
    outputs=("sparse_indices: num_sparse * int64", "sparse_values: sparse_types",
             "sparse_shapes: num_sparse * int64", "dense_values: Tdense",
             "ragged_values: ragged_value_types", "ragged_row_splits: ragged_split_types"),
    attrs=("Tdense: list(type)", "num_sparse: int", "sparse_types: list(type)",
           "ragged_value_types: list(type)", "ragged_split_types: list(type)",
           "dense_shapes: list(shape)"),
    shape=_example_shape,
    kernel=_example_kernel,
)  # fmt: skip


def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The features of a vector of serialized Examples, by key: tensors and `SparseTensor`s.

    >>> import stepscope.tf1 as tf
    >>> feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[3, 4]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     parsed = tf.parse_example(
    ...         [example.SerializeToString()], {"x": tf.FixedLenFeature([2], tf.int64)})
    ...     session.run(parsed["x"]).tolist()
    [[3, 4]]
    """
    if not features:
        raise ValueError("Argument `features` cannot be None or empty.")
    asked = {key: _with_first_axis(key, feature) for key, feature in features.items()}
    kinds = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)
    plan = FeaturePlan(asked, kinds)
    with name_scope(name, "ParseExample", [serialized, example_names]):
        texts = convert_to_tensor(serialized, name="serialized")
        op = apply_op(
            "ParseExampleV2", texts, [] if example_names is None else example_names,
            _text(plan.sparse), _text(plan.dense), _text(()), plan.default_tensors(),
            num_sparse=len(plan.sparse), sparse_types=list(plan.sparse.values()),
            ragged_value_types=[], ragged_split_types=[], Tdense=plan.types,
            dense_shapes=plan.shapes, name=name,
        )  # fmt: skip
    found = _by_key(op.outputs, plan)
    return _with_sparse_features(features, found)


def _text(keys: Iterable[str]) -> Array:
    listed = [key.encode() for key in keys]
    out = np.empty(len(listed), dtype=object)
    out[:] = listed
    return out


def _with_first_axis(key: str, feature: Any) -> Any:
    if not isinstance(feature, FixedLenSequenceFeature):
        return feature
    if not feature.allow_missing:
        raise ValueError(
            f"Unsupported: FixedLenSequenceFeature requires allow_missing to be True. ({key!r})"
        )
    return feature._replace(shape=[None, *feature.shape])


def _by_key(outputs: Sequence[Tensor], plan: FeaturePlan) -> dict[str, Any]:
    count = len(plan.sparse)
    parts = [outputs[i * count : (i + 1) * count] for i in range(3)]
    sparse = [SparseTensor(*each) for each in zip(*parts, strict=True)]
    dense = outputs[3 * count : 3 * count + len(plan.dense)]
    return dict(zip([*plan.sparse, *plan.dense], [*sparse, *dense], strict=True))


def _with_sparse_features(features: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The parsed keys with those of `SparseFeature`s put together."""
    merged, parts = {}, set()
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            index_keys = feature.index_key
            ids: Any = (
                found[index_keys] if isinstance(index_keys, str) else [found[k] for k in index_keys]
            )
            parts |= {index_keys} if isinstance(index_keys, str) else set(index_keys)
            parts.add(feature.value_key)
            merged[key] = sparse_merge(
                ids, found[feature.value_key], feature.size,
                already_sorted=feature.already_sorted,
            )  # fmt: skip
    kept = {k: v for k, v in found.items() if k in features or k not in parts}
    return {**kept, **merged}


def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """As `parse_example` of one serialized Example, without the axis of the batch."""
    if not features:
        raise ValueError("Invalid argument: features cannot be None or empty.")
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        text = _checked_scalar(convert_to_tensor(serialized, name="serialized"))
        return parse_example(text, features, name, example_names)


def _checked_scalar(value: Tensor) -> Tensor:
    rank = value.shape.rank
    if rank == 0:
        return value
    if rank is not None:
        raise ValueError("Input serialized must be a scalar")
    is_scalar = comparison.equal(shaping.rank(value), 0)
    check = ordering.Assert(is_scalar, ["Input serialized must be a scalar"],
                           name="SerializedIsScalar")  # fmt: skip
    with control_dependencies([check]):
        scalar = identity(value, name="serializedDependencies")
    scalar.set_shape([])
    return scalar


# -- ParseSequenceExampleV2 --------------------------------------------------------------------


def _sequence_shape(ctx: ShapeContext) -> list[TensorShape]:
    batch = ctx.input(0)
    rank = None if batch.rank is None else batch.rank + 1
    context = [batch.concatenate(s) for s in ctx.attr("context_dense_shapes")]
    steps = TensorShape([None])
    lists = [batch.concatenate(steps).concatenate(s) for s in ctx.attr("feature_list_dense_shapes")]
    inner = None if rank is None else rank + 1
    return [
        *_sparse_shapes(ctx.attr("Ncontext_sparse"), rank), *context,
        *_sparse_shapes(ctx.attr("Nfeature_list_sparse"), inner), *lists,
        *[batch] * ctx.attr("Nfeature_list_dense"),
    ]  # fmt: skip


class _Lists:
    """A feature list of one type over all messages: for each a list of steps, or None."""

    def __init__(self, maps: Sequence[Any], names: Sequence[str], key: str, dtype: DType) -> None:
        self.key, self.dtype, self.names = key, dtype, names
        self.steps: list[list[Values] | None] = []
        for i, found in enumerate(maps):
            if key not in found:
                self.steps.append(None)
                continue
            what = f"Name: {names[i]}, Feature list: {key}, Index: {{}}."
            self.steps.append(
                [_values(f, dtype, what.format(j)) for j, f in enumerate(found[key].feature)]
            )

    def sparse(self, batched: bool) -> tuple[Array, Array, Array]:
        places, values = [], []
        longest = widest = 0
        for i, steps in enumerate(self.steps):
            longest = max(longest, len(steps or ()))
            for j, row in enumerate(steps or ()):
                count = len(row or ())
                widest = max(widest, count)
                values.append(_array(row, self.dtype))
                places += [(i, j, k) if batched else (j, k) for k in range(count)]
        rank = 3 if batched else 2
        shape = [len(self.steps), longest, widest][3 - rank :]
        return (
            np.array(places, np.int64).reshape(-1, rank),
            np.concatenate(values) if values else _array(None, self.dtype),
            np.array(shape, np.int64),
        )

    def dense(self, shape: TensorShape, may_miss: bool, batched: bool) -> tuple[Array, Array]:
        """The steps of all messages, padded with zeros, and how many each has."""
        row_of = _Dense(self.key, shape, self.dtype, np.zeros(0, self.dtype.numpy))
        padding = b"" if self.dtype is text_type else 0
        lengths = np.array([len(steps or ()) for steps in self.steps], np.int64)
        out = np.full(
            (len(self.steps), max(lengths, default=0), *row_of.inner), padding, self.dtype.numpy
        )
        for i, steps in enumerate(self.steps):
            if steps is None and not may_miss:
                raise InvalidArgumentError.without_op(
                    f"Name: {self.names[i]}, Feature list '{self.key}' is required but could not "
                    "be found.  Did you mean to include it in "
                    "feature_list_dense_missing_assumed_empty or "
                    "feature_list_dense_defaults?"
                )
            for j, row in enumerate(steps or ()):
                out[i, j] = row_of.rows([row], [self.names[i]], False)
        return (out, lengths) if batched else (out[0], lengths[0])


def _sequence_kernel(node: KernelNode) -> Kernel:
    attr: Callable[[str], Any] = node.attr

    def call(
        serialized: Any, names: Any, context_sparse: Any, context_dense: Any, context_ragged: Any,
        sparse: Any, dense: Any, ragged: Any, may_miss: Any, *defaults: Any,
    ) -> Any:  # fmt: skip
        _no_ragged(context_ragged)
        _no_ragged(ragged)
        batched = np.ndim(serialized) == 1
        found, said = _messages(SequenceExample, serialized, names)
        wanted = [
            _Dense(*each)
            for each in zip(
                _keys(context_dense), attr("context_dense_shapes"), attr("Tcontext_dense"),
                defaults, strict=True,
            )
        ]  # fmt: skip
        sparse_keys = zip(_keys(context_sparse), attr("context_sparse_types"), strict=True)
        context = _parsed([m.context.feature for m in found], said, sparse_keys, wanted, batched)
        maps = [m.feature_lists.feature_list for m in found]
        sparse_lists = [
            _Lists(maps, said, key, t).sparse(batched)
            for key, t in zip(_keys(sparse), attr("feature_list_sparse_types"), strict=True)
        ]
        dense_lists = [
            _Lists(maps, said, key, dtype).dense(shape, bool(missing), batched)
            for key, dtype, shape, missing in zip(
                _keys(dense), attr("feature_list_dense_types"),
                attr("feature_list_dense_shapes"), np.reshape(may_miss, -1), strict=True,
            )
        ]  # fmt: skip
        return _single(
            [*context, *(s[i] for i in range(3) for s in sparse_lists),
             *(d[i] for i in range(2) for d in dense_lists)]
        )  # fmt: skip

    return Kernel(call)


register(
    "ParseSequenceExampleV2",
    inputs=("serialized: string", "debug_name: string", "context_sparse_keys: string",
            "context_dense_keys: string", "context_ragged_keys: string",
            "feature_list_sparse_keys: string", "feature_list_dense_keys: string",
            "feature_list_ragged_keys: string", "feature_list_dense_missing_assumed_empty: bool",
            "context_dense_defaults: Tcontext_dense"),
    outputs=("context_sparse_indices: Ncontext_sparse * int64",
             "context_sparse_values: context_sparse_types",
             "context_sparse_shapes: Ncontext_sparse * int64",
             "context_dense_values: Tcontext_dense",
             "context_ragged_values: context_ragged_value_types",
             "context_ragged_row_splits: context_ragged_split_types",
             "feature_list_sparse_indices: Nfeature_list_sparse * int64",
             "feature_list_sparse_values: feature_list_sparse_types",
             "feature_list_sparse_shapes: Nfeature_list_sparse * int64",
             "feature_list_dense_values: feature_list_dense_types",
             "feature_list_dense_lengths: Nfeature_list_dense * int64",
             "feature_list_ragged_values: feature_list_ragged_value_types",
             "feature_list_ragged_outer_splits: feature_list_ragged_split_types",
             "feature_list_ragged_inner_splits: feature_list_ragged_split_types"),
    attrs=("Ncontext_sparse: int = 0", "Tcontext_dense: list(type) = []",
           "context_sparse_types: list(type) = []", "context_ragged_value_types: list(type) = []",
           "context_ragged_split_types: list(type) = []",
           "context_dense_shapes: list(shape) = []", "Nfeature_list_sparse: int = 0",
           "Nfeature_list_dense: int = 0", "feature_list_dense_types: list(type) = []",
           "feature_list_sparse_types: list(type) = []",
           "feature_list_ragged_value_types: list(type) = []",
           "feature_list_ragged_split_types: list(type) = []",
           "feature_list_dense_shapes: list(shape) = []"),
    shape=_sequence_shape,
    kernel=_sequence_kernel,
)  # fmt: skip


def parse_sequence_example(
    serialized: Any, context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None, example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:  # fmt: skip
    """The context of a vector of SequenceExamples, their feature lists, and how long these are."""
    context, lists = _sequence_plans(context_features, sequence_features)
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        return _parse_sequences(serialized, context, lists, example_names, name)


def _sequence_plans(context: Any, sequence: Any) -> tuple[FeaturePlan, FeaturePlan]:
    if not (context or sequence):
        raise ValueError(
            "Both `context_features` and `sequence_features` argument are None, but at least one "
            "should have values."
        )
    lists = FeaturePlan(sequence, (VarLenFeature, FixedLenSequenceFeature))
    for key, value in lists.defaults.items():
        if value is not None:
            raise ValueError(f"Value feature_list.dense_defaults[{key}] must be None")
    return FeaturePlan(context, (VarLenFeature, FixedLenFeature)), lists


def _parse_sequences(
    serialized: Any, context: FeaturePlan, lists: FeaturePlan, names: Any, name: str | None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    with name_scope(name, "ParseSequenceExample", [serialized]):
        texts = convert_to_tensor(serialized, name="serialized")
        missing = np.array([key in lists.defaults for key in lists.dense], bool)
        op: Operation = apply_op(
            "ParseSequenceExampleV2", texts, [] if names is None else names,
            _text(context.sparse), _text(context.dense), _text(()),
            _text(lists.sparse), _text(lists.dense), _text(()), missing,
            context.default_tensors(),
            Ncontext_sparse=len(context.sparse), Tcontext_dense=context.types,
            context_sparse_types=list(context.sparse.values()),
            context_dense_shapes=context.shapes,
            Nfeature_list_sparse=len(lists.sparse), Nfeature_list_dense=len(lists.dense),
            feature_list_dense_types=lists.types,
            feature_list_sparse_types=list(lists.sparse.values()),
            feature_list_dense_shapes=lists.shapes, name=name,
        )  # fmt: skip
    outputs = op.outputs
    split = 3 * len(context.sparse) + len(context.dense)
    lengths = outputs[len(outputs) - len(lists.dense) :]
    by_key = dict(zip(lists.dense, lengths, strict=True))
    return _by_key(outputs[:split], context), _by_key(outputs[split:], lists), by_key


def parse_single_sequence_example(
    serialized: Any, context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None, example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The context and the feature lists of one serialized SequenceExample."""
    context, lists = _sequence_plans(context_features, sequence_features)
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        with name_scope(name, "ParseSingleExample", [serialized, example_name]):
            text = _checked_scalar(convert_to_tensor(serialized, name="serialized"))
        return _parse_sequences(text, context, lists, example_name, name)[:2]
