"""Recording an unchanged TensorFlow script: what its runs are, and which of them are recorded.

What is a run. On every thread: each outermost `Session.run` and each outermost call of a function
(a `tf.function`, a concrete one; a step of Keras is one). On the main thread also: each outermost
gradient tape, together with the eager code after it up to the next run, for that is a training step
written without functions. All other eager code of the main thread together is one last run, "eager
code".

Which are recorded. Runs are numbered from 0 in the order in which they begin, and the schedule is
asked about the number. Eager code between runs goes with the run before it.

Under a budget (`budgeted`) it is asked of each run how much is recorded of it: all, op times, its
length alone. While that cannot be more than the length, nothing else is done here (`in_lull`).

How. Our executor logs the runs of functions and sessions, where there is a library of it for this
TensorFlow (`node_log`), and each is handed over as it ends. Elsewhere the profiler is open for many
of them at once (`windows`). Eager code has the profiler alone: tapes always, code before the first
run, and code between logged runs as long as that costs less than `_BUDGET` of the time; how much of
it was left out is said at the end (`losses`).

Guarantees.
- A run that is not recorded costs a few look-ups (some 3 us); when the schedule has no more runs,
  one.
- What the script gets, raises and passes is what it would be without us; its own options and
  metadata are served by TensorFlow itself.
- While the script profiles itself, it has the profiler for itself: those runs are counted and not
  recorded.
- Nothing is done before the script has TensorFlow initialized: it can still configure devices and
  threads.
- A run that ended is handed over, and whatever is open is closed, wherever Control-C or another
  signal comes: in our code signals are held (`stepscope.held_signals`).
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any, Final

from stepscope import options as opts
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.capture import clock
from stepscope.adapters.tensorflow.capture.graphs import TAG, functions
from stepscope.adapters.tensorflow.capture.logged_capture import LoggedCapture
from stepscope.adapters.tensorflow.capture.profiler import SharedProfiler, process_profiler
from stepscope.adapters.tensorflow.failures import status_of
from stepscope.adapters.tensorflow.memory import held_memory
from stepscope.adapters.tensorflow.memory.memory_events import allocator_tells
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.function_log import sees_calls_of
from stepscope.adapters.tensorflow.node_log.log import NodeLog, accelerated
from stepscope.adapters.tensorflow.node_log.mapped_logs import MappedLogs
from stepscope.adapters.tensorflow.runs.function import Observed
from stepscope.adapters.tensorflow.script.budgeted import (
    Budgeted,
    How,
    code_of,
    is_the_programs,
)
from stepscope.adapters.tensorflow.script.cost import ScriptCost
from stepscope.adapters.tensorflow.script.deliveries import (
    EAGER_CODE,
    Decided,
    Deliveries,
    TakesRun,
)
from stepscope.adapters.tensorflow.script.pipelines import ScriptPipelines
from stepscope.adapters.tensorflow.script.served import serve
from stepscope.adapters.tensorflow.script.summary_traces import SummaryTraces
from stepscope.adapters.tensorflow.script.traces import NOT_SEEN, TraceNotes
from stepscope.adapters.tensorflow.script.windows import WindowCapture, Windows
from stepscope.adapters.tensorflow.support import EAGER, FUNCTION, SESSION
from stepscope.held_signals import held_signals, let_go
from stepscope.metadata import Note, Recording, Status
from stepscope.metadata.fed_values import FedValues
from stepscope.metadata.program_notes import RECORDING, STOPPED
from stepscope.metadata.stored.step_summaries import Level
from stepscope.recorder.lanes import RunLane
from stepscope.scheduling import Action, Schedule

TAPE: Final = "gradient tape"
_BUDGET: Final = 0.01
"""The share of the time since the first logged run that the profiler may cost between such runs."""
Prepared = tuple[Any, Callable[[], Any]]
"""What observes a run, and the call to make inside it."""
Prepare = Callable[[How], Prepared]


class _Here(threading.local):
    depth = 0
    """How many runs this thread is in: only the outermost one is a run."""
    tapes = 0
    is_the_programs: bool | None = None
    """Whether it is a thread of the program; None where nobody looked yet."""


HERE: Final = _Here()
"""Where threads are for recorders that take turns."""


def _call(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    found = method()
    if found is not None:
        found()


class ScriptRecorder:
    """Takes the runs of a script. `patches.patch` makes TensorFlow call it."""

    # Long: it makes every part of a recording, in the order in which they need one another.
    def __init__(
        self, add: TakesRun, trace_level: int, schedule: Schedule | None = None,
        limit: int | None = None, *, memory: bool = False,
        say: Callable[[str], None] | None = None, store: Path | None = None,
        note: Callable[[Note], None] | None = None, profiler: SharedProfiler = process_profiler,
        budgeted: Budgeted | None = None, here: _Here | None = None, whole_script: bool = True,
    ) -> None:  # fmt: skip
        """`add` is given each recorded run and its name; after `limit` runs there are no more.

        With `memory`, allocations are followed from the start, also between runs. `say` is told a
        line if our executor has to be compiled first, or cannot be; without it, one that is there
        is used. Beside `store` lies what is known of runs until they are stored, should the process
        die; `stored` and `close` are to be called then. `note` is given what is noted beside runs.
        `profiler` is the recorder's from now on. With `budgeted`, that decides how much is recorded
        of which runs, and is given them in the place of `add`. Without `whole_script` the program
        is more than what is recorded: eager code outside of runs is no part of that. Recorders that
        take turns share `here`.
        """
        self._whole_script = whole_script
        self.budgeted = budgeted
        self._note = note
        self.fed = FedValues()
        """What sessions were fed in the runs that were recorded."""
        self._sees_building = True
        self.cost = ScriptCost()
        """What the script waited for because it is recorded."""
        self.pipelines = None if note is None else ScriptPipelines(note, self.cost)
        """Notes of the input pipelines, where notes are wanted."""
        self.unrecorded_ns = 0
        """How long the main thread was in runs that nobody asked to be recorded."""
        self.cost_before_ns = 0
        """What the main thread had waited for when the first run began."""
        self.cost_until_last_ns = 0
        """The same when the last one began."""
        self.input_ns = 0
        """How long it waited outside of runs for elements of datasets."""
        self._store = store
        self._mapped: MappedLogs | None = None
        self._say = say
        self._memory = memory
        self.active = True
        self.missed = 0
        """How many were not recorded because the script was profiling itself."""
        self.runs = 0
        """How many runs the script made, recorded or not, while the schedule had more."""
        self.windows = Windows(profiler)
        self.here = here or _Here()
        self._schedule = schedule
        self._limit = limit
        self._how = How(trace_level)
        self._asked, self._options = self._how.asked, self._how.options
        self._numbers = itertools.count()
        self._main = threading.main_thread()
        self._segment: _Segment | None = None
        self._tape: _Tape | None = None
        self._iterator_class: Any = None
        self.summary_traces = SummaryTraces()
        """What the program wants to be told of runs, by `tf.summary.trace_on`."""
        self._deliveries = Deliveries(add, self._asked, self.cost, budgeted, self.summary_traces)
        self.logs_nodes = False
        """Whether functions and sessions are executed by our executor."""
        self._logged_since = 0
        """When the first run that is logged began; 0 before that."""
        self._profiling_ns = 0
        """What the profiler cost so far between runs that are logged."""
        self._gaps_left_out = 0
        self._plain_ns: dict[str, int] = {}
        """By name, how long a run took that was last made without recording it."""
        self._last_wanted = self._wants(0)
        self._ready = not whole_script
        forked = weakref.WeakMethod(self._after_fork)
        os.register_at_fork(after_in_child=lambda: _call(forked))

    @property
    def problems(self) -> list[str]:
        """What went wrong in recording; the script went on."""
        return self.windows.problems

    def program_ended(self) -> None:
        """The program is at its end, and what it holds can be looked through for the last time."""
        if allocator_tells() or accelerated():
            with self.cost.ours():
                held_memory.program_ended()

    def stop(self) -> None:
        """Record no more, and hand over what there is; the last time from the main thread."""
        if self.active and self._note is not None:
            self._note(Note(STOPPED, time.time_ns()))
        self.active = False
        if threading.current_thread() is not self._main:
            return
        with self.cost.ours(), held_signals:
            self._end_eager()
            self.windows.close()
            self._deliveries.eager_code()
            if self.pipelines is not None:
                self.pipelines.close()

    def elements_taken(
        self, iterators: Iterable[Any], by: Callable[[], str], waited_ns: int = 0, *,
        ended: bool = False,
    ) -> None:  # fmt: skip
        """A function that was given these, or eager code (""), took elements of them.

        Or found them at their end. What is no iterator among them is passed over.
        """
        if self.pipelines is not None and self.active:
            for one in iterators:
                if type(one) is self._iterator_class:
                    self.pipelines.taken(one, by(), waited_ns, ended=ended)

    def stored(self, step_ids: Iterable[int]) -> None:
        """These runs are in the store, or nobody wants them there. From any thread."""
        if self._mapped is not None:
            self._mapped.stored(step_ids)

    def close(self) -> None:
        """All is stored that was handed over."""
        if self._mapped is not None:
            self._mapped.close()

    def _after_fork(self) -> None:
        self.active = False
        self._segment = self._tape = None
        self.windows.after_fork()

    # -- runs ----------------------------------------------------------------------------------

    def function(
        self, function: Any, name: Callable[[], str], graph: Callable[[], Any],
        call: Callable[[], Any], arguments: Iterable[Any] = (),
    ) -> Any:  # fmt: skip
        """An outermost call of a function with these arguments."""

        def prepare(how: How) -> Prepared:
            logged = self._logs() and sees_calls_of(function)
            observed = Observed(
                FUNCTION, how.options, how.asked, graph(), function,
                capture=_log_alone(how) if logged else None,
            )  # fmt: skip
            return observed, call

        taken = functools.partial(self.elements_taken, arguments, name)
        return self._run(name, prepare, call, FUNCTION, taken)

    def session_run(
        self, session: Any, native: Callable[..., Any], fetches: Any, feed_dict: Any, options: Any,
        run_metadata: Any,
    ) -> Any:  # fmt: skip
        """An outermost `Session.run`; `native` is TensorFlow's own."""

        def call() -> Any:
            return native(session, fetches, feed_dict, options, run_metadata)

        if options is not None:
            # Not before there is TensorFlow.
            from stepscope.adapters.tensorflow.script.reports import ReportedRun, asks_for_memory

            if asks_for_memory(options):
                run = ReportedRun(
                    session, native, fetches, feed_dict, options, run_metadata,
                    self._options.trace_level, self.windows.note_problem,
                )  # fmt: skip
                return self._traced_alone(
                    run.call,
                    lambda _status: self._deliveries.as_it_is(
                        "Session.run", run.metadata, session.graph
                    ),
                )
            if options.trace_level:
                return self._traced_alone(
                    call,
                    lambda status: self._deliveries.native(
                        options, run_metadata, status, session.graph
                    ),
                )

        def prepare(how: How) -> Prepared:
            # Not before there is TensorFlow.
            from stepscope.adapters.tensorflow.script.session_calls import SessionCall

            if feed_dict:
                self.fed.add((str(getattr(key, "name", key)), v) for key, v in feed_dict.items())
            made = SessionCall(
                session, native, fetches, feed_dict, options, run_metadata, how.asked
            )
            return made, made.call

        def kind() -> str:
            return "" if self.budgeted is None else self.budgeted.kind_of_fetches(fetches)

        return self._run(lambda: "Session.run", prepare, call, SESSION, kind=kind)

    def session_callable(self, session: Any, call: Callable[[], Any]) -> Any:
        """An outermost call of what `Session.make_callable` gave."""

        def prepare(how: How) -> Prepared:
            # Not before there is TensorFlow.
            from stepscope.adapters.tensorflow.runs.session_shared import shared_by_runs_of

            logged = self._logs() and shared_by_runs_of(session).logs_nodes
            graph = session.graph if logged else None
            observed = Observed(
                SESSION, how.options, how.asked, graph,
                capture=_log_alone(how) if logged else None,
            )  # fmt: skip
            return observed, call

        return self._run(lambda: "Session callable", prepare, call, SESSION)

    def in_lull(
        self, lane: Any, entered: int, began: int, engine: str, call: Callable[..., Any], /,
        *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """An outermost run in a lull of its kind: called, and no more than its length noted.

        What is done around its call was `entered` before the lane was asked.
        """
        here = self.here
        here.depth += 1
        before = ended = 0
        try:
            if self._segment is not None or self._tape is not None:
                self._end_eager_of_main()
            if lane.to_time:
                before = clock() - entered
            result = call(*args, **kwargs)
            if before:
                ended = clock()
            lane.ended(began, engine)
        except BaseException as error:
            lane.failed(began, code_of(error), engine)
            raise
        finally:
            here.depth -= 1
        if before:
            lane.timed(before + clock() - ended)
        return result

    def _end_eager_of_main(self) -> None:
        if threading.current_thread() is self._main:
            with self.cost.ours():
                self._end_eager()

    def lane_of(self, function: Any, name: Callable[[Any], str]) -> RunLane | None:
        """Where a call of a function is noted in a lull; None where none can be."""
        here = self.here
        if here.is_the_programs is None:
            here.is_the_programs = is_the_programs(threading.current_thread())
        if self.budgeted is None or not here.is_the_programs or self.summary_traces.on:
            return None
        return self.budgeted.lane_of_function(function, name)

    def lane_of_fetches(self, fetches: Any) -> RunLane | None:
        """The same of a run of a session."""
        if self.budgeted is None or self.summary_traces.on:
            return None
        return self.budgeted.lane_of_fetches(fetches)

    def _run(
        self, name: Callable[[], str], prepare: Prepare, call: Callable[[], Any], engine: str,
        after: Callable[[], None] = lambda: None, kind: Callable[[], str] | None = None,
    ) -> Any:  # fmt: skip
        here = self.here
        thread = threading.current_thread()
        if isinstance(thread, threading._DummyThread):
            return call()  # Python inside an op, on a thread of TensorFlow's: part of that run
        here.depth += 1
        try:
            return self._run_outermost(name, prepare, call, engine, after, kind or name)
        finally:
            here.depth -= 1

    def _run_outermost(
        self, name: Callable[[], str], prepare: Prepare, call: Callable[[], Any], engine: str,
        after: Callable[[], None], kind: Callable[[], str],
    ) -> Any:  # fmt: skip
        main = threading.current_thread() is self._main
        with self.cost.ours():
            try:
                if main:
                    self._end_eager()
                asked = self.summary_traces.on
                if self.budgeted is not None and not asked:
                    return self._decided(kind(), name, prepare, call, engine)
                if self._next_wanted() or asked:
                    with held_signals:
                        return self._observed(name(), prepare, call, self._how)
                return self._unrecorded(name, call)
            finally:
                after()
                given = self._deliveries.given + self.windows.pending
                if self._limit is not None and given >= self._limit:
                    self.windows.read()
                self.windows.read_if_due()
                if main:
                    self._begin_segment(EAGER_CODE)

    def _decided(
        self, kind: str, name: Callable[[], str], prepare: Prepare, call: Callable[[], Any],
        engine: str,
    ) -> Any:  # fmt: skip
        """A run of which as much is recorded as is decided by its kind."""
        assert self.budgeted is not None
        with held_signals:
            self._next_wanted()
            decided = self.budgeted.begins(kind)
            if decided.begun.level >= Level.TIMES:
                how = self.budgeted.how[decided.begun.level]
                return self._observed(name(), prepare, call, how, decided)
            self.windows.read_if_due(idle_only=True)
            error: BaseException | None = None
            try:
                with self.cost.theirs():
                    return let_go(call)
            except BaseException as raised:
                error = raised
                raise
            finally:
                self.budgeted.length_alone(decided, error, engine)
                del error

    def _observed(
        self, name: str, prepare: Prepare, call: Callable[[], Any], how: How,
        decided: Decided | None = None,
    ) -> Any:  # fmt: skip
        """A run that is recorded; signals are held around it."""
        entered = clock()
        try:
            observed, recorded_call = prepare(how)
            traced = how.options.trace_level > 0 and not observed.needs_no_profiler
            status: list[Status] = []
            kept = None
            if observed.capture.logs_alone:
                capture, deliver_now = observed.capture, True
                if not self._logged_since:
                    self._logged_since, self._profiling_ns = capture.asked, 0
                self._end_profiling()
                # What stays is let go when it is stored; the summary of a trace needs it then.
                stays = self._mapped is not None and not self.summary_traces.on
                if stays and self._mapped is not None and not self._mapped.problem:
                    kept = capture.log
                    kept.stay(observed.step_id, name)
            else:
                capture = WindowCapture(how.options.trace_level if traced else 0, self.windows)
                observed.capture, deliver_now = capture, not traced
                capture.on_ended = lambda: self._deliver_read(name, observed, status, decided)
            observed.__enter__()
        except Exception as error:  # noqa: BLE001 - the script is not to fail for being watched
            self.windows.note_problem(error)
            return let_go(call)
        if traced and not deliver_now and capture.batch is None:
            self.missed += 1
            if decided is not None and self.budgeted is not None:
                self.budgeted.runs.unseen(decided.begun)
        try:
            with self.cost.theirs():
                return let_go(recorded_call)
        except BaseException as error:
            status.append(status_of(error))
            observed.capture.failed = True
            observed.memory.failed(error, changes_error=False)
            raise
        finally:
            # Without the error: what the script raises stays of TensorFlow's class alone.
            observed.__exit__(None, None, None)
            capture.left = clock()
            share = 0.0
            if kept is not None and self._mapped is not None:
                share = self._mapped.ended(observed.step_id, kept)
            if decided is not None:
                decided.cost_ns = clock() - entered - (capture.ended - capture.started)
            if deliver_now:
                self.windows.hand_over(
                    lambda: self._deliveries.run(
                        name, observed, *status, kept=share, decided=decided
                    )
                )
                capture.over()

    def _deliver_read(
        self, name: str, observed: Any, status: Sequence[Status], decided: Decided | None
    ) -> None:
        """A run whose window was read."""
        if decided is not None:
            decided.cost_ns = observed.capture.waited_ns()
        self._deliveries.run(name, observed, *status, decided=decided)

    def _unrecorded(self, name: Callable[[], str], call: Callable[[], Any]) -> Any:
        """A run that is not recorded.

        Where functions are made anew in it for the recorded one that comes next, what it takes
        longer than the run of that name before it is part of the cost.
        """
        anew: list[versions.FirstCall] = []
        prepares = self._before_recording(anew)
        began = clock()
        with prepares or nullcontext(), self.cost.theirs():
            result = call()
        took = clock() - began
        if threading.current_thread() is self._main:
            self.unrecorded_ns += took
        if prepares is None:
            self._plain_ns[name()] = took
        elif anew:
            self.cost.add(max(0, took - self._plain_ns.get(name(), took)))
        return result

    def _traced_alone(self, call: Callable[[], Any], deliver: Callable[[Status], bool]) -> Any:
        """A run that the script itself asks to be told of: the profiler is not ours meanwhile."""
        here = self.here
        here.depth += 1
        main = threading.current_thread() is self._main
        status = Status()
        try:
            with self.cost.ours(), held_signals:
                if main:
                    self._end_eager()
                wanted = self._next_wanted()
                self.windows.lend()
                try:
                    with self.cost.theirs():
                        return let_go(call)
                except BaseException as error:
                    status = status_of(error)
                    raise
                finally:
                    self.windows.give_back()
                    if wanted and not deliver(status):
                        self.missed += 1
                    if main:
                        self._begin_segment(EAGER_CODE)
        finally:
            here.depth -= 1

    def serve(self, join: Callable[[], Any]) -> Any:
        """The script waits for its server: on the main thread, what that executes is recorded."""
        if threading.current_thread() is not self._main or not self._options.trace_level:
            return join()
        self._end_eager()
        return serve(join, self.windows, self._served, lambda: self.active)

    def _served(self, recording: Recording) -> None:
        number = next(self._numbers)
        self.runs = number + 1
        if self._wants(number):
            self._deliveries.served(recording)

    # -- the schedule --------------------------------------------------------------------------

    def _next_wanted(self) -> bool:
        """Number the run that begins; whether it is to be recorded."""
        number = next(self._numbers)
        if not number:
            self.cost_before_ns = self.cost.main_ns
        self.cost_until_last_ns = self.cost.main_ns
        self.runs = number + 1
        wanted = self._last_wanted = self._wants(number)
        if not wanted:
            self.windows.read_if_due(idle_only=True)
            ended = self._schedule is not None and self._schedule.ended(number)
            if ended and threading.current_thread() is self._main:
                self.stop()
        return wanted

    def _before_recording(
        self, anew: list[versions.FirstCall]
    ) -> AbstractContextManager[Any] | None:
        """For the run before recorded ones, if their functions have to be made anew: not in them.

        At full level functions run under a tag of ours, so that their graphs are known. `anew` gets
        the calls in which they are made.
        """
        if self._options.trace_level < opts.RunOptions.FULL_TRACE or not self._wants(self.runs):
            return None
        if self.logs_nodes:
            return None  # their graphs are known as it is
        if not versions.tensorflow().executing_eagerly():
            return None
        stack = ExitStack()
        stack.enter_context(functions.collect())
        stack.enter_context(versions.function_options(TAG))
        stack.enter_context(versions.first_calls(anew, traced=False))
        return stack

    def _wants(self, number: int) -> bool:
        return self._schedule is None or self._schedule(number) is not Action.SKIP

    # -- eager code of the main thread ---------------------------------------------------------

    def tape_entered(self) -> None:
        """A gradient tape opens: on the main thread, outside of runs, a training step begins."""
        entered, here, last = clock(), self.here, self._tape
        if threading.current_thread() is not self._main:
            return
        with self.cost.ours(), held_signals:
            if here.depth == 0:
                if not versions.tensorflow().executing_eagerly():
                    return
                self._end_eager()
                self._tape_begins()
            elif not here.tapes:
                return
            here.tapes += 1
            here.depth += 1
        tape = self._tape
        if tape is None or tape is last or last is None or tape.lane is None:
            return
        if tape.lane is last.lane and tape.lane.to_time:
            # With the end of the tape before. One that was decided on was charged for its own.
            tape.lane.timed(clock() - entered)

    def _tape_begins(self) -> None:
        if self.budgeted is None:
            self.windows.read_if_due()
            self._next_wanted()
            self._begin_segment(TAPE, self._how)
            return
        lane = self.budgeted.runs.lane(TAPE)
        began = lane.begins()
        if began:
            self._tape = _Tape(lane=lane, began=began)
            return
        self._next_wanted()
        self.windows.read_if_due(idle_only=True)
        decided = self.budgeted.begins(TAPE)
        if decided.begun.level >= Level.TIMES:
            self._begin_segment(TAPE, self.budgeted.how[decided.begun.level], decided)
        else:
            self._tape = _Tape(decided=decided)

    def _end_eager(self, error: BaseException | None = None) -> None:
        """What the main thread did outside of functions and sessions so far is over."""
        if self._segment is not None or self._tape is not None:
            with held_signals:
                self._end_tape(error)
                self._end_segment(error)

    def _end_tape(self, error: BaseException | None) -> None:
        tape, self._tape = self._tape, None
        if tape is not None and self.budgeted is not None:
            if tape.decided is not None:
                self.budgeted.length_alone(tape.decided, error, EAGER)
            elif error is not None:
                tape.lane.failed(tape.began, code_of(error), EAGER)
            else:
                tape.lane.ended(tape.began, EAGER)

    def tape_left(self) -> None:
        """The tape closes; what follows (gradients, the optimizer) is still of its step."""
        here = self.here
        if here.tapes and threading.current_thread() is self._main:
            here.tapes -= 1
            here.depth -= 1

    def loaded(self) -> None:
        """TensorFlow is imported, and nothing is allocated yet."""
        self._iterator_class = versions.iterator_class()
        if self._note is not None:
            self._sees_building = TraceNotes(self._note, self.cost).watch()
        if self._memory:
            self.windows.keep_open()
        elif self._options.trace_level:
            if self._say is None:
                build.use_if_built(untraced=True, compile_behind=False)
            else:
                with self.cost.ours():
                    build.use_or_compile(self._say)
            self.logs_nodes = build.executor_type() != ""
            if self.logs_nodes and self._store is not None:
                self._mapped = MappedLogs(build.library(), self._store)

    def prepared(self, since_ns: int) -> None:
        """The import of TensorFlow took longer because of us, since then by the wall clock."""
        if self._note is not None:
            now, thread = time.time_ns(), threading.get_native_id()
            self._note(Note(RECORDING, since_ns, now, thread, "making TensorFlow ready"))

    def _logs(self) -> bool:
        """Whether a log is all that is needed: accelerators are seen by the profiler alone."""
        return self.logs_nodes and self._options.trace_level > 0 and not accelerated()

    def initialized(self) -> None:
        """TensorFlow's eager context is there: eager ops come from now on."""
        with self.cost.ours():
            self._ready = True
            if threading.current_thread() is self._main and not self.here.depth:
                self._begin_segment(EAGER_CODE)

    def thread_starts(self) -> None:
        """The main thread may soon wait for another: what it did so far is closed."""
        with self.cost.ours():
            if threading.current_thread() is self._main and self._segment and not self.here.depth:
                self._end_segment()
                self._begin_segment(EAGER_CODE)

    def profiler_starts(self) -> None:
        """The script starts the profiler: it is free when this returns."""
        with self.cost.ours():
            if threading.current_thread() is self._main:
                self._end_eager()
            self.windows.lend()

    def profiler_stopped(self) -> None:
        """The script has stopped it."""
        with self.cost.ours():
            self.windows.give_back()
            if threading.current_thread() is self._main and not self.here.depth:
                self._begin_segment(EAGER_CODE)

    def _begin_segment(
        self, name: str, how: How | None = None, decided: Decided | None = None
    ) -> None:
        if not (self.active and self._ready and self._last_wanted and self._options.trace_level):
            return
        if self._segment is not None or (name != TAPE and not self._whole_script):
            return
        if not versions.tensorflow().executing_eagerly():
            return
        if name != TAPE and self._logged_since and not self._may_profile():
            self._gaps_left_out += 1
            return
        with held_signals:
            self._segment_begins(name, how or self._how, decided)

    def _segment_begins(self, name: str, how: How, decided: Decided | None) -> None:
        began = clock()
        capture = WindowCapture(how.options.trace_level, self.windows)
        observed = Observed(EAGER, how.options, how.asked, None, capture=capture)
        if name == EAGER_CODE:
            observed.sites = self._deliveries.eager_sites
        observed.memory.can_be_last_fit = name == TAPE  # else it is no run, only what is between
        self._segment = _Segment(name, observed, decided)
        observed.__enter__()
        if decided is not None and capture.batch is None and self.budgeted is not None:
            self.budgeted.runs.unseen(decided.begun)
        self._profiling_ns += clock() - began

    def _may_profile(self) -> bool:
        """Whether the profiler was cheap enough so far to be used between runs that are logged."""
        elapsed = clock() - self._logged_since
        return self._profiling_ns < _BUDGET * elapsed

    def losses(self) -> list[str]:
        """What was left out of the recording and belongs to no run."""
        found = [] if self._sees_building else [NOT_SEEN]
        if not self._gaps_left_out:
            return found
        return [
            *found,
            f"eager code between runs, {self._gaps_left_out:,} times: only TensorFlow's profiler "
            "sees it, which would have slowed the script down (STEPSCOPE_EXECUTOR=off records it)",
        ]

    def _end_segment(self, error: BaseException | None = None) -> None:
        segment, self._segment = self._segment, None
        if segment is None:
            return
        observed = segment.observed
        capture: Any = observed.capture
        status = status_of(error)
        observed.memory.failed(error, changes_error=False)
        if segment.name == TAPE:
            ended = [] if status.ok else [status]
            decided = segment.decided
            capture.on_ended = lambda: self._deliver_read(TAPE, observed, ended, decided)
        else:
            capture.on_ended = lambda: self._deliveries.keep_eager(observed, status)
        began = clock()
        observed.__exit__(None, None, None)
        self._profiling_ns += clock() - began

    def _end_profiling(self) -> None:
        """A run begins that is logged: the profiler, if it is on, was for what came before."""
        began = clock()
        self.windows.read_if_due(idle_only=True)
        self._profiling_ns += clock() - began

    def failed(self, error: BaseException) -> None:
        """The script ended with an error: if it was in eager code, that code ended so."""
        if threading.current_thread() is self._main and not _came_from_a_run(error):
            self._end_eager(error)


def _log_alone(how: How) -> LoggedCapture:
    """For a run that our executor executes: what it does not see is declared."""
    level = how.options.trace_level
    return LoggedCapture(level, NodeLog(outputs=level >= opts.RunOptions.FULL_TRACE))


def _came_from_a_run(error: BaseException) -> bool:
    """Whether a recorded run raised it: then that run has said so."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals is globals():
            return True
        trace = trace.tb_next
    return False


class _Segment:
    """A stretch of eager code that is being recorded."""

    def __init__(self, name: str, observed: Any, decided: Decided | None) -> None:
        self.name = name
        self.observed = observed
        self.decided = decided


class _Tape:
    """A gradient tape and what follows it, of which the length alone is noted: in a lull or not."""

    def __init__(self, lane: Any = None, began: int = 0, decided: Decided | None = None) -> None:
        self.lane = lane
        self.began = began
        self.decided = decided
