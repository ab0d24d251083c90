"""`numpy_input_fn`: the rows of arrays as a model's features and labels, through a queue.

Rows go through a queue in their order, or shuffled, a batch at a time; threads of the program feed
it. With a number of epochs the last batch may be smaller, and then the input is at its end.
Nodes, their names and the summary of how full the queue is are TensorFlow's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stepscope.errors import CancelledError, OutOfRangeError
from stepscope.graph.dtypes import as_dtype, float32, int64
from stepscope.graph.graph import name_scope
from stepscope.ops.arrays import constants, conversion
from stepscope.ops.io import summaries
from stepscope.ops.math import elementwise
from stepscope.ops.state.queues import FIFOQueue, QueueBase, RandomShuffleQueue
from stepscope.programs import log
from stepscope.programs.queue_runner import QueueRunner, add_queue_runner

_FEATURES = "__direct_np_input__"
_TARGET = "__target_key__"


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """An `input_fn` that gives batches of the rows of `x` and, if there is a `y`, of `y`.

    Each is an array or a dict of arrays, and what comes out is the same. `shuffle` has to be said.
    `num_epochs=None` goes on for ever. In `shuffle`d input the order differs each time.

        input_fn = numpy_input_fn({"x": x}, y, batch_size=16, num_epochs=None, shuffle=True)
    """
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle}"
        )

    def input_fn() -> Any:
        features = _columns(x, "x", _FEATURES)
        targets = {} if y is None else _columns(y, "y", _TARGET)
        both = sorted(features.keys() & targets.keys())
        if both:
            raise ValueError(f"{len(both)} duplicate keys are found in both x and y: {both}")
        columns = {**features, **targets}
        if len({len(column) for column in columns.values()}) != 1:
            raise ValueError(
                "Length of tensors in x and y is mismatched. All elements in x and y must have the "
                f"same length.\nShapes in x: { {k: v.shape for k, v in features.items()} }\n"
                f"Shapes in y: { {k: v.shape for k, v in targets.items()} }\n"
            )
        queue = _queue(
            list(columns.values()), queue_capacity, shuffle, num_threads, batch_size, num_epochs
        )
        take = queue.dequeue_many if num_epochs is None else queue.dequeue_up_to
        # The first is the number of the row.
        _, *batch = take(batch_size)
        of_key = dict(zip(columns, batch, strict=True))
        found = _as_given(x, {key: of_key[key] for key in features})
        return found if y is None else (found, _as_given(y, {key: of_key[key] for key in targets}))

    return input_fn


def _columns(data: Any, name: str, alone: str) -> dict[str, Any]:
    """The arrays by key, in the order in which they go through the queue."""
    if isinstance(data, Mapping):
        if not data:
            instead = ", use None instead" if name == "y" else ""
            raise ValueError(f"{name} cannot be empty dict{instead}.")
        return {key: np.asarray(data[key]) for key in sorted(data)}
    if not isinstance(data, np.ndarray):
        raise TypeError(f"{name} must be a dict or array; got {type(data).__name__}")
    return {alone: data}


def _as_given(data: Any, tensors: dict[str, Any]) -> Any:
    if isinstance(data, Mapping):
        return tensors
    (only,) = tensors.values()
    return only


# -- the queue, and what fills it --------------------------------------------------------------


def _queue(
    columns: Sequence[Any],
    capacity: int,
    shuffle: bool,
    threads: int,
    batch_size: int,
    epochs: int | None,
) -> QueueBase:
    with name_scope("enqueue_input"):
        types = [int64, *(as_dtype(column.dtype) for column in columns)]
        shapes = [(), *(column.shape[1:] for column in columns)]
        kept = capacity // 4 if shuffle else 0
        if threads > 1 and (epochs is not None or not shuffle):
            log.warning(
                "numpy_input_fn(num_threads=%d): each thread reads all rows in order, so epochs "
                "are counted per thread and the order of rows is left to chance. Use one thread.",
                threads,
            )
        queue: QueueBase
        if shuffle:
            queue = RandomShuffleQueue(capacity, kept, dtypes=types, shapes=shapes)
        else:
            queue = FIFOQueue(capacity, dtypes=types, shapes=shapes)
        feeds = {}
        for _ in range(threads):
            placeholders = [constants.placeholder(dtype) for dtype in types]
            start = random.randrange(len(columns[0])) if shuffle else 0
            rows = _rows(len(columns[0]), batch_size, start, epochs)
            feeds[queue.enqueue_many(placeholders)] = _feeds(placeholders, columns, rows)
        add_queue_runner(_FeedingQueueRunner(queue, feeds))
        room = capacity - kept
        full = conversion.cast(elementwise.maximum(0, queue.size() - kept), float32) * (1.0 / room)
        summaries.scalar(f"queue/{queue.name}fraction_over_{kept}_of_{room}_full", full)
        return queue


def _rows(count: int, size: int, start: int, epochs: int | None) -> Iterator[Any]:
    """The numbers of the rows, `size` at a time, around and around; an epoch ends where it began.

    >>> [rows.tolist() for rows in _rows(3, 2, 0, 1)]
    [[0, 1], [2]]
    >>> [rows.tolist() for rows in _rows(3, 2, 1, 2)]
    [[1, 2], [0, 1], [2, 0]]
    """
    at, left = start, None if epochs is None else count * epochs
    while left is None or left > 0:
        rows = (at + np.arange(size if left is None else min(size, left))) % count
        yield rows
        at += len(rows)
        left = None if left is None else left - len(rows)


def _feeds(
    placeholders: Sequence[Any], columns: Sequence[Any], rows: Iterator[Any]
) -> Iterator[dict[Any, Any]]:
    for chosen in rows:
        values = [chosen, *(column[chosen] for column in columns)]
        yield dict(zip(placeholders, values, strict=True))


class _FeedingQueueRunner(QueueRunner):
    """A queue runner whose enqueue ops are fed, each from an iterator of its own."""

    def __init__(self, queue: QueueBase, feeds: Mapping[Any, Iterator[dict[Any, Any]]]) -> None:
        super().__init__(
            queue, list(feeds), queue_closed_exception_types=(OutOfRangeError, CancelledError)
        )
        self._feeds = feeds

    def _enqueuer(self, sess: Any, op: Any) -> Callable[[], Any]:
        feeds = self._feeds[op]

        def enqueue() -> None:
            fed = next(feeds, None)
            if fed is None:
                raise OutOfRangeError.without_op("Already emitted all epochs.")
            sess.run(op, feed_dict=fed)

        return enqueue

    def to_proto(self, export_scope: str | None = None) -> Any:
        """None: what it feeds is in no file."""
        del export_scope
