"""The memory of one run on TensorFlow: its allocations, its log, and the report if it ran out.

Rows are decoded when somebody looks, except where options or an error need them at once.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from stepscope import options as opts
from stepscope.adapters.tensorflow.capture.capture import Capture, FindNodes
from stepscope.adapters.tensorflow.memory import held_memory
from stepscope.adapters.tensorflow.memory.held_memory import InSession, ProgramMemory
from stepscope.adapters.tensorflow.memory.memory_events import allocator_tells
from stepscope.adapters.tensorflow.memory.recorded_memory import RecordedMemory, columns_of, named
from stepscope.adapters.tensorflow.memory.report import (
    explain,
    give_its_class,
    is_out_of_memory,
    request_of,
)
from stepscope.adapters.tensorflow.support import only_traces
from stepscope.metadata import AllocationColumns, Loss
from stepscope.metadata.memory.allocation_log import AllocationLog, LogSettings, log_of
from stepscope.metadata.memory.allocations import HELD
from stepscope.metadata.memory.out_of_memory import (
    BatchHint,
    OutOfMemory,
    out_of_memory,
)


class _LastFit:
    """What the last run that fitted held at its peak, by op; worked out when a run does not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run: Capture | None = None

    def set(self, capture: Capture) -> None:
        if capture.batch is not None and capture.batch.memory is not None:
            with self._lock:
                self._run = capture

    def get(self, program: ProgramMemory) -> dict[str, int] | None:
        with self._lock:
            run = self._run
        marked = run.marked() if run is not None else None
        memory = run.batch.memory if run is not None and run.batch is not None else None
        if memory is None or marked is None:
            return None
        alive = memory.at_peak(marked.start_ns, marked.end_ns)
        held: dict[str, int] = {}
        for item in named(alive.values(), program):
            held[item.name] = held.get(item.name, 0) + item.bytes
        return held


_last_fit: Final = _LastFit()


class CapturedMemory:
    """Allocations, allocation log and out-of-memory report of one run.

    Made before the run, asked after it.
    """

    can_be_last_fit = True
    """Whether a later run that is out of memory may be compared with this one."""
    _batch: BatchHint | None = None
    _error: Any = None
    _changes_error = True
    _report: OutOfMemory | None = None
    _failed_ns = 0
    _program = ProgramMemory()
    explained = ""
    """What the error says since it has the report in its text; "" where it has none."""

    def __init__(
        self, options: opts.ResolvedRunOptions, step_id: int, session: InSession | None = None
    ) -> None:
        """`session` is what the run is of, where it is one of a session."""
        self._settings = None if only_traces(options) else LogSettings.of(options)
        self.level = options.trace_level or int(self._settings is not None)
        """At which the run has to be captured: its own, or what the memory report needs."""
        self._full = options.trace_level >= opts.RunOptions.FULL_TRACE
        self._step_id = step_id
        self._session = session

    @property
    def _graph(self) -> Any:
        return self._session.graph if self._session is not None else None

    def given(self, values: Iterable[tuple[str, Any]]) -> None:
        """It failed: names and values of what it was given; none of them is kept."""
        self._batch = _batch(values) if self.level else None

    @property
    def needs_graphs(self) -> bool:
        """Whether the graphs that run have to be known: where only they lead to outputs."""
        return self._settings is not None and not allocator_tells()

    @property
    def needs_outputs(self) -> bool:
        """Whether it has to be known how long eager outputs live: where the allocator is silent."""
        wanted = self._full or self._settings is not None
        return wanted and not allocator_tells()

    def failed(self, error: BaseException | None, *, changes_error: bool = True) -> None:
        """After the run's recording ended: if it ran out of memory, see what the program holds.

        The error gets its right class, and the report or a hint in its text, unless it is to stay
        as TensorFlow raised it.
        """
        if error is self._error or not is_out_of_memory(error):
            return
        self._error = error
        self._changes_error = changes_error
        if changes_error:
            give_its_class(error)
        self._failed_ns = time.time_ns()
        if self.level:
            self._program = held_memory.look(self._graph)
        elif changes_error:
            explain(error, None)

    def fields(
        self, capture: Capture, nodes: FindNodes, sources: Callable[[], Mapping[str, str]]
    ) -> tuple[dict[str, Any], Callable[[], list[Loss]]]:
        """What a `Recording` takes of memory, and what `completeness` is to say of it."""
        if not self.level:
            return {}, list
        asked_for = self._full or self._settings is not None
        if not asked_for and self._error is None and self._report is None:
            if self.can_be_last_fit:
                _last_fit.set(capture)
            return {}, list

        @functools.cache
        def run() -> RecordedMemory:
            return RecordedMemory(capture, nodes, self._step_id)

        if self._error is not None:
            self._report = self._reported(run(), sources, capture)
            if self._changes_error:
                explain(self._error, self._report)
                self.explained = self._error.message
            self._error = None  # it holds the frames it came through, and all that is in them
        elif self._report is None and self.can_be_last_fit:
            _last_fit.set(capture)
        report = self._report

        @functools.cache
        def columns() -> AllocationColumns:
            program = self._program
            if report is None and run().from_allocator:
                program = held_memory.look_lately(self._graph)
            return run().columns(program, report.request if report is not None else None)

        @functools.cache
        def log() -> AllocationLog:
            return log_of(columns(), self._settings or LogSettings())

        def losses() -> list[Loss]:
            found = [*log().losses(self._settings)] if self._settings is not None else []
            if not asked_for:
                return []
            return found + run().losses(refused=report is not None)

        fields: dict[str, Any] = {"out_of_memory": report}
        if self._full:
            fields["allocations"] = columns
            if allocator_tells():
                fields["peak_bytes"] = lambda: run().peaks()
        if self._settings is not None:
            fields["allocation_log"] = lambda: log().columns
        return fields, losses

    def _reported(
        self, run: RecordedMemory, sources: Callable[[], Mapping[str, str]], capture: Capture
    ) -> OutOfMemory:
        asked = request_of(self._error, self._failed_ns)
        if capture.called is not None and capture.calls() and not asked.source:
            asked = replace(asked, source=capture.called.failing_line(asked.op))
        at = run.refused_at(asked.op, self._failed_ns)
        alive = run.alive_at(at, self._program, self._session)
        request = replace(asked, time_ns=at)
        return out_of_memory(
            request,
            columns_of([(held, HELD, held.time_ns, 0) for held in alive]),
            sources=sources(),
            limit=run.limit(asked.device),
            cached=None,  # what the allocator keeps it tells nobody
            last_fit=_last_fit.get(self._program),
            batch=self._batch,
        )


def _batch(fed: Iterable[tuple[str, Any]]) -> BatchHint | None:
    """The leading dimension of the first value that was fed and has one."""
    for name, value in fed:
        shape = getattr(value, "shape", None)
        try:
            axes = tuple(shape) if shape is not None else ()
        except ValueError:  # of unknown rank
            continue
        if axes and isinstance(axes[0], int) and axes[0] > 1:
            return BatchHint(axes[0], name)
    return None
