"""Decides how much of a run's memory is counted, and tells its story when it is over.

The decision:
1. Nobody asks (no limit, no log, no FULL trace): nothing is done.
2. There is a limit, and the run's peak, with all that is live, stays below it: the run is admitted
   as a whole and goes at full speed.
3. It may not fit, or nobody knows: each op is charged before it runs, and the request that does
   not fit fails.
4. Somebody wants the events: on the caller's thread they follow from the plan and the times; on a
   pool they are counted as they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stepscope.graph.dtypes import Array
from stepscope.metadata.memory.allocation_log import LogSettings, log_of
from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.metadata.outcome import Loss
from stepscope.ops.resources import address_of
from stepscope.runtime.execute.execution import RunState
from stepscope.runtime.execute.trace import Trace
from stepscope.runtime.memory.accountant import OwnedMemory
from stepscope.runtime.memory.allocator import Allocator, RunAccount
from stepscope.runtime.memory.curve import at_peak
from stepscope.runtime.memory.exhausted import account_rows
from stepscope.runtime.memory.flow_memory import FlowMemory
from stepscope.runtime.memory.record import MemoryRecord
from stepscope.runtime.memory.run_memory import Fed, Request, RunMemory
from stepscope.runtime.plan.compiled import CompiledPlan, CompiledRun, LastFit


@dataclass(slots=True)
class Counting:
    """How the memory of one run is counted; `open` before it, `close` after it."""

    allocator: Allocator
    compiled: CompiledRun
    plan: CompiledPlan
    feeds: Sequence[Array]
    state: RunState
    inline: bool
    wants_events: bool
    memory: RunMemory | None = None
    account: RunAccount | None = None

    def open(self) -> None:
        """Decide, and begin. Raises `Refused` where not even the feeds fit."""
        limited = bool(self.allocator.limits)
        counts = self.wants_events and not self.inline
        admitted = False
        if limited:
            admitted = self._admit()
            if not admitted:
                counts = True
                self.account = self.allocator.open(self._rows())
        if not counts and not self.wants_events:
            return
        if self.plan.plan.has_flow:
            self.memory = FlowMemory(self.plan.memory(), self.allocator, step_id=self.state.step_id)
        else:
            self.memory = RunMemory(
                self.plan.memory(),
                self.allocator,
                step_id=self.state.step_id,
                counts=counts,
                forwards=self.plan.program.buffers.forwarded if self.inline else {},
            )
        self.state.memory = self.memory
        self.memory.open(self.feeds, None if admitted else self.account, opening=self.wants_events)

    @property
    def flow_memory(self) -> FlowMemory | None:
        """The memory of a run with branches and loops, where it is counted."""
        return self.memory if isinstance(self.memory, FlowMemory) else None

    def _admit(self) -> bool:
        if self.plan.plan.has_flow:
            # How often a loop goes round, nobody knows beforehand.
            return False
        bound = self.plan.curve().bound() if self.inline else self.plan.memory().total_bound()
        if bound is None:
            return False
        bound = dict(bound)
        nodes = self.plan.plan.graph.args.values()
        unique = {
            (address_of(a), a.nbytes): n.device for n, a in zip(nodes, self.feeds, strict=True)
        }
        for (_, size), device in unique.items():
            bound[device] = bound.get(device, 0) + size
        self.account = self.allocator.admit(bound, self._rows())
        return self.account is not None

    def _rows(self) -> Callable[[], AllocationColumns]:
        return account_rows(
            lambda: self.account, self._owners, self._fed, self.plan, self.state.step_id
        )

    def _fed(self) -> Sequence[Fed]:
        return self.memory.feeds if self.memory is not None else ()

    def _owners(self) -> Sequence[OwnedMemory]:
        if self.memory is not None and self.memory.counts:
            return self.memory.alive()
        return self.plan.curve().at_peak() if self.inline else ()

    def succeeded(self) -> None:
        """The run went well."""
        if self.memory is not None:
            self.memory.finish()
        fit, changes = self.compiled.last_fit, self.allocator.changes
        if fit is None or fit.plan is not self.plan or fit.changes != changes:
            held = self.allocator.holdings_by_op()
            self.compiled.last_fit = LastFit(self._at_peak, held, changes, self.plan)

    def close(self) -> None:
        """The run is over."""
        if self.memory is not None:
            self.memory.close()
        if self.account is not None:
            self.account.close()
        # What outlives the run (`last_fit`) holds no tensor.
        self.feeds, self.account = (), None

    def _at_peak(self) -> Mapping[str, int]:
        """Bytes by op, of feeds and temporaries, at the peak."""
        memory = self.memory
        if memory is not None and memory.counts:
            owners = at_peak(memory.accountant.events)
        elif self.inline:
            owners = self.plan.curve().at_peak()
        else:
            owners = []
        found: dict[str, int] = {}
        for owner in owners:
            name = owner.output.name
            found[name] = found.get(name, 0) + owner.bytes
        table = self.plan.memory()
        for step, (name, _, _) in table.feeds.items():
            plan_step = self.plan.plan.steps[step]
            count = plan_step.shapes[0].num_elements() or 0
            found[name] = found.get(name, 0) + count * plan_step.node.output_dtypes[0].size
        return found

    def record(
        self, trace: Trace | None, failed: Request | None, *, cut_short: bool
    ) -> MemoryRecord | None:
        """The run's memory for its metadata, where somebody wants it.

        `failed` is the request that was refused; `cut_short` says whether an op was under way when
        the run ended for another reason.
        """
        if self.memory is None or trace is None or not self.wants_events:
            return None
        curve = self.plan.curve if self.inline else None
        return MemoryRecord(self.memory, trace, curve, failed, cut_short=cut_short)


class RunLog:
    """The allocation log of a run, worked out when somebody looks."""

    def __init__(self, record: MemoryRecord, settings: LogSettings) -> None:
        self._record = record
        self._settings = settings

    def columns(self) -> AllocationColumns:
        return log_of(self._record.columns(), self._settings).columns

    def losses(self) -> tuple[Loss, ...]:
        return log_of(self._record.columns(), self._settings).losses(self._settings)
