"""A run that others than our executor are asked about: profiled, marked, read when looked at.

What the nodes of its graphs did comes from a log of the executor's, where there is one, else from
the profiler; what eager ops did from notes of the calls (`called`), where there are any; all else
from the profiler.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.called_ops import EagerCall
from stepscope.adapters.tensorflow.capture.capture import (
    Capture,
    FindNodes,
    Nodes,
    clock,
    no_profile,
)
from stepscope.adapters.tensorflow.capture.events import MARK, NO_NODES, Marked, Profile, Row
from stepscope.adapters.tensorflow.capture.noting_cost import noting_ns
from stepscope.adapters.tensorflow.capture.profiler import (
    ProfiledBatch,
    SharedProfiler,
    process_profiler,
)
from stepscope.adapters.tensorflow.capture.row_columns import row_columns
from stepscope.adapters.tensorflow.node_log.log import RECORD_NS, LoggedRun, NodeLog
from stepscope.metadata import Loss, OpColumns
from stepscope.metadata.stored.stored_log import StorableLog
from stepscope.metadata.xplane import COMPILED

_EVENT_NS: Final = 240
"""What one event costs the run, about: measured as dilation of warm runs of a thousand ops."""
_EVENTS_PER_ROW: Final = 3
_numbers = itertools.count(1)
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
_PROFILER_TAKEN: Final = "the profiler is in use by the program itself"
_STILL_READ: Final = (
    "the profiler was still being read for an earlier run, and this one, which has a deadline, did "
    "not wait for it"
)


class _OpenCaptures(threading.local):
    """The captures this thread is inside of."""

    def __init__(self) -> None:
        self.stack: list[ProfiledCapture] = []

    def innermost(self) -> ProfiledCapture | None:
        return self.stack[-1] if self.stack else None


_open_captures = _OpenCaptures()


def inside_a_profiled_run() -> bool:
    """Whether this thread is in a run that has the profiler, or may ask for it."""
    return _open_captures.innermost() is not None


class ProfiledCapture(Capture):
    """Listens to one run through the profiler, and through a log where there is one.

    Leaving waits for the data of all runs that were profiled together (see `profiler`), except
    where the run is out of time: then nothing is read before somebody looks.
    """

    def __init__(
        self, level: int, log: NodeLog | None = None, *, later: bool = False,
        profiler: SharedProfiler = process_profiler,
    ) -> None:  # fmt: skip
        """With a log it is logged as well, by our executor.

        With `later` it is profiled from `profile_from_now` on, if that is called.
        """
        super().__init__(level)
        self._profiler = profiler
        self.later = later
        self.log = log if level else None
        self.mark = f"{MARK}{next(_numbers)}"
        self._data_to_come = self._to_be_judged = False
        self._span: Any = None
        self.nested = False
        """Whether this thread was being recorded already: the data come when the outer run ends."""
        self._names_reserved = False

    def __enter__(self) -> ProfiledCapture:
        self._begin()
        if self.level:
            outer = _open_captures.innermost()
            self.nested = outer is not None
            if outer is not None:
                if not self.later:
                    outer.profile_from_now()
                self.batch = outer.batch
            elif not self.later:
                self.batch = self._enter_profiler()
            _open_captures.stack.append(self)
            if self.batch is not None:
                self._mark()
        if self.log is not None:
            self.log.enter()
        self.started = clock()
        return self

    def profile_from_now(self) -> None:
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

    def _enter_profiler(self) -> ProfiledBatch | None:
        try:
            batch = self._profiler.enter(self.patience_s)
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

    def _leave_behind(self) -> None:
        if self.batch is not None:
            self._data_to_come = self._to_be_judged = True
            self._profiler.leave(self.batch, wait=False)

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
                if not self.out_of_time:
                    self._take_log()
            if self.log is not None and (self.abandoned or not self.out_of_time):
                self.log.release()
            if self.abandoned:
                return
            if self.batch is not None and profiled and self.out_of_time:
                # Before whoever gives up on it has control: the next run has no part in it.
                self._profiler.leave(self.batch, wait=False)
        if self.level:
            _open_captures.stack.remove(self)
        if self.nested:
            if self.log is None and (self.batch is not None or not self.later):
                self.losses.append(Loss("op executions", 0, _INSIDE_ANOTHER))
        elif self.batch is not None and not self.out_of_time:
            self._profiler.leave(self.batch)
            self.finish()
        self.left = clock()

    def outlive(self) -> None:
        if self.batch is not None:
            self.batch.done.wait()

    def finish(self) -> None:
        self.logged()
        with self._lock:
            to_be_judged, self._to_be_judged = self._to_be_judged, False
        if self.batch is not None and to_be_judged:
            self.batch.done.wait()
            self._note_problems(self.batch)

    def _note_problems(self, batch: ProfiledBatch) -> None:
        what = self._profiled
        if batch.cut and batch.decoded(Profile).of_run(self.mark) is None:
            self.losses.append(Loss(what, 0, _CUT))
        if batch.problem:
            self.truncated = True
            self.losses.append(Loss(what, 0, batch.problem))
        elif not batch.level_raised:
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
            return no_profile()
        if self._data_to_come:
            self.batch.done.wait()
        elif not self.batch.done.is_set():
            return no_profile()
        decoded: Profile = self.batch.decoded(Profile)
        return decoded

    def marked(self) -> Marked | None:
        return self.profile().of_run(self.mark)

    def logged(self) -> LoggedRun | None:
        with self._lock:
            if self._logged is None and self.log is not None and self.left and self.out_of_time:
                self._take_log()
                self.log.release()
            return self._logged

    def logged_alone(self) -> LoggedRun | None:
        logged = self.logged()
        alone = self.has_log_alone or (self.called is None and self.marked() is None)
        return logged if alone else None

    @property
    def has_log_alone(self) -> bool:
        return self.log is not None and self.called is None and self.batch is None

    def executed(self) -> list[tuple[str, str, int]]:
        logged = self.logged_alone()
        if logged is not None:
            return logged.executed(failed=self.failed)
        counts = Counter((row.name, row.op) for row in self.rows())
        return [(name, op, count) for (name, op), count in counts.items()]

    def rows(self, nodes: Nodes = NO_NODES) -> list[Row]:
        rows = self._begun(nodes)
        profile = self.profile()
        if self.failed:
            not_its = set(self.unfinished())
        else:
            not_its = profile.unmarked_in(self._steps(profile))
        return [row for row in rows if row not in not_its] if not_its else rows

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

    def calls(self) -> list[EagerCall]:
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
        logged = self.logged()
        if logged is not None:
            names = {name for name, _, _ in logged.executed()}
            return [names] if names else []
        profile = self.profile()
        return [names for names in profile.names_in(self._steps(profile)) if names]

    def done(self) -> set[str]:
        logged = self.logged()
        if logged is not None:
            return logged.done
        profile = self.profile()
        return profile.done_in(self._steps(profile))

    def unfinished(self) -> list[Row]:
        logged = self.logged()
        if logged is not None:
            return logged.unfinished
        profile = self.profile()
        if not profile.saw_executor_marks:
            return []
        return profile.unfinished_in(self._steps(profile))

    def unseen(self) -> list[Loss]:
        logged = self.logged()
        if logged is None or self.batch is not None:
            return []
        return [*logged.graphs.losses]

    def cut_off(self, nodes: Nodes = NO_NODES) -> list[Loss]:
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
        logged = self.logged_alone()
        numbers, thread_names = self._threads(self.profile())
        if logged is not None:
            return self._logged_columns(logged, step_id, thread_names)
        nodes = find_nodes()
        rows, full = self.rows(nodes), self.level >= 3
        return row_columns(rows, nodes, step_id, numbers, thread_names, outputs=full)

    def recorder(self) -> str:
        means = {
            "executor": self.log is not None,
            "calls": self.called is not None and self.called.count > 0,
            "profiler": self.batch is not None,
        }
        return " and ".join(word for word, used in means.items() if used)

    def storable(self, memory: Mapping[str, Any]) -> StorableLog | None:
        logged = self.logged() if self.has_log_alone else None
        if logged is None:
            return None
        told = "allocations" in memory and memory["out_of_memory"] is None
        names = self._threads(no_profile())[1]
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

    def slowed_ns(self) -> int:
        if not self.level:
            return 0
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
        return noting_ns(self.called) if self.called is not None else 0

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
        memory = logged.log.memory
        records = len(logged.log.rows) + (0 if memory is None else len(memory.changes))
        return others * _EVENT_NS + records * RECORD_NS
