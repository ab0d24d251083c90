"""Datasets at work: stages that hand elements on, one asking the one before it.

A tensor of a dataset holds a `DatasetValue`: what the dataset is, and nothing of any iteration. An
iterator opens a `IteratorStages` over it. Each dataset gives an `Elements`, which is asked for one
element after the other and asks those of its inputs; a `StageCounts` counts what it does.

Guarantees.
- One thread at a time asks an `Elements`, but for those that say otherwise. Asynchronous stages
  (`asynchronous`) have threads of their own, which ask the stages before them.
- Whoever waits in a stage is woken when its run is told to stop, or the pipeline is closed; no
  element is lost by that, unless it was being made on the thread that was stopped.
- An array of an element that is writable and owns its memory is held by nobody else. All others
  are never written to.
- What lies in buffers counts as held on the pipeline's device, from when it gets in until it is
  taken; where a limit has no room for it, whoever asks gets a ResourceExhaustedError.
- Nothing is timed unless a run that takes elements is traced.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stepscope.errors import ResourceExhaustedError
from stepscope.graph.dtypes import DType, as_dtype
from stepscope.ops.cancellation import CancellationToken
from stepscope.ops.resources import (
    Cancellation,
    FunctionCall,
    Holding,
    ResourceStore,
    RunContext,
    holding,
    made_now,
)

Element = tuple[Any, ...]
"""One array (or handle) per component."""
clock = time.perf_counter_ns
KIND: Final = "iterator"
_MOST_ROWS: Final = 4096


class DatasetPlace:
    """Where a dataset was made: its node, the user's line, and the function that it calls."""

    __slots__ = ("defined", "device", "function", "line", "name", "op_type", "python")

    def __init__(self, name: str, op_type: str, line: str = "", device: str = "") -> None:
        self.name = name
        self.op_type = op_type
        self.line = line
        self.device = device
        self.function = ""
        self.defined = ""
        self.python = False


class DatasetValue:
    """What a dataset is; `kind` is what programs call it."""

    kind = ""
    parallelism = 0
    """How many calls of its function run at once; 0: on the thread that asks."""
    buffer = 0
    tuned = False
    ratio = 1.0
    """So many elements of its input make one; 0 where that differs."""

    def __init__(self, place: DatasetPlace, inputs: Sequence[DatasetValue] = ()) -> None:
        self.place = place
        self.inputs = tuple(inputs)

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        """Begin to iterate; inputs are opened by `pipeline.open`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.place.name!r}>"


class StageCounts:
    """What was counted of a dataset in one pipeline, over all of its iterations there."""

    __slots__ = ("buffered", "bytes", "dataset", "elements", "inputs", "nested", "own_ns")

    def __init__(self, dataset: DatasetValue, *, nested: bool) -> None:
        self.dataset = dataset
        self.nested = nested
        self.inputs: list[int] = []
        self.elements = 0
        self.own_ns = 0
        self.bytes = 0
        self.buffered = 0


class ElementCall:
    """Who asks for elements, on one thread."""

    __slots__ = ("cancellation", "inner_ns", "memory", "step_id")

    def __init__(self, cancellation: Cancellation, step_id: int = 0, memory: Any = None) -> None:
        self.cancellation = cancellation
        self.step_id = step_id
        self.memory = memory
        self.inner_ns = 0
        """What the stages before the one that is being asked took of its time."""

    @classmethod
    def of(cls, context: RunContext) -> ElementCall:
        return cls(context.cancellation, context.step_id, context.memory)


class Elements:
    """One iteration over a dataset."""

    def __init__(self, dataset: DatasetValue, pipeline: IteratorStages, stage: StageCounts) -> None:
        self.pipeline = pipeline
        self.stage = stage
        self.inputs = [pipeline.open(d, stage) for d in dataset.inputs]

    def next(self, call: ElementCall) -> Element | None:
        """The next element; None at the end, and from then on."""
        if self.pipeline.watched:
            return self._timed(call)
        return self.take(call)

    def take(self, call: ElementCall) -> Element | None:
        """As `next`, by the stage itself."""
        raise NotImplementedError

    def _timed(self, call: ElementCall) -> Element | None:
        outer, call.inner_ns = call.inner_ns, 0
        stage = self.stage
        start = clock()
        try:
            element = self.take(call)
            if element is not None:
                stage.elements += 1
                stage.bytes += nbytes(element)
            return element
        finally:
            end = clock()
            stage.own_ns += end - start - call.inner_ns
            call.inner_ns = outer + end - start
            self.pipeline.rows.append((stage, start, end, threading.get_native_id()))

    def close(self) -> None:
        """Stop what works for it on other threads; nobody asks any more."""
        for elements in self.inputs:
            elements.close()


class IteratorStages:
    """One iterator's stages. They are opened over a dataset, counted, timed and closed together."""

    def __init__(self, dataset: DatasetValue, resources: ResourceStore, device: str) -> None:
        self.resources = resources
        self.device = device
        self.token = CancellationToken()
        self.stages: list[StageCounts] = []
        self.watched = False
        """Whether stages are timed."""
        self.rows: deque[tuple[StageCounts, int, int, int]] = deque(maxlen=_MOST_ROWS)
        """What was timed and not yet told: stage, start, end, thread."""
        self.threads: dict[int, str] = {}
        self.taken = 0
        self.ended = False
        self._places: dict[tuple[int, str], int] = {}
        self._buffers: list[Buffer] = []
        self._lock = threading.Lock()
        self.root = self.open(dataset, None)

    def open(
        self, dataset: DatasetValue, after: StageCounts | None, *, nested: bool = False
    ) -> Elements:
        """Begin an iteration over an input of the stage `after`.

        One `nested` is made anew for each element of that stage: all of them are one stage.
        """
        return dataset.elements(self, self._stage(dataset, after, nested))

    def _stage(self, dataset: DatasetValue, after: StageCounts | None, nested: bool) -> StageCounts:
        with self._lock:
            at = self.stages.index(after) if after is not None else -1
            key = (at, dataset.place.name)
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = len(self.stages)
                inside = nested or (after is not None and after.nested)
                self.stages.append(StageCounts(dataset, nested=inside))
                if after is not None:
                    after.inputs.append(place)
            return self.stages[place]

    def function(self, graph: Any, captured: Sequence[Any]) -> FunctionCall:
        """A function of a dataset, ready to be called."""
        assert self.resources.functions is not None
        return self.resources.functions.instantiate(graph, captured)

    def start(self, work: Callable[[ElementCall], None], stage: StageCounts) -> threading.Thread:
        """A thread that works for a stage until the pipeline is closed."""
        kind = stage.dataset.kind

        def begin() -> None:
            self.threads[threading.get_native_id()] = threading.current_thread().name
            work(ElementCall(self.token))

        thread = threading.Thread(target=begin, name=f"stepscope/data/{kind}", daemon=True)
        thread.start()
        return thread

    def buffer(self, stage: StageCounts) -> Buffer:
        """A buffer of a stage, whose content is counted."""
        made = Buffer(self, stage)
        with self._lock:
            self._buffers.append(made)
        return made

    def holdings(self) -> list[Holding]:
        """What lies in buffers, as memory."""
        with self._lock:
            buffers = list(self._buffers)
        return [found for buffer in buffers for found in buffer.holdings()]

    def forget(self, buffer: Buffer) -> None:
        with self._lock:
            if buffer in self._buffers:
                self._buffers.remove(buffer)

    def close(self) -> None:
        """Stop the threads; what is in buffers is let go."""
        self.ended = True
        self.token.cancel(_closed)
        self.root.close()
        with self._lock:
            buffers, self._buffers = self._buffers, []
        for buffer in buffers:
            buffer.clear()


def _closed() -> Any:
    from stepscope.errors import CancelledError

    return CancelledError.without_op("The iterator was closed.")


class Buffer:
    """Elements that a stage holds, counted as held memory. Whoever uses it holds a lock."""

    def __init__(self, pipeline: IteratorStages, stage: StageCounts) -> None:
        self._pipeline = pipeline
        self._stage = stage
        self._items: dict[int, list[tuple[Element, tuple[int, int]]]] = {}
        """By identity; the same element may be here several times."""

    def add(self, element: Element) -> None:
        """Count an element; ResourceExhaustedError where there is no room."""
        size = nbytes(element)
        held, device = self._pipeline.resources.held, self._pipeline.device
        if not held.fits(device, size):
            name = self._stage.dataset.place.name
            raise ResourceExhaustedError.without_op(
                f"OOM when the stage {name!r} of an input pipeline was to keep an element of "
                f"{size} bytes on {device}",
            )
        held.add(device, size)
        self._items.setdefault(id(element), []).append((element, made_now()))
        self._stage.buffered += 1

    def remove(self, element: Element) -> None:
        """It is held no longer."""
        alike = self._items.get(id(element))
        if alike:
            alike.pop()
            if not alike:
                del self._items[id(element)]
            self._pipeline.resources.held.add(self._pipeline.device, -nbytes(element))
            self._stage.buffered -= 1

    def clear(self) -> None:
        for element, _ in self._all():
            self.remove(element)
        self._pipeline.forget(self)

    def _all(self) -> list[tuple[Element, tuple[int, int]]]:
        return [item for alike in list(self._items.values()) for item in alike]

    def holdings(self) -> list[Holding]:
        name, device = self._stage.dataset.place.name, self._pipeline.device
        return [
            holding(array, _dtype(array), name, slot, device, KIND, made)
            for element, made in self._all()
            for slot, array in enumerate(element)
            if isinstance(array, np.ndarray)
        ]


def _dtype(array: Any) -> DType:
    return as_dtype(array.dtype)


def nbytes(element: Element) -> int:
    """Of all components."""
    return sum(a.nbytes for a in element if isinstance(a, np.ndarray))


def row_of(array: Any, index: int) -> Any:
    """An entry along the first axis; of strings an array of rank 0, not the bytes."""
    return array[index, ...] if array.dtype == object else array[index]


def frozen(value: Any) -> Any:
    """The value as something that is held by several: nobody writes to it."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    return value


def own(value: Any) -> Any:
    """The value as the caller's alone: copied if somebody else may hold it."""
    if not isinstance(value, np.ndarray) or (value.flags.writeable and value.base is None):
        return value
    return np.array(value)


def wait_until(
    condition: threading.Condition, call: ElementCall, ready: Callable[[], bool], *, watched: bool
) -> None:
    """Holding the condition, wait until `ready`; raises what stops the call."""
    if ready():
        return
    began = clock() if watched else 0
    token = call.cancellation
    unregister: Callable[[], None] | None = None

    def wake() -> None:
        with condition:
            condition.notify_all()

    try:
        while not ready():
            token.raise_if_cancelled()
            if unregister is None:
                unregister = token.on_cancel(wake)
                continue
            condition.wait()
    finally:
        if unregister is not None:
            unregister()
        if began:
            # Waiting is no work of the stage's own.
            call.inner_ns += clock() - began
