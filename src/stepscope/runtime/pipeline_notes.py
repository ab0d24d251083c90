"""Notes of what the stages of input pipelines did over a whole program, for `stepscope input`.

They are those that a program on TensorFlow leaves (`metadata.program_notes`, kind "input"): counts
of each stage (elements, time of its own, elements in its buffer), looked at when an element was
taken, at most every `_EVERY_NS`. A note is written when a pipeline came to its end, now and then
while it lives, and when the recording ends. Nothing of a pipeline is kept alive by that.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from stepscope.metadata.program_notes import INPUT, Note

__all__ = ["PipelineNotes"]

_EVERY_NS: Final = 20_000_000
_FIRST: Final = 3
_MOST: Final = 96
"""So many looks at a pipeline are kept; beyond, every second one goes."""
_FIRST_NOTE_NS: Final = 2_000_000_000
"""A living pipeline is noted after this time, and again each time after twice as long."""


class PipelineNotes:
    """Notes what the stages of a program's input pipelines did. From any thread."""

    def __init__(self, note: Callable[[Note], None]) -> None:
        """`note` is given each note."""
        self._note = note
        self._numbers = itertools.count()
        self._known: WeakKeyDictionary[Any, _Noted] = WeakKeyDictionary()
        self._unwritten: dict[int, _Noted] = {}
        self._lock = threading.Lock()

    def took(self, pipeline: Any, iterator: Any, what: str, waited_ns: int) -> None:
        """A run of that took an element, for which it waited; or found the end."""
        with self._lock:
            noted = self._known.get(pipeline)
            if noted is None:
                noted = self._known[pipeline] = _Noted(next(self._numbers), iterator.line)
            if not pipeline.ended:
                noted.took(what, waited_ns)
            now = time.time_ns()
            if now >= noted.due_ns or pipeline.ended:
                noted.look(pipeline.stages, now)
                self._unwritten[noted.number] = noted
            if pipeline.ended or now >= noted.note_due_ns:
                self._write(noted, now)

    def end(self) -> None:
        """Write what is not written yet: the recording ends."""
        with self._lock:
            for noted in list(self._unwritten.values()):
                self._write(noted, time.time_ns())

    def _write(self, noted: _Noted, now: int) -> None:
        self._unwritten.pop(noted.number, None)
        noted.note_due_ns = now + (now - noted.made_ns)
        if noted.taken_by:
            self._note(
                Note(
                    INPUT, noted.made_ns, noted.looked_ns, threading.get_native_id(), "tf.data",
                    noted.where, noted.details(),
                )
            )  # fmt: skip


class _Noted:
    """What is known of one pipeline."""

    def __init__(self, number: int, where: str) -> None:
        self.number = number
        self.where = where
        self.made_ns = time.time_ns()
        self.note_due_ns = self.made_ns + _FIRST_NOTE_NS
        self.due_ns = 0
        self.looked_ns = 0
        self.taken_by: dict[str, int] = {}
        self._waited: list[int] = []
        self._first_waited_ns = 0
        self._waits = self._waited_ns = 0
        self._every_ns = _EVERY_NS
        self._stages: list[dict[str, Any]] = []
        self._looks: list[tuple[int, int, list[int], list[int], list[int]]] = []

    def took(self, what: str, waited_ns: int) -> None:
        if not self._waits:
            self._first_waited_ns = waited_ns
        self._waits += 1
        self._waited_ns += waited_ns
        self.taken_by[what] = self.taken_by.get(what, 0) + 1

    def look(self, stages: list[Any], now: int) -> None:
        """Keep what was counted until now."""
        # The first ones are looked at each: filling buffers happens there.
        self.due_ns = now + self._every_ns if len(self._looks) >= _FIRST else 0
        self.looked_ns = now
        stages = list(stages)
        self._stages = [_described(stage) for stage in stages]
        counts = ([getattr(s, name) for s in stages] for name in ("elements", "own_ns", "buffered"))
        elements, own, buffered = counts
        self._looks.append((now, time.process_time_ns(), elements, own, buffered))
        if len(self._looks) > _MOST:
            self._looks[_FIRST:] = self._looks[_FIRST + 1 :: 2]
            self._every_ns *= 2

    def details(self) -> dict[str, Any]:
        """The details of a note."""
        size = len(self._stages)

        def padded(column: int) -> list[list[int]]:
            rows: list[list[int]] = [look[column] for look in self._looks]  # type: ignore[misc]
            return [[*row, *[0] * (size - len(row))] for row in rows]

        return {
            "pipeline": self.number,
            "taken_by": dict(self.taken_by),
            "waits": self._waits,
            "waited_ns": self._waited_ns,
            "first_waited_ns": self._first_waited_ns,
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
            "stages": self._stages,
            "moments": [look[0] for look in self._looks],
            "cpu_ns": [look[1] for look in self._looks],
            "elements": padded(2),
            "own_ns": padded(3),
            "buffered": padded(4),
        }


def _described(stage: Any) -> dict[str, Any]:
    dataset = stage.dataset
    place = dataset.place
    return {
        "kind": dataset.kind,
        "name": place.op_type.replace("Dataset", ""),
        "inputs": list(stage.inputs),
        "line": place.line,
        "function": place.function,
        "defined": place.defined,
        "python": place.python,
        "bytes": stage.bytes,
        "parallelism": dataset.parallelism,
        "buffer": dataset.buffer,
        "tuned": dataset.tuned,
        "ratio": dataset.ratio,
        "nested": stage.nested,
    }
