"""A run that our executor sees all of: nothing else listens to it.

Guarantees. Its caller waits for entering and leaving a log, some microseconds. What the log has is
read when somebody looks, and before that only where unread logs take much memory, or others keep
logs (`NodeLog.stay`). A run that nobody looks at is never read: its log goes with this object.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Final

from stepscope.adapters.tensorflow.capture.capture import Capture, FindNodes, Nodes, clock
from stepscope.adapters.tensorflow.capture.events import NO_NODES, Row
from stepscope.adapters.tensorflow.node_log.log import RECORD_NS, LoggedRun, NodeLog
from stepscope.metadata import Loss, OpColumns, RunNumbers
from stepscope.metadata.logged_nodes import DoingAt
from stepscope.metadata.stored.stored_log import StorableLog

_TRACED_ANEW: Final = Loss(
    "eager ops, annotations, input pipelines", 0,
    "TensorFlow traced the function anew inside this run, and the profiler was not on; runs of it "
    "from now on are whole",
)  # fmt: skip


class LoggedCapture(Capture):
    """Listens to one run through the executor's log alone.

    A run inside another recorded run is no different.
    """

    has_all: ClassVar[bool] = True
    logs_alone: ClassVar[bool] = True
    log: NodeLog

    def __init__(self, level: int, log: NodeLog) -> None:
        super().__init__(level)
        self.log = log

    def __enter__(self) -> LoggedCapture:
        self.thread = threading.get_native_id()
        self.thread_name = threading.current_thread().name
        self.log.enter()
        self.started = clock()
        return self

    def __exit__(self, *_exc: object) -> None:
        ended = clock()
        can_wait = self.log.leave()
        with self._lock:
            if not self.abandoned:
                self.ended = self.left = ended
                if not (can_wait or self.log.stays or self.out_of_time):
                    self._take_log()
            if self.log.stays:
                self.log.over(failed=self.failed)
            elif self._logged is not None:
                self.log.release()
        self.left = self.left or clock()

    def finish(self) -> None:
        self.logged()

    # -- what the run executed -----------------------------------------------------------------

    def logged(self) -> LoggedRun | None:
        with self._lock:
            if self._logged is None and self.left:
                self._take_log()
                if not self.log.stays:
                    self.log.release()
            return self._logged

    def logged_alone(self) -> LoggedRun | None:
        return self.logged()

    @property
    def has_log_alone(self) -> bool:
        return True

    def executed(self) -> list[tuple[str, str, int]]:
        logged = self.logged()
        return logged.executed(failed=self.failed) if logged is not None else []

    def rows(self, nodes: Nodes = NO_NODES) -> list[Row]:  # noqa: ARG002
        logged = self.logged()
        if logged is None:
            return []
        rows = sorted(logged.ended, key=lambda row: (row.start_ns, row.end_ns))
        if not self.failed:
            return rows
        unfinished = set(logged.unfinished)
        return [row for row in rows if row not in unfinished]

    def doing_at(self, time_ns: int) -> DoingAt:
        logged = self.logged()
        return logged.doing_at(time_ns, failed=self.failed) if logged else DoingAt([], None)

    def step_names(self) -> list[set[str]]:
        names = {name for name, _, _ in self.executed()}
        return [names] if names else []

    def done(self) -> set[str]:
        logged = self.logged()
        return logged.done if logged is not None else set()

    def unfinished(self) -> list[Row]:
        logged = self.logged()
        return logged.unfinished if logged is not None else []

    def unseen(self) -> list[Loss]:
        logged = self.logged()
        if logged is None:
            return []
        before = self.functions_before
        traced = before is not None and any(
            call.function not in before for call in self.first_calls
        )
        return [*logged.graphs.losses, *([_TRACED_ANEW] if traced else ())]

    def columns(self, step_id: int, find_nodes: FindNodes) -> OpColumns:  # noqa: ARG002
        logged = self.logged()
        if logged is None:
            return OpColumns.empty()
        return self._logged_columns(logged, step_id, self._thread_names(logged))

    def _thread_names(self, logged: LoggedRun) -> dict[int, str]:
        names = {self.thread: self.thread_name}
        for thread, (_, name) in logged.threads.items():
            names.setdefault(thread, name)
        return names

    def recorder(self) -> str:
        return "executor"

    def storable(self, memory: Mapping[str, Any]) -> StorableLog | None:
        logged = self.logged()
        if logged is None:
            return None
        told = "allocations" in memory and memory["out_of_memory"] is None
        names = self._thread_names(logged)
        return StorableLog(logged, names, outputs=self.level >= 3, allocations=told)

    def numbers(self, like: Hashable, engine: str, step_id: int) -> RunNumbers | None:
        odd = self.failed or self.first_calls or self.losses
        packed = None if odd else self.log.packed()
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

    # -- what it cost --------------------------------------------------------------------------

    def slowed_ns(self) -> int:
        if self.log.stays and not self.first_calls:
            return self._at_most(self.log.records * RECORD_NS, self.ended - self.started)
        logged = self.logged()
        if logged is None:
            return 0
        rows = logged.log.rows
        instantiating = self._instantiating_ns(rows["start"])
        memory = logged.log.memory
        records = len(rows) + (0 if memory is None else len(memory.changes))
        noted = self._at_most(records * RECORD_NS, self.ended - self.started - instantiating)
        return instantiating + noted

    @staticmethod
    def _at_most(noted: int, took: int) -> int:
        return max(0, min(noted, took * 9 // 10))
