"""Decides where a run executes, executes it, and keeps the deadline.

The decision, in this order:
1. `inter_op_thread_pool=-1` and one partition: the caller's thread, inline; a deadline is looked at
   between ops.
2. `use_run_handler_pool`, in a session without pools of its own: the process-wide pool, by rank.
3. A pool that was asked for (configured pools), a deadline, or ops that gain from running in
   parallel (`pool_gain`): the pool; inline as one task when nothing gains and nothing may block,
   else pooled, with BLAS's threads shared out among the products that run side by side.
4. Otherwise inline on the caller's thread: handing the run over would gain nothing.

A plan with branches and loops takes an executor of its own (`flow_run`) in the place of either.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from stepscope.errors import InvalidArgumentError
from stepscope.graph.dtypes import Array
from stepscope.metadata import Loss
from stepscope.metadata.allocation_log import LogSettings
from stepscope.options import DEFAULT_RESOLVED, ResolvedRunOptions
from stepscope.runtime.accounting import Accounting
from stepscope.runtime.allocator import Allocator
from stepscope.runtime.blas_threads import BLAS
from stepscope.runtime.compiled import CompiledPlan, CompiledRun
from stepscope.runtime.cost_model import CostModel
from stepscope.runtime.debug import Debugger
from stepscope.runtime.execution import (
    Interrupted,
    RunState,
    StepFailed,
    deadline_error,
    is_exhaustion,
    wait_for,
)
from stepscope.runtime.exhausted import Scene
from stepscope.runtime.failures import op_error
from stepscope.runtime.flow_run import FlowRun
from stepscope.runtime.flow_trace import FlowTrace
from stepscope.runtime.inline import InlineRun
from stepscope.runtime.observers import Observer
from stepscope.runtime.pooled import PooledRun
from stepscope.runtime.pools import PoolSet, Task, WorkerPool
from stepscope.runtime.report import RunReport
from stepscope.runtime.run_handler import RunHandler, hold_run_handler_pool
from stepscope.runtime.settings import SessionSettings
from stepscope.runtime.trace import Trace, clock


@functools.lru_cache(maxsize=64)
def _log_settings(report: bool, size: int, rate: float | None, address: str) -> LogSettings | None:
    """How the log of a run with these options is kept; None where there is to be none."""
    return LogSettings.of(
        ResolvedRunOptions(
            report_tensor_allocations_upon_oom=report,
            allocation_log_buffer_size=size,
            allocation_log_sampling_rate=rate,
            allocation_log_address=address,
        )
    )


class Dispatcher:
    """The executors of one session."""

    def __init__(self, settings: SessionSettings, allocator: Allocator) -> None:
        self._settings = settings
        self._pools = PoolSet(settings.config)
        self._allocator = allocator
        self._cost_model = CostModel(settings.build_cost_model, settings.build_cost_model_after)
        self._handler_pool: WorkerPool | None = None
        self._lock = threading.Lock()

    def check(self, options: ResolvedRunOptions) -> None:
        """Refuse what cannot be honoured, before anything runs."""
        index = options.inter_op_thread_pool
        if index < -1 or index >= len(self._pools.pools):
            raise InvalidArgumentError(None, None, f"Invalid inter_op_thread_pool: {index}")
        if options.output_partition_graphs and self._settings.disable_partition_graphs:
            raise InvalidArgumentError(
                None,
                None,
                "RunOptions.output_partition_graphs() is not supported when "
                "disable_output_partition_graphs is true.",
            )

    # -- executing -----------------------------------------------------------------------------

    def execute(
        self,
        compiled: CompiledRun,
        feeds: tuple[Array, ...],
        state: RunState,
        options: ResolvedRunOptions,
        report: RunReport,
        watching: Sequence[Observer],
    ) -> tuple[Any, ...]:
        """The fetched values. On failure the error, with what is known left in the report."""
        plan = compiled.plan_for(feeds)
        level = max([options.trace_level, *(o.trace_level for o in watching)])
        costing = self._cost_model.is_due(compiled)
        if costing:
            level = 3
        report.traced = options.trace_level > 0 or costing
        if options is not DEFAULT_RESOLVED:
            report.log_settings = _log_settings(
                options.report_tensor_allocations_upon_oom,
                options.allocation_log_buffer_size,
                options.allocation_log_sampling_rate,
                options.allocation_log_address,
            )
            if report.log_settings is not None:
                # The times of the log are those of a trace.
                level = max(level, 1)
        trace = None
        if level:
            kind = FlowTrace if plan.plan.has_flow else Trace
            trace = report.trace = kind(
                plan.plan, plan.table, level, state.step_id, plan.unknown_shapes(feeds)
            )
        debugger = None
        if options.debug_options is not None:
            debugger = Debugger(
                options.debug_options, plan.plan, state, feeds, compiled.spec.targets
            )
            if trace is not None:
                trace.pauses = debugger.paused
        if trace is not None:
            report.around += clock() - trace.begin
        try:
            results = self._execute(compiled, plan, feeds, state, options, trace, debugger, report)
        finally:
            if debugger is not None:
                debugger.close()
                report.losses += debugger.losses
        if costing and trace is not None:
            report.cost_graph = self._cost_model.of(trace)
        return results

    def _execute(
        self,
        kind: CompiledRun,
        compiled: CompiledPlan,
        feeds: tuple[Array, ...],
        state: RunState,
        options: ResolvedRunOptions,
        trace: Trace | None,
        debugger: Debugger | None,
        report: RunReport,
    ) -> tuple[Any, ...]:
        plan = compiled.plan
        watched = debugger.watched if debugger is not None else frozenset()
        timeout_ms = (
            options.timeout_in_ms if options.timeout_in_ms > 0 else self._settings.timeout_ms
        )
        deadline = clock() + timeout_ms * 1_000_000 if timeout_ms > 0 else 0
        in_caller = options.inter_op_thread_pool == -1 or self._pools.runs_in_caller
        in_caller = in_caller and len(plan.graph.devices) == 1
        handler = self._handler(options, report, in_caller=in_caller)
        run: InlineRun | PooledRun | FlowRun | None = None
        accounting: Accounting | None = None
        wants_events = report.log_settings is not None or (trace is not None and trace.level >= 3)

        def account(*, is_inline: bool) -> None:
            nonlocal accounting
            if wants_events or self._allocator.limits:
                began = clock()
                accounting = Accounting(
                    self._allocator, kind, compiled, feeds, state, is_inline, wants_events
                )
                try:
                    accounting.open()
                finally:
                    report.memory = accounting.record(trace)
                    report.around += clock() - began

        def inline() -> InlineRun | FlowRun:
            if plan.has_flow:
                return flow()
            if trace is not None:
                trace.program = compiled.program
            account(is_inline=True)
            return InlineRun(compiled.program, state, feeds, trace, watched, self._allocator)

        def flow() -> FlowRun:
            account(is_inline=False)
            assert trace is None or isinstance(trace, FlowTrace)
            if trace is not None and accounting is not None:
                trace.memory = accounting.flow_memory
            return FlowRun(compiled.flow, state, feeds, trace, watched, self._allocator)

        def done(results: tuple[Any, ...]) -> tuple[Any, ...]:
            if accounting is not None:
                accounting.succeeded()
            return results

        try:
            if in_caller:
                with _Alarm(state, deadline, timeout_ms, needed=plan.has_blocking):
                    return done(inline().on_this_thread(deadline, timeout_ms))
            asked_for = (
                self._pools.has_own_pools
                or handler is not None
                or options.inter_op_thread_pool == -1  # several partitions: pool 0
            )
            pool = self._pools.pools[max(0, options.inter_op_thread_pool)]
            alone = plan.serial
            by_itself = not asked_for and len(plan.graph.devices) == 1 and not plan.may_wait
            if not alone and by_itself:
                alone = not compiled.gain(pool.size, BLAS.count()).worth_it
            if alone and not deadline and not asked_for:
                with _sharing_blas(compiled, pool, alone=True):
                    return done(inline().on_this_thread())
            submit: Callable[[Task], None] = pool.submit
            if handler is not None:
                pool, submit = handler.pool, handler.submit
            # A step that may block has to give up its worker, which the pooled executor does.
            if alone and not plan.has_blocking:
                run = inline()
            elif plan.has_flow:
                run = flow()
            else:
                account(is_inline=False)
                run = PooledRun(
                    compiled.schedule, state, feeds, trace, self._allocator.cache, watched,
                    self._allocator,
                )  # fmt: skip
            with _sharing_blas(compiled, pool, alone=alone):
                run.start(pool, submit)
                return done(wait_for(run, state, pool, deadline, timeout_ms))
        except (StepFailed, MemoryError) as error:
            failed = error if isinstance(error, StepFailed) else StepFailed(error, None)
            scene = Scene(
                kind, compiled, feeds, self._allocator, state.step_id, trace, accounting
            )  # fmt: skip
            try:
                raise _error_of(failed, scene, report)
            finally:
                # An error holds its frames: what they hold of the run goes with it.
                del failed, scene
        except Interrupted as stopped:
            report.outcomes = stopped.outcomes
            report.cut_short()
            raise (stopped.cause or state.cancellation.error()) from None
        finally:
            if accounting is not None:
                accounting.close()
            if run is not None:
                run.let_go()

    def _handler(
        self, options: ResolvedRunOptions, report: RunReport, *, in_caller: bool
    ) -> RunHandler | None:
        """The run's handler, or None; asking for what has no effect here is put on record."""
        field, reason = "experimental.use_run_handler_pool", ""
        if not options.use_run_handler_pool:
            field = "experimental.run_handler_pool_options.priority"
            reason = "use_run_handler_pool is off" if options.run_handler_priority else ""
        elif self._pools.has_own_pools:
            reason = "the session has thread pools of its own"
        elif in_caller:
            reason = "the run stays on the caller's thread"
        if reason:
            report.losses.append(Loss(field, 1, f"no effect: {reason}"))
        if reason or not options.use_run_handler_pool:
            return None
        with self._lock:
            if self._handler_pool is None:
                size = self._settings.config.inter_op_parallelism_threads
                self._handler_pool = hold_run_handler_pool(max(0, size))
        return RunHandler(self._handler_pool, options.run_handler_priority)

    def release(self) -> None:
        self._pools.release()
        with self._lock:
            if self._handler_pool is not None:
                self._handler_pool.release()
                self._handler_pool = None


def _sharing_blas(
    compiled: CompiledPlan, pool: WorkerPool, *, alone: bool
) -> AbstractContextManager[None]:
    """For as long as a run lasts: BLAS's threads as its products need them.

    Products that run side by side share them. Small ones that follow each other take one each: what
    more threads would gain is less than what waiting for them costs when something else runs.
    """
    if not compiled.plan.has_products:
        return nullcontext()
    if alone:
        return BLAS.share(1) if compiled.plan.small_products else nullcontext()
    return BLAS.share(compiled.gain(pool.size, BLAS.count()).blas_threads)


def _error_of(failed: StepFailed, scene: Scene, report: RunReport) -> BaseException:
    """What the user gets for a step that failed, its cause set."""
    if failed.in_flight is not None:
        report.outcomes = (failed.in_flight, *failed.others)
    if not isinstance(failed.cause, Exception):
        failed.cause.__cause__ = None
        return failed.cause
    if is_exhaustion(failed.cause):
        return report.ran_out(scene, failed)
    report.cut_short()
    return op_error(failed.cause, failed.step)


class _Alarm:
    """Cancels a run at its deadline from a timer thread: for ops that block the caller's thread."""

    def __init__(self, state: RunState, deadline: int, timeout_ms: int, *, needed: bool) -> None:
        self._timer: threading.Timer | None = None
        if deadline and needed:
            self._timer = threading.Timer(
                max(0.0, (deadline - clock()) / 1e9),
                state.cancellation.cancel,
                [deadline_error(timeout_ms)],
            )
            self._timer.daemon = True

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.start()

    def __exit__(self, *_exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
