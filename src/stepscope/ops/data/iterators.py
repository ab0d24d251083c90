"""Iterators: where a run takes the next element of a dataset.

An iterator is an object of the session, found by name. What a caller may rely on:

- One element at a time is taken, by whoever came first. Whoever waits for that is woken when its
  run is told to stop.
- A new dataset (`MakeIterator`) takes the place of the old one, whose threads end.
- At the end, and from then on, taking is an `OutOfRangeError`.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, Final

import numpy as np

from stepscope.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from stepscope.graph.dtypes import DType
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import SCALAR, TensorShape
from stepscope.ops.data.registering import TYPES_AND_SHAPES
from stepscope.ops.data.stages import (
    KIND,
    DatasetValue,
    Element,
    ElementCall,
    IteratorStages,
    clock,
    own,
    wait_until,
)
from stepscope.ops.resources import Holding, ResourceStore, RunContext

_numbers = itertools.count()
_NOT_INITIALIZED: Final = (
    "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
    "initializer operation for this iterator before getting the next element."
)


class IteratorCell:
    """A session's iterator. It gives one element at a time, to whoever came first."""

    def __init__(
        self, name: str, types: tuple[DType, ...], shapes: tuple[TensorShape, ...], line: str,
        device: str, resources: ResourceStore,
    ) -> None:  # fmt: skip
        self.name = name
        self.types = types
        self.shapes = shapes
        self.line = line
        self.device = device
        self.handle = f"{KIND}-{next(_numbers)}-{name}".encode()
        self.pipeline: IteratorStages | None = None
        self._resources = resources
        self._free = threading.Condition()
        self._taken = False
        self._closed = False

    def begin(self, dataset: DatasetValue) -> None:
        """Iterate over the dataset from its beginning."""
        fresh = IteratorStages(dataset, self._resources, self.device)
        old, self.pipeline = self.pipeline, fresh
        if old is not None:
            old.close()
        if self._closed:
            fresh.close()

    def next(self, context: RunContext) -> Element:
        """The next element; `OutOfRangeError` at the end."""
        call = ElementCall.of(context)
        with self._free:
            wait_until(self._free, call, lambda: not self._taken, watched=False)
            self._taken = True
        try:
            pipeline = self.pipeline
            if pipeline is None:
                raise FailedPreconditionError.without_op(_NOT_INITIALIZED)
            watcher = context.stages
            pipeline.watched = watcher is not None
            began = clock() if watcher is not None else 0
            element = pipeline.root.next(call)
            if element is not None:
                pipeline.taken += 1
            else:
                pipeline.ended = True
            if watcher is not None:
                watcher.took(pipeline, self, clock() - began)
        finally:
            with self._free:
                self._taken = False
                self._free.notify_all()
        if element is None:
            raise OutOfRangeError.without_op("End of sequence")
        return element

    def check(self, types: list[DType], shapes: list[TensorShape], what: str) -> None:
        """InvalidArgumentError unless elements are of these types and shapes."""
        if tuple(types) != self.types:
            found, wanted = (", ".join(t.name for t in many) for many in (self.types, types))
            raise InvalidArgumentError.without_op(
                f"{what}: the iterator {self.name!r} has elements of types ({found}), and "
                f"({wanted}) are expected.",
            )
        for i, (mine, wanted_shape) in enumerate(zip(self.shapes, shapes, strict=True)):
            if not mine.is_compatible_with(wanted_shape):
                raise InvalidArgumentError.without_op(
                    f"{what}: Incompatible shapes at component {i}: expected "
                    f"{wanted_shape.brief()} but got {mine.brief()}.",
                )

    def holdings(self) -> list[Holding]:
        """What lies in the buffers of its stages."""
        pipeline = self.pipeline
        return pipeline.holdings() if pipeline is not None else []

    def close_for_good(self) -> None:
        """The session is closed."""
        self._closed = True
        if self.pipeline is not None:
            self.pipeline.close()


# -- iterators as tensors ----------------------------------------------------------------------


def _cell(node: KernelNode) -> IteratorCell:
    container, shared = node.attr("container").decode(), node.attr("shared_name").decode()
    name = shared or node.name
    cell: IteratorCell = node.resources.get_or_create(
        KIND,
        f"{container}/{name}" if container else name,
        lambda: IteratorCell(
            name, tuple(node.attr("output_types")), tuple(node.attr("output_shapes")),
            node.op.source, node.device, node.resources,
        ),
    )  # fmt: skip
    return cell


def _scalar(_context: ShapeContext) -> TensorShape:
    return SCALAR


def _no_outputs(_context: ShapeContext) -> list[TensorShape]:
    return []


def _iterator_kernel(node: KernelNode) -> Kernel:
    cell = _cell(node)
    return Kernel(lambda: cell, cost_ns=50)


_OWNER: Final = ("container: string = ''", "shared_name: string = ''")
register(
    "IteratorV2",
    outputs=["handle: resource"],
    attrs=["shared_name: string", "container: string", *TYPES_AND_SHAPES],
    shape=_scalar,
    kernel=_iterator_kernel,
    stateful=True,
)


def _one_shot_kernel(node: KernelNode) -> Kernel:
    cell = _cell(node)
    graph = node.op.graph.get_function(node.attr("dataset_factory").func.name)
    beginning = threading.Lock()

    def call(context: RunContext) -> IteratorCell:
        if cell.pipeline is None:
            with beginning:
                if cell.pipeline is None:
                    functions = node.resources.functions
                    factory = functions.instantiate(graph, ())
                    (dataset,) = factory(context.cancellation, context.step_id, ())
                    cell.begin(dataset)
        return cell

    return Kernel(call, context=True, cost_ns=500)


register(
    "OneShotIterator",
    outputs=["handle: resource"],
    attrs=["dataset_factory: func", *TYPES_AND_SHAPES, *_OWNER],
    shape=_scalar,
    kernel=_one_shot_kernel,
    stateful=True,
)


def _make_kernel(_node: KernelNode) -> Kernel:
    def call(dataset: DatasetValue, cell: IteratorCell) -> None:
        cell.begin(dataset)

    return Kernel(call, cost_ns=5000, opaque=True)


register(
    "MakeIterator",
    inputs=["dataset: variant", "iterator: resource"],
    shape=_no_outputs,
    kernel=_make_kernel,
    stateful=True,
)

# -- elements ----------------------------------------------------------------------------------


def _next_shape(context: ShapeContext) -> list[TensorShape]:
    return list(context.attr("output_shapes"))


def _next_kernel(node: KernelNode) -> Kernel:
    types: list[DType] = node.attr("output_types")
    shapes: list[TensorShape] = node.attr("output_shapes")
    what = node.name

    def call(context: RunContext, cell: IteratorCell) -> Any:
        cell.check(types, shapes, what)
        element = cell.next(context)
        for i, (value, shape) in enumerate(zip(element, shapes, strict=True)):
            if shape.axes is not None and not shape.is_compatible_with(np.shape(value)):
                raise InvalidArgumentError.without_op(
                    f"Incompatible shapes at component {i}: expected {shape.brief()} but got "
                    f"{TensorShape(np.shape(value)).brief()}.",
                )
        values = tuple([own(value) for value in element])
        return values[0] if len(values) == 1 else values

    return Kernel(call, context=True, blocking=True)


for _name in ("IteratorGetNext", "IteratorGetNextSync"):
    register(
        _name,
        inputs=["iterator: resource"],
        outputs=["components: output_types"],
        attrs=TYPES_AND_SHAPES,
        shape=_next_shape,
        kernel=_next_kernel,
        stateful=True,
    )

# -- handles as strings ------------------------------------------------------------------------


def _to_string_kernel(_node: KernelNode) -> Kernel:
    def call(cell: IteratorCell) -> Any:
        return np.array(cell.handle, dtype=object)

    return Kernel(call, cost_ns=500)


register(
    "IteratorToStringHandle",
    inputs=["resource_handle: resource"],
    outputs=["string_handle: string"],
    shape=_scalar,
    kernel=_to_string_kernel,
    stateful=True,
)


def _from_string_kernel(node: KernelNode) -> Kernel:
    types: list[DType] = node.attr("output_types")
    shapes: list[TensorShape] = node.attr("output_shapes")

    def call(text: Any) -> IteratorCell:
        handle = np.asarray(text).item()
        cells: list[IteratorCell] = list(node.resources.of_kind(KIND).values())
        cell = next((c for c in cells if c.handle == handle), None)
        if cell is None:
            raise InvalidArgumentError.without_op(
                f"{node.name!r}: {handle!r} is the handle of no iterator of this session; it is "
                "what running iterator.string_handle() in this session gives.",
            )
        if types:
            cell.check(types, shapes, node.name)
        return cell

    return Kernel(call, cost_ns=500)


register(
    "IteratorFromStringHandleV2",
    inputs=["string_handle: string"],
    outputs=["resource_handle: resource"],
    attrs=["output_types: list(type) = []", "output_shapes: list(shape) = []"],
    shape=_scalar,
    kernel=_from_string_kernel,
    stateful=True,
)
