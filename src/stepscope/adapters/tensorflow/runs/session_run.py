"""One run of a TensorFlow session under the contract, whoever's session it is.

Guarantees. A traced run is seen through our executor's log, where the session has our executor,
else through the profiler or TensorFlow's own step stats (`_by_step_stats` says when). With a
deadline the run goes to a thread of its own, so that control comes back in time whatever the ops
do; a run that is left behind ends by itself. What was in flight is known from the trace; without
one, as far as it was Python.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

import tensorflow

from stepscope import options as opts
from stepscope.adapters.tensorflow.capture import op_calls
from stepscope.adapters.tensorflow.capture.capture import Capture
from stepscope.adapters.tensorflow.capture.graph_lines import (
    executed_lines,
    lines_of,
    written_lines,
)
from stepscope.adapters.tensorflow.capture.graphs import (
    NodeInfo,
    nodes_of,
    runs_other_graphs,
    takes_elements,
)
from stepscope.adapters.tensorflow.capture.logged_capture import LoggedCapture
from stepscope.adapters.tensorflow.capture.profiled_capture import (
    ProfiledCapture,
    inside_a_profiled_run,
)
from stepscope.adapters.tensorflow.capture.python_ops import PythonCalls
from stepscope.adapters.tensorflow.capture.step_stats_capture import (
    INSTEAD,
    StepStatsCapture,
    ToldByTensorFlow,
)
from stepscope.adapters.tensorflow.failures import (
    in_flight_unknown,
    inside_python_unknown,
    new_error,
    nodes_missing,
    status_of,
)
from stepscope.adapters.tensorflow.memory.held_memory import InSession
from stepscope.adapters.tensorflow.memory.memory_events import allocator_tells
from stepscope.adapters.tensorflow.memory.report import is_out_of_memory
from stepscope.adapters.tensorflow.memory.run_memory import CapturedMemory
from stepscope.adapters.tensorflow.node_log.executed_graph import versions_of
from stepscope.adapters.tensorflow.node_log.log import NodeLog, accelerated
from stepscope.adapters.tensorflow.runs import session_graph
from stepscope.adapters.tensorflow.runs.deadline import timed_out
from stepscope.adapters.tensorflow.runs.session_shared import SharedByRuns
from stepscope.adapters.tensorflow.support import (
    SESSION,
    check_watches,
    only_traces,
    step_ids,
    without_effect,
)
from stepscope.cached_property import cached_property
from stepscope.metadata import (
    Completeness,
    InFlight,
    Loss,
    OpColumns,
    Overhead,
    Placement,
    Recording,
    RunNumbers,
    Status,
)
from stepscope.metadata.xplane import FIRST_NODE

GRACE_S: Final = 0.03
"""How long after the deadline TensorFlow may take to cancel what it can."""
_FIRST_GRACE_S: Final = 0.5
"""The same for the first run of its kind: TensorFlow's clock begins once it prepared the graph."""
_WELL: Final = Status()
_T = TypeVar("_T")
v1 = tensorflow.compat.v1
_STOPPED: Final = (tensorflow.errors.DeadlineExceededError, tensorflow.errors.CancelledError)
"""How a run ends that was stopped from outside."""
NO_GRAPHS: Final = Loss("partition graphs", 0, "TensorFlow gives none of a run that failed")


class SessionRun:
    """A run: made before it, executed, then asked for its recording."""

    engine = SESSION
    _deadline_epoch = 0
    _begun: threading.Event | None = None
    """Set when the run begins, where somebody waits for that."""
    _python: PythonCalls | None = None
    _reset_ignored: tuple[Loss, ...] = ()

    def __init__(
        self,
        graph: Any,
        native_run: Callable[..., Any],
        shared: SharedByRuns,
        fetches: Any,
        feed_dict: Any,
        asked: opts.RunOptions | None,
        *,
        log_alone: bool = False,
    ) -> None:
        """`native_run` is TensorFlow's own, or does as it does.

        With `log_alone` a run that our executor logs is not profiled: what that does not see is
        declared.
        """
        self.graph = graph
        self.native_run = native_run
        self._shared = shared
        self._fetches = fetches
        self._feed_dict = feed_dict
        self._asked = asked
        self._options = asked.resolve() if asked is not None else opts.DEFAULT_RESOLVED
        self.step_id = next(step_ids)
        session = InSession(graph, native_run)
        self.memory = CapturedMemory(self._options, self.step_id, session)
        self._timeout_ms = self._options.timeout_in_ms or shared.timeout_ms
        self._kind = shared.kind_of(fetches, feed_dict)
        self.capture = self._new_capture(log_alone=log_alone)
        self._stopped = False
        """Whether its time was up, or it was cancelled."""
        self._left_inside: list[str] | None = None
        """Of a run that was left to itself, the ops of it that are Python and were going on."""

    @cached_property
    def told(self) -> ToldByTensorFlow:
        """What TensorFlow itself tells of the run, where it is asked to."""
        return ToldByTensorFlow()

    @property
    def native(self) -> Any:
        """The same as TensorFlow's message."""
        return self.told.message

    def _new_capture(self, *, log_alone: bool) -> Capture:
        level = self.memory.level
        log = None
        if level and self._shared.logs_nodes and not self._is_collected():
            log = NodeLog(outputs=level >= 3)
        if log is not None and (log_alone or self._log_sees_all()):
            return LoggedCapture(level, log)
        if log is None and self._by_step_stats():
            return StepStatsCapture(level, self.told)
        capture = ProfiledCapture(level, log)
        if self._timeout_ms > 0:
            capture.patience_s = self._timeout_ms / 1000
        return capture

    def _by_step_stats(self) -> bool:
        """Whether TensorFlow's own step stats are to tell of the run: they cost its caller less.

        Of a run that fails there are none, so they are used only after a run of the same fetches
        was profiled, and none of them failed since; and not for runs with a deadline. Nor where
        more is asked for than times, or the profiler would see more than they do.
        """
        level = self._options.trace_level
        return (
            0 < level < opts.RunOptions.FULL_TRACE
            and self._kind in self._shared.ended_well
            and self._timeout_ms <= 0
            and not takes_elements(self.graph)
            and only_traces(self._options)
            and not self._is_collected()
            and not inside_a_profiled_run()
            and self._log_sees_all()
        )

    def _log_sees_all(self) -> bool:
        return not (runs_other_graphs(self.graph) or allocator_tells() or accelerated())

    def _is_collected(self) -> bool:
        """Whether TensorFlow collects statistics of its own in this run: it does for one only."""
        reports = self._options.report_tensor_allocations_upon_oom and not allocator_tells()
        return reports or self._shared.builds_cost_model

    # -- executing -----------------------------------------------------------------------------

    def execute(self) -> Any:
        """Run it; what it raises is TensorFlow's error, or that its time is up."""
        if self._options.debug_options is not None:
            check_watches(self._options.debug_options, self.graph)
            self._reset_ignored = self._reset_without_effect()
        timeout_ms = self._timeout_ms
        if timeout_ms <= 0:
            return self._execute_here()
        self._python = PythonCalls()
        if self._options.inter_op_thread_pool != -1:
            return self._execute_elsewhere(timeout_ms / 1000)
        look = threading.Timer(timeout_ms / 1000, self._look)
        look.name = "stepscope/deadline"
        look.daemon = True
        look.start()
        try:
            result = self._execute_here()
        finally:
            look.cancel()
        if self.capture.ended - self.capture.started > timeout_ms * 1_000_000:
            self._stopped = True
            raise self.timed_out()
        return result

    def timed_out(self) -> Exception:
        """What is raised when the time is up."""
        return timed_out(self._timeout_ms)

    def _execute_here(self) -> Any:
        try:
            return self._execute()
        except _STOPPED:
            self._stopped = True
            raise

    def _execute(self) -> Any:
        with self.capture as entered:
            if not (entered.profiler_taken and entered.log is None and self._options.trace_level):
                return self._call()
        self.capture = StepStatsCapture(entered.level, self.told, INSTEAD)
        self.capture.asked = entered.asked
        with self.capture:
            return self._call()

    def _call(self) -> Any:
        capture, shared = self.capture, self._shared
        if self._timeout_ms > 0:
            self._deadline_epoch = time.time_ns() + self._timeout_ms * 1_000_000
        if self._begun is not None:
            self._begun.set()
        # Where TensorFlow is to tell nothing, nothing is to be told it.
        logged = capture.log is not None
        told: tuple[Any, ToldByTensorFlow | None] = None, None
        if not (logged and only_traces(self._options)):
            options = self.native_options()
            told = (options, self.told) if not logged or options.ByteSize() else told
        try:
            result = self.call_native(*told)
        except BaseException as error:
            shared.ended_well.discard(self._kind)
            if isinstance(error, (*_STOPPED, KeyboardInterrupt)):
                capture.out_of_time = True
            # TensorFlow stumbles over the name of a debug node in the error it has to raise.
            hidden = error.__context__ if isinstance(error, ValueError) else None
            if isinstance(hidden, tensorflow.errors.OpError):
                raise hidden from None
            raise
        finally:
            if self._timeout_ms > 0 and self._deadline_epoch < time.time_ns():
                capture.out_of_time = True
            shared.prepared.add(self._kind)
        if capture.level and capture.keeps_failed:
            shared.ended_well.add(self._kind)
        if told[0] is not None:
            self.take_graphs(told[0])
        return result

    def call_native(self, options: Any, told: Any) -> Any:
        """TensorFlow's own run. What the user fed is not kept beyond it: it may be large."""
        fetches, feed_dict = self._fetches, self._feed_dict
        self._fetches = self._feed_dict = None
        try:
            return self.native_run(fetches, feed_dict, options, told)
        except BaseException as error:
            if is_out_of_memory(error):
                fed = (feed_dict or {}).items()
                self.memory.given((str(getattr(key, "name", key)), value) for key, value in fed)
            raise

    def take_graphs(self, options: Any) -> None:
        """It ended well: where TensorFlow was to tell its graphs, they are known from now on."""
        if options.output_partition_graphs:
            self._shared.graphs[self._kind] = self.told

    def native_options(self) -> Any:
        """TensorFlow's options for this run: tracing is ours, but for step stats."""
        asked, capture = self._asked, self.capture
        data = asked.SerializeToString() if asked is not None else b""
        options = v1.RunOptions.FromString(data)
        options.trace_level = 0
        if allocator_tells():
            # Our report has all that TensorFlow's list has, from events that are there anyway.
            options.report_tensor_allocations_upon_oom = False
        if capture.level:
            if isinstance(capture, StepStatsCapture):
                options.trace_level = v1.RunOptions.SOFTWARE_TRACE
            if self._kind not in self._shared.graphs and capture.log is None:
                options.output_partition_graphs = True
        return options

    def _execute_elsewhere(self, timeout_s: float) -> Any:
        """On a thread of its own, given up on soon after the deadline, or when it is closed."""
        box: list[Any] = []
        graph = v1.get_default_graph()
        begun = self._begun = threading.Event()
        over = threading.Event()

        def work() -> None:
            try:
                with graph.as_default():
                    box.append((self._execute(), None))
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                if not self.capture.abandoned:  # else nobody takes it out of the box again
                    box.append((None, error))
            begun.set()
            over.set()
            shared.threads.discard(thread)
            self.capture.outlive()

        shared = self._shared
        shared.waiting.add(over)
        try:
            thread = threading.Thread(target=work, name="stepscope/session_run", daemon=True)
            shared.threads.add(thread)
            thread.start()
            begun.wait()  # getting the profiler is no part of the run
            over.wait(timeout_s)
            if not box:
                self._look()
                if shared.closed:
                    over.clear()
                known = self._kind in shared.prepared or shared.closed or self._inside_python()
                over.wait(GRACE_S if known else _FIRST_GRACE_S)  # what can be cancelled ends now
        except BaseException:  # an interrupt: the run goes on without us
            self._look()
            self._give_up()
            raise
        finally:
            shared.waiting.discard(over)
        if not box:
            self._give_up()
            if shared.closed:
                raise new_error("CancelledError", "The session was closed while the run was going.")
            raise self.timed_out()
        result, error = box.pop()
        if error is None:
            return result
        self._stopped = isinstance(error, _STOPPED)
        try:
            raise error
        finally:
            del error  # it has this frame in its traceback

    # -- what was in flight --------------------------------------------------------------------

    def _look(self) -> None:
        """The time is up: see what Python is doing for the run."""
        if self._python is not None:
            self._python.look()

    def _inside_python(self) -> list[str]:
        if self._python is None:
            return []
        return self._python.among(session_graph.node_defs(self.graph, self._kind))

    def _give_up(self) -> None:
        """Leave the run to itself: what TensorFlow could cancel it did, the rest goes on."""
        self.capture.out_of_time = True
        self.capture.abandon()
        self._left_inside = self._inside_python()

    def _left_behind(self, inside: list[str]) -> tuple[InFlight, ...]:
        """What a run that was left to itself was doing; `inside` are its ops that are Python."""
        capture = self.capture
        stopped = {row.name for row in capture.unfinished()}
        logged = capture.logged()
        going: list[str] = []
        if logged is not None:
            # What TensorFlow can cancel it cancels, if it has not come to it yet.
            begun = logged.unfinished
            stopped -= {row.name for row in begun if not op_calls.may_wait(row.op)} & logged.going
            going = [row.name for row in begun]
        elif capture.level and capture.keeps_failed:
            going = session_graph.due(self._known_nodes(), capture.done())
        return tuple(
            InFlight(name, "cancelled" if name in stopped else "abandoned")
            for name in going or inside
        )

    def _at_deadline(self) -> tuple[InFlight, ...]:
        """What the run was doing when its time was up."""
        capture = self.capture
        late = capture.ended - capture.started - self._timeout_ms * 1_000_000
        inside = [InFlight(name, "waited_for", max(0, late)) for name in self._inside_python()]
        if not capture.level:
            return tuple(inside)
        at = self._deadline_epoch
        found = {
            row.name: InFlight(row.name, "waited_for", row.end_ns - at)
            for row in capture.doing_at(at).going
        }
        stopped = [row.name for row in capture.unfinished()]
        if not (found or stopped or capture.truncated) and capture.keeps_failed:
            stopped = session_graph.due(self._known_nodes(), capture.done())
        found |= {name: InFlight(name, "cancelled") for name in stopped}
        return tuple(found.values() or inside)

    # -- what it was ---------------------------------------------------------------------------

    def shared_graphs(self) -> Callable[[], list[Any]]:
        """What gives `graphs`, once for all runs that have them in common."""
        return self._once("partition graphs", self.graphs)

    def graphs(self) -> list[Any]:
        """The graphs as executed, where this run or an earlier one like it brought them."""
        told = self._shared.graphs.get(self._kind)
        if told is not None:
            return list(told.message.partition_graphs)
        logged = self.capture.logged()
        return [graph.graph_def for graph in logged.graphs.graphs] if logged is not None else []

    def _nodes(self) -> Mapping[str, NodeInfo]:
        logged = self.capture.logged()
        if logged is not None:
            return logged.graphs.info
        told, known = self._shared.graphs.get(self._kind), self._shared.nodes
        found = known.get(self._kind)
        if found is None or found[0] is not told:
            found = known[self._kind] = told, nodes_of(self.graphs())
        return found[1]

    def _known_nodes(self) -> Mapping[str, NodeInfo]:
        """The nodes as executed, or else those that the fetches need."""
        return self._nodes() or session_graph.needed(self.graph, self._kind)

    def failed(self, error: BaseException) -> Recording | Callable[[], Recording]:
        """The run as it ended, or what makes that when somebody looks: its caller has no time."""
        if not self.capture.level or not self.capture.out_of_time:
            return self.recording(error)
        return functools.partial(self._ended_with, status_of(error))

    def succeeded(self) -> Recording | Callable[[], Recording]:
        """The same of a run that raised nothing: one that was not profiled has all it needs."""
        if self.capture.has_all:
            return functools.partial(self._ended_with, _WELL)
        return self.recording(None)

    def numbers(self) -> RunNumbers | None:
        """What is the run's own, should it be like others of its session; see `RunNumbers`."""
        if "told" in vars(self) and self.told.SerializeToString():
            return None
        like = self._shared, self._kind, versions_of([self.graph])
        return self.capture.numbers(like, self.engine, self.step_id)

    def recording(self, error: BaseException | None) -> Recording:
        """The run as it ended."""
        self.memory.failed(error)
        return self._ended_with(status_of(error))

    @cached_property
    def _outcomes(self) -> tuple[InFlight, ...]:
        """What was in flight, worked out when somebody looks."""
        if self._left_inside is not None:
            return self._left_behind(self._left_inside)
        return self._at_deadline() if self._stopped else ()

    def _ended_with(self, status: Status) -> Recording:
        capture = self.capture
        capture.finish()
        capture.failed = not status.ok
        if not status.ok and self._outcomes:
            status = replace(status, outcomes=self._outcomes)
        memory, memory_losses = self.memory.fields(capture, self._nodes, self._sources)
        losses = [*capture.losses]
        if status.ok and isinstance(capture, StepStatsCapture):
            losses += inside_python_unknown(self.graph)
        losses += [*without_effect(self._options, self._shared.config), *self._reset_ignored]
        if not status.ok:
            losses += self._missing(status)
        if self._options.output_partition_graphs and not self.graphs():
            losses.append(NO_GRAPHS)

        def cut_off() -> list[Loss]:
            traced = self._options.trace_level > 0
            return [*capture.unseen(), *capture.cut_off(self._nodes())] if traced else []

        return self._recording(
            status,
            lambda: Completeness((*losses, *cut_off(), *memory_losses())),
            capture.overhead,
            lambda: capture.columns(self.step_id, self._nodes),
            memory,
        )

    def _recording(
        self,
        status: Status,
        completeness: Callable[[], Completeness],
        overhead: Callable[[], Overhead],
        columns: Callable[[], OpColumns],
        memory: Mapping[str, Any],
    ) -> Recording:
        """A recording with what is known of the run's graphs; `columns` count if it was traced."""
        traced = self._options.trace_level > 0
        return Recording(
            engine=self.engine,
            recorder=self._recorder() if traced else "",
            step_id=self.step_id,
            status=status,
            completeness=completeness,
            overhead=overhead,
            ops=columns if traced else None,
            partition_graphs=(
                self.shared_graphs() if self._options.output_partition_graphs else None
            ),
            cost_graph=(
                (lambda: self.native.cost_graph) if self.native.HasField("cost_graph") else None
            ),
            placements=self._once("placements", self._placements) if traced else None,
            sources=self._once("sources", self._sources) if traced else None,
            log=self.capture.storable(memory) if traced else None,
            run_options=self._asked,
            call=self.capture.call(),
            **memory,
        )

    def _recorder(self) -> str:
        return self.capture.recorder()

    def _once(self, what: str, make: Callable[[], _T]) -> Callable[[], _T]:
        """What the graphs of this run determine; of a run that is logged, made once for all."""
        logged = self.capture.logged() if self.capture.has_log_alone else None
        return make if logged is None else logged.graphs.shared(what, [self.graph], make)

    def _placements(self) -> list[Placement]:
        return session_graph.placements(self.graph, self._nodes())

    def _reset_without_effect(self) -> tuple[Loss, ...]:
        """TensorFlow keeps this option of the first run with the same watches."""
        debug = self._options.debug_options
        if debug is None or not len(debug.debug_tensor_watch_opts):
            return ()
        watches = str(list(debug.debug_tensor_watch_opts))
        asked = bool(debug.reset_disk_byte_usage)
        first = self._shared.resets.setdefault((self._kind, watches), asked)
        if first or not asked:
            return ()
        why = "no effect: the first run with these watches and fetches did not ask for it"
        return (Loss("debug_options.reset_disk_byte_usage", 0, why),)

    def _sources(self) -> dict[str, str]:
        known = self._shared.sources
        if known is not None:
            return known()
        logged = self.capture.logged_alone()
        if logged is not None:
            return lines_of([self.graph], logged.graphs, dict).lines
        found = written_lines(self.graph)
        return found | executed_lines(found, {name for name, _, _ in self.capture.executed()}, {})

    def _missing(self, status: Status) -> list[Loss]:
        """What a run that ended early did not come to."""
        losses = []
        traced = self._options.trace_level > 0
        if traced and self.capture.keeps_failed:
            executed = {name for name, _, _ in self.capture.executed()}
            missing = self._known_nodes().keys() - executed - {FIRST_NODE}
            if missing:
                losses.append(nodes_missing(status, len(missing)))
        if not status.in_flight:
            losses.append(self._unnamed("nothing named it" if traced else "nothing was traced"))
        return losses

    def _unnamed(self, why: str) -> Loss:
        """That what was in flight is not known, and which ops of the run may have been."""
        nodes = session_graph.needed(self.graph, self._kind)
        waiting = [name for name, info in nodes.items() if op_calls.may_wait(info.op)]
        if waiting:
            why += f"; of its ops these can wait for another run: {', '.join(waiting)}"
        return in_flight_unknown(why)
