"""`Dataset`: input as a pipeline of stages, made as nodes of the graph with TensorFlow's names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import apply_op, convert_to_tensor, get_default_graph
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import DType, as_dtype, bool_, int64, string, variant
from stepscope.graph.function_graph import FunctionGraph, copied_into
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape, as_shape
from stepscope.ops.arrays import constants, conversion, shaping
from stepscope.ops.arrays.strings import reduce_join
from stepscope.ops.flow.ordering import Assert
from stepscope.ops.io import files as io_files
from stepscope.ops.math import comparison
from stepscope.ops.math.random import get_seed
from stepscope.ops.python_functions import py_func
from stepscope.programs.data import nested
from stepscope.programs.data.functions import ElementFunction, function_attr
from stepscope.programs.data.iterator import Iterator

AUTOTUNE = -1
_MAX_INT64 = 2**63 - 1


class Dataset:
    """A sequence of elements. An element is a tensor, or nested tuples and dicts of tensors.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     evens = tf.data.Dataset.range(10).filter(lambda x: tf.equal(x % 2, 0))
    ...     pair = evens.map(lambda x: x * 10).batch(2).make_one_shot_iterator().get_next()
    ...     with tf.Session() as session:
    ...         session.run(pair).tolist(), session.run(pair).tolist()
    ([0, 20], [40, 60])
    """

    def __init__(self, variant_tensor: Tensor, types: Any, shapes: Any) -> None:
        """Of a tensor that holds a dataset; use the constructors below."""
        self._variant_tensor = variant_tensor
        self._types = types
        self._shapes = shapes

    @property
    def output_types(self) -> Any:
        """The type of each component, nested as elements are."""
        return self._types

    @property
    def output_shapes(self) -> Any:
        """The static shape of each component."""
        return self._shapes

    @property
    def output_classes(self) -> Any:
        """`tf.Tensor` for each component."""
        return nested.mapped(lambda _t: Tensor, self._types)

    def _as_variant_tensor(self) -> Tensor:
        return self._variant_tensor

    # -- where elements come from --------------------------------------------------------------

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """One element."""
        structure, components = _normalized(tensors)
        shapes = [t.shape for t in components]
        op = apply_op("TensorDataset", components, output_shapes=shapes, name=name)
        return _of(op, nested.mapped(lambda t: t.dtype.base_dtype, structure),
                   nested.packed(structure, shapes))  # fmt: skip

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """The rows of tensors that have as many rows."""
        return slices(tensors, name)

    @staticmethod
    def range(*args: Any, **kwargs: Any) -> Dataset:
        """Numbers (int64) as Python's `range` counts."""
        kind = as_dtype(kwargs.pop("output_type", int64))
        name = kwargs.pop("name", None)
        if not 1 <= len(args) <= 3 or kwargs:
            raise ValueError(f"Dataset.range takes one to three numbers, found {args!r}.")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        tensors = [
            convert_to_tensor(value, int64, label)
            for value, label in ((start, "start"), (stop, "stop"), (step, "step"))
        ]
        op = apply_op(
            "RangeDataset", *tensors, output_types=[kind], output_shapes=[SCALAR], name=name
        )
        return _of(op, kind, SCALAR)

    @staticmethod
    def from_generator(
        generator: Callable[..., Any], output_types: Any = None, output_shapes: Any = None,
        args: Sequence[Any] | None = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """What a Python generator yields; `generator(*args)` is called for each iteration."""
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        if output_types is None:
            raise TypeError("Dataset.from_generator needs output_types.")
        types = nested.mapped(as_dtype, _as_tuples(output_types))
        shapes = _shapes_like(types, output_shapes)
        state = _Generators(generator, types, shapes)
        given = [convert_to_tensor(a) for a in args or ()]
        one = Dataset.from_tensors(0)

        def flat_map_fn(number: Tensor) -> Dataset:
            return _generator_dataset(state, given, number, types, shapes)

        return one.flat_map(flat_map_fn, name=name)

    @staticmethod
    def zip(datasets: Any, name: str | None = None) -> Dataset:
        """Elements side by side, nested as the datasets are, as long as all have one."""
        parts = nested.leaves(datasets)
        for part in parts:
            if not isinstance(part, Dataset):
                raise TypeError(f"Dataset.zip takes (nested tuples of) datasets, not {part!r}.")
        types = nested.mapped(lambda d: d.output_types, datasets)
        shapes = nested.mapped(lambda d: d.output_shapes, datasets)
        return made_dataset(
            "ZipDataset", types, shapes, [d._variant_tensor for d in parts], name=name
        )

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """The names of files that match, in random order unless `shuffle` is False."""
        with name_scope("list_files"):
            pattern = convert_to_tensor(file_pattern, string, "file_pattern")
            found = io_files.matching_files(pattern)
            some = comparison.greater(shaping.shape(found)[0], 0, name="match_not_empty")
            text = apply_op(
                "Add", "No files matched pattern: ",
                reduce_join(pattern, separator=", "), name="message",
            ).values()[0]  # fmt: skip
            assertion = Assert(some, [text], summarize=1, name="assert_not_empty")
            with get_default_graph().control_dependencies([assertion]):
                found = conversion.identity(found)
            files = slices(found, name, is_files=True)
            if shuffle is None or shuffle:
                size = apply_op(
                    "Maximum", shaping.shape(found, out_type=int64)[0], np.int64(1)
                ).values()[0]
                files = files.shuffle(size, seed=seed)
        return files

    # -- element by element --------------------------------------------------------------------

    def map(
        self, map_func: Callable[..., Any], num_parallel_calls: Any = None,
        deterministic: bool | None = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """What `map_func` makes of each element; several calls at once keep the order."""
        function = ElementFunction(map_func, "Dataset_map", self._types, self._shapes)
        if num_parallel_calls is None:
            return made_dataset(
                "MapDataset", function.types, function.shapes, self._variant_tensor,
                function.captured, f=function.attr, name=name,
            )  # fmt: skip
        calls = convert_to_tensor(num_parallel_calls, int64, "num_parallel_calls")
        return made_dataset(
            "ParallelMapDatasetV2", function.types, function.shapes, self._variant_tensor,
            function.captured, calls, f=function.attr, deterministic=_deterministic(deterministic),
            name=name,
        )  # fmt: skip

    def map_with_legacy_function(
        self, map_func: Callable[..., Any], num_parallel_calls: Any = None,
        deterministic: bool | None = None,
    ) -> Dataset:  # fmt: skip
        """The same as `map`."""
        return self.map(map_func, num_parallel_calls, deterministic)

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements of the datasets that `map_func` makes, one dataset after the other."""
        function = self._of_datasets(map_func, "flat_map")
        inner: Dataset = function.result
        return made_dataset(
            "FlatMapDataset", inner.output_types, inner.output_shapes, self._variant_tensor,
            function.captured, f=function.attr, name=name,
        )  # fmt: skip

    def interleave(
        self, map_func: Callable[..., Any], cycle_length: Any = None, block_length: Any = None,
        num_parallel_calls: Any = None, deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """As `flat_map`, of `cycle_length` datasets in turn, `block_length` elements of each."""
        function = self._of_datasets(map_func, "interleave")
        inner: Dataset = function.result
        cycle = AUTOTUNE if cycle_length is None else cycle_length
        block = 1 if block_length is None else block_length
        tensors = [
            convert_to_tensor(cycle, int64, "cycle_length"),
            convert_to_tensor(block, int64, "block_length"),
        ]
        if num_parallel_calls is None:
            return made_dataset(
                "InterleaveDataset", inner.output_types, inner.output_shapes,
                self._variant_tensor, function.captured, *tensors, f=function.attr, name=name,
            )  # fmt: skip
        tensors += [
            convert_to_tensor(AUTOTUNE, int64, "buffer_output_elements"),
            convert_to_tensor(AUTOTUNE, int64, "prefetch_input_elements"),
            convert_to_tensor(num_parallel_calls, int64, "num_parallel_calls"),
        ]
        return made_dataset(
            "ParallelInterleaveDatasetV4", inner.output_types, inner.output_shapes,
            self._variant_tensor, function.captured, *tensors, f=function.attr,
            deterministic=_deterministic(deterministic), name=name,
        )  # fmt: skip

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements for which `predicate` is True."""
        function = ElementFunction(predicate, "Dataset_filter", self._types, self._shapes)
        result = function.result
        if (
            not isinstance(result, Tensor)
            or result.dtype is not bool_
            or (result.shape.rank not in (None, 0))
        ):
            raise ValueError(
                "`predicate` must be convertible to a scalar boolean tensor. Got: "
                f"{function.types} {function.shapes}"
            )
        return made_dataset(
            "FilterDataset", self._types, self._shapes, self._variant_tensor, function.captured,
            predicate=function.attr, name=name,
        )  # fmt: skip

    def filter_with_legacy_function(self, predicate: Callable[..., Any]) -> Dataset:
        """The same as `filter`."""
        return self.filter(predicate)

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Pairs of a number, from `start` on, and an element."""
        numbers = Dataset.range(start, _MAX_INT64)
        same = made_dataset(
            "RewriteDataset", int64, SCALAR, numbers._variant_tensor, "replicate_on_split"
        )
        return Dataset.zip((same, self), name=name)

    def reduce(
        self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """What `reduce_func(state, element)` makes of all elements, one after the other."""
        with name_scope("initial_state"):
            structure, state = _normalized(initial_state)
        types = (nested.mapped(lambda t: t.dtype.base_dtype, structure), self._types)
        shapes = nested.mapped(lambda t: t.shape, structure)
        function = ElementFunction(reduce_func, "reduce", types, (shapes, self._shapes))
        wanted = nested.leaves(types[0])
        if nested.leaves(function.types) != wanted:
            raise TypeError(
                "The element types for the new state must match the initial state. Expected "
                f"{wanted}; got {nested.leaves(function.types)}."
            )
        merged = [
            a if a.is_fully_defined() and a.is_compatible_with(b) else UNKNOWN
            for a, b in zip(nested.leaves(shapes), nested.leaves(function.shapes), strict=True)
        ]
        op = apply_op(
            "ReduceDataset", self._variant_tensor, state, function.captured, f=function.attr,
            output_types=wanted, output_shapes=merged, name=name,
        )  # fmt: skip
        return nested.packed(structure, op.outputs)

    # -- batches -------------------------------------------------------------------------------

    def batch(
        self, batch_size: Any, drop_remainder: Any = False, num_parallel_calls: Any = None,
        deterministic: bool | None = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """Elements stacked; the last batch may be smaller unless `drop_remainder`."""
        del num_parallel_calls, deterministic  # what stacks arrays is one thread
        size = convert_to_tensor(batch_size, int64, "batch_size")
        drop = convert_to_tensor(drop_remainder, bool_, "drop_remainder")
        first = TensorShape([static_size(size, drop)])
        shapes = nested.mapped(first.concatenate, self._shapes)
        return made_dataset(
            "BatchDatasetV2", self._types, shapes, self._variant_tensor, size, drop, name=name
        )

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None,
        drop_remainder: Any = False, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """As `batch`, with each component filled up to `padded_shapes`.

        None, -1 or a shape that is not given means the largest in the batch.
        """
        if padded_shapes is None:
            padded_shapes = self._shapes
            if any(s.rank is None for s in nested.leaves(padded_shapes)):
                raise ValueError("You must provide `padded_shapes` argument because component "
                                 "shapes are not all known.")  # fmt: skip
        size = convert_to_tensor(batch_size, int64, "batch_size")
        wanted = _shapes_of_padding(padded_shapes, self._shapes)
        tensors = [_shape_tensor(shape) for shape in wanted]
        fillings = _paddings(padding_values, self._types)
        drop = convert_to_tensor(drop_remainder, bool_, "drop_remainder")
        first = TensorShape([static_size(size, drop)])
        known = [_static_shape(tensor) for tensor in tensors]
        shapes = nested.packed(self._shapes, [first.concatenate(s) for s in known])
        op = apply_op(
            "PaddedBatchDatasetV2", self._variant_tensor, size, tensors, fillings, drop,
            output_shapes=nested.leaves(shapes), name=name,
        )  # fmt: skip
        return _of(op, self._types, shapes)

    def unbatch(self, name: str | None = None) -> Dataset:
        """The rows of each element."""

        def normalize(*components: Any) -> Any:
            return components[0] if len(components) == 1 else components

        same = self.map(normalize)
        shapes = nested.mapped(lambda s: s[1:] if s.rank is not None else s, self._shapes)
        return made_dataset("UnbatchDataset", self._types, shapes, same._variant_tensor, name=name)

    def window(
        self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """Elements that are datasets of `size` elements that follow each other."""
        tensors = [
            convert_to_tensor(value, int64, label)
            for value, label in (
                (size, "size"), (size if shift is None else shift, "shift"), (stride, "stride")
            )
        ]  # fmt: skip
        drop = convert_to_tensor(drop_remainder, bool_, "drop_remainder")
        leaves = nested.leaves(self._types)
        op = apply_op(
            "WindowDataset", self._variant_tensor, *tensors, drop,
            output_types=[variant] * len(leaves), output_shapes=[SCALAR] * len(leaves), name=name,
        )  # fmt: skip
        return _WindowDataset(op.values()[0], self._types, self._shapes)

    # -- order ---------------------------------------------------------------------------------

    def shuffle(
        self, buffer_size: Any, seed: int | None = None,
        reshuffle_each_iteration: bool | None = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """Elements in random order, each chosen among `buffer_size` that are held."""
        size = convert_to_tensor(buffer_size, int64, "buffer_size")
        again = True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)
        return made_dataset(
            "ShuffleDataset", self._types, self._shapes, self._variant_tensor, size, *seeds(seed),
            reshuffle_each_iteration=again, name=name,
        )  # fmt: skip

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """All elements `count` times, or without end."""
        times = convert_to_tensor(-1 if count is None else count, int64, "count")
        return made_dataset("RepeatDataset", self._types, self._shapes, self._variant_tensor, times,
                     name=name)  # fmt: skip

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """The first `count` elements; all for -1."""
        number = convert_to_tensor(count, int64, "count")
        return made_dataset("TakeDataset", self._types, self._shapes, self._variant_tensor, number,
                     name=name)  # fmt: skip

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """Without the first `count` elements."""
        number = convert_to_tensor(count, int64, "count")
        return made_dataset("SkipDataset", self._types, self._shapes, self._variant_tensor, number,
                     name=name)  # fmt: skip

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Every `num_shards`-th element, from `index` on."""
        number = convert_to_tensor(num_shards, int64, "num_shards")
        place = convert_to_tensor(index, int64, "index")
        return made_dataset("ShardDataset", self._types, self._shapes, self._variant_tensor, number,
                     place, name=name)  # fmt: skip

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """All elements of this one, then all of another."""
        mine, others = nested.leaves(self._types), nested.leaves(dataset.output_types)
        if mine != others:
            raise TypeError(
                f"Incompatible types of datasets to concatenate: {self._types} and "
                f"{dataset.output_types}."
            )
        pairs = zip(nested.leaves(self._shapes), nested.leaves(dataset.output_shapes), strict=True)
        shapes = nested.packed(self._shapes, [_common_shape(a, b) for a, b in pairs])
        return made_dataset("ConcatenateDataset", self._types, shapes, self._variant_tensor,
                     dataset._variant_tensor, name=name)  # fmt: skip

    def prefetch(
        self, buffer_size: Any, slack_period: Any = None, name: str | None = None
    ) -> Dataset:
        """Takes up to `buffer_size` elements before they are asked for, on a thread of its own."""
        del slack_period
        size = convert_to_tensor(buffer_size, int64, "buffer_size")
        with get_default_graph().colocate_with(self._variant_tensor.op):
            return made_dataset(
                "PrefetchDataset", self._types, self._shapes, self._variant_tensor, size,
                legacy_autotune=isinstance(buffer_size, int) and buffer_size == AUTOTUNE, name=name,
            )  # fmt: skip

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Keeps the elements in memory when they were first taken, for later iterations."""
        path = convert_to_tensor(filename, string, "filename")
        return made_dataset("CacheDataset", self._types, self._shapes, self._variant_tensor, path,
                     name=name)  # fmt: skip

    # -- other ---------------------------------------------------------------------------------

    def apply(self, transformation_func: Callable[[Any], Any]) -> Any:
        """What `transformation_func` makes of the dataset."""
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError(f"`transformation_func` must return a dataset, not {made!r}.")
        return made

    def with_options(self, options: Any, name: str | None = None) -> Dataset:
        """The same: what TensorFlow's options ask for is how it optimizes."""
        del options, name
        return self

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Leaves out the elements that could not be made."""
        op = apply_op(
            "IgnoreErrorsDataset", self._variant_tensor, log_warning=log_warning,
            output_types=nested.leaves(self._types), output_shapes=nested.leaves(self._shapes),
            name=name,
        )  # fmt: skip
        return _of(op, self._types, self._shapes)

    def make_one_shot_iterator(self) -> Iterator:
        """An iterator over all elements once, which needs no initializer."""
        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """An iterator that begins whenever its `initializer` is run."""
        return make_initializable_iterator(self, shared_name)

    def _of_datasets(self, map_func: Callable[..., Any], what: str) -> ElementFunction:
        function = ElementFunction(map_func, f"Dataset_{what}", self._types, self._shapes)
        if not isinstance(function.result, Dataset):
            raise TypeError(
                f"The `map_func` argument must return a `Dataset` object. Got {function.result!r}."
            )
        return function

    def __iter__(self) -> Any:
        raise RuntimeError(
            "A dataset can be iterated over in Python only where TensorFlow executes eagerly; "
            "use make_one_shot_iterator().get_next() and a session."
        )

    def __repr__(self) -> str:
        return f"<stepscope.Dataset shapes: {self._shapes}, types: {self._types}>"


class _WindowDataset(Dataset):
    """Its elements are datasets, which functions of `map` and `flat_map` are given as such."""

    def _of_datasets(self, map_func: Callable[..., Any], what: str) -> ElementFunction:
        return _window_function(self, map_func, f"Dataset_{what}")

    def map(self, map_func: Callable[..., Any], *_args: Any, **_kwargs: Any) -> Dataset:
        function = _window_function(self, map_func, "Dataset_map")
        return made_dataset(
            "MapDataset", function.types, function.shapes, self._variant_tensor,
            function.captured, f=function.attr,
        )  # fmt: skip


def _window_function(windows: Dataset, map_func: Callable[..., Any], what: str) -> ElementFunction:
    types, shapes = windows.output_types, windows.output_shapes
    handles = nested.mapped(lambda _t: variant, types)

    def on_datasets(*element: Any) -> Any:
        parts = zip(nested.leaves(element), nested.leaves(types), nested.leaves(shapes),
                    strict=True)  # fmt: skip
        datasets = nested.packed(types, [Dataset(*part) for part in parts])
        return map_func(*datasets) if isinstance(datasets, tuple) else map_func(datasets)

    on_datasets.__name__ = getattr(map_func, "__name__", "window")
    return ElementFunction(on_datasets, what, handles, nested.mapped(lambda _t: SCALAR, types))


# -- making nodes ------------------------------------------------------------------------------


def _of(op: Operation, types: Any, shapes: Any) -> Dataset:
    return Dataset(op.values()[0], types, shapes)


def made_dataset(
    op_type: str, types: Any, shapes: Any, *inputs: Any, name: str | None = None, **attrs: Any
) -> Dataset:
    op = apply_op(
        op_type, *inputs, output_types=nested.leaves(types), output_shapes=nested.leaves(shapes),
        name=name, **attrs,
    )  # fmt: skip
    return _of(op, types, shapes)


def slices(tensors: Any, name: str | None = None, *, is_files: bool = False) -> Dataset:
    """The rows of tensors that have as many rows; `is_files`: they are names of files."""
    structure, components = _normalized(tensors)
    rows: Any = TensorShape([None])
    for tensor in components:
        if tensor.shape.rank == 0:
            raise ValueError(
                f"Unbatching a tensor is only supported for rank >= 1: {tensor.name} is a scalar."
            )
        rows = rows.merge_with(tensor.shape[:1])
    shapes = [t.shape[1:] for t in components]
    op = apply_op(
        "TensorSliceDataset", components, output_shapes=shapes, is_files=is_files, name=name
    )
    return _of(op, nested.mapped(lambda t: t.dtype.base_dtype, structure),
               nested.packed(structure, shapes))  # fmt: skip


def _normalized(tensors: Any) -> tuple[Any, list[Tensor]]:
    """The structure with tensors as leaves, and these."""
    with name_scope("normalize_element"):
        leaves = [
            convert_to_tensor(leaf, name=f"component_{i}")
            for i, leaf in enumerate(nested.leaves(tensors))
        ]
    if not leaves:
        raise ValueError("A dataset needs at least one tensor.")
    return nested.packed(tensors, leaves), leaves


def _deterministic(wanted: bool | None) -> str:
    return "default" if wanted is None else str(wanted).lower()


def seeds(seed: int | None) -> tuple[Tensor, Tensor]:
    first, second = get_seed(seed)
    given = convert_to_tensor(first or 0, int64, "seed")
    if second is None:
        return given, convert_to_tensor(0, int64, "seed2")
    with name_scope("seed2") as scope:
        other = convert_to_tensor(second, int64)
        both = comparison.logical_and(comparison.equal(given, 0), comparison.equal(other, 0))
        largest = constants.constant(2**31 - 1, dtype=int64)
        return given, comparison.where_v2(both, largest, other, name=scope)


def static_size(size: Tensor, drop: Tensor) -> int | None:
    dropped, known = constant_value(drop), constant_value(size)
    return int(known) if dropped is not None and bool(dropped) and known is not None else None


def _common_shape(first: TensorShape, second: TensorShape) -> TensorShape:
    """The most that is known of both."""
    if first.axes is None or second.axes is None or len(first.axes) != len(second.axes):
        return UNKNOWN
    return TensorShape(
        [a if a == b else None for a, b in zip(first.axes, second.axes, strict=True)]
    )


def _shapes_of_padding(wanted: Any, shapes: Any) -> list[Any]:
    """What is asked for each component: a tensor, a shape, or a list of numbers."""
    if isinstance(shapes, dict):
        return [s for key in sorted(shapes) for s in _shapes_of_padding(wanted[key], shapes[key])]
    if isinstance(shapes, tuple):
        pairs = zip(wanted, shapes, strict=True)
        return [s for part, of_part in pairs for s in _shapes_of_padding(part, of_part)]
    return [wanted]


def _shape_tensor(shape: Any) -> Tensor:
    if isinstance(shape, Tensor):
        return conversion.cast(shape, int64) if shape.dtype is not int64 else shape
    axes = as_shape(shape).as_list()
    return convert_to_tensor(np.array([-1 if d is None else d for d in axes], np.int64))


def _static_shape(tensor: Tensor) -> TensorShape:
    known = constant_value(tensor)
    if known is None:
        return UNKNOWN
    return TensorShape([None if d < 0 else int(d) for d in known])


def _paddings(values: Any, types: Any) -> list[Tensor]:
    dtypes = nested.leaves(types)
    if values is None:
        given: list[Any] = [None] * len(dtypes)
    elif isinstance(values, (tuple, dict)):
        given = nested.structure_of(values, types)
    else:
        given = [values] * len(dtypes)
    made = []
    for value, dtype in zip(given, dtypes, strict=True):
        filling = (
            value if value is not None else "" if dtype is string else np.zeros((), dtype.numpy)
        )
        made.append(convert_to_tensor(filling, dtype, "padding_value"))
    return made


# -- generators --------------------------------------------------------------------------------


def _as_tuples(structure: Any) -> Any:
    """Lists of types or shapes mean tuples."""
    if isinstance(structure, list):
        return tuple(_as_tuples(item) for item in structure)
    return structure


def _shapes_like(types: Any, shapes: Any) -> Any:
    if shapes is None:
        return nested.mapped(lambda _t: UNKNOWN, types)
    return nested.packed(types, [as_shape(s) for s in _shapes_of_padding(shapes, types)])


class _Generators:
    """The Python generators of a dataset that are under way, by number."""

    def __init__(self, generator: Callable[..., Any], types: Any, shapes: Any) -> None:
        self._make = generator
        self._types = types
        self._flat: list[DType] = nested.leaves(types)
        self._shapes: list[TensorShape] = nested.leaves(shapes)
        self._open: dict[int, Any] = {}
        self._last = -1
        self._lock = threading.Lock()

    def begin(self, *args: Any) -> Any:
        with self._lock:
            self._last += 1
            number = self._last
        self._open[number] = iter(self._make(*args))
        return np.int64(number)

    def next(self, number: Any) -> list[Any]:
        value = next(self._open[int(number)])
        try:
            leaves = nested.structure_of(value, self._types)
        except ValueError as error:
            raise TypeError(
                "`generator` yielded an element that did not match the expected structure. The "
                f"expected structure was {self._types}, but the yielded element was {value}."
            ) from error
        return [self._array(leaf, i) for i, leaf in enumerate(leaves)]

    def _array(self, leaf: Any, index: int) -> Any:
        dtype, shape = self._flat[index], self._shapes[index]
        try:
            array = np.asarray(leaf, dtype=dtype.numpy)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "`generator` yielded an element that could not be converted to the expected type. "
                f"The expected type was {dtype.name}, but the yielded element was {leaf}."
            ) from error
        if not shape.is_compatible_with(array.shape):
            raise InvalidArgumentError.without_op(
                f"`generator` yielded an element of shape {array.shape} where an element of shape "
                f"{shape} was expected.",
            )
        return array

    def end(self, number: Any) -> Any:
        self._open.pop(int(number), None)
        return np.int64(0)


def _generator_dataset(
    state: _Generators, args: list[Tensor], number: Tensor, types: Any, shapes: Any
) -> Dataset:
    flat, known = nested.leaves(types), nested.leaves(shapes)

    def get_iterator_id_fn(_number: Tensor) -> Any:
        return py_func(state.begin, args, int64, stateful=True)

    def generator_next_fn(iterator: Tensor) -> Any:
        values = py_func(state.next, [iterator], flat, stateful=True)
        for tensor, shape in zip(values, known, strict=True):
            tensor.set_shape(shape)
        return tuple(values)

    def finalize_fn(iterator: Tensor) -> Any:
        return py_func(state.end, [iterator], int64, stateful=True)

    what = "Dataset_from_generator"
    begin = ElementFunction(get_iterator_id_fn, what, number.dtype, number.shape)
    # What begins is not given the number: it takes nothing but what it captured.
    functions = [
        begin,
        ElementFunction(generator_next_fn, what, int64, SCALAR),
        ElementFunction(finalize_fn, what, int64, SCALAR),
    ]
    op = apply_op(
        "GeneratorDataset", [number, *functions[0].captured], functions[1].captured,
        functions[2].captured, init_func=functions[0].attr, next_func=functions[1].attr,
        finalize_func=functions[2].attr, output_types=flat, output_shapes=known,
    )  # fmt: skip
    return _of(op, types, shapes)


# -- iterators ---------------------------------------------------------------------------------


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """An iterator over all elements once, which needs no initializer.

    ValueError if the dataset takes anything of the program that it would have to be given.
    """
    graph = get_default_graph()
    name = f"_make_dataset_{len(graph.functions)}"
    factory = FunctionGraph(name, graph)
    try:
        with factory.as_default():
            factory.outputs = [copied_into(factory, dataset._variant_tensor)]
    except ValueError as error:
        raise ValueError(
            f"{error} A one-shot iterator begins by itself and cannot be given anything: use "
            "make_initializable_iterator() for a dataset that depends on placeholders, variables "
            "or tables."
        ) from None
    graph.add_function(name, factory)
    attr = function_attr(factory)
    del attr.func.attr["_tf_data_function"]
    with graph.colocate_with(dataset._variant_tensor.op):
        op = apply_op(
            "OneShotIterator", dataset_factory=attr, output_types=nested.leaves(dataset._types),
            output_shapes=nested.leaves(dataset._shapes),
        )  # fmt: skip
        return Iterator(op.values()[0], None, dataset._types, dataset._shapes)


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """An iterator that begins whenever its `initializer` is run."""
    with get_default_graph().colocate_with(dataset._variant_tensor.op):
        handle = apply_op(
            "IteratorV2", shared_name=shared_name or "", container="",
            output_types=nested.leaves(dataset._types),
            output_shapes=nested.leaves(dataset._shapes),
        ).values()[0]  # fmt: skip
        initializer = apply_op("MakeIterator", dataset._variant_tensor, handle)
        return Iterator(handle, initializer, dataset._types, dataset._shapes)


def get_output_types(dataset_or_iterator: Any) -> Any:
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator: Any) -> Any:
    return dataset_or_iterator.output_classes
