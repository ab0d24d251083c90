"""Watching the runs of a program on TensorFlow for a while: for a recorder that comes and goes.

`patches` puts things in place for good, once; they refer to whoever watches now (`_Current`). A
program that nobody watches pays a look-up per run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.adapters.tensorflow.script import patches
from stepscope.adapters.tensorflow.script.budgeted import Budgeted
from stepscope.adapters.tensorflow.script.recorder import HERE, ScriptRecorder
from stepscope.adapters.tensorflow.script.traces import TraceNotes

if TYPE_CHECKING:
    from stepscope.metadata import Note

__all__ = ["watching"]

_DETAIL = 3
_AT_EVERY_RUN = ("in_lull", "lane_of", "lane_of_fetches", "pipelines", "tape_entered")


@contextmanager
def watching(
    budgeted: Budgeted, store: Path, retraced: Callable[[str], None] | None
) -> Iterator[ScriptRecorder]:
    """While inside, runs on TensorFlow are recorded as is decided, from when it is imported.

    `store` is the file beside which runs lie until they are stored; the recorder's `stored` and
    `close` are to be called then. `retraced` is told of functions whose graph is built again.
    """
    recorder = ScriptRecorder(
        _nobody, _DETAIL, store=store, budgeted=budgeted, here=HERE, whole_script=False
    )
    before = _current.recorder
    _current.is_now(recorder)
    _current.retraced = retraced
    if not _current.is_in_place:
        _current.is_in_place = True
        patches.watch(_current, _current.loaded)
    elif "tensorflow" in sys.modules:
        recorder.loaded()
    try:
        yield recorder
    finally:
        recorder.stop()
        _current.is_now(before)
        _current.retraced = None


def _nobody(*_run: Any, **_more: Any) -> None:
    raise AssertionError("runs under a budget are handed to what decides on them")


class _Current:
    """Stands for whichever recorder watches now."""

    def __init__(self) -> None:
        self.recorder: ScriptRecorder | None = None
        self.retraced: Callable[[str], None] | None = None
        self.is_in_place = False
        self.here = HERE
        self._built: dict[int, str] = {}
        """By function, for what arguments its last graph is."""

    def is_now(self, recorder: ScriptRecorder | None) -> None:
        """That one watches from now on."""
        self.recorder = recorder
        for name in _AT_EVERY_RUN:
            # As its own, it is found in a tenth of the time that `__getattr__` takes.
            if recorder is None:
                self.__dict__.pop(name, None)
            else:
                self.__dict__[name] = getattr(recorder, name)

    @property
    def active(self) -> bool:
        """Whether anybody does."""
        recorder = self.recorder
        return recorder is not None and recorder.active

    @property
    def logs_nodes(self) -> bool:
        """Whether sessions are to be made with our executor."""
        return self.recorder is not None and self.recorder.logs_nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder, name)

    def loaded(self) -> None:
        """TensorFlow is there."""
        if self.recorder is not None:
            self.recorder.loaded()
            TraceNotes(self._graph_built, self.recorder.cost).watch()

    def _graph_built(self, note: Note) -> None:
        """A graph was built of a function: where it is not the first, it is said."""
        details = note.details
        if details.get("failed") or "function" not in details:
            return
        # Of a function that makes variables TensorFlow builds two for the same arguments.
        arguments = str(details["arguments"])
        known = self._built.setdefault(details["function"], arguments)
        self._built[details["function"]] = arguments
        if known != arguments and self.retraced is not None:
            where = f", called at {note.where}" if note.where else ""
            self.retraced(f"{note.what} was traced again{where}")

    def tape_left(self) -> None:
        """A tape closes, which may have been opened before anybody watched."""
        if self.recorder is not None:
            self.recorder.tape_left()

    def profiler_starts(self) -> None:
        """The program profiles itself: whoever watches makes room."""
        if self.recorder is not None:
            self.recorder.profiler_starts()

    def profiler_stopped(self) -> None:
        """It does no more."""
        if self.recorder is not None:
            self.recorder.profiler_stopped()

    def initialized(self) -> None:
        """Nothing is recorded of eager code outside of tapes."""


_current = _Current()
