"""Queues: they hand tensors from run to run, and wait where there is nothing or no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype, int64
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape, as_shape
from stepscope.ops.math.random import get_seed
from stepscope.ops.state import queue_ops

__all__ = [
    "FIFOQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
    "queue_ops",
]


class QueueBase:
    """A queue in a graph. An element is a tuple of tensors, one per component.

    With `names` an element is a dict by these names instead.
    """

    def __init__(
        self, dtypes: Sequence[DType], shapes: Sequence[TensorShape] | None,
        names: Sequence[str] | None, queue_ref: Tensor,
    ) -> None:  # fmt: skip
        self._dtypes = list(dtypes)
        self._shapes = [UNKNOWN] * len(dtypes) if shapes is None else list(shapes)
        self._names = None if names is None else list(names)
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rpartition("/")[2]

    @property
    def queue_ref(self) -> Tensor:
        return self._queue_ref

    @property
    def name(self) -> str:
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        return self._names

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """An op that puts one element in, and waits while the queue is full."""
        values = self._components(vals)
        with name_scope(name, f"{self._name}_enqueue", values) as scope:
            tensors = self._convert(values)
            for tensor, shape in zip(tensors, self._shapes, strict=False):
                tensor.shape.assert_is_compatible_with(shape)
            return apply_op("QueueEnqueueV2", self._queue_ref, tensors, name=scope)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """An op that puts in the elements along the first axis of the components."""
        values = self._components(vals)
        with name_scope(name, f"{self._name}_EnqueueMany", values) as scope:
            tensors = self._convert(values)
            batch: Any = TensorShape([None])
            for tensor, shape in zip(tensors, self._shapes, strict=False):
                if tensor.shape.rank == 0:
                    raise ValueError(f"Shape {tensor.shape} must have rank at least 1")
                batch = batch.merge_with(tensor.shape[:1].with_rank(1))
                tensor.shape[1:].assert_is_compatible_with(shape)
            return apply_op("QueueEnqueueManyV2", self._queue_ref, tensors, name=scope)

    def dequeue(self, name: str | None = None) -> Any:
        """The next element: a tensor, or a list of them; waits while the queue is empty."""
        op = apply_op(
            "QueueDequeueV2", self._queue_ref, component_types=self._dtypes,
            name=name or f"{self._name}_Dequeue",
        )  # fmt: skip
        return self._element(op, [as_shape(s) for s in self._shapes])

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """The next `n` elements, stacked along a new first axis."""
        op = self._dequeue_several("QueueDequeueManyV2", n, name or f"{self._name}_DequeueMany")
        count = constant_value(op.inputs[1])
        axis = TensorShape([None if count is None else int(count)])
        return self._element(op, [axis.concatenate(s) for s in self._shapes])

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """As `dequeue_many`, but fewer elements once the queue is closed."""
        op = self._dequeue_several("QueueDequeueUpToV2", n, name or f"{self._name}_DequeueUpTo")
        return self._element(op, [TensorShape([None]).concatenate(s) for s in self._shapes])

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An op that lets nothing more in. Pending enqueues get in first, or are cancelled."""
        return apply_op(
            "QueueCloseV2", self._queue_ref, cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self._name}_Close",
        )  # fmt: skip

    def is_closed(self, name: str | None = None) -> Tensor:
        name = name or f"{self._name}_Is_Closed"
        return apply_op("QueueIsClosedV2", self._queue_ref, name=name).values()[0]

    def size(self, name: str | None = None) -> Tensor:
        """How many elements are in it."""
        name = name or f"{self._name}_Size"
        return apply_op("QueueSizeV2", self._queue_ref, name=name).values()[0]

    def _dequeue_several(self, op_type: str, n: Any, name: str) -> Operation:
        return apply_op(op_type, self._queue_ref, n, component_types=self._dtypes, name=name)

    def _components(self, vals: Any) -> list[Any]:
        if isinstance(vals, Mapping):
            if self._names is None:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names) != sorted(vals):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                    f"{sorted(vals)},Queue: {sorted(self._names)}"
                )
            return [vals[key] for key in self._names]
        if self._names is not None:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        return list(vals) if isinstance(vals, (list, tuple)) else [vals]

    def _convert(self, values: Sequence[Any]) -> list[Tensor]:
        if len(values) != len(self._dtypes):
            raise ValueError(
                f"Queue {self.name!r} has {len(self._dtypes)} components, but {len(values)} were "
                "given to enqueue."
            )
        return [
            convert_to_tensor(v, t, f"component_{i}")
            for i, (v, t) in enumerate(zip(values, self._dtypes, strict=True))
        ]

    def _element(self, op: Operation, shapes: Sequence[TensorShape]) -> Any:
        tensors = op.outputs
        for tensor, shape in zip(tensors, shapes, strict=True):
            if shape.rank is not None:
                tensor.set_shape(shape)
        if self._names is not None:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def __repr__(self) -> str:
        return f"<stepscope.{type(self).__name__} {self.name!r}>"


def _as_types(dtypes: Any) -> list[DType]:
    return [as_dtype(t) for t in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes])]


def _as_shapes(shapes: Any, count: int) -> list[TensorShape] | None:
    if shapes is None:
        return None
    is_list = isinstance(shapes, (list, tuple))
    is_one = not is_list or any(isinstance(s, int) or s is None for s in shapes)
    listed = [shapes] if is_one or (not shapes and count == 1) else shapes
    if len(listed) != count:
        raise ValueError(
            "Queue shapes must have the same length as dtypes, received "
            f"len(shapes)={len(listed)}, len(dtypes)={count}"
        )
    return [as_shape(s) for s in listed]


def _as_names(names: Any, count: int) -> list[str] | None:
    if not names:
        return None
    listed = [names] if isinstance(names, str) else list(names)
    if len(listed) != count:
        raise ValueError(
            "List of names must have the same length as the list of dtypes, received "
            f"len(names)={len(listed)},len(dtypes)={count}"
        )
    return listed


class FIFOQueue(QueueBase):
    """A queue that gives out its elements in the order they came."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = "fifo_queue",
    ) -> None:
        """`shapes`, where given, are the fixed shapes of the components."""
        types = _as_types(dtypes)
        known = _as_shapes(shapes, len(types))
        graph = get_default_graph()
        with graph.control_dependencies(None), graph.device("/device:CPU:*"):
            op = apply_op(
                "FIFOQueueV2", component_types=types, shapes=known or [], capacity=capacity,
                shared_name=shared_name or "", name=name,
            )  # fmt: skip
        super().__init__(types, known, _as_names(names, len(types)), op.values()[0])


class RandomShuffleQueue(QueueBase):
    """A queue that gives out its elements in random order."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str | None = "random_shuffle_queue",
    ) -> None:
        """At least `min_after_dequeue` elements stay in it to choose from, while it is open."""
        types = _as_types(dtypes)
        known = _as_shapes(shapes, len(types))
        first, second = get_seed(seed)
        op = apply_op(
            "RandomShuffleQueueV2", component_types=types, shapes=known or [], capacity=capacity,
            min_after_dequeue=min_after_dequeue, seed=first or 0, seed2=second or 0,
            shared_name=shared_name or "", name=name,
        )  # fmt: skip
        super().__init__(types, known, _as_names(names, len(types)), op.values()[0])


class PaddingFIFOQueue(QueueBase):
    """A first-in, first-out queue whose batches are padded with zeros, axis by axis."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = "padding_fifo_queue",
    ) -> None:
        """`shapes` say the rank of each component; lengths that differ are None."""
        types = _as_types(dtypes)
        known = _as_shapes(shapes, len(types))
        if known is None or any(shape.rank is None for shape in known):
            raise ValueError("Shapes must be provided for all components, with a known rank.")
        op = apply_op(
            "PaddingFIFOQueueV2", component_types=types, shapes=known, capacity=capacity,
            shared_name=shared_name or "", name=name,
        )  # fmt: skip
        super().__init__(types, known, _as_names(names, len(types)), op.values()[0])


class PriorityQueue(QueueBase):
    """A queue whose elements begin with a priority, an int64: the least is given out first."""

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = "priority_queue",
    ) -> None:
        """`types` and `shapes` are those of the components after the priority."""
        rest = _as_types(types)
        known = _as_shapes(shapes, len(rest))
        op = apply_op(
            "PriorityQueueV2", component_types=rest, shapes=known or [], capacity=capacity,
            shared_name=shared_name or "", name=name,
        )  # fmt: skip
        shown = None if known is None else [SCALAR, *known]
        super().__init__([int64, *rest], shown, _as_names(names, len(rest) + 1), op.values()[0])
