"""The recording of one run: when it was, on which thread, and what recording it cost its caller.

What the run executed is read by one of three kinds of it: `LoggedCapture`, where our executor saw
all of the run, `ProfiledCapture`, where others have to be asked, and `StepStatsCapture`, where
TensorFlow itself tells of a session's run.
"""

from __future__ import annotations

import functools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.called_ops import CalledOps, EagerCall
from stepscope.adapters.tensorflow.capture.events import NO_NODES, Marked, Profile, Row
from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.profiler import ProfiledBatch
from stepscope.adapters.tensorflow.node_log.log import LoggedRun, NodeLog
from stepscope.metadata import CallTime, Loss, OpColumns, Overhead, RunNumbers
from stepscope.metadata.logged_nodes import DoingAt
from stepscope.metadata.stored.stored_log import StorableLog
from stepscope.metadata.xplane import FIRST_NODE

clock = time.perf_counter_ns
Nodes = Mapping[str, NodeInfo]
FindNodes = Callable[[], Nodes]
_TOO_MANY: Final = "the run had more of them than are kept"
_TOO_MANY_SHAPES: Final = "the program had more different ones than are kept"


class Capture(ABC):
    """Use as a context manager around the run, on the thread that runs it; then ask what it was.

    What a run has as a rule is an attribute of the class: one is made for every run.
    """

    has_all: ClassVar[bool] = False
    """Whether it has all of the run when that ends, and makes a recording of it at any time."""
    logs_alone: ClassVar[bool] = False
    """Whether the log is all that there is going to be of the run."""
    keeps_failed: ClassVar[bool] = True
    """Whether it is known of a run that fails what it did until then."""
    log: NodeLog | None = None
    """What our executor notes, where it executes the run."""
    batch: ProfiledBatch | None = None
    """The profiler's record, where there is one."""
    called: CalledOps | None = None
    """The eager ops that the run called, where they are noted."""
    later = False
    """Whether it is profiled only from `profile_from_now` on, if that is called."""
    patience_s: float | None = None
    """How long it may wait for its turn; without one it is not profiled. None is for ever."""
    out_of_time = False
    """Whether whoever runs it wants control back: set before leaving."""
    profiler_taken = False
    """Whether the profiler is the program's own."""
    truncated = False
    """Whether what came last is not in the record, because there was too much before it."""
    abandoned = False
    failed = False
    """Whether the run ended early: executions that did not come to their end are left out."""
    over_at = 0
    """When the caller had control again; 0 as long as it has not."""
    functions_before: versions.RegisteredFunctions | None = None
    """Those that were traced when the run began; of runs that call functions."""
    started = ended = left = thread = 0
    thread_name = ""
    _logged: LoggedRun | None = None
    _columns: tuple[tuple[int, bool], OpColumns] | None = None
    """What was made of the log, and for which step, failed or not."""

    def __init__(self, level: int) -> None:
        self.asked = clock()
        """When the caller began to wait for us."""
        self.level = level
        self.losses: list[Loss] = []
        self.first_calls: list[versions.FirstCall] = []
        self._lock = threading.Lock()

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *_exc: object) -> None: ...

    def abandon(self) -> None:
        """The run goes on and is not waited for: take what it did up to now. From any thread."""
        with self._lock:
            if self.abandoned or self.left:
                return
            self.abandoned = True
            self.ended = clock()
            self._take_log()
            self._leave_behind()
            self.left = clock()

    def _leave_behind(self) -> None:  # noqa: B027 - of a log alone there is no more
        """The run is abandoned: take leave of what else records it. Under the lock."""

    def outlive(self) -> None:  # noqa: B027 - a log outlives any thread
        """Wait until the profiler has given what this thread did, if the thread is about to end.

        TensorFlow 2.15 keeps what a thread left under a number that the next thread may get, which
        then takes its place.
        """

    @abstractmethod
    def finish(self) -> None:
        """Take what leaving left to be taken later. To be called before `losses` are looked at."""

    def profile_from_now(self) -> None:  # noqa: B027 - of a log alone there is no more
        """Something begins that the profiler alone sees, in a run that was to do without."""

    def _begin(self) -> None:
        self.thread = threading.get_native_id()
        self.thread_name = threading.current_thread().name

    # -- what the run executed -----------------------------------------------------------------

    @abstractmethod
    def logged(self) -> LoggedRun | None:
        """What the executor noted; None where there is no log."""

    @abstractmethod
    def logged_alone(self) -> LoggedRun | None:
        """The same where there is nothing of the run beside it; None where there is."""

    @property
    @abstractmethod
    def has_log_alone(self) -> bool:
        """Whether the log is all there is, which is known without looking at a profile."""

    def profile(self) -> Profile:
        """What the profiler recorded, of this run and others; nothing where it did not."""
        return no_profile()

    def marked(self) -> Marked | None:
        """What the profiler saw on the run's own thread."""
        return None

    @abstractmethod
    def executed(self) -> list[tuple[str, str, int]]:
        """Name, op type and number of executions of what the run executed."""

    @abstractmethod
    def rows(self, nodes: Nodes = NO_NODES) -> list[Row]:
        """Everything the run executed, in order of time; `nodes` is what is known of its graph."""

    def doing_at(self, time_ns: int) -> DoingAt:
        """What the run was doing at a time, of what came to its end."""
        rows = self.rows()
        begun = [row for row in rows if row.start_ns < time_ns and row.name != FIRST_NODE]
        going = [row for row in begun if row.end_ns > time_ns]
        return DoingAt(going, begun[-1] if begun else None)

    def calls(self) -> list[EagerCall]:
        """The eager ops that were called, where they are noted, under names no node has."""
        return []

    @abstractmethod
    def step_names(self) -> list[set[str]]:
        """The nodes that ran in each function or graph that the run executed.

        A log does not tell one from another: of a run with one they come as one.
        """

    @abstractmethod
    def done(self) -> set[str]:
        """The nodes that came to their end."""

    @abstractmethod
    def unfinished(self) -> list[Row]:
        """The executions that began and did not come to their end."""

    @abstractmethod
    def unseen(self) -> list[Loss]:
        """What the profiler would have shown of a run that has a log alone."""

    def cut_off(self, nodes: Nodes = NO_NODES) -> list[Loss]:  # noqa: ARG002
        """What the profiler lost: the whole run, or what it was stopped inside of at the end."""
        return []

    @abstractmethod
    def columns(self, step_id: int, find_nodes: FindNodes) -> OpColumns:
        """The run as columns; `find_nodes` says what is known of the nodes of its graphs."""

    @abstractmethod
    def recorder(self) -> str:
        """What saw its ops, as `RunMetadata.recorder` has it."""

    @abstractmethod
    def storable(self, memory: Mapping[str, Any]) -> StorableLog | None:
        """The run as it was logged, where that is all there is; `memory` as a recording has it."""

    def numbers(self, like: Hashable, engine: str, step_id: int) -> RunNumbers | None:  # noqa: ARG002
        """What a store needs of a run that its log has all of, see `LoggedRecording`.

        `like` is what it has in common with others beside what its log tells. None of other runs.
        """
        return None

    def _take_log(self) -> None:
        """Copy what the log has by now. Whoever calls it holds the lock."""
        logged = self.log.read() if self.log is not None else None
        if logged is not None:
            self._logged = logged
            if logged.dropped:
                self.truncated = True
                self.losses.append(Loss("op executions", logged.dropped, _TOO_MANY))
            if logged.undescribed:
                self.losses.append(Loss("shapes of outputs", logged.undescribed, _TOO_MANY_SHAPES))

    def _logged_columns(
        self, logged: LoggedRun, step_id: int, thread_names: Mapping[int, str]
    ) -> OpColumns:
        key = step_id, self.failed
        if self._columns is None or self._columns[0] != key:
            full = self.level >= 3
            made = logged.columns(step_id, thread_names, failed=self.failed, outputs=full)
            self._columns = key, made
        return self._columns[1]

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

    @abstractmethod
    def slowed_ns(self) -> int:
        """How much longer the run itself took: for events and notes, and to instantiate again."""

    def _instantiating_ns(self, starts: NDArray[np.int64]) -> int:
        """How long functions were instantiated that were ready but for the way we call them.

        That is from the call, the first of its kind, to the first op; `starts` are when executions
        began, in any order. A function that was traced in this very run would have been
        instantiated without us as well.
        """
        spent = 0
        for call in self.first_calls:
            if self.functions_before is None or call.function not in self.functions_before:
                continue
            later = starts[starts >= call.began_ns]
            first = int(later.min()) if len(later) else call.ended_ns
            spent += min(first, call.ended_ns) - call.began_ns
        return spent


@functools.cache
def no_profile() -> Profile:
    """What the profiler recorded where it did not record."""
    return Profile(b"")
