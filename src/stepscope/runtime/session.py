"""`Session`: runs a graph under the contract, on the embedded engine unless a target says where.

Guarantees. One session may be used from any number of threads at once. Options are checked before
anything runs. Whatever happens to a run, its metadata is filled, the error carries it, and the
session stays usable until it is closed. `close()` stops the runs under way.
"""

from __future__ import annotations

import itertools
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from stepscope import options as opts
from stepscope.errors import (
    CancelledError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnimplementedError,
)
from stepscope.graph import Graph, Tensor, get_default_graph
from stepscope.graph.defaults import pop_session, push_session
from stepscope.metadata import (
    RunMetadata,
    RunMetadataTarget,
    as_run_metadata,
    as_run_metadata_target,
)
from stepscope.ops import structures
from stepscope.ops.resources import ResourceStore
from stepscope.runtime import observers
from stepscope.runtime.budgeted_runs import Lulled, lull_of
from stepscope.runtime.dispatch import Dispatcher
from stepscope.runtime.execute.execution import RunState
from stepscope.runtime.execute.trace import clock
from stepscope.runtime.fetches import (
    FeedSlot,
    FetchSpec,
    feed_tensor,
    fetch_key,
    flatten_feeds,
)
from stepscope.runtime.function_calls import FunctionCalls
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.memory.buffers import BufferCache
from stepscope.runtime.partial_runs import PartialRun
from stepscope.runtime.plan.compiled import CompiledRun
from stepscope.runtime.plan.placement import Device, Placer, local_devices
from stepscope.runtime.report import NOTHING, RunReport, RunRequest
from stepscope.runtime.session_targets import engine_for
from stepscope.runtime.settings import SessionSettings, limits_by_device

_step_ids = itertools.count(1)


class BaseSession:
    """What `Session` and `InteractiveSession` share."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a stepscope.Graph, not {type(graph).__name__}.")
        self._target = target
        self._graph = graph if graph is not None else get_default_graph()
        self._specs: dict[Any, FetchSpec] = {}
        self._partial_runs: dict[str, PartialRun] = {}
        checked = opts.as_config(config)
        self._elsewhere = engine_for(target, self._graph, checked)
        if self._elsewhere is None:
            self._set_up(checked)
        self._closed = False

    def _set_up(self, config: opts.ConfigProto) -> None:
        self._settings = SessionSettings(config)
        self._devices = local_devices(self._settings.cpu_count)
        self._placer = Placer(self._devices, soft=self._settings.soft_placement)
        self._resources = ResourceStore()
        self._compiled: dict[Any, CompiledRun] = {}
        self._compile_lock = threading.Lock()
        limits = limits_by_device(self._settings.memory_limits, self._devices)
        self._devices = [
            replace(d, memory_limit_bytes=limits.get(d.name, d.memory_limit_bytes))
            for d in self._devices
        ]
        self._allocator = Allocator(self._resources, limits, BufferCache())
        self._resources.functions = FunctionCalls(self._placer, self._resources, self._allocator)
        self._dispatcher = Dispatcher(self._settings, self._allocator)
        self._active: set[RunState] = set()

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def graph_def(self) -> Any:
        return self._graph.as_graph_def()

    @property
    def sess_str(self) -> bytes:
        return self._target.encode()

    def list_devices(self) -> list[Device]:
        return list(self._devices) if self._elsewhere is None else self._elsewhere.list_devices()

    # -- running -------------------------------------------------------------------------------

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Run the ops that `fetches` needs and return its tensors' values in its structure.

        `options` and `run_metadata` take Stepscope's, TensorFlow's or TensorBoard's messages.
        """
        entered = clock()
        spec = self._spec(fetches)
        pairs = flatten_feeds(self._graph, feed_dict) if feed_dict else ()
        return self._run(
            spec,
            tuple([t for t, _ in pairs]),
            [v for _, v in pairs],
            options,
            run_metadata,
            entered,
        )

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A function that runs the same fetches again and again, fed positionally.

        With `accept_options` it also takes `options=` and `run_metadata=`.
        """
        self._check_open()
        spec = self._spec(fetches)
        tensors = tuple(feed_tensor(self._graph, key) for key in feed_list or ())

        def call(*args: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if len(args) != len(tensors):
                raise TypeError(f"This callable takes {len(tensors)} feeds, not {len(args)}.")
            if not accept_options and (options is not None or run_metadata is not None):
                raise TypeError("Pass accept_options=True to make_callable to use options.")
            return self._run(spec, tensors, args, options, run_metadata, clock())

        return call

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """A handle for `partial_run`: what will be fetched and fed in all of its calls.

        `stepscope.runtime.partial_runs` says what a partial run is.
        """
        self._check_open()
        if self._elsewhere is not None:
            raise UnimplementedError.without_op(
                f"Stepscope has partial runs on its own engine alone, not on {self._target!r}; use "
                "run(), or a session without a target."
            )
        given = feeds if isinstance(feeds, (list, tuple)) else [feeds] if feeds is not None else ()
        tensors = [feed_tensor(self._graph, key) for key in structures.leaves(list(given))]
        handle = f"partial_run_{next(_step_ids)}"
        self._partial_runs[handle] = PartialRun(FetchSpec(self._graph, fetches), tensors)
        return handle

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Go on with a run: feed some of what its setup named, fetch what can be computed now."""
        self._check_open()
        spec = self._spec(fetches)
        pairs = flatten_feeds(self._graph, feed_dict) if feed_dict else []
        partial = self._partial_runs.get(handle)
        if partial is None:
            raise InvalidArgumentError.without_op(
                "Must run 'setup' before performing partial runs! partial_run_setup() gives the "
                "handle, which is used up once everything was fed and fetched."
            )

        def run(part: FetchSpec, tensors: tuple[Tensor, ...], values: Sequence[Any]) -> Any:
            try:
                return self._run(part, tensors, values, None, None, clock())
            except BaseException:
                self._partial_runs.pop(handle, None)
                raise

        found = partial.call(spec, pairs, run)
        if partial.over:
            self._partial_runs.pop(handle, None)
        return spec.build(found)

    def _spec(self, fetches: Any) -> FetchSpec:
        key = fetch_key(fetches)
        if key is None:
            return FetchSpec(self._graph, fetches)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs.setdefault(key, FetchSpec(self._graph, fetches))
        return spec

    # Long: between two runs of a program a call of ours costs several times what it does in a loop.
    def _run(
        self,
        spec: FetchSpec,
        tensors: tuple[Tensor, ...],
        values: Sequence[Any],
        options: Any,
        run_metadata: Any,
        entered: int,
    ) -> Any:
        self._check_open()
        if self._elsewhere is not None:
            return self._run_elsewhere(spec, tensors, values, options, run_metadata)
        began = clock()
        watching: Sequence[observers.Sees] = ()
        wants, noted, before, lull = False, 0, 0, spec.lull
        if current := observers.current:
            # In a lull nobody is asked: every call between two runs takes several times what it
            # would in a loop of its own.
            if lull is not None and lull.asked is current and (noted := lull.lane.begins()):
                before = clock() - began if lull.lane.to_time else 0
            else:
                watching = observers.watching(spec.what)
                spec.lull = lull_of(watching, current)
                wants = observers.want_runs(watching)
        elif lull is not None:
            spec.lull = None
        wanted = opts.as_run_options(options)
        resolved = wanted.resolve() if wanted is not None else opts.DEFAULT_RESOLVED
        target = as_run_metadata_target(run_metadata)
        self._dispatcher.check(resolved)
        state = RunState(next(_step_ids))
        asked = RunRequest(state.step_id, resolved, wanted, entered, clock() - began)
        compiled: CompiledRun | None = None
        recorded = NOTHING
        self._active.add(state)
        try:
            self._check_open()
            compiled = self._compile(spec, tensors)
            arrays = self._accepted(compiled, values)
            results, failure, recorded = self._dispatcher.execute(
                compiled, compiled.in_plan_order(arrays), state, resolved, watching if wants else ()
            )
            if failure is not None:
                try:
                    raise failure
                finally:
                    # The error holds this frame: it must not hold the error.
                    del failure
            if self._closed and state.cancellation.cancelled:
                raise state.cancellation.error()
        except (OpError, KeyboardInterrupt, SystemExit) as error:
            report = RunReport(asked, compiled, recorded, clock())
            if noted and lull is not None:
                watching = (Lulled(lull.lane, noted),)
            self._deliver(target, report, error, watching)
            error.run_metadata = target.metadata  # type: ignore[union-attr]
            raise
        finally:
            self._active.discard(state)
        if target.asked_for or wants:
            if tensors and watching:
                observers.fed(watching, [tensor.name for tensor in tensors], arrays)
            self._deliver(target, RunReport(asked, compiled, recorded, clock()), None, watching)
        elif watching:
            observers.tell_ended(watching, None)
        if noted and lull is not None:
            lull.ended(noted, before)
        return spec.build(results)

    def _accepted(self, compiled: CompiledRun, values: Sequence[Any]) -> list[Any]:
        """What is fed, as arrays of the types that the graph says."""
        try:
            return [slot.accept(v) for slot, v in zip(compiled.slots, values, strict=True)]
        except MemoryError as error:
            self._allocator.give_back()
            raise ResourceExhaustedError.without_op(
                f"OOM when converting what is fed: {error}"
            ) from error

    def _run_elsewhere(
        self,
        spec: FetchSpec,
        tensors: tuple[Tensor, ...],
        values: Sequence[Any],
        options: Any,
        run_metadata: Any,
    ) -> Any:
        """On the engine that serves the target; fetches and feeds are checked here all the same."""
        feeds = {t.name: FeedSlot(t).accept(v) for t, v in zip(tensors, values, strict=True)}
        names = [t.name for t in spec.tensors], [op.name for op in spec.targets]
        watching = observers.watching(spec.what)
        if not watching:
            return spec.build(self._elsewhere.run(*names, feeds, options, run_metadata))
        # One run, one recording: where somebody watches, the caller's metadata has all of it too.
        wanted = opts.RunOptions()
        wanted.CopyFrom(opts.as_run_options(options) or wanted)
        wanted.trace_level = max([wanted.trace_level, *(o.trace_level for o in watching)])
        seen = RunMetadata() if run_metadata is None else run_metadata
        try:
            results = self._elsewhere.run(*names, feeds, wanted, seen)
        except OpError as error:
            seen = error.run_metadata
            raise
        finally:
            metadata = as_run_metadata(seen)
            for observer in watching:
                observers.show(observer, metadata, self._graph)
            observers.tell_ended(watching, sys.exception())
        return spec.build(results)

    def _deliver(
        self,
        target: RunMetadataTarget,
        report: RunReport,
        error: BaseException | None,
        watching: Sequence[observers.Sees],
    ) -> None:
        """Fill the caller's metadata with what the caller asked for, the observers' with all."""
        if target.asked_for or error is not None:
            target.deliver(report.handed_over(error))
        report.handed_over_ns = clock() - report.ended
        for observer in watching:
            if observer.callback is None:
                continue
            seen = RunMetadata.of(report.handed_over(error, observed=True))
            observers.show(observer, seen, self._graph)
        observers.tell_ended(watching, error)

    def _compile(self, spec: FetchSpec, tensors: tuple[Tensor, ...]) -> CompiledRun:
        key = (spec.tensors, spec.targets, tensors, spec.done)
        compiled = self._compiled.get(key)
        if compiled is not None and compiled.change_count == self._graph.change_count:
            return compiled
        with self._compile_lock:
            change_count = self._graph.change_count
            compiled = self._compiled.get(key)
            if compiled is None or compiled.change_count != change_count:
                began = clock()
                compiled = CompiledRun(
                    spec, tensors, self._placer, self._resources, change_count, self._allocator
                )
                self._compiled[key] = compiled
                observers.planned(len(compiled.graph.nodes), clock() - began)
                if self._settings.log_placement:
                    self._log_placement(compiled)
            return compiled

    def _log_placement(self, compiled: CompiledRun) -> None:
        for p in compiled.graph.placements.values():
            sys.stderr.write(f"{p.node}: ({p.op}): {p.assigned} [{p.reason}]\n")

    # -- life ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")

    def close(self) -> None:
        """Stop the runs under way and let go of everything. Twice is fine."""
        if self._closed:
            return
        self._closed = True
        if self._elsewhere is not None:
            self._elsewhere.close()
            return
        for state in list(self._active):
            state.close(_closed_error)
        self._resources.close()
        self._dispatcher.release()
        self._compiled.clear()
        self._partial_runs.clear()
        self._allocator.give_back()

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the program worker threads stand still: none could be waited for.
        if not getattr(self, "_closed", True) and not _ending():
            self.close()

    def as_default(self) -> Any:
        """A context manager that makes this the default session (it does not close it)."""
        return _AsDefault(self)


def _closed_error() -> CancelledError:
    return CancelledError.without_op("The session was closed while the run was under way.")


class _AsDefault:
    def __init__(self, session: BaseSession) -> None:
        self._session = session

    def __enter__(self) -> BaseSession:
        push_session(self._session)
        return self._session

    def __exit__(self, *_exc: object) -> None:
        pop_session(self._session)


class Session(BaseSession):
    """A session on the embedded engine. As a context manager it is the default, then closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._graph_scope: Any = None

    def __enter__(self) -> Self:
        self._check_open()
        if self._graph_scope is None:
            self._graph_scope = self._graph.as_default()
        else:
            raise RuntimeError("Session context managers are not re-entrant.")
        self._graph_scope.__enter__()
        push_session(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pop_session(self)
        scope, self._graph_scope = self._graph_scope, None
        scope.__exit__(kind, error, traceback)
        self.close()

    @staticmethod
    def reset(target: str, containers: Any = None, config: Any = None) -> None:
        """Forget the variables of a cluster; the embedded engine keeps none outside a session."""
        elsewhere = engine_for(target, Graph(), opts.as_config(config))
        if elsewhere is not None:
            elsewhere.reset(containers)
            elsewhere.close()


class InteractiveSession(BaseSession):
    """A session that is the default from the moment it is made until it is closed."""

    _open_count = 0

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        if InteractiveSession._open_count:
            warnings.warn(
                "An interactive session is already active. This can cause out-of-memory errors "
                "in some cases. You must explicitly call `InteractiveSession.close()` to release "
                "resources held by the other session(s).",
                stacklevel=2,
            )
        InteractiveSession._open_count += 1
        self._graph_scope = self._graph.as_default() if graph is not None else None
        if self._graph_scope is not None:
            self._graph_scope.__enter__()
        push_session(self)

    def close(self) -> None:
        if not self._closed:
            InteractiveSession._open_count -= 1
            pop_session(self)
            if self._graph_scope is not None:
                self._graph_scope.__exit__(None, None, None)
        super().close()
