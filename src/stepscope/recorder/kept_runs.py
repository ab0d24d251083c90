"""`KeptRuns`: carries out what the controller decides, for whoever sees runs go by.

An engine's observer asks the `lane` of a run's kind first: in a lull nothing is to be decided. Else
it calls `begins` before the run and `ended` after it. Runs that were noted are held in memory until
the controller has them written or let go.

Guarantees:

- `begins` and `ended` may be called from any thread; they wait for the store only where `Store.add`
  does. The store's thread never waits for them: what it has to say lies in queues that they empty;
- op times of a run are summed up on the store's thread, and only as many runs as take `_SUMS` of
  the budget: which ones does not depend on what was in them, so that they stand for all;
- what writing and summing up take of the interpreter is part of what recording cost, and so is the
  time that is waited for the store;
- `close` writes what is to be kept, the summaries and the reasons; a process that dies before has
  those of `SAVED_S` seconds before, and of runs whose length alone was noted those of then;
- nothing of a run is held when it is neither written nor wanted any more, and `let_go` is told.
"""

from __future__ import annotations

import functools
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from stepscope.metadata import (
    CallTime,
    Completeness,
    Loss,
    OpColumns,
    Recording,
    RunMetadata,
    Status,
)
from stepscope.metadata.readers.kept_file import TABLES
from stepscope.metadata.stored.quantiles import QuantileSketch
from stepscope.metadata.stored.step_summaries import Level, StepSummary
from stepscope.recorder.budget import COUNTING, LULL_NS
from stepscope.recorder.controller import Begun, Controller, Ended
from stepscope.recorder.crowding import Crowding
from stepscope.recorder.lanes import Remarkable, RunLane, ThreadTimes, cost_of_lanes
from stepscope.recorder.standstills import Standstills

if TYPE_CHECKING:
    from stepscope.metadata.stored.stored_run import SharedPart, StoredRun
    from stepscope.recorder.keeping import Changes, Kept
    from stepscope.store import Store
    from stepscope.store.database import Database

__all__ = ["SAVED_S", "KeptRuns", "given_up"]

SAVED_S: Final = 5.0
_SUMS: Final = 0.3
_AROUND_LANES_NS: Final = 1_000
"""What engines do around a lane, about."""
_FOR_ITSELF: Final = frozenset({"first", "failed", "trigger", "asked"})
_AT_ONCE_NS: Final = 5_000_000
_PENDING: Final = 32
"""So many runs wait at most until their op times are summed up together."""
_SUMMED_AT_ONCE: Final = 64
_RUN_BYTES: Final = 4_000
_OP_BYTES: Final = 200
"""What a run takes in memory that is held, and each of its ops."""
_STORED_BYTES: Final = 4_000
"""What a run is taken to take on disk until one is there."""
_TRIGGERED: Final = 1000
_SHARE_OF_DISK: Final = 0.75
"""What runs and their parts may take of the bound: the rest is for what lies beside them."""


@dataclass(slots=True)
class _Held:
    """A run that was noted: what there is to write, or its length alone."""

    level: Level
    engine: str
    label: str
    began_ns: int
    ended_ns: int
    thread: int
    failed: str
    metadata: RunMetadata | None
    graph: SharedPart | None
    kept: float
    wait_ns: int = 0
    cost_ns: int = 0
    apart: bool = False
    """Whether it stands for itself alone: it is kept for what it was."""
    to_sum: bool = False
    wanted: bool = True

    @property
    def length_ns(self) -> int:
        """What the run itself took, without what recording it did."""
        return max(0, self.ended_ns - self.began_ns - self.cost_ns)

    @property
    def known(self) -> tuple[str, int]:
        """By what its engine knows it."""
        return self.engine, self.metadata.step_id if self.metadata is not None else 0


class _ToSum(NamedTuple):
    """A run whose op times are to be summed up."""

    kind: str
    number: int
    metadata: RunMetadata | None
    ns: int
    apart: bool

    @classmethod
    def of(cls, kind: str, number: int, held: _Held) -> _ToSum:
        return cls(kind, number, held.metadata, held.length_ns, held.apart)


class KeptRuns:
    """The runs of a program under a budget, in a store.

    `lane`, `begins` and `ended` may be called from any thread.
    """

    def __init__(
        self,
        store: Store,
        control: Controller,
        let_go: Callable[[Sequence[tuple[str, int]]], None] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        crowding: Callable[[int], float] | None = None,
    ) -> None:
        """`let_go` is told of runs that nobody wants any more, by their engines and step ids.

        Lanes read the process's clock, whatever `clock` is. `crowding` says, at a time, how much
        longer things take than the processor needs for them.
        """
        self.clock = clock
        self._crowding = crowding or Crowding()
        self.control = control
        self._store = store
        self._let_go = let_go or (lambda _runs: None)
        # A signal's handler may call `close` in the midst of `ended`.
        self._lock = threading.RLock()
        self._to_sum: deque[_ToSum] = deque()
        self._summed: deque[int] = deque()
        self._committed_runs: set[int] = set()
        self._run_bytes = _STORED_BYTES
        """What a run takes on disk, by what those take that are there."""
        self._committed: deque[tuple[list[int], int]] = deque()
        self._here = ThreadTimes()
        self._lanes: dict[str, RunLane] = {}
        self._lane_ns = cost_of_lanes() + _AROUND_LANES_NS
        self._held: dict[int, _Held] = {}
        self._later: dict[int, _Held] = {}
        """Runs to be written of which the length alone is known, until that is done."""
        self._written: dict[int, int] = {}
        """How long runs took that are written, by their numbers."""
        self._pending: list[tuple[str, int]] = []
        self._summaries: dict[str, StepSummary] = {}
        self._triggered: list[tuple[str, int]] = []
        self._summing_ns = 0
        self._stored_ns = 0
        """What of the store's time was charged."""
        self._waited_ns = 0
        """What was charged of the time that was waited for the store."""
        self._saved_ns = self.clock()
        self._offset = time.time_ns() - self._saved_ns
        self._closed = False
        self._standstills = Standstills(control.budget.share, woke=self._end_long_counting)
        self._standing_ns = 0
        """What of the cost of looking for standstills was charged."""
        disk = control.keeper.disk
        control.keeper.disk = int(disk * _SHARE_OF_DISK)
        self._terms = {
            "budget": None if control.budget.share == float("inf") else control.budget.share,
            "memory": control.keeper.memory,
            "disk": disk,
        }
        store.do(lambda database: _set_up(database, disk))

    # -- the program's threads -------------------------------------------------------------------

    def lane(self, kind: str) -> RunLane:
        """Where runs of a kind are noted in a lull."""
        found = self._lanes.get(kind)
        if found is None:
            with self._lock:
                name = self.control.budget.kind_of(kind)
                found = self._lanes.get(name)
                if found is None:
                    found = RunLane(
                        name, self._here, self.control.numbers, self._told, self._is_full
                    )
                    self._lanes[name] = found
        return found

    def begins(self, kind: str) -> Begun:
        """A run of a kind is about to begin on this thread: how much to record of it."""
        now = self.clock()
        last = self._here.ended
        control = self.control
        with self._lock:
            lane = self._lanes.get(control.budget.kind_of(kind))
            if lane is not None:
                self._settle(lane, now)
            run = control.begins(kind, now, now - last if last else 0)
            if lane is not None and run.level <= Level.LENGTH:
                lane.open(control.lull(run), now)
            elif lane is not None:
                lane.close()
            if run.level is Level.COUNT:
                # Nobody is told when it ends: what passes before the next run is not known.
                self._here.ended = 0
            control.spent(self.clock() - now)
        return run

    def takes(self, kind: str) -> Begun:
        """A run begins that is recorded in detail, whatever it costs."""
        with self._lock:
            return self.control.takes(kind, self.clock())

    def unseen(self, run: Begun) -> None:
        """Nothing can be recorded of a run that began: it is as if it had not been."""
        with self._lock:
            known = self.control.budget.kinds[run.kind]
            known.runs -= 1
            known.at[run.level] -= 1

    def _settle(self, lane: RunLane, now: int) -> None:
        """Add up what was noted on a lane."""
        noted, counted = lane.take()
        if noted or counted:
            noting = lane.cost_ns(Level.LENGTH, self._lane_ns)
            counting = lane.cost_ns(Level.COUNT, COUNTING * noting)
            crowded = self._crowding(now)
            self.control.passed(
                lane.kind, noted, counted, crowded * noting, now, crowded * counting
            )

    def _end_long_counting(self, now: int) -> None:
        """A lull in which runs are only counted ends when they take far longer than they did."""
        for lane in list(self._lanes.values()):
            lane.expire(now - 2 * LULL_NS)

    def _is_full(self, lane: RunLane) -> None:
        with self._lock:
            self._settle(lane, self.clock())

    def _told(self, run: Remarkable) -> None:
        """A run of a lull is slow, late, or failed."""
        now = self.clock()
        with self._lock:
            lane = self._lanes[run.kind]
            self._settle(lane, now)
            begun = self.control.remarkable(run.kind, run.began_ns, run.wait_ns)
            self.ended(begun, failed=run.failed, engine=run.engine, ended_ns=run.ended_ns)
            lane.open(self.control.lull(begun), now)

    def ended(
        self,
        run: Begun,
        *,
        cost_ns: int = 0,
        failed: str = "",
        engine: str = "",
        metadata: RunMetadata | None = None,
        label: str = "",
        graph: SharedPart | None = None,
        kept: float = 0,
        peak_bytes: int = 0,
        ended_ns: int = 0,
        asked: bool = False,
    ) -> None:
        """It ended on this thread, at `ended_ns` if that is not now.

        Recording it made the program wait for `cost_ns` so far; `failed` is how it ended, where
        that was not well. `metadata` is the run, as far as it was noted; the rest is as `Store.add`
        has it. One that the program itself had traced was `asked` for.
        """
        now = self.clock()
        began = ended_ns or now
        # One that is handed over later, when a window of the profiler was read, says nothing.
        whole = now - run.began_ns - cost_ns if now - began < _AT_ONCE_NS else 0
        ours = time.thread_time_ns()
        with self._lock:
            if self._closed:
                return
            summary = self._summaries.get(run.kind)
            is_first = summary is None
            if summary is None:
                summary = self._summaries[run.kind] = StepSummary(run.kind, engine)
            size = _RUN_BYTES + (_OP_BYTES * len(summary.ops) if metadata is not None else 0)
            if run.level > Level.COUNT or failed:
                held = self._held[run.number] = _Held(
                    run.level, engine, label, run.began_ns, began, threading.get_native_id(),
                    failed, metadata, graph, kept, run.wait_ns, cost_ns,
                )  # fmt: skip
                if metadata is not None and self._may_sum():
                    held.to_sum = True
                    self._pending.append((run.kind, run.number))
            crowded = self._crowding(now)
            self._charge_threads(crowded)
            took = Ended(began, cost_ns, size, failed, peak_bytes, asked, whole)
            changes = self.control.ended(run, took)
            held_now = self._held.get(run.number)
            if held_now is not None:
                # The first of a kind builds, whatever is kept of it.
                reasons = self.control.keeper.reasons(run.number)
                held_now.apart = is_first or not _FOR_ITSELF.isdisjoint(reasons)
            self._carry_out(changes)
            self._note_triggers(run)
            self._hear_of_the_store()
            self._sum_up_if_due(began)
            # Of the processor's time, and what others take of it as a rule, not just now.
            self.control.spent(int(crowded * (time.thread_time_ns() - ours)))
            self._here.ended = self.clock()

    def _charge_threads(self, crowded: float) -> None:
        """What our threads took of the interpreter since, the program waited for, and for room."""
        stored, standing = self._store.busy_ns, self._standstills.cost_ns
        computed = stored - self._stored_ns + standing - self._standing_ns
        waited = self._store.waited_ns
        self.control.spent(int(crowded * computed) + waited - self._waited_ns)
        self._stored_ns, self._standing_ns, self._waited_ns = stored, standing, waited

    def keep(self, why: str) -> None:
        """Keep the runs of the seconds before now."""
        now = self.clock()
        with self._lock:
            self._triggered.append((why, time.time_ns()))
            self._carry_out(self.control.trigger(why, now))

    def spent(self, ns: int) -> None:
        """The program waited for us outside of runs."""
        with self._lock:
            self.control.spent(ns)

    def close(self) -> None:
        """Nothing more comes: have all written that is to be kept."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._standstills.close()
            for lane in self._lanes.values():
                self._settle(lane, self.clock())
            self._carry_out(self.control.keeper.closes())
            self._sum_up()
            self._save_soon()

    def over(self) -> None:
        """The store is closed: nothing is held any longer."""
        with self._lock:
            self._let_go([run.known for run in self._held.values() if run.metadata is not None])
            self._held.clear()

    @property
    def made(self) -> int:
        """How many runs there were so far, but for those of lulls that are not over."""
        return sum(kind.runs for kind in list(self.control.budget.kinds.values()))

    def seen(self, engine: str) -> int:
        """How many runs an engine made so far; of TensorFlow's all that its name begins with."""
        with self._lock:
            kinds = self.control.budget.kinds
            of = [
                kind for kind, found in self._summaries.items() if found.engine.startswith(engine)
            ]
            return sum(kinds[kind].runs for kind in of if kind in kinds)

    @property
    def unwritten_ns(self) -> int:
        """How long runs took that are not in the store, as far as their length was noted."""
        with self._lock:
            for lane in self._lanes.values():
                self._settle(lane, self.clock())
            whole = sum(known.lengths.total for known in self.control.lengths.values())
            return max(0, whole - sum(self._written.values()))

    # -- carrying out ----------------------------------------------------------------------------

    def _carry_out(self, changes: Changes) -> None:
        for number in changes.write:
            held = self._held.get(number)
            if held is None:
                self.control.keeper.unwritable(number)
            elif held.metadata is None:
                self._later[number] = held
            else:
                if held.to_sum:
                    # Before it is committed: what it lies in is let go of then.
                    self._sum_up()
                self._write(number, held, held.metadata)
        self._forget(changes.forget)
        self._let_go_of_released()

    def _write(self, number: int, held: _Held, metadata: RunMetadata) -> None:
        self._store.add(metadata, held.label, held.graph, kept=held.kept, number=number)
        took = self._written[number] = held.length_ns
        kept = self.control.why(number)
        self._store.do(
            functools.partial(
                _save_reasons, kept=kept, level=held.level, wait_ns=held.wait_ns, took_ns=took
            )
        )
        self._forget(self.control.keeper.written(number, self._run_bytes).forget)

    def _write_lengths(self) -> None:
        """Write the runs of which the length alone is known, and that are still wanted.

        Where many are slow each is soon displaced by a slower one: most are never written.
        """
        later, self._later = self._later, {}
        for number, held in later.items():
            if self.control.keeper.holds(number):
                self._write(number, held, self._length_alone(held))

    def _forget(self, numbers: Sequence[int]) -> None:
        # What was not written yet only has to be forgotten here.
        numbers = [number for number in numbers if self._later.pop(number, None) is None]
        if numbers:
            self._committed_runs.difference_update(numbers)
            for number in numbers:
                self._written.pop(number, None)
            self._store.remove(numbers)
            self._store.do(lambda database: _forget_reasons(database, numbers))

    def _let_go_of_released(self) -> None:
        """What is neither held nor waits to be summed up is forgotten here.

        What was written is let go of when it is committed, as any run is.
        """
        unwanted = []
        for number in self.control.keeper.released():
            held = self._held.get(number)
            if held is None:
                continue
            if held.to_sum:
                held.wanted = False
                continue
            del self._held[number]
            if held.metadata is not None and not self.control.keeper.holds(number):
                unwanted.append(held.known)
        if unwanted:
            self._let_go(unwanted)

    def _length_alone(self, held: _Held) -> RunMetadata:
        """A run of which no more than that was noted."""
        call = CallTime(held.began_ns + self._offset, held.ended_ns + self._offset, held.thread)
        metadata = RunMetadata()
        metadata.record(
            Recording(
                engine=held.engine,
                status=Status(held.failed) if held.failed else Status(),
                completeness=Completeness(given_up(held.level, self.control.budget.share)),
                call=call,
            )
        )
        return metadata

    def _note_triggers(self, run: Begun) -> None:
        if self.control.keeper.holds(run.number) and len(self._triggered) < _TRIGGERED:
            kept = self.control.why(run.number)
            if "trigger" in kept.reasons:
                self._triggered.append((f"run {run.number}: {kept.why}", time.time_ns()))

    # -- sums ------------------------------------------------------------------------------------

    def _may_sum(self) -> bool:
        budget = self.control.budget
        few = len(self._pending) < _PENDING
        return few and self._summing_ns <= _SUMS * budget.share * max(budget.own_ns, 10**8)

    def _sum_up_if_due(self, now: int) -> None:
        if len(self._pending) >= _PENDING:
            self._sum_up()
        if now - self._saved_ns > SAVED_S * 1e9:
            self._saved_ns = now
            self._sum_up()
            self._save_soon()

    def _sum_up(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            runs = [_ToSum.of(kind, number, self._held[number]) for kind, number in pending]
            self._to_sum.extend(runs)
            self._store.do(self._add_up)

    def _hear_of_the_store(self) -> None:
        """What its thread did since: runs that are summed up, and committed ones."""
        unwanted = []
        while self._summed:
            number = self._summed.popleft()
            held = self._held[number]
            held.to_sum = False
            if not held.wanted:
                del self._held[number]
                if held.metadata is not None and not self.control.keeper.holds(number):
                    unwanted.append(held.known)
        if unwanted:
            self._let_go(unwanted)
        keeper = self.control.keeper
        while self._committed:
            numbers, used = self._committed.popleft()
            there = self._committed_runs
            there.update(number for number in numbers if keeper.holds(number))
            if there:
                self._run_bytes = max(1, used // len(there))
                known = sum(map(keeper.disk_bytes_of, there))
                self._forget(keeper.fit_disk(max(0, used - known)).forget)

    def _save_soon(self) -> None:
        """Have written what is known of all runs by now, and why runs are kept."""
        control = self.control
        self._write_lengths()
        for lane in self._lanes.values():
            self._settle(lane, self.clock())
        for kind, summary in self._summaries.items():
            spending, known = control.budget.kinds.get(kind), control.lengths.get(kind)
            if spending is not None:
                summary.at = list(spending.at)
            if known is not None:
                lengths = QuantileSketch(known.lengths.counts, known.lengths.total)
                lengths.most = known.lengths.most
                summary.lengths, summary.failed = lengths, known.failed
        terms: dict[str, Any] = {
            **self._terms,
            "spent_ns": control.budget.spent_ns,
            "own_ns": control.budget.own_ns,
            "dropped": [[*key, count] for key, count in control.keeper.dropped.items()],
            "triggered": list(self._triggered),
            "standstills": [
                [began + self._offset, ended + self._offset]
                for began, ended in self._standstills.found()
            ],
        }
        summaries, kept = list(self._summaries.values()), list(control.keeper.kept())
        self._store.do(lambda database: _save(database, summaries, kept, terms))

    # -- the store's thread ------------------------------------------------------------------------

    def _add_up(self, _database: Database) -> None:
        """Sum up the op times of all runs that wait for it, also of those that came since: many at
        once take a fraction of the time. Nobody else changes those of a summary.
        """
        began = time.thread_time_ns()
        while self._to_sum:
            alike: dict[tuple[str, bool], list[tuple[OpColumns, int]]] = {}
            taken: list[int] = []
            while self._to_sum and len(taken) < _SUMMED_AT_ONCE:
                run = self._to_sum.popleft()
                taken.append(run.number)
                try:
                    ops = run.metadata.ops if run.metadata is not None else OpColumns.empty()
                except Exception:  # noqa: BLE001 - one that cannot be decoded is in no sum
                    continue
                alike.setdefault((run.kind, run.apart), []).append((ops, run.ns))
            for (kind, apart), found in alike.items():
                runs, lengths = zip(*found, strict=True)
                self._summaries[kind].noted(*runs, ns=sum(lengths), apart=apart)
            self._summed.extend(taken)
        self._summing_ns += time.thread_time_ns() - began

    def committed(self, runs: Sequence[StoredRun]) -> None:
        """The store committed these runs."""
        self._committed.append(([run.number for run in runs], self._store.used_bytes))


def _save_reasons(database: Database, kept: Kept, level: Level, wait_ns: int, took_ns: int) -> None:
    reasons = orjson.dumps(kept.reasons).decode()
    database.write(
        "INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(kept.number, kept.kind, int(level), reasons, kept.why, wait_ns, took_ns)],
    )


def _save(
    database: Database, summaries: list[StepSummary], kept: list[Kept], terms: dict[str, Any]
) -> None:
    contents = [(summary.kind, summary.to_bytes()) for summary in summaries]
    database.write(
        "INSERT OR REPLACE INTO summaries VALUES (?, ?, ?)",
        [(kind, content, zlib.crc32(content)) for kind, content in contents],
    )
    database.write(
        "UPDATE kept SET reasons = ?, why = ? WHERE number = ?",
        [(orjson.dumps(one.reasons).decode(), one.why, one.number) for one in kept],
    )
    database.write(
        "INSERT OR REPLACE INTO recording VALUES (?, ?)",
        [(name, orjson.dumps(value).decode()) for name, value in terms.items()],
    )


def given_up(level: Level, budget: float) -> tuple[Loss, ...]:
    """What a record lacks because of the budget; nothing where it was recorded in detail."""
    of = f"the budget of {100 * budget:g}% of the program's time"
    if level is Level.DETAIL:
        return ()
    if level is Level.TIMES:
        return (Loss("memory and shapes", 0, f"op times alone were noted, to keep to {of}"),)
    return (Loss("op executions", 0, f"the run's length alone was noted, to keep to {of}"),)


def _set_up(database: Database, disk: int) -> None:
    database.bound_log(disk // 16)
    for statement in TABLES:
        database.write(statement)


def _forget_reasons(database: Database, numbers: Sequence[int]) -> None:
    database.write("DELETE FROM kept WHERE number = ?", [(number,) for number in numbers])
