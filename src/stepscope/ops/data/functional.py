"""Datasets that call a function for each element: map, filter, flat_map, interleave, reduce."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, OpError
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.data.asynchronous import AUTOTUNE, Ahead, cores
from stepscope.ops.data.registering import (
    METADATA,
    TYPES_AND_SHAPES,
    function_of,
    register_dataset,
)
from stepscope.ops.data.stages import (
    DatasetPlace,
    DatasetValue,
    Element,
    ElementCall,
    Elements,
    IteratorStages,
    StageCounts,
    clock,
    own,
    wait_until,
)
from stepscope.ops.data.transformations import stacked
from stepscope.ops.resources import RunContext

_CAPTURED = "other_arguments: Targuments"
_FUNCTION = ("f: func", "Targuments: list(type)")
_DETERMINISTIC = "deterministic: string = 'default'"


class _Calling(DatasetValue):
    """A dataset with a function, and what that captured."""

    attr = "f"

    def __init__(self, node: KernelNode, place: DatasetPlace, source: Any, *captured: Any) -> None:
        super().__init__(place, [source])
        self.graph = function_of(node, place, self.attr)
        self.captured = captured


def _calls(number: Any) -> int:
    if int(number) < 1 and int(number) != AUTOTUNE:
        raise InvalidArgumentError.without_op(
            "num_parallel_calls must be greater than zero, or -1 to leave it open."
        )
    return cores() if int(number) == AUTOTUNE else int(number)


# -- MapDataset, ParallelMapDatasetV2 ----------------------------------------------------------


class _Mapped(_Calling):
    """What a function makes of each element."""

    kind = "map"

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _OneByOne(self, pipeline, stage)


class _OneByOne(Elements):
    def __init__(self, dataset: _Calling, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._function = pipeline.function(dataset.graph, dataset.captured)

    def take(self, call: ElementCall) -> Element | None:
        element = self.inputs[0].next(call)
        if element is None:
            return None
        return self._function(call.cancellation, call.step_id, element)


class _MappedAtOnce(_Calling):
    """As `_Mapped`, with several calls at once; the order stays."""

    kind = "map"

    def __init__(self, node: KernelNode, place: DatasetPlace, source: Any, *rest: Any) -> None:
        super().__init__(node, place, source, *rest[:-1])
        self.parallelism = _calls(rest[-1])
        self.tuned = int(rest[-1]) == AUTOTUNE

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _AtOnce(self, pipeline, stage)


class _Slot:
    """The place of an element that is being made."""

    __slots__ = ("done", "error", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: Element | None = None
        self.error: Exception | None = None


class _AtOnce(Elements):
    """Threads that take an element of the input each, in turn, and call the function.

    `_slots` are the places of the elements in the order of the input, guarded by `_changed`, as is
    the input's `_turn`: whoever has it takes the next element and the next slot.
    """

    def __init__(
        self, dataset: _MappedAtOnce, pipeline: IteratorStages, stage: StageCounts
    ) -> None:
        super().__init__(dataset, pipeline, stage)
        self._function = pipeline.function(dataset.graph, dataset.captured)
        self._threads = dataset.parallelism
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        self._slots: deque[_Slot] = deque()
        self._buffer = pipeline.buffer(stage)
        self._started = self._over = self._closed = False
        self._forget = pipeline.token.on_cancel(self._wake)

    def take(self, call: ElementCall) -> Element | None:
        with self._changed:
            if not self._started:
                self._started = True
                for _ in range(self._threads):
                    self.pipeline.start(self._work, self.stage)
            wait_until(self._changed, call, self._settled, watched=self.pipeline.watched)
            if not self._slots or not self._slots[0].done:
                self.pipeline.token.raise_if_cancelled()
                return None
            slot = self._slots.popleft()
            self._changed.notify_all()
            if slot.error is not None:
                raise slot.error
            assert slot.value is not None
            self._buffer.remove(slot.value)
            return slot.value

    def _settled(self) -> bool:
        if self._closed:
            return True
        return self._slots[0].done if self._slots else self._over

    def _work(self, call: ElementCall) -> None:
        while True:
            slot = _Slot()
            with self._turn:
                with self._changed:
                    while len(self._slots) >= self._threads and not self._stops():
                        self._changed.wait()
                    if self._over or self._stops():
                        return
                element = self._taken(call, slot)
                with self._changed:
                    if element is None and slot.error is None:
                        self._over = True
                        self._changed.notify_all()
                        return
                    self._slots.append(slot)
            if element is not None:
                self._call(call, element, slot)
            with self._changed:
                slot.done = True
                self._changed.notify_all()

    def _taken(self, call: ElementCall, slot: _Slot) -> Element | None:
        try:
            return self.inputs[0].next(call)
        except Exception as error:  # noqa: BLE001 - raised for whoever takes the element
            slot.error = error
            return None

    def _call(self, call: ElementCall, element: Element, slot: _Slot) -> None:
        start = clock()
        try:
            value = self._function(call.cancellation, call.step_id, element)
            with self._changed:
                self._buffer.add(value)
            slot.value = value
        except Exception as error:  # noqa: BLE001 - as above
            slot.error = error
        finally:
            if self.pipeline.watched:
                end = clock()
                with self._changed:
                    self.stage.own_ns += end - start
                self.pipeline.rows.append((self.stage, start, end, threading.get_native_id()))

    def _stops(self) -> bool:
        return self._closed or self.pipeline.token.cancelled

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        self._closed = True
        self._wake()
        self._forget()
        with self._changed:
            self._buffer.clear()
        super().close()


register_dataset(
    "MapDataset", _Mapped, ["input_dataset: variant", _CAPTURED],
    [*_FUNCTION, *TYPES_AND_SHAPES, "use_inter_op_parallelism: bool = true",
     "preserve_cardinality: bool = false", "force_synchronous: bool = false", METADATA],
)  # fmt: skip
register_dataset(
    "ParallelMapDatasetV2", _MappedAtOnce,
    ["input_dataset: variant", _CAPTURED, "num_parallel_calls: int64"],
    [*_FUNCTION, *TYPES_AND_SHAPES, "use_inter_op_parallelism: bool = true", _DETERMINISTIC,
     "preserve_cardinality: bool = false", "use_unbounded_threadpool: bool = false", METADATA],
)  # fmt: skip

# -- MapAndBatchDataset ------------------------------------------------------------------------


class _MappedBatches(_MappedAtOnce):
    """What a function makes of each element, in batches."""

    kind = "map_and_batch"

    def __init__(self, node: KernelNode, place: DatasetPlace, source: Any, *rest: Any) -> None:
        *captured, size, calls, drop = rest
        super().__init__(node, place, source, *captured, calls)
        if int(size) <= 0:
            raise InvalidArgumentError.without_op("batch_size must be greater than zero.")
        self.size, self.drop = int(size), bool(drop)
        self.ratio = float(self.size)
        self.types = [d.numpy for d in node.attr("output_types")]

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _InBatches(self, pipeline, stage)


class _InBatches(_AtOnce):
    def __init__(
        self, dataset: _MappedBatches, pipeline: IteratorStages, stage: StageCounts
    ) -> None:
        super().__init__(dataset, pipeline, stage)
        self._batches = dataset

    def take(self, call: ElementCall) -> Element | None:
        dataset = self._batches
        several: list[Element] = []
        while len(several) < dataset.size:
            element = super().take(call)
            if element is None:
                break
            several.append(element)
        if not several or (dataset.drop and len(several) < dataset.size):
            return None
        return stacked(several, dataset.types)


register_dataset(
    "MapAndBatchDataset",
    _MappedBatches,
    [
        "input_dataset: variant",
        _CAPTURED,
        "batch_size: int64",
        "num_parallel_calls: int64",
        "drop_remainder: bool",
    ],
    [*_FUNCTION, *TYPES_AND_SHAPES, "preserve_cardinality: bool = false", METADATA],
)

# -- FilterDataset -----------------------------------------------------------------------------


class _Filtered(_Calling):
    """The elements for which a function says so."""

    kind = "filter"
    attr = "predicate"
    ratio = 0.0

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Chosen(self, pipeline, stage)


class _Chosen(_OneByOne):
    def take(self, call: ElementCall) -> Element | None:
        while True:
            element = self.inputs[0].next(call)
            if element is None:
                return None
            (keep,) = self._function(call.cancellation, call.step_id, element)
            if bool(keep):
                return element


register_dataset(
    "FilterDataset", _Filtered, ["input_dataset: variant", _CAPTURED],
    ["predicate: func", "Targuments: list(type)", *TYPES_AND_SHAPES, METADATA],
)  # fmt: skip

# -- FlatMapDataset, InterleaveDataset, ParallelInterleaveDatasetV4 ----------------------------


class _Flattened(_Calling):
    """The elements of the dataset that a function makes of each element, one after the other."""

    kind = "flat_map"
    ratio = 0.0
    cycle = block = 1

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Interleaving(self, pipeline, stage)


class _Interleaved(_Flattened):
    """As `_Flattened`, of several datasets in turn: so many elements of each."""

    kind = "interleave"

    def __init__(self, node: KernelNode, place: DatasetPlace, source: Any, *rest: Any) -> None:
        *captured, cycle, block = rest
        super().__init__(node, place, source, *captured)
        self._set(cycle, block)

    def _set(self, cycle: Any, block: Any) -> None:
        self.cycle = cores() if int(cycle) == AUTOTUNE else int(cycle)
        self.block = int(block)
        for value, name in ((self.cycle, "cycle_length"), (self.block, "block_length")):
            if value < 1:
                raise InvalidArgumentError.without_op(f"`{name}` must be > 0")


class _InterleavedAtOnce(_Interleaved):
    """As `_Interleaved`; the datasets in turn are read ahead, so many of them at once."""

    def __init__(self, node: KernelNode, place: DatasetPlace, source: Any, *rest: Any) -> None:
        *captured, cycle, block, _outputs, _inputs, calls = rest
        _Flattened.__init__(self, node, place, source, *captured)
        self.parallelism = _calls(calls)
        self.tuned = int(calls) == AUTOTUNE
        self._set(cycle, block)


class _Interleaving(Elements):
    def __init__(self, dataset: _Flattened, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._dataset = dataset
        self._function = pipeline.function(dataset.graph, dataset.captured)
        self._open: list[Elements | None] = [None] * dataset.cycle
        self._at = self._given = 0
        self._over = False
        at_once = dataset.parallelism
        self._turns = threading.Semaphore(at_once) if at_once else None

    def take(self, call: ElementCall) -> Element | None:
        while True:
            current = self._open[self._at]
            if current is not None:
                element = current.next(call)
                if element is not None:
                    self._given += 1
                    if self._given == self._dataset.block:
                        self._advance()
                    return element
                current.close()
                self._open[self._at] = None
                self._advance()
            elif not self._over:
                outer = self.inputs[0].next(call)
                if outer is None:
                    self._over = True
                else:
                    self._open[self._at] = self._opened(call, outer)
            elif any(elements is not None for elements in self._open):
                self._advance()
            else:
                return None

    def _advance(self) -> None:
        self._at = (self._at + 1) % self._dataset.cycle
        self._given = 0

    def _opened(self, call: ElementCall, outer: Element) -> Elements:
        (dataset,) = self._function(call.cancellation, call.step_id, outer)
        elements = self.pipeline.open(dataset, self.stage, nested=True)
        if self._turns is None:
            return elements
        ahead = max(2, self._dataset.block)
        return _Untimed(self._dataset, self.pipeline, self.stage, ahead, elements, self._turns)

    def close(self) -> None:
        for elements in self._open:
            if elements is not None:
                elements.close()
        super().close()


class _Untimed(Ahead):
    """Reads a dataset ahead for a stage, which counts what it takes from here itself."""

    def next(self, call: ElementCall) -> Element | None:
        return self.take(call)


register_dataset(
    "FlatMapDataset",
    _Flattened,
    ["input_dataset: variant", _CAPTURED],
    [*_FUNCTION, *TYPES_AND_SHAPES, METADATA],
)
register_dataset(
    "InterleaveDataset", _Interleaved,
    ["input_dataset: variant", _CAPTURED, "cycle_length: int64", "block_length: int64"],
    [*_FUNCTION, *TYPES_AND_SHAPES, METADATA],
)  # fmt: skip
register_dataset(
    "ParallelInterleaveDatasetV4", _InterleavedAtOnce,
    ["input_dataset: variant", _CAPTURED, "cycle_length: int64", "block_length: int64",
     "buffer_output_elements: int64", "prefetch_input_elements: int64",
     "num_parallel_calls: int64"],
    [*_FUNCTION, *TYPES_AND_SHAPES, _DETERMINISTIC, METADATA],
)  # fmt: skip

# -- IgnoreErrorsDataset -----------------------------------------------------------------------


class _WithoutErrors(DatasetValue):
    """Leaves out the elements that could not be made."""

    kind = "ignore_errors"
    ratio = 0.0

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any) -> None:
        super().__init__(place, [source])

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Forgiving(self, pipeline, stage)


class _Forgiving(Elements):
    def take(self, call: ElementCall) -> Element | None:
        while True:
            try:
                return self.inputs[0].next(call)
            except OpError:
                if call.cancellation.cancelled or self.pipeline.token.cancelled:
                    raise


register_dataset(
    "IgnoreErrorsDataset", _WithoutErrors, ["input_dataset: variant"],
    [*TYPES_AND_SHAPES, "log_warning: bool = false"],
)  # fmt: skip

# -- ReduceDataset -----------------------------------------------------------------------------


def _reduce_shape(context: ShapeContext) -> list[TensorShape]:
    return list(context.attr("output_shapes"))


def _reduce_kernel(node: KernelNode) -> Kernel:
    place = DatasetPlace(node.name, "ReduceDataset", node.op.source, node.device)
    graph = function_of(node, place)
    count = len(node.attr("Tstate"))

    def call(context: RunContext, dataset: DatasetValue, *rest: Any) -> Any:
        pipeline = IteratorStages(dataset, node.resources, node.device)
        try:
            function = pipeline.function(graph, rest[count:])
            asking = ElementCall.of(context)
            state: Element = rest[:count]
            while True:
                element = pipeline.root.next(asking)
                if element is None:
                    break
                state = function(context.cancellation, context.step_id, (*state, *element))
        finally:
            pipeline.close()
        results = tuple(np.array(value) if value is given else own(value)
                        for value, given in zip(state, rest, strict=False))  # fmt: skip
        return results[0] if len(results) == 1 else results

    return Kernel(call, context=True, blocking=True)


register(
    "ReduceDataset",
    inputs=["input_dataset: variant", "initial_state: Tstate", _CAPTURED],
    outputs=["components: output_types"],
    attrs=[
        "f: func", "Tstate: list(type)", "Targuments: list(type)", *TYPES_AND_SHAPES,
        "use_inter_op_parallelism: bool = true", METADATA,
    ],
    shape=_reduce_shape,
    kernel=_reduce_kernel,
    stateful=True,
)  # fmt: skip
no_gradient("ReduceDataset")
