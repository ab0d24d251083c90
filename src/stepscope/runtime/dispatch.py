"""One run from what was asked for to how it ended: recorded, decided, executed, translated.

`Dispatcher.execute` reads top to bottom: what is to be recorded, where the run executes
(`decision`), executing it there until its end or its deadline, and what the user gets where it
failed. It returns one value, `RunEnd`, however the run ended.

Guarantees.
- What is known of a run that failed is in the value: the trace up to then, the ops in flight, the
  memory, the losses.
- When `execute` returns, nothing of the run is held but what the value holds, and what belongs to
  ops that had to be abandoned.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from stepscope.errors import CANCELLED, OK, InvalidArgumentError, OpError
from stepscope.graph.dtypes import Array
from stepscope.metadata import InFlight, Loss
from stepscope.metadata.memory.allocation_log import LogSettings
from stepscope.metadata.memory.out_of_memory import OutOfMemory
from stepscope.options import DEFAULT_RESOLVED, ResolvedRunOptions, RunOptions
from stepscope.runtime.cost_model import CostModel
from stepscope.runtime.debug.debugger import Debugger
from stepscope.runtime.execute.blas_threads import BLAS
from stepscope.runtime.execute.decision import Decision, Pools, Products, decide
from stepscope.runtime.execute.execution import (
    Interrupted,
    RunState,
    StepFailed,
    deadline_error,
    is_exhaustion,
    wait_for,
)
from stepscope.runtime.execute.failures import op_error
from stepscope.runtime.execute.flow_run import FlowRun
from stepscope.runtime.execute.flow_trace import FlowTrace
from stepscope.runtime.execute.inline import InlineRun
from stepscope.runtime.execute.pooled import PooledRun
from stepscope.runtime.execute.pools import PoolSet, Task, WorkerPool
from stepscope.runtime.execute.run_handler import RunHandler, hold_run_handler_pool
from stepscope.runtime.execute.trace import Trace, clock
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.memory.counting import Counting
from stepscope.runtime.memory.exhausted import Scene
from stepscope.runtime.memory.run_memory import Request
from stepscope.runtime.observers import LiveLog, Sees
from stepscope.runtime.pipeline_notes import PipelineNotes
from stepscope.runtime.plan.compiled import CompiledPlan, CompiledRun
from stepscope.runtime.report import NOTHING, Recorded
from stepscope.runtime.settings import SessionSettings
from stepscope.runtime.stage_trace import TracedStages

_NOTHING_AROUND = nullcontext()


class RunEnd(NamedTuple):
    """How a run ended: its results, or the error the user gets; and what was recorded."""

    results: tuple[Any, ...]
    error: BaseException | None
    recorded: Recorded


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
        self.settings = settings
        self.pools = PoolSet(settings.config)
        self.configured = Pools(
            tuple([pool.size for pool in self.pools.pools]),
            self.pools.has_own_pools,
            self.pools.runs_in_caller,
        )
        self.allocator = allocator
        self.cost_model = CostModel(settings.build_cost_model, settings.build_cost_model_after)
        self._handler_pool: WorkerPool | None = None
        self._lock = threading.Lock()

    def check(self, options: ResolvedRunOptions) -> None:
        """Refuse what cannot be honoured, before anything runs."""
        index = options.inter_op_thread_pool
        if index < -1 or index >= len(self.pools.pools):
            raise InvalidArgumentError.without_op(f"Invalid inter_op_thread_pool: {index}")
        if options.output_partition_graphs and self.settings.disable_partition_graphs:
            raise InvalidArgumentError.without_op(
                "RunOptions.output_partition_graphs() is not supported when "
                "disable_output_partition_graphs is true.",
            )

    def execute(
        self,
        compiled: CompiledRun,
        feeds: tuple[Array, ...],
        state: RunState,
        options: ResolvedRunOptions,
        watching: Sequence[Sees],
    ) -> RunEnd:
        """Run it; `feeds` are in plan order. Raises only where no plan can be made of it."""
        live = next((o.live for o in watching if o.live is not None), None) if watching else None
        run = _Run(self, compiled, compiled.plan_for(feeds), feeds, state, options, live)
        run.pipelines = next((o.pipelines for o in watching if o.pipelines is not None), None)
        try:
            results, error = run.outcome(max([o.trace_level for o in watching]) if watching else 0)
            run.end_live(error)
        finally:
            run.close()
        try:
            recorded = run.recorded(succeeded=error is None)
            if options.trace_level < RunOptions.FULL_TRACE:
                given_up = [loss for o in watching for loss in o.losses] if watching else ()
                if given_up:
                    recorded = recorded._replace(losses=(*recorded.losses, *given_up))
            return RunEnd(results, error, recorded)
        finally:
            # The error's cause holds this frame: it must not hold the error.
            del error

    def handler(self, priority: int) -> RunHandler:
        """A place in the process-wide pool for one run."""
        with self._lock:
            if self._handler_pool is None:
                size = self.settings.config.inter_op_parallelism_threads
                self._handler_pool = hold_run_handler_pool(max(0, size))
        return RunHandler(self._handler_pool, priority)

    def release(self) -> None:
        self.pools.release()
        with self._lock:
            if self._handler_pool is not None:
                self._handler_pool.release()
                self._handler_pool = None


class _Run:
    """One run under way: `outcome`, then `close`, then `recorded`."""

    _log_settings: LogSettings | None = None
    _trace: Trace | None = None
    _debugger: Debugger | None = None
    _accounting: Counting | None = None
    _executor: InlineRun | PooledRun | FlowRun | None = None
    _losses: tuple[Loss, ...] = ()
    _around = 0
    pipelines: PipelineNotes | None = None
    """Is told of input pipelines."""
    # How it ended early.
    _in_flight: tuple[InFlight, ...] = ()
    _cut_short = False
    _refused: Request | None = None
    _out_of_memory: OutOfMemory | None = None

    def __init__(
        self,
        session: Dispatcher,
        compiled: CompiledRun,
        plan: CompiledPlan,
        feeds: tuple[Array, ...],
        state: RunState,
        options: ResolvedRunOptions,
        live: LiveLog | None,
    ) -> None:
        self._live = live
        self._session = session
        self._compiled = compiled
        self._plan = plan
        self._feeds = feeds
        self._state = state
        self._options = options
        self._costed = session.cost_model.is_due(compiled)

    def outcome(self, watched_level: int) -> tuple[tuple[Any, ...], BaseException | None]:
        """The results, or the error the user gets; `watched_level` is what observers ask for."""
        try:
            self._begin_recording(watched_level)
            return self._execute(), None
        except StepFailed as failed:
            return (), self._translated(failed)
        except MemoryError as error:
            return (), self._translated(StepFailed(error, None))
        except Interrupted as stopped:
            self._in_flight, self._cut_short = stopped.outcomes, True
            return (), stopped.cause or self._state.cancellation.error()
        except BaseException as error:  # noqa: BLE001 - raised again for the user
            return (), error

    # -- what is recorded ----------------------------------------------------------------------

    def _begin_recording(self, watched_level: int) -> None:
        options, plan, feeds = self._options, self._plan, self._feeds
        level = max(options.trace_level, watched_level, 3 if self._costed else 0)
        if options is not DEFAULT_RESOLVED:
            self._log_settings = _log_settings(
                options.report_tensor_allocations_upon_oom,
                options.allocation_log_buffer_size,
                options.allocation_log_sampling_rate,
                options.allocation_log_address,
            )
            if self._log_settings is not None:
                # The times of the log are those of a trace.
                level = max(level, 1)
        trace = None
        if level:
            kind = FlowTrace if plan.plan.has_flow else Trace
            trace = self._trace = kind(
                plan.plan, plan.table, level, self._state.step_id, plan.unknown_shapes(feeds)
            )
        if options.debug_options is not None:
            self._debugger = Debugger(
                options.debug_options, plan.plan, self._state, feeds, self._compiled.spec.targets
            )
            if trace is not None:
                trace.pauses = self._debugger.paused
        if trace is not None:
            spec = self._compiled.spec
            self._state.stages = TracedStages(trace, lambda: spec.what, self.pipelines)
            self._around += clock() - trace.begin

    def _account(self, *, is_inline: bool) -> None:
        """Begin to count the run's memory, where somebody asks."""
        allocator, trace = self._session.allocator, self._trace
        wants_events = self._log_settings is not None or (trace is not None and trace.level >= 3)
        if not wants_events and not allocator.limits:
            return
        began = clock()
        self._accounting = Counting(
            allocator, self._compiled, self._plan, self._feeds, self._state, is_inline, wants_events
        )
        try:
            self._accounting.open()
        finally:
            self._around += clock() - began

    def _begin_live(self, live: LiveLog, trace: Trace) -> None:
        """What the run executes is to outlive the process."""
        began = clock()
        table = self._plan.table()
        in_order = trace.program is not None
        trace.live = live.begin(
            table.facts,
            self._plan.program.line_nodes(table.source_count) if in_order else table.step_nodes,
            in_order=in_order,
            step_id=self._state.step_id,
            thread=trace.thread,
            offset=trace.offset,
        )
        self._around += clock() - began

    def end_live(self, error: BaseException | None) -> None:
        """The run is over and about to be handed over; `error` is what the user gets."""
        trace = self._trace
        if trace is None or trace.live is None:
            return
        assert self._live is not None
        live = trace.live
        trace.end_live()
        code = error.error_code if isinstance(error, OpError) else CANCELLED if error else OK
        abandoned = self._executor is not None and self._executor.abandoned
        self._live.end(live, clock(), code, abandoned=abandoned)

    # -- executing -----------------------------------------------------------------------------

    def _execute(self) -> tuple[Any, ...]:
        session, plan = self._session, self._plan
        timeout_ms = self._options.timeout_in_ms
        if timeout_ms <= 0:
            timeout_ms = session.settings.timeout_ms
        deadline = clock() + timeout_ms * 1_000_000 if timeout_ms > 0 else 0
        where = decide(plan.plan, self._options, session.configured, deadline > 0, plan.gains_on)
        if where.products == "one by one" and plan.plan.spreads:
            self._state.cores = BLAS.count()
        self._losses = where.losses
        run = self._make_executor(where)
        if where.place == "caller":
            assert not isinstance(run, PooledRun)
            results = self._on_caller(run, where, deadline, timeout_ms)
        else:
            results = self._on_pool(run, where, deadline, timeout_ms)
        if self._accounting is not None:
            self._accounting.succeeded()
        return results

    def _on_caller(
        self, run: InlineRun | FlowRun, where: Decision, deadline: int, timeout_ms: int
    ) -> tuple[Any, ...]:
        with _sharing_blas(self._plan, 1, where.products):
            if not deadline or not self._plan.plan.has_blocking:
                return run.on_this_thread(deadline, timeout_ms)
            with _Alarm(self._state, deadline, timeout_ms):
                return run.on_this_thread(deadline, timeout_ms)

    def _on_pool(
        self,
        run: InlineRun | PooledRun | FlowRun,
        where: Decision,
        deadline: int,
        timeout_ms: int,
    ) -> tuple[Any, ...]:
        session = self._session
        pool = session.pools.pools[where.pool]
        submit: Callable[[Task], None] = pool.submit
        if where.place == "run handler":
            handler = session.handler(self._options.run_handler_priority)
            pool, submit = handler.pool, handler.submit
        self._executor = run
        with _sharing_blas(self._plan, pool.size, where.products):
            run.start(pool, submit)
            return wait_for(run, self._state, pool, deadline, timeout_ms)

    def _make_executor(self, where: Decision) -> InlineRun | PooledRun | FlowRun:
        plan, state, feeds, trace = self._plan, self._state, self._feeds, self._trace
        allocator = self._session.allocator
        watched = self._debugger.watched if self._debugger is not None else frozenset()
        if trace is not None and where.executor == "inline":
            trace.program = plan.program
        if self._live is not None and trace is not None:
            self._begin_live(self._live, trace)
        self._account(is_inline=where.executor == "inline")
        if where.executor == "inline":
            return InlineRun(plan.program, state, feeds, trace, watched, allocator)
        if where.executor == "pooled":
            return PooledRun(
                plan.schedule, state, feeds, trace, allocator.cache, watched, allocator
            )
        assert trace is None or isinstance(trace, FlowTrace)
        if trace is not None and self._accounting is not None:
            trace.memory = self._accounting.flow_memory
        return FlowRun(plan.flow, state, feeds, trace, watched, allocator)

    # -- how it ended --------------------------------------------------------------------------

    def _translated(self, failed: StepFailed) -> BaseException:
        """What the user gets for a step that failed, its cause set."""
        cause = failed.cause
        if failed.in_flight is not None:
            self._in_flight = (failed.in_flight, *failed.others)
        if not isinstance(cause, Exception):
            cause.__cause__ = None
            return cause
        if not is_exhaustion(cause):
            self._cut_short = True
            return op_error(cause, failed.step)
        scene = Scene(
            self._compiled, self._plan, self._feeds, self._session.allocator,
            self._state.step_id, self._trace, self._accounting,
        )  # fmt: skip
        wanted = self._log_settings is not None or self._trace is not None
        error, self._refused, self._out_of_memory = scene.error(failed, wanted=wanted)
        return error

    def close(self) -> None:
        """The run is over: hold nothing of it that its metadata does not need."""
        if self._accounting is not None:
            self._accounting.close()
        if self._executor is not None:
            self._executor.let_go()
        if self._debugger is not None:
            self._debugger.close()
            self._losses = (*self._losses, *self._debugger.losses)

    def recorded(self, *, succeeded: bool) -> Recorded:
        """What the run left for its metadata."""
        trace, memory = self._trace, None
        if self._state.stages is not None:
            self._losses = (*self._losses, *self._state.stages.losses())
        if succeeded and trace is None and not self._losses:
            return NOTHING
        if self._accounting is not None:
            memory = self._accounting.record(trace, self._refused, cut_short=self._cut_short)
        costs = None
        if succeeded and self._costed and trace is not None:
            costs = self._session.cost_model.of(trace)
        return Recorded(
            trace,
            self._options.trace_level > 0 or self._costed,
            memory,
            self._log_settings,
            self._losses,
            costs,
            self._in_flight,
            self._out_of_memory,
            self._around,
        )


def _sharing_blas(
    compiled: CompiledPlan, workers: int, products: Products
) -> AbstractContextManager[None]:
    """For as long as a run lasts: BLAS's threads as its products need them.

    Products that run side by side share them. Small ones that follow each other take one each: what
    more threads would gain is less than what waiting for them costs when something else runs. So
    do all where ops spread over the cores by themselves.
    """
    if products == "as they are" or not compiled.plan.has_products:
        return _NOTHING_AROUND
    if products == "one by one":
        alone = compiled.plan.small_products or compiled.plan.spreads
        return BLAS.share(1) if alone else _NOTHING_AROUND
    return BLAS.share(compiled.gain(workers, BLAS.count()).blas_threads)


class _Alarm:
    """Cancels a run at its deadline from a timer thread: for ops that block the caller's thread."""

    def __init__(self, state: RunState, deadline: int, timeout_ms: int) -> None:
        self._timer = threading.Timer(
            max(0.0, (deadline - clock()) / 1e9),
            state.cancellation.cancel,
            [deadline_error(timeout_ms)],
        )
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_exc: object) -> None:
        self._timer.cancel()
