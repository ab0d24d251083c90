"""One traced run: profiled, marked, and turned into columns when somebody looks."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.called_ops import Call, CalledOps
from stepscope.adapters.tensorflow.capture.events import MARK, NO_NODES, Marked, Profile, Row
from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.profiler import Batch, shared
from stepscope.adapters.tensorflow.capture.row_columns import row_columns
from stepscope.adapters.tensorflow.node_log.log import RECORD_NS, LoggedRun, NodeLog
from stepscope.metadata import CallTime, Loss, OpColumns, Overhead, RunNumbers
from stepscope.metadata.stored_log import StorableLog
from stepscope.metadata.xplane import COMPILED

clock = time.perf_counter_ns
_EVENT_NS: Final = 240
"""What one event costs the run, about: measured as dilation of warm runs of a thousand ops."""
_EVENTS_PER_ROW: Final = 3
_numbers = itertools.count(1)

Nodes = Mapping[str, NodeInfo]
FindNodes = Callable[[], Nodes]
_IN_TIME: Final = itemgetter(2, 3)
"""Sorts rows by start and end."""


_INSIDE_ANOTHER: Final = (
    "this run lies inside another traced run of its thread: what it did can be read once that ended"
)


_CUT: Final = "recorded only up to the moment when another run had waited too long for its data"
_NOT_KEPT: Final = (
    "the profiler did not keep what the run's own thread did: it ended before the profiler was "
    "stopped, and another thread took its place"
)
_TOO_MANY: Final = "the run had more of them than are kept"
_TOO_MANY_SHAPES: Final = "the program had more different ones than are kept"
_TRACED_ANEW: Final = Loss(
    "eager ops, annotations, input pipelines", 0,
    "TensorFlow traced the function anew inside this run, and the profiler was not on; runs of it "
    "from now on are whole",
)  # fmt: skip
_PROFILER_TAKEN: Final = "the profiler is in use by the program itself"
_STILL_READ: Final = (
    "the profiler was still being read for an earlier run, and this one, which has a deadline, did "
    "not wait for it"
)


class _OpenCaptures(threading.local):
    """The captures this thread is inside of."""

    def __init__(self) -> None:
        self.stack: list[Capture] = []

    def innermost(self) -> Capture | None:
        return self.stack[-1] if self.stack else None


_open_captures = _OpenCaptures()


class Capture:
    """The recording of one run. Use as a context manager around it, on the thread that runs it.

    Leaving waits for the data of all runs that were profiled together (see `profiler`), except
    where the run is out of time: then nothing is read before somebody looks. What the nodes of its
    graphs did comes from a log of the executor's, where there is one, else from the profiler; what
    eager ops did from notes of the calls (`called`), where there are any; all else from the
    profiler.
    """

    def __init__(
        self, level: int, log: NodeLog | None = None, *, every_event: bool = True,
        later: bool = False,
    ) -> None:  # fmt: skip
        """With a log, and without `every_event`, the run is not profiled: the log has it all.

        With `later` it is profiled from `profile_from_now` on, if that is called.
        """
        self.later = later
        self.called: CalledOps | None = None
        """The eager ops that it called, where they are noted."""
        self.level = level
        self.use(log, every_event=every_event)
        self._logged: LoggedRun | None = None
        self._columns: tuple[tuple[int, bool], OpColumns] | None = None
        """What was made of the log, and for which step, failed or not."""
        self.mark = f"{MARK}{next(_numbers)}"
        self.batch: Batch | None = None
        self.losses: list[Loss] = []
        self.patience_s: float | None = None
        """How long it may wait for its turn; without one it is not profiled. None is for ever."""
        self.out_of_time = False
        """Whether whoever runs it wants control back: set before leaving."""
        self.profiler_taken = False
        """Whether the profiler is the program's own."""
        self.truncated = False
        """Whether what came last is not in the record, because there was too much before it."""
        self._data_to_come = self._to_be_judged = False
        self.first_calls: list[versions.FirstCall] = []
        self.functions_before = versions.RegisteredFunctions() if level else None
        self._span: Any = None
        self.asked = clock()
        """When the caller began to wait for us."""
        self.over_at = 0
        """When the caller had control again; 0 as long as it has not."""
        self.entered = 0
        self.started = 0
        self.ended = 0
        self.left = 0
        self.thread = 0
        self.thread_name = ""
        self.abandoned = False
        self.nested = False
        """Whether this thread was being recorded already: the data come when the outer run ends."""
        self._names_reserved = False
        self.failed = False
        """Whether the run ended early: executions that did not come to their end are left out."""
        self._lock = threading.Lock()

    def use(self, log: NodeLog | None, *, every_event: bool = True) -> None:
        """Have the run logged, and profiled as well where it is to have `every_event`."""
        self.log = log if self.level else None
        self._every_event = every_event or log is None
        self.logs_alone = self.log is not None and not every_event
        """Whether the log is all that there is going to be of the run."""

    def __enter__(self) -> Capture:
        self.entered = clock()
        self.thread = threading.get_native_id()
        self.thread_name = threading.current_thread().name
        if self.level:
            outer = _open_captures.innermost()
            self.nested = outer is not None
            if outer is not None:
                if not self.later and not self.logs_alone:
                    outer.profile_from_now()
                self.batch = outer.batch
            elif self._every_event and not self.later:
                self.batch = self._enter_profiler()
            _open_captures.stack.append(self)
            if self.batch is not None:
                self._mark()
        if self.log is not None:
            self.log.enter()
        self.started = clock()
        return self

    def profile_from_now(self) -> None:
        """Something begins that the profiler alone sees, in a run that was to do without."""
        if not self.later or self.batch is not None or self.profiler_taken:
            return
        stack = _open_captures.stack
        place = stack.index(self)
        if place:
            stack[place - 1].profile_from_now()
            self.batch = stack[place - 1].batch
        else:
            self.batch = self._enter_profiler()
        if self.batch is not None:
            self._mark()

    def _mark(self) -> None:
        self._span = versions.trace_me(self.mark)
        self._span.__enter__()

    def _enter_profiler(self) -> Batch | None:
        try:
            batch = shared.enter(self.patience_s)
            reason = _PROFILER_TAKEN
            self.profiler_taken = batch is None
        except TimeoutError:
            batch, reason = None, _STILL_READ
        if batch is None:
            self.losses.append(Loss(self._profiled, 0, reason))
        return batch

    @property
    def _profiled(self) -> str:
        """What the profiler alone tells of the run."""
        return "op executions" if self.log is None else "annotations, input pipelines"

    def abandon(self) -> None:
        """The run goes on and is not waited for: take what it did up to now. From any thread."""
        with self._lock:
            if self.abandoned or self.left:
                return
            self.abandoned = True
            self.ended = clock()
            self._take_log()
            self._data_to_come = self._to_be_judged = self.batch is not None
        if self.batch is not None:
            shared.leave(self.batch, wait=False)
        self.left = clock()

    def __exit__(self, *_exc: object) -> None:
        ended = clock()
        if self._span is not None:
            # Of an abandoned run as well: the profiler may still be on, and has its mark then.
            self._span.__exit__(None, None, None)
        if self.log is not None:
            self.log.leave()
        with self._lock:
            profiled = self.batch is not None and not self.nested
            if not self.abandoned:
                self.ended = self.left = ended
                self._data_to_come = self._to_be_judged = profiled
                if not (self.out_of_time or self._log_stays):
                    self._take_log()
            if self.log is not None and (self.abandoned or not self.out_of_time):
                if self.log.stays:
                    self.log.over(failed=self.failed)
                else:
                    self.log.release()
            if self.abandoned:
                return
            if self.batch is not None and profiled and self.out_of_time:
                # Before whoever gives up on it has control: the next run has no part in it.
                shared.leave(self.batch, wait=False)
        if self.level:
            _open_captures.stack.remove(self)
        if self.nested:
            if self.log is None and (self.batch is not None or not self.later):
                self.losses.append(Loss("op executions", 0, _INSIDE_ANOTHER))
        elif self.batch is not None and not self.out_of_time:
            shared.leave(self.batch)
            self.finish()
        self.left = clock()

    def outlive(self) -> None:
        """Wait until the profiler has given what this thread did, if the thread is about to end.

        TensorFlow 2.15 keeps what a thread left under a number that the next thread may get, which
        then takes its place.
        """
        if self.batch is not None:
            self.batch.done.wait()

    def finish(self) -> None:
        """Take what leaving left to be taken later. To be called before `losses` are looked at."""
        self.logged()
        with self._lock:
            to_be_judged, self._to_be_judged = self._to_be_judged, False
        if self.batch is not None and to_be_judged:
            self.batch.done.wait()
            self._note_problems(self.batch)

    def _take_log(self) -> None:
        logged = self.log.read() if self.log is not None else None
        if logged is not None:
            self._logged = logged
            if logged.dropped:
                self.truncated = True
                self.losses.append(Loss("op executions", logged.dropped, _TOO_MANY))
            if logged.undescribed:
                self.losses.append(Loss("shapes of outputs", logged.undescribed, _TOO_MANY_SHAPES))

    def _note_problems(self, batch: Batch) -> None:
        what = self._profiled
        if batch.cut and batch.decoded(Profile).of_run(self.mark) is None:
            self.losses.append(Loss(what, 0, _CUT))
        if batch.problem:
            self.truncated = True
            self.losses.append(Loss(what, 0, batch.problem))
        elif self._every_event and not batch.level_raised:
            self.losses.append(
                Loss(
                    "executions of cheap ops",
                    0,
                    "too cheap for the profiler's level, which could not be raised",
                )
            )

    # -- decoding ------------------------------------------------------------------------------

    def profile(self) -> Profile:
        if self.batch is None:
            return _no_profile()
        if self._data_to_come:
            self.batch.done.wait()
        elif not self.batch.done.is_set():
            return _no_profile()
        decoded: Profile = self.batch.decoded(Profile)
        return decoded

    def marked(self) -> Marked | None:
        return self.profile().of_run(self.mark)

    def logged(self) -> LoggedRun | None:
        """What the executor noted; None where there is no log."""
        with self._lock:
            if self._logged is None and self.log is not None and self.left:
                if self._log_stays:
                    self._take_log()
                elif self.out_of_time:
                    self._take_log()
                    self.log.release()
            return self._logged

    @property
    def _log_stays(self) -> bool:
        """Whether its log can be read as long as the run is not stored."""
        return self.log is not None and self.log.stays

    def numbers(self, like: Hashable, engine: str, step_id: int) -> RunNumbers | None:
        """What a store needs of a run that its log has all of, see `LoggedRecording`.

        `like` is what it has in common with others beside what its log tells.
        """
        odd = self.failed or self.first_calls or self.losses or not self.has_log_alone
        packed = None if odd or self.log is None else self.log.packed()
        if packed is None or packed.alike is None:
            return None
        here = self.thread, self.thread_name, self.level
        return RunNumbers(
            like=(like, here, packed.graphs, packed.alike),
            engine=engine,
            step_id=step_id,
            ops=packed.ops,
            started_ns=packed.started_ns,
            ended_ns=packed.ended_ns,
            overhead=self.overhead(),
            call=self.call(),
            columns={"log": packed.rows},
        )

    def logged_alone(self) -> LoggedRun | None:
        """The same where there is nothing of the run beside it; None where there is."""
        logged = self.logged()
        alone = self.has_log_alone or (self.called is None and self.marked() is None)
        return logged if alone else None

    @property
    def has_log_alone(self) -> bool:
        """Whether the log is all there is, which is known without looking at a profile."""
        return self.log is not None and self.called is None and self.batch is None

    def executed(self) -> list[tuple[str, str, int]]:
        """Name, op type and number of executions of what the run executed."""
        logged = self.logged_alone()
        if logged is not None:
            return logged.executed(failed=self.failed)
        counts = Counter((row.name, row.op) for row in self.rows())
        return [(name, op, count) for (name, op), count in counts.items()]

    def rows(self, nodes: Nodes = NO_NODES) -> list[Row]:
        """Everything the run executed, in order of time; `nodes` is what is known of its graph."""
        rows = self._begun(nodes)
        if not self.failed:
            return rows
        unfinished = set(self.unfinished())
        return [row for row in rows if row not in unfinished]

    def _begun(self, nodes: Nodes) -> list[Row]:
        profile = self.profile()
        marked = profile.of_run(self.mark)
        logged = self.logged()
        called = self._called_rows()
        if marked is None:
            left_open = self.abandoned or (self.batch is not None and self.batch.cut)
            if logged is not None:
                called += logged.ended
            elif left_open:
                called += self._unmarked_rows(profile, nodes)
            return sorted(called, key=_IN_TIME)
        if logged is not None:
            executed = logged.with_others(profile, marked.steps)
        else:
            executed = profile.rows_of(marked.steps, nodes)
        rows = [*called, *self.eager_rows(marked), *executed, *marked.spans]
        if profile.is_alone(marked):
            # Nobody else was profiled: what no run started (input pipelines, devices) is ours.
            claimed = set(marked.steps)
            rows += [
                row
                for row in profile.rows_of(list(profile.pipelines(claimed)))
                if marked.start_ns <= row.start_ns <= marked.end_ns
            ]
            rows += profile.device_rows
        rows.sort(key=_IN_TIME)
        return rows

    def _unmarked_rows(self, profile: Profile, nodes: Nodes) -> list[Row]:
        """The rows of a run whose mark is still open: of the steps that no other run started."""
        return list(profile.rows_of(self._steps(profile), nodes))

    def _steps(self, profile: Profile) -> list[int]:
        marked = profile.of_run(self.mark)
        if marked is not None:
            return marked.steps
        claimed = {step for other in profile.marked.values() for step in other.steps}
        return list(profile.unclaimed(claimed))

    def calls(self) -> list[Call]:
        """The eager ops that were called, where they are noted, under names no node has."""
        if self.called is None:
            return []
        if not self._names_reserved:
            self._names_reserved = True
            self.called.sites.reserve(name for names in self.step_names() for name in names)
        return self.called.calls()

    def _called_rows(self) -> list[Row]:
        if self.called is None or not (self.calls() or self.called.spans):
            return []
        return self.called.rows(ended_well=not self.failed)

    def eager_rows(self, marked: Marked) -> list[Row]:
        """What the profiler alone saw of what the thread called."""
        if self.called is None:
            return marked.eager
        return [row for row in marked.eager if row.op in (COMPILED, "PyFunc")]

    def step_names(self) -> list[set[str]]:
        """The nodes that ran in each function or graph that the run executed.

        A log does not tell one from another: of a run with one they come as one.
        """
        logged = self.logged()
        if logged is not None:
            names = {name for name, _, _ in logged.executed()}
            return [names] if names else []
        profile = self.profile()
        return [names for names in profile.names_in(self._steps(profile)) if names]

    def done(self) -> set[str]:
        """The nodes that came to their end."""
        logged = self.logged()
        if logged is not None:
            return logged.done
        profile = self.profile()
        return profile.done_in(self._steps(profile))

    def unfinished(self) -> list[Row]:
        """The executions that began and did not come to their end."""
        logged = self.logged()
        if logged is not None:
            return logged.unfinished
        profile = self.profile()
        if not profile.saw_executor_marks:
            return []
        return profile.unfinished_in(self._steps(profile))

    def unseen(self) -> list[Loss]:
        """What the profiler would have shown of a run that has a log alone."""
        logged = self.logged()
        if logged is None or self.batch is not None:
            return []
        before = self.functions_before
        traced = before is not None and any(
            call.function not in before for call in self.first_calls
        )
        return [*logged.graphs.losses, *([_TRACED_ANEW] if traced else ())]

    def cut_off(self, nodes: Nodes = NO_NODES) -> list[Loss]:
        """What the profiler lost: the whole run, or what it was stopped inside of at the end."""
        profile = self.profile()
        marked = profile.of_run(self.mark)
        if marked is None:
            return self._lost_mark()
        if self.failed or self.logged() is not None:
            return []
        lost = profile.cut_off_in(marked.steps, nodes)
        if not lost:
            return []
        reason = (
            "the profiler was stopped before threads had left them, though they were done (or they "
            f"were not executed): {', '.join(lost)}; what they called may be missing with them"
        )
        return [Loss("op executions", len(lost), reason)]

    def _lost_mark(self) -> list[Loss]:
        batch = self.batch
        if batch is None or not batch.done.is_set() or batch.problem:
            return []
        open_still = self.abandoned or batch.cut
        return [] if open_still else [Loss(self._profiled, 0, _NOT_KEPT)]

    def columns(self, step_id: int, find_nodes: FindNodes) -> OpColumns:
        """The run as columns; `find_nodes` says what is known of the nodes of its graphs."""
        logged = self.logged_alone()
        full = self.level >= 3
        profile = self.profile()
        numbers, thread_names = self._threads(profile)
        if logged is not None:
            key = step_id, self.failed
            if self._columns is None or self._columns[0] != key:
                made = logged.columns(step_id, thread_names, failed=self.failed, outputs=full)
                self._columns = key, made
            return self._columns[1]
        nodes = find_nodes()
        rows = self.rows(nodes)
        return row_columns(rows, nodes, step_id, numbers, thread_names, outputs=full)

    def recorder(self) -> str:
        """What saw its ops, as `RunMetadata.recorder` has it."""
        means = {
            "executor": self.log is not None,
            "calls": self.called is not None and self.called.has_any,
            "profiler": self.batch is not None,
        }
        return " and ".join(word for word, used in means.items() if used)

    def storable(self, memory: Mapping[str, Any]) -> StorableLog | None:
        """The run as it was logged, where that is all there is; `memory` as a recording has it."""
        logged = self.logged() if self.has_log_alone else None
        if logged is None:
            return None
        told = "allocations" in memory and memory["out_of_memory"] is None
        names = self._threads(_no_profile())[1]
        return StorableLog(logged, names, outputs=self.level >= 3, allocations=told)

    def _threads(self, profile: Profile) -> tuple[dict[int, int], dict[int, str]]:
        """Thread numbers by line, and their names; the caller's own number is the system's."""
        marked = profile.of_run(self.mark)
        names: dict[int, str] = {self.thread: self.thread_name}
        numbers: dict[int, int] = {-self.thread: self.thread}
        for line, name in profile.line_names.items():
            if marked is not None and line == marked.line:
                numbers[line] = self.thread
            else:
                numbers[line] = line + 1
                names[line + 1] = name.partition("/")[0]
        logged = self.logged()
        if logged is not None:
            lines = {thread: line for line, thread in profile.line_threads.items()}
            for thread, (known_as, name) in logged.threads.items():
                numbers[-thread] = thread
                names[thread] = names.get(thread, name)
                if known_as in lines and numbers[lines[known_as]] != thread:
                    del names[numbers[lines[known_as]]]
                    numbers[lines[known_as]] = thread
        return numbers, names

    # -- what it cost --------------------------------------------------------------------------

    def call(self) -> CallTime | None:
        """When the run itself was called, and was over; None of one that was not entered."""
        if not self.started or not self.ended:
            return None
        offset = time.time_ns() - clock()
        return CallTime(self.started + offset, self.ended + offset, self.thread)

    def over(self) -> None:
        """The caller has control again: what it waited for is known from now on."""
        self.over_at = self.over_at or clock()

    def overhead(self) -> Overhead:
        """All that the caller waited for because the run was recorded.

        Before and after the run that is measured, up to `over` or, where nobody has said it yet, up
        to now: a file that is written before the caller has control again has what came before it.
        Inside the run it is estimated (`slowed_ns`).
        """
        return self.overhead_with(self.slowed_ns()) if self.level else Overhead()

    def overhead_with(self, during: int) -> Overhead:
        """The same where it is known otherwise how much longer the run itself took."""
        cost = self.waited_ns() + during
        return Overhead(cost, cost / max(1, self.ended - self.started - during))

    def waited_ns(self) -> int:
        """What the caller waited for before and after the run itself."""
        return (self.started - self.asked) + ((self.over_at or clock()) - self.ended)

    def slowed_ns(self) -> int:
        """How much longer the run itself took: for events and notes, and to instantiate again."""
        if not self.level:
            return 0
        if self._log_stays and self.has_log_alone and not self.first_calls:
            most = (self.ended - self.started) * 9 // 10
            return max(0, min(self.log.records * RECORD_NS, most)) if self.log is not None else 0
        starts = self._starts()
        instantiating = self._instantiating_ns(starts)
        most = (self.ended - self.started - instantiating) * 9 // 10
        noted = self._noting_ns() + self._events_ns(len(starts))
        return instantiating + max(0, min(noted, most))

    def _starts(self) -> NDArray[np.int64]:
        """When each execution began, in any order."""
        logged = self.logged_alone()
        if logged is not None:
            starts: NDArray[np.int64] = logged.log.rows["start"]
            return starts
        return np.array([row.start_ns for row in self.rows()], dtype=np.int64)

    def _noting_ns(self) -> int:
        return self.called.spent_ns if self.called is not None else 0

    def _events_ns(self, executions: int) -> int:
        if self.batch is None and self.log is None:
            return 0
        profile = self.profile()
        marked = profile.of_run(self.mark)
        if marked is not None and profile.is_alone(marked):
            events = profile.host_events
        else:
            events = _EVENTS_PER_ROW * executions
        logged = self.logged()
        if logged is None:
            return events * _EVENT_NS
        others = events if self.batch is not None and self.batch.level_raised else 0
        return others * _EVENT_NS + len(logged.log.rows) * RECORD_NS

    def _instantiating_ns(self, starts: NDArray[np.int64]) -> int:
        """How long functions were instantiated that were ready but for the way we call them.

        That is from the call, the first of its kind, to the first op. A function that was traced in
        this very run would have been instantiated without us as well.
        """
        spent = 0
        for call in self.first_calls:
            later = starts[starts >= call.began_ns]
            first = int(later.min()) if len(later) else call.ended_ns
            if self.functions_before is not None and call.function in self.functions_before:
                spent += min(first, call.ended_ns) - call.began_ns
        return spent


@functools.cache
def _no_profile() -> Profile:
    return Profile(b"")
