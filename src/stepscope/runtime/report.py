"""What a run's metadata says: from a trace and the way the run ended to a `Recording`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stepscope.errors import OpError, code_name
from stepscope.metadata import (
    CallTime,
    Completeness,
    InFlight,
    LoggedRecording,
    Loss,
    Overhead,
    Recording,
    RunNumbers,
    Status,
)
from stepscope.metadata.memory.allocation_log import LogSettings
from stepscope.metadata.memory.out_of_memory import OutOfMemory
from stepscope.options import ResolvedRunOptions, RunOptions
from stepscope.runtime.execute.recording_costs import recording_costs
from stepscope.runtime.execute.run_pattern import RunPattern
from stepscope.runtime.execute.trace import Trace
from stepscope.runtime.memory.counting import RunLog
from stepscope.runtime.memory.record import MemoryRecord
from stepscope.runtime.plan.compiled import CompiledRun

ENGINE: Final = "embedded"


class Recorded(NamedTuple):
    """What a run left for its metadata, however it ended."""

    trace: Trace | None = None
    traced: bool = False
    """Whether whoever asked for the run asked for its trace, or only an observer did."""
    memory: MemoryRecord | None = None
    log_settings: LogSettings | None = None
    losses: tuple[Loss, ...] = ()
    cost_graph: Callable[[], Any] | None = None
    in_flight: tuple[InFlight, ...] = ()
    """The ops in flight when the run ended early, and what became of them."""
    out_of_memory: OutOfMemory | None = None
    around: int = 0
    """Nanoseconds that recording took before the run itself."""


NOTHING: Final = Recorded()
"""Of a run that did not begin, or of which nothing was asked."""


class RunRequest(NamedTuple):
    """What was asked for when a run was."""

    step_id: int
    options: ResolvedRunOptions
    given: RunOptions | None
    """The options as the user gave them."""
    entered: int
    """The clock when the run was asked for."""
    around: int
    """Nanoseconds that looking at the options and the metadata took."""


@dataclass(slots=True)
class RunReport:
    """What is known about one run that is over, and the metadata it makes."""

    asked: RunRequest
    compiled: CompiledRun | None
    recorded: Recorded
    ended: int
    """The clock when the run was over."""
    handed_over_ns: int = 0
    """How long it took to hand this report over."""
    _cost: Overhead | None = None

    def handed_over(
        self, error: BaseException | None, *, observed: bool = False
    ) -> Recording | LoggedRecording:
        """What the caller asked for, or all for an observer; of a run that went well, made when
        somebody looks.
        """
        traced = observed or self.recorded.traced
        return _WentWell(self, traced) if error is None else self.recording(error, traced=traced)

    def numbers(self) -> RunNumbers | None:
        """What a store needs of a run that went well and is like others; None where it needs more.

        It is of a run that was traced, for whoever gets its trace.
        """
        recorded, asked = self.recorded, self.asked
        pattern = RunPattern.of(recorded.trace, recorded.memory)
        odd = recorded.log_settings is not None or recorded.cost_graph is not None
        if pattern is None or odd:
            return None
        options = None if asked.given is None else asked.given.SerializeToString()
        return RunNumbers(
            like=(pattern.key, recorded.losses, options),
            engine=ENGINE,
            step_id=asked.step_id,
            ops=pattern.ops,
            started_ns=pattern.started_ns,
            ended_ns=pattern.ended_ns,
            overhead=self._overhead(pattern.trace),
            call=self._call(),
            columns=pattern.columns(),
            parts=pattern.parts(),
        )

    def recording(self, error: BaseException | None, *, traced: bool) -> Recording:
        """The run as it ended (None: well), with or without its trace."""
        recorded = self.recorded
        trace = recorded.trace if traced else None
        if error is None:
            return self._recording(Status(), recorded.losses, trace)
        trace = trace.freeze() if trace is not None else None
        if recorded.memory is not None and recorded.trace is not None:
            recorded.memory.freeze(trace or recorded.trace.freeze())
        if isinstance(error, OpError):
            status = Status(code_name(error.error_code), error.message, recorded.in_flight)
        else:
            message = f"{type(error).__name__}: {error}".rstrip(": ")
            status = Status("CANCELLED", message, recorded.in_flight)
        losses = (*recorded.losses, *self._missing(trace, status.code))
        return self._recording(status, losses, trace)

    def _missing(self, trace: Trace | None, code: str) -> list[Loss]:
        missing = len(trace.plan.steps) - trace.executed() if trace is not None else 0
        if not missing:
            return []
        reason = f"the run ended with {code} before they were done"
        in_flight = self.recorded.in_flight
        if in_flight:
            reason += f"; in flight: {', '.join(o.name for o in in_flight)}"
        return [Loss("node executions", missing, reason)]

    def _recording(
        self, status: Status, losses: tuple[Loss, ...], trace: Trace | None
    ) -> Recording:
        compiled, recorded = self.compiled, self.recorded
        wants_graphs = self.asked.options.output_partition_graphs and compiled is not None
        memory = recorded.memory
        log = None
        if memory is not None and recorded.log_settings is not None:
            log = RunLog(memory, recorded.log_settings)
        full = memory if trace is not None and trace.level >= 3 else None
        timed = trace if trace is not None else recorded.trace if log is not None else None
        pattern = RunPattern.of(trace, memory) if status.ok else None
        return Recording(
            engine=ENGINE,
            step_id=self.asked.step_id,
            status=status,
            completeness=(
                Completeness(losses) if log is None else lambda: Completeness(losses + log.losses())
            ),
            overhead=Overhead() if timed is None else lambda: self._overhead(timed),
            allocations=full.columns if full is not None else None,
            allocation_log=log.columns if log is not None else None,
            peak_bytes=memory.peaks if memory is not None else None,
            out_of_memory=recorded.out_of_memory,
            ops=trace.columns if trace is not None else None,
            partition_graphs=(
                compiled.partition_graphs if wants_graphs and compiled is not None else None
            ),
            cost_graph=recorded.cost_graph,
            placements=(
                compiled.placements if compiled is not None and trace is not None else None
            ),
            run_options=self.asked.given,
            pattern=None if pattern is None else lambda: pattern.storable(full is not None),
            call=self._call(),
            sources=(
                compiled.sources
                if compiled is not None and (trace is not None or memory is not None)
                else None
            ),
        )

    def _call(self) -> CallTime | None:
        trace = self.recorded.trace
        if trace is None:
            return None
        offset = trace.offset
        return CallTime(self.asked.entered + offset, self.ended + offset, trace.thread)

    def _overhead(self, trace: Trace) -> Overhead:
        """What recording cost, from the events recorded and what one costs in this process."""
        if self._cost is None:
            self._cost = self._estimated_overhead(trace)
        return self._cost

    def _estimated_overhead(self, trace: Trace) -> Overhead:
        costs = recording_costs()
        marks = len(trace.marks) - trace.marks.count(0)
        around = self.asked.around + self.recorded.around + self.handed_over_ns
        # What was written to memory that outlives the process was copied from there.
        mark_ns = costs.mark_ns if isinstance(trace.marks, list) else costs.live_mark_ns
        ns = int(around + marks * mark_ns + len(trace.events) * costs.event_ns)
        whole = max(1, self.ended - self.asked.entered)
        ns = min(ns, whole - 1)
        return Overhead(ns, ns / (whole - ns))


class _WentWell(LoggedRecording):
    """A run that went well, for one who gets its trace or does not."""

    __slots__ = ("_report", "_traced")

    def __init__(self, report: RunReport, traced: bool) -> None:
        self._report = report
        self._traced = traced

    @property
    def step_id(self) -> int:
        return self._report.asked.step_id

    def __call__(self) -> Recording:
        return self._report.recording(None, traced=self._traced)

    def numbers(self) -> RunNumbers | None:
        return self._report.numbers() if self._traced else None
