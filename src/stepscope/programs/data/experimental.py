"""What `Dataset.apply` takes: `tf.data.experimental`, and `tf.contrib.data` before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.graph import convert_to_tensor
from stepscope.graph.dtypes import bool_, int64
from stepscope.graph.shapes import TensorShape
from stepscope.programs.data import nested
from stepscope.programs.data.dataset import AUTOTUNE, Dataset, made_dataset, seeds, static_size
from stepscope.programs.data.functions import ElementFunction

__all__ = [
    "AUTOTUNE", "batch_and_drop_remainder", "enumerate_dataset", "ignore_errors", "map_and_batch",
    "parallel_interleave", "prefetch_to_device", "shuffle_and_repeat", "unbatch",
]  # fmt: skip

Transformation = Callable[[Dataset], Dataset]


def map_and_batch(
    map_func: Callable[..., Any], batch_size: Any, num_parallel_batches: Any = None,
    drop_remainder: Any = False, num_parallel_calls: Any = None,
) -> Transformation:  # fmt: skip
    """`map` and `batch` in one stage."""
    if num_parallel_calls is None:
        batches = 1 if num_parallel_batches is None else num_parallel_batches
        num_parallel_calls = batch_size * batches
    elif num_parallel_batches is not None:
        raise ValueError(
            "The `num_parallel_batches` and `num_parallel_calls` arguments are mutually exclusive."
        )

    def transformed(dataset: Dataset) -> Dataset:
        function = ElementFunction(
            map_func, "tf_data_experimental_map_and_batch", dataset.output_types,
            dataset.output_shapes,
        )  # fmt: skip
        size = convert_to_tensor(batch_size, int64, "batch_size")
        calls = convert_to_tensor(num_parallel_calls, int64, "num_parallel_calls")
        drop = convert_to_tensor(drop_remainder, bool_, "drop_remainder")
        first = TensorShape([static_size(size, drop)])
        return made_dataset(
            "MapAndBatchDataset", function.types, nested.mapped(first.concatenate, function.shapes),
            dataset._variant_tensor, function.captured, size, calls, drop, f=function.attr,
            preserve_cardinality=True,
        )  # fmt: skip

    return transformed


def shuffle_and_repeat(
    buffer_size: Any, count: Any = None, seed: int | None = None
) -> Transformation:
    """`shuffle` and `repeat` in one stage, which mixes no repetitions."""

    def transformed(dataset: Dataset) -> Dataset:
        size = convert_to_tensor(buffer_size, int64, "buffer_size")
        times = convert_to_tensor(-1 if count is None else count, int64, "count")
        first, second = seeds(seed)
        return made_dataset(
            "ShuffleAndRepeatDataset", dataset.output_types, dataset.output_shapes,
            dataset._variant_tensor, size, first, second, times,
        )  # fmt: skip

    return transformed


def unbatch() -> Transformation:
    """The rows of each element."""
    return lambda dataset: dataset.unbatch()


def ignore_errors(log_warning: bool = False) -> Transformation:
    """Leaves out the elements that could not be made."""
    return lambda dataset: dataset.ignore_errors(log_warning)


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """`batch` with `drop_remainder`."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def enumerate_dataset(start: int = 0) -> Transformation:
    """Pairs of a number and an element."""
    return lambda dataset: dataset.enumerate(start)


def parallel_interleave(
    map_func: Callable[..., Any], cycle_length: Any, block_length: Any = 1, sloppy: bool = False,
    buffer_output_elements: Any = None, prefetch_input_elements: Any = None,
) -> Transformation:  # fmt: skip
    """`interleave` with as many calls at once as datasets in turn."""
    del sloppy, buffer_output_elements, prefetch_input_elements
    return lambda dataset: dataset.interleave(
        map_func, cycle_length, block_length, num_parallel_calls=cycle_length
    )


def prefetch_to_device(device: str, buffer_size: Any = None) -> Transformation:
    """`prefetch`: the embedded engine's devices share their memory."""
    del device
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)
