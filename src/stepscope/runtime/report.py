"""What a run's metadata says: from a trace and the way the run ended to a `Recording`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from stepscope.errors import OpError, code_name
from stepscope.metadata import Completeness, InFlight, Loss, Overhead, Recording, Status
from stepscope.metadata.allocation_log import LogSettings
from stepscope.metadata.out_of_memory import OutOfMemory
from stepscope.options import ResolvedRunOptions, RunOptions
from stepscope.runtime.accounting import RunLog
from stepscope.runtime.compiled import CompiledRun
from stepscope.runtime.execution import StepFailed
from stepscope.runtime.exhausted import Scene
from stepscope.runtime.memory_record import MemoryRecord
from stepscope.runtime.recording_costs import recording_costs
from stepscope.runtime.trace import Trace

ENGINE: Final = "embedded"


@dataclass(slots=True)
class RunReport:
    """Collects what is known about one run."""

    step_id: int
    entered: int
    """The clock when the run was asked for."""
    options: ResolvedRunOptions
    asked: RunOptions | None = None
    """The options as the user gave them."""
    ended: int = 0
    """The clock when the run was over."""
    around: int = 0
    """Nanoseconds that recording took before and after the run itself."""
    compiled: CompiledRun | None = None
    trace: Trace | None = None
    losses: list[Loss] = field(default_factory=list)
    cost_graph: Callable[[], Any] | None = None
    outcomes: tuple[InFlight, ...] = ()
    """The ops in flight when the run ended early."""

    memory: MemoryRecord | None = None
    log_settings: LogSettings | None = None
    out_of_memory: OutOfMemory | None = None
    traced: bool = False
    """Whether whoever asked for the run asked for its trace, or only an observer did."""

    def handed_over(self, error: BaseException | None) -> Recording | Callable[[], Recording]:
        """What the caller asked for; of a run that went well, made when somebody looks."""
        if error is not None:
            return self.recording(error, traced=self.traced)
        return lambda: self.recording(None, traced=self.traced)

    def recording(self, error: BaseException | None, *, traced: bool) -> Recording:
        """The run as it ended (None: well), with or without its trace."""
        trace = self.trace if traced else None
        if error is None:
            return self._recording(Status(), self.losses, trace)
        trace = trace.freeze() if trace is not None else None
        if self.memory is not None and self.trace is not None:
            self.memory.freeze(trace or self.trace.freeze())
        if isinstance(error, OpError):
            status = Status(code_name(error.error_code), error.message, self.outcomes)
        else:
            message = f"{type(error).__name__}: {error}".rstrip(": ")
            status = Status("CANCELLED", message, self.outcomes)
        return self._recording(status, [*self.losses, *self._missing(trace, status.code)], trace)

    def ran_out(self, scene: Scene, failed: StepFailed) -> OpError:
        """Memory ran out: the error, with the report in it where the run was to be told."""
        wanted = self.log_settings is not None or self.trace is not None
        error, request, self.out_of_memory = scene.error(failed, wanted=wanted)
        if self.memory is not None:
            self.memory.failed = request
        return error

    def cut_short(self) -> None:
        """The run ended early, for another reason than memory."""
        if self.memory is not None:
            self.memory.cut_short = True

    def _missing(self, trace: Trace | None, code: str) -> list[Loss]:
        missing = len(trace.plan.steps) - trace.executed() if trace is not None else 0
        if not missing:
            return []
        reason = f"the run ended with {code} before they were done"
        if self.outcomes:
            reason += f"; in flight: {', '.join(o.name for o in self.outcomes)}"
        return [Loss("node executions", missing, reason)]

    def _recording(self, status: Status, losses: list[Loss], trace: Trace | None) -> Recording:
        compiled = self.compiled
        wants_graphs = self.options.output_partition_graphs and compiled is not None
        memory = self.memory
        log = None
        if memory is not None and self.log_settings is not None:
            log = RunLog(memory, self.log_settings)
        full = memory if trace is not None and trace.level >= 3 else None
        known = tuple(losses)
        timed = trace if trace is not None else self.trace if log is not None else None
        return Recording(
            engine=ENGINE,
            step_id=self.step_id,
            status=status,
            completeness=(
                Completeness(known) if log is None else lambda: Completeness(known + log.losses())
            ),
            overhead=Overhead() if timed is None else lambda: self._overhead(timed),
            allocations=full.columns if full is not None else None,
            allocation_log=log.columns if log is not None else None,
            peak_bytes=memory.peaks if memory is not None else None,
            out_of_memory=self.out_of_memory,
            ops=trace.columns if trace is not None else None,
            partition_graphs=(
                compiled.graph.partition_graphs if wants_graphs and compiled is not None else None
            ),
            cost_graph=self.cost_graph,
            placements=(
                (lambda: list(compiled.graph.placements.values()))
                if compiled is not None and trace is not None
                else None
            ),
            run_options=self.asked,
            sources=(
                compiled.sources
                if compiled is not None and (trace is not None or memory is not None)
                else None
            ),
        )

    def _overhead(self, trace: Trace) -> Overhead:
        """What recording cost, from the events recorded and what one costs in this process."""
        costs = recording_costs()
        marks = len(trace.marks) - trace.marks.count(0)
        ns = int(self.around + marks * costs.mark_ns + len(trace.events) * costs.event_ns)
        whole = max(1, self.ended - self.entered)
        ns = min(ns, whole - 1)
        return Overhead(ns, ns / (whole - ns))
