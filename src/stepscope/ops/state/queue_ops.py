"""The ops of queues; `queue_cells` says what the waiting calls may rely on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.dtypes import Array, DType, int64, string
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape
from stepscope.ops.resources import RunContext
from stepscope.ops.state.queue_cells import (
    KIND,
    Element,
    PaddingQueueCell,
    PriorityQueueCell,
    QueueCell,
    ShuffleQueueCell,
)

# -- the queues themselves ---------------------------------------------------------------------


def _queue_kernel(
    make: Callable[[KernelNode, str, bool], QueueCell],
) -> Callable[[KernelNode], Kernel]:
    def kernel(node: KernelNode) -> Kernel:
        container, shared = node.attr("container").decode(), node.attr("shared_name").decode()
        name = shared or node.name
        key = f"{container}/{name}" if container else name
        cell: QueueCell = node.resources.get_or_create(
            KIND, key, lambda: make(node, name, bool(shared))
        )
        wanted = tuple(_component_types(node))
        if cell.dtypes != wanted:
            raise InvalidArgumentError.without_op(
                f"Shared queue {name!r} has component types "
                f"({', '.join(d.name for d in cell.dtypes)}) in this session, but node "
                f"{node.name!r} asks for ({', '.join(d.name for d in wanted)}).",
            )
        return Kernel(lambda: cell, cost_ns=50)

    return kernel


def _component_types(node: KernelNode) -> list[DType]:
    types: list[DType] = node.attr("component_types")
    return [int64, *types] if node.op.type == "PriorityQueueV2" else types


def _make_padding(node: KernelNode, name: str, shared: bool) -> QueueCell:
    return PaddingQueueCell(
        name, node.attr("capacity"), node.attr("component_types"), node.attr("shapes"), shared,
        device=node.device, held=node.resources.held,
    )  # fmt: skip


def _make_priority(node: KernelNode, name: str, shared: bool) -> QueueCell:
    shapes = node.attr("shapes")
    return PriorityQueueCell(
        name, node.attr("capacity"), _component_types(node), [SCALAR, *shapes], shared,
        device=node.device, held=node.resources.held,
    )  # fmt: skip


def _make_fifo(node: KernelNode, name: str, shared: bool) -> QueueCell:
    types, shapes = node.attr("component_types"), node.attr("shapes")
    return QueueCell(
        name, node.attr("capacity"), types, shapes, shared,
        device=node.device, held=node.resources.held,
    )  # fmt: skip


def _make_shuffle(node: KernelNode, name: str, shared: bool) -> QueueCell:
    return ShuffleQueueCell(
        name, node.attr("capacity"), node.attr("component_types"), node.attr("shapes"), shared,
        node.attr("min_after_dequeue"), (node.attr("seed"), node.attr("seed2")),
        device=node.device, held=node.resources.held,
    )  # fmt: skip


_OWNER = ["container: string = ''", "shared_name: string = ''"]
_TYPES, _SHAPES = "component_types: list(type)", "shapes: list(shape)"
for _name, _made, _attrs in (
    ("FIFOQueueV2", _make_fifo, [_TYPES, f"{_SHAPES} = []", "capacity: int = -1"]),
    ("PaddingFIFOQueueV2", _make_padding, [_TYPES, f"{_SHAPES} = []", "capacity: int = -1"]),
    ("PriorityQueueV2", _make_priority, [f"{_TYPES} = []", _SHAPES, "capacity: int = -1"]),
    ("RandomShuffleQueueV2", _make_shuffle, [
        _TYPES, f"{_SHAPES} = []", "capacity: int = -1", "min_after_dequeue: int = 0",
        "seed: int = 0", "seed2: int = 0"]),
):  # fmt: skip
    register(
        _name,
        outputs=["handle: resource"],
        attrs=[*_attrs, *_OWNER],
        shape=lambda _c: SCALAR,
        kernel=_queue_kernel(_made),
        stateful=True,
    )

# -- in ----------------------------------------------------------------------------------------


def _refuse_timeout(node: KernelNode) -> None:
    if node.attr("timeout_ms") != -1:
        raise InvalidArgumentError.without_op(
            f"{node.name!r}: timeout_ms is not supported; use the run's timeout_in_ms."
        )


def _no_outputs(_context: ShapeContext) -> list[TensorShape]:
    return []


def _enqueue_kernel(node: KernelNode) -> Kernel:
    _refuse_timeout(node)
    types: list[DType] = node.attr("Tcomponents")
    name = node.name

    def call(context: RunContext, queue: QueueCell, *components: Any) -> None:
        queue.check_element_types(types)
        for i, component in enumerate(components):
            queue.check_shape(i, np.shape(component))
        queue.enqueue(context, [_own(types, components)], name)

    return Kernel(call, context=True, blocking=True)


def _enqueue_many_kernel(node: KernelNode) -> Kernel:
    _refuse_timeout(node)
    types: list[DType] = node.attr("Tcomponents")
    name = node.name

    def call(context: RunContext, queue: QueueCell, *components: Any) -> None:
        queue.check_element_types(types)
        if any(np.ndim(c) == 0 for c in components):
            raise InvalidArgumentError.without_op(
                "All components input to an EnqueueMany op must have rank >= 1."
            )
        count = len(components[0])
        for i, component in enumerate(components):
            queue.check_shape(i, np.shape(component), count)
            if len(component) != count:
                raise InvalidArgumentError.without_op(
                    "All components input to an EnqueueMany op must have the same size in the "
                    f"0th dimension: component 0 has {count}, component {i} {len(component)}.",
                )
        rows = [_own(types, [c[row] for c in components]) for row in range(count)]
        if rows:
            queue.enqueue(context, rows, name)

    return Kernel(call, context=True, blocking=True)


def _own(types: Sequence[DType], components: Sequence[Any]) -> Element:
    return tuple(np.array(c, dtype=t.numpy) for c, t in zip(components, types, strict=True))


for _name, _kernel in (
    ("QueueEnqueueV2", _enqueue_kernel),
    ("QueueEnqueueManyV2", _enqueue_many_kernel),
):
    register(
        _name,
        inputs=["handle: resource", "components: Tcomponents"],
        attrs=["Tcomponents: list(type)", "timeout_ms: int = -1"],
        shape=_no_outputs,
        kernel=_kernel,
        stateful=True,
    )

# -- out ---------------------------------------------------------------------------------------


def _dequeue_kernel(node: KernelNode) -> Kernel:
    _refuse_timeout(node)
    types: list[DType] = node.attr("component_types")

    def call(context: RunContext, queue: QueueCell) -> Any:
        queue.check_element_types(types)
        (element,) = queue.dequeue(context, 1)
        return element[0] if len(element) == 1 else element

    return Kernel(call, context=True, blocking=True)


def _dequeue_many_kernel(up_to: bool) -> Callable[[KernelNode], Kernel]:
    what = "DequeueUpTo" if up_to else "DequeueMany"

    def kernel(node: KernelNode) -> Kernel:
        _refuse_timeout(node)
        types: list[DType] = node.attr("component_types")

        def call(context: RunContext, queue: QueueCell, n: Any) -> Any:
            queue.check_element_types(types)
            count = int(n)
            if count < 0:
                raise InvalidArgumentError.without_op(f"{what}Op requested {count} < 0 elements")
            ready = queue.pads or all(s.is_fully_defined() for s in queue.shapes)
            if not ready or not queue.shapes:
                raise InvalidArgumentError.without_op(
                    f"{queue.type_name}'s DequeueMany and DequeueUpTo require the components to "
                    "have specified shapes.",
                )
            elements = queue.dequeue(context, count, up_to, copied=True) if count else []
            batch = [_batch(queue, i, elements) for i in range(len(types))]
            return batch[0] if len(batch) == 1 else tuple(batch)

        return Kernel(call, context=True, blocking=True)

    return kernel


def _batch(queue: QueueCell, index: int, elements: Sequence[Element]) -> Array:
    if queue.pads:
        return _padded_batch(queue, index, elements)
    known = queue.shapes[index].known
    assert known is not None
    out = np.empty((len(elements), *known), dtype=queue.dtypes[index].numpy)
    for i, element in enumerate(elements):
        # With the dots an element of rank 0 is unpacked: NumPy keeps it as an object otherwise.
        out[i, ...] = element[index]
    return out


def _padded_batch(queue: QueueCell, index: int, elements: Sequence[Element]) -> Array:
    """Elements beside each other, each filled up with zeros to the longest of every axis."""
    arrays = [element[index] for element in elements]
    axes = queue.shapes[index].axes or ()
    shape = [
        max((a.shape[i] for a in arrays), default=0) if n is None else n for i, n in enumerate(axes)
    ]
    dtype = queue.dtypes[index]
    out = np.full((len(arrays), *shape), b"" if dtype is string else 0, dtype.numpy)
    for i, array in enumerate(arrays):
        where: tuple[Any, ...] = (i, *(slice(n) for n in array.shape))
        out[where] = array
    return out


register(
    "QueueDequeueV2",
    inputs=["handle: resource"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type)", "timeout_ms: int = -1"],
    kernel=_dequeue_kernel,
    stateful=True,
)


def _dequeue_many_shape(context: ShapeContext) -> list[TensorShape]:
    count = context.constant(1)
    if count is not None and int(count) < 0:
        raise ValueError(f"Input 'n' must be >= 0, but is {int(count)}")
    return [UNKNOWN] * len(context.attr("component_types"))


for _name, _up_to in (("QueueDequeueManyV2", False), ("QueueDequeueUpToV2", True)):
    register(
        _name,
        inputs=["handle: resource", "n: int32"],
        outputs=["components: component_types"],
        attrs=["component_types: list(type)", "timeout_ms: int = -1"],
        shape=_dequeue_many_shape,
        kernel=_dequeue_many_kernel(_up_to),
        stateful=True,
    )

# -- the rest ----------------------------------------------------------------------------------


def _close_kernel(node: KernelNode) -> Kernel:
    cancel = node.attr("cancel_pending_enqueues")

    def call(context: RunContext, queue: QueueCell) -> None:
        queue.close(context, cancel)

    return Kernel(call, context=True, blocking=True)


register(
    "QueueCloseV2",
    inputs=["handle: resource"],
    attrs=["cancel_pending_enqueues: bool = false"],
    shape=_no_outputs,
    kernel=_close_kernel,
    stateful=True,
)
register(
    "QueueSizeV2",
    inputs=["handle: resource"],
    outputs=["size: int32"],
    shape=lambda _c: SCALAR,
    kernel=lambda _node: Kernel(lambda queue: np.int32(queue.size), cost_ns=200),
    stateful=True,
)
register(
    "QueueIsClosedV2",
    inputs=["handle: resource"],
    outputs=["is_closed: bool"],
    shape=lambda _c: SCALAR,
    kernel=lambda _node: Kernel(lambda queue: np.bool_(queue.closed), cost_ns=200),
    stateful=True,
)
