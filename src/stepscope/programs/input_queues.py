"""Input through queues: producers that put elements in, and batches that come out.

Nodes and names are TensorFlow's. Each queue gets a `QueueRunner` in the graph's collection, and a
summary of how full it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepscope.graph import GraphKeys, convert_to_tensor
from stepscope.graph.dtypes import float32, int64, string
from stepscope.graph.graph import control_dependencies, name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape, as_shape
from stepscope.ops.arrays import constants, conversion, indexing, shaping
from stepscope.ops.flow import ordering
from stepscope.ops.io import summaries
from stepscope.ops.math import comparison, elementwise
from stepscope.ops.math.random import random_shuffle
from stepscope.ops.state.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from stepscope.ops.state.variable_collections import Variable
from stepscope.programs.queue_runner import QueueRunner, add_queue_runner

_NO_STRINGS = "string_input_producer requires a non-null input tensor"

# -- producers ---------------------------------------------------------------------------------


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """The tensor, `num_epochs` times; then `OutOfRangeError`.

    The count is a local variable, `epochs`: run `tf.local_variables_initializer()` first.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = Variable(
            constants.constant(0, dtype=int64), name="epochs", trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )  # fmt: skip
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            return conversion.identity(tensor, name=scope)


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of the rows of a tensor, over and over or `num_epochs` times, each time shuffled."""
    with name_scope(name, "input_producer", [input_tensor]):
        tensor = convert_to_tensor(input_tensor, name="input_tensor")
        shape = tensor.shape[1:].merge_with(as_shape(element_shape))
        if not shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be "
                f"specified: {tensor.name} has shape {tensor.shape}"
            )
        if shuffle:
            tensor = random_shuffle(tensor, seed=seed)
        tensor = limit_epochs(tensor, num_epochs)
        queue = FIFOQueue(
            capacity, [tensor.dtype.base_dtype], [shape], shared_name=shared_name, name=name
        )
        enqueue = queue.enqueue_many([tensor])
        add_queue_runner(QueueRunner(queue, [enqueue], cancel_op=cancel_op))
        if summary_name is not None:
            _summarize_fullness(summary_name, queue.size(), capacity)
        return queue


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of strings, as of file names."""
    if not isinstance(string_tensor, Tensor) and not len(string_tensor):
        raise ValueError(_NO_STRINGS)
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        tensor = convert_to_tensor(string_tensor, string)
        some = ordering.Assert(comparison.greater(shaping.size(tensor), 0), [_NO_STRINGS])
        with control_dependencies([some]):
            tensor = conversion.identity(tensor)
        return input_producer(
            tensor, [], num_epochs, shuffle, seed, capacity, shared_name,
            f"fraction_of_{capacity}_full", scope, cancel_op,
        )  # fmt: skip


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """A queue of the numbers from 0 to `limit` - 1."""
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(
            constants.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name,
            f"fraction_of_{capacity}_full", scope,
        )  # fmt: skip


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """One row of each of the tensors, the same row of all."""
    with name_scope(name, "input_producer", tensor_list):
        tensors = [convert_to_tensor(t) for t in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        rows = shaping.shape(tensors[0])[0]
        queue = range_input_producer(rows, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [indexing.gather(tensor, index) for tensor in tensors]


# -- batches -----------------------------------------------------------------------------------


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of `batch_size` elements, in their order if `num_threads` is 1.

    `tensors` is a tensor, a list or a dict of them, and so is what comes back (of a list of one,
    the tensor). With `enqueue_many` they are rows of elements already.
    """
    return _batched(
        name, "batch", [tensors], PaddingFIFOQueue if dynamic_pad else FIFOQueue, batch_size,
        capacity, enqueue_many, shapes, allow_smaller_final_batch, num_threads,
        shared_name=shared_name,
    )  # fmt: skip


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, in random order; `min_after_dequeue` elements stay to choose from."""
    if capacity <= min_after_dequeue:
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}."
        )
    return _batched(
        name, "shuffle_batch", [tensors], RandomShuffleQueue, batch_size, capacity, enqueue_many,
        shapes, allow_smaller_final_batch, num_threads, min_after_dequeue=min_after_dequeue,
        seed=seed, shared_name=shared_name,
    )  # fmt: skip


def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of several sources of elements that are alike: each has a thread of its own."""
    return _batched(
        name, "batch_join", tensors_list, PaddingFIFOQueue if dynamic_pad else FIFOQueue,
        batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
        shared_name=shared_name,
    )  # fmt: skip


def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, of several sources of elements: each has a thread of its own."""
    return _batched(
        name, "shuffle_batch_join", tensors_list, RandomShuffleQueue, batch_size, capacity,
        enqueue_many, shapes, allow_smaller_final_batch, min_after_dequeue=min_after_dequeue,
        seed=seed, shared_name=shared_name,
    )  # fmt: skip


def _batched(
    name: str | None,
    default: str,
    sources: Sequence[Any],
    kind: Callable[..., QueueBase],
    batch_size: Any,
    capacity: int,
    enqueue_many: bool,
    shapes: Any,
    smaller: bool,
    threads: int = 1,
    **queue_options: Any,
) -> Any:
    """Batches out of a queue that each source fills, by so many threads."""
    lists, keys = _all_listed(sources)
    with name_scope(name, default, [v for values in lists for v in values]) as scope:
        lists = [[convert_to_tensor(value) for value in values] for values in lists]
        queue = kind(
            capacity=capacity, dtypes=_types_of_all(lists),
            shapes=_shapes_of_all(lists, shapes, enqueue_many), **queue_options,
        )  # fmt: skip
        # All threads of one source run the same op.
        ops = [queue.enqueue_many(v) if enqueue_many else queue.enqueue(v) for v in lists]
        add_queue_runner(QueueRunner(queue, ops * threads))
        least = queue_options.get("min_after_dequeue")
        if least is None:
            _summarize_fullness(f"fraction_of_{capacity}_full", queue.size(), capacity)
        else:
            room = max(1, capacity - least)
            over = elementwise.maximum(0, queue.size() - least)
            _summarize_fullness(f"fraction_over_{least}_of_{room}_full", over, room)
        take = queue.dequeue_up_to if smaller else queue.dequeue_many
        found = take(batch_size, name=scope)
        if keys is None:
            return found
        return dict(zip(keys, found if len(keys) > 1 else [found], strict=True))


def _summarize_fullness(name: str, held: Any, room: int) -> None:
    summaries.scalar(name, conversion.cast(held, float32) * (1.0 / room))


def _all_listed(tensors_list: Sequence[Any]) -> tuple[list[list[Any]], list[str] | None]:
    found = [_listed(tensors) for tensors in tensors_list]
    if not found:
        raise ValueError("Expected at least one tensor list in batch_join().")
    if any(keys != found[0][1] for _, keys in found):
        raise ValueError("All elements of tensors_list must be dicts with the same keys, or none.")
    return [values for values, _ in found], found[0][1]


def _types_of_all(lists: Sequence[Sequence[Tensor]]) -> list[Any]:
    types = [[v.dtype.base_dtype for v in values] for values in lists]
    for other in types[1:]:
        if other != types[0]:
            raise TypeError(
                f"Expected types to be consistent: {[t.name for t in types[0]]} vs. "
                f"{[t.name for t in other]}."
            )
    return types[0]


def _shapes_of_all(lists: Sequence[Sequence[Tensor]], shapes: Any, many: bool) -> Any:
    """The most that is known of the shapes of all sources, where they are not given."""
    found = [_element_shapes(values, shapes, many) for values in lists]
    if shapes is not None:
        return shapes
    common = []
    for of_each in zip(*found, strict=True):
        axes = [shape.axes for shape in of_each]
        if len({len(a) for a in axes}) > 1:
            common.append(TensorShape(None))
        else:
            common.append(
                TensorShape(
                    [ns[0] if len(set(ns)) == 1 else None for ns in zip(*axes, strict=True)]
                )
            )
    return common


def _listed(tensors: Any) -> tuple[list[Any], list[str] | None]:
    """The tensors as a list, and the keys of a dict of them."""
    if isinstance(tensors, Mapping):
        keys = sorted(tensors)
        return [tensors[key] for key in keys], keys
    if isinstance(tensors, (list, tuple)):
        if not tensors:
            raise ValueError("Expected at least one tensor in batch().")
        return list(tensors), None
    return [tensors], None


def _element_shapes(
    values: Sequence[Tensor], shapes: Any, enqueue_many: bool
) -> list[TensorShape] | Any:
    if shapes is not None:
        return shapes
    for value in values:
        if value.shape.rank is None:
            raise ValueError(f"Cannot infer Tensor's rank: {value}")
    return [value.shape[1:] if enqueue_many else value.shape for value in values]
