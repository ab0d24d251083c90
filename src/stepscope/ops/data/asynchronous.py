"""Datasets that work ahead on threads of their own, or choose among elements that they hold."""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from typing import Any

from stepscope.errors import InvalidArgumentError
from stepscope.graph.registry import KernelNode
from stepscope.ops.data.registering import METADATA, TYPES_AND_SHAPES, register_dataset
from stepscope.ops.data.stages import (
    DatasetPlace,
    DatasetValue,
    Element,
    ElementCall,
    Elements,
    IteratorStages,
    StageCounts,
    wait_until,
)
from stepscope.ops.math.philox import Philox, Samples

AUTOTUNE = -1
_AHEAD = 2
"""How many elements are prefetched where that is left to the engine."""


def cores() -> int:
    """How many processors the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- PrefetchDataset ---------------------------------------------------------------------------


class Prefetched(DatasetValue):
    """Takes elements before they are asked for."""

    kind = "prefetch"

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any, size: Any) -> None:
        super().__init__(place, [source])
        if int(size) < 0 and int(size) != AUTOTUNE:
            raise InvalidArgumentError.without_op(
                "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning"
            )
        self.tuned = int(size) == AUTOTUNE
        self.buffer = _AHEAD if self.tuned else int(size)

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return Ahead(self, pipeline, stage, self.buffer)


class Ahead(Elements):
    """A thread that takes from the input until so many elements wait."""

    def __init__(
        self, dataset: DatasetValue, pipeline: IteratorStages, stage: StageCounts, size: int,
        source: Elements | None = None, turns: threading.Semaphore | None = None,
    ) -> None:  # fmt: skip
        """`source` is asked in place of the dataset's input, while one of the `turns` is had."""
        if source is None:
            super().__init__(dataset, pipeline, stage)
        else:
            self.pipeline, self.stage, self.inputs = pipeline, stage, [source]
        self._size = size
        self._turns = turns
        self._changed = threading.Condition()
        self._ready: deque[Element | BaseException] = deque()
        self._buffer = pipeline.buffer(stage)
        self._started = self._over = self._closed = False
        self._forget = pipeline.token.on_cancel(self._wake)

    def take(self, call: ElementCall) -> Element | None:
        if not self._size:
            return self.inputs[0].next(call)
        with self._changed:
            if not self._started:
                self._started = True
                self.pipeline.start(self._work, self.stage)
            wait_until(
                self._changed, call, lambda: bool(self._ready) or self._over or self._closed,
                watched=self.pipeline.watched,
            )  # fmt: skip
            if not self._ready:
                self.pipeline.token.raise_if_cancelled()
                return None
            found = self._ready.popleft()
            self._changed.notify_all()
            if isinstance(found, BaseException):
                raise found
            self._buffer.remove(found)
            return found

    def _work(self, call: ElementCall) -> None:
        try:
            while True:
                with self._changed:
                    while len(self._ready) >= self._size and not self._stops():
                        self._changed.wait()
                    if self._stops():
                        return
                if not self._put(self._made(call)):
                    return
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _made(self, call: ElementCall) -> Element | BaseException | None:
        try:
            if self._turns is None:
                return self.inputs[0].next(call)
            with self._turns:
                return self.inputs[0].next(call)
        except Exception as error:  # noqa: BLE001 - raised for whoever takes the element
            return error

    def _put(self, found: Element | BaseException | None) -> bool:
        if found is None:
            return False
        with self._changed:
            if self._stops():
                return False
            if not isinstance(found, BaseException):
                try:
                    self._buffer.add(found)
                except Exception as error:  # noqa: BLE001 - as above
                    found = error
            self._ready.append(found)
            self._changed.notify_all()
        return True

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
    "PrefetchDataset", Prefetched, ["input_dataset: variant", "buffer_size: int64"],
    [*TYPES_AND_SHAPES, "slack_period: int = 0", "legacy_autotune: bool = true",
     "buffer_size_min: int = 0", METADATA],
)  # fmt: skip

# -- ShuffleDataset, ShuffleAndRepeatDataset ---------------------------------------------------


class Shuffled(DatasetValue):
    """Elements in random order: each is chosen among so many that are held."""

    kind = "shuffle"

    def __init__(
        self, node: KernelNode, place: DatasetPlace, source: Any, size: Any, seed: Any, seed2: Any,
        count: Any = 1,
    ) -> None:  # fmt: skip
        super().__init__(place)
        if int(size) < 1:
            raise InvalidArgumentError.without_op("buffer_size must be greater than zero.")
        self.source = source
        self.size = self.buffer = int(size)
        self.count = int(count)
        self.seeds = (int(seed), int(seed2))
        if not any(self.seeds):
            self.seeds = (secrets.randbits(64), secrets.randbits(64))
        again = bool(node.attr("reshuffle_each_iteration"))
        self._seeds_of_iterations = Samples(Philox(*self.seeds)) if again else None
        self._lock = threading.Lock()

    def next_seeds(self) -> tuple[int, int]:
        """The seeds of another iteration: others each time, or always the same."""
        if self._seeds_of_iterations is None:
            return self.seeds
        with self._lock:
            return self._seeds_of_iterations(), self._seeds_of_iterations()

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Shuffling(self, pipeline, stage)


class _Shuffling(Elements):
    """Holds elements in a ring. Those of different iterations of the input are not mixed."""

    def __init__(self, dataset: Shuffled, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._dataset = dataset
        self._sample = Samples(Philox(*dataset.next_seeds()))
        self._ring: list[Any] = [None] * dataset.size
        self._slices: deque[list[int]] = deque([[0, 0]])
        """Of each iteration that has elements in the ring, where they begin and end."""
        self._held = 0
        self._left = dataset.count
        self._buffer = pipeline.buffer(stage)
        self._some = False
        self.inputs = [pipeline.open(dataset.source, stage)]

    def take(self, call: ElementCall) -> Element | None:
        self._fill(call)
        while len(self._slices) > 1 and self._slices[0][0] == self._slices[0][1]:
            self._slices.popleft()
            self._sample = Samples(Philox(*self._dataset.next_seeds()))
        if not self._held:
            return None
        size, piece = len(self._ring), self._slices[0]
        at = (piece[0] + self._sample() % (piece[1] - piece[0])) % size
        first = piece[0] % size
        element: Element = self._ring[at]
        self._ring[at], self._ring[first] = self._ring[first], None
        piece[0] += 1
        self._held -= 1
        self._buffer.remove(element)
        return element

    def _fill(self, call: ElementCall) -> None:
        while self._held < len(self._ring) and self._left != 0:
            element = self.inputs[0].next(call)
            if element is None:
                self._left -= self._left > 0
                if not self._some and self._left < 0:
                    self._left = 0
                self._some = False
                if self._left:
                    self.inputs[0].close()
                    self.inputs = [self.pipeline.open(self._dataset.source, self.stage)]
                    end = self._slices[-1][1]
                    self._slices.append([end, end])
                continue
            self._buffer.add(element)
            piece = self._slices[-1]
            self._ring[piece[1] % len(self._ring)] = element
            piece[1] += 1
            self._held += 1
            self._some = True

    def close(self) -> None:
        self._buffer.clear()
        super().close()


_SHUFFLED = ["input_dataset: variant", "buffer_size: int64", "seed: int64", "seed2: int64"]
register_dataset(
    "ShuffleDataset",
    Shuffled,
    _SHUFFLED,
    ["reshuffle_each_iteration: bool = true", *TYPES_AND_SHAPES, METADATA],
)
register_dataset(
    "ShuffleAndRepeatDataset", Shuffled, [*_SHUFFLED, "count: int64"],
    [*TYPES_AND_SHAPES, "reshuffle_each_iteration: bool = true", METADATA],
)  # fmt: skip
