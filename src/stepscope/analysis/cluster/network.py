"""Traffic between the tasks of a cluster: what moved, who waited for it, and who was late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from stepscope.analysis.cluster.clock import Clocks
from stepscope.analysis.cluster.clock import clocks as clocks_of
from stepscope.analysis.cluster.messages import traffic
from stepscope.analysis.cluster.straggler import Straggler, idle_of, stragglers
from stepscope.analysis.cluster.tasks import is_local
from stepscope.analysis.result import Result, made_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.analysis.cluster.messages import Collective, Message
    from stepscope.metadata import OpColumns

__all__ = ["NETWORK_GROUPINGS", "Network", "NetworkRow", "network"]

By: TypeAlias = Literal["edge", "pair", "op"]
NETWORK_GROUPINGS: tuple[str, ...] = get_args(By)
_ALL = "(all)"


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """The transfers that share a key.

    `producer` and `consumer` are the ops that made and first used the tensor, `source` and `target`
    their tasks; "" where the transfers of the row differ, and a consumer is "" where the tensor was
    fetched. A transfer takes from when its task could wait for it until it is there (`total_ns`):
    `waiting_ns` of that until the tensor was made, and `moving_ns` on its way. `idle_ns` is for how
    long the receiving task had nothing else to do. `rate` is bytes per second of moving. Of a
    collective, `moving_ns` is from when the last task had come.
    """

    key: str
    producer: str
    consumer: str
    source: str
    target: str
    calls: int
    bytes: int
    total_ns: int
    waiting_ns: int
    moving_ns: int
    idle_ns: int
    max_ns: int
    rate: float


@dataclass(frozen=True, slots=True)
class Network(Result):
    """Rows by the time in which a task stood still for them, the longest first.

    `transfers` counts receives between tasks and `unmatched` those of them whose producer is not in
    the record, as of what was fed: their time is all counted as moving. `collectives` are ops that
    several tasks ran together. `stragglers` has one entry for each step in which anybody waited.
    `clocks` are those that the times were corrected by.
    """

    by: By
    rows: tuple[NetworkRow, ...]
    tasks: tuple[str, ...]
    steps: int
    transfers: int
    unmatched: int
    collectives: int
    bytes: int
    waiting_ns: int
    moving_ns: int
    idle_ns: int
    stragglers: tuple[Straggler, ...]
    clocks: Clocks


def network(runs: Any, by: By = "edge", *, clocks: Clocks | None = None) -> Network:
    """Sum up the transfers of runs that hold the rows of several tasks.

    `by` groups them: "edge" (a tensor from one op and task to another), "pair" (of tasks) or "op"
    (that made the tensor). `runs` is looked at twice, one run at a time: a function that returns
    runs, or anything that can be gone over again. With `clocks` it is looked at once.
    """
    if by not in NETWORK_GROUPINGS:
        raise ValueError(f"by must be one of {', '.join(NETWORK_GROUPINGS)}; it was {by!r}")
    if clocks is None and isinstance(runs, Iterator):
        runs = list(runs)
    again: Callable[[], Any] = runs if callable(runs) else lambda: runs
    if clocks is None:
        clocks = clocks_of(again())
    gathered = _Gathered(by)
    for run in clocks.apply(again()):
        gathered.add(run.name, run.metadata.ops)
    return made_of(gathered.result(clocks), runs)


class _Sums:
    __slots__ = ("bytes", "calls", "ends", "idle", "longest", "moving", "total", "waiting")

    def __init__(self, ends: tuple[str, str, str, str]) -> None:
        self.ends = ends
        self.calls = self.bytes = self.total = 0
        self.waiting = self.moving = self.idle = self.longest = 0

    def add(
        self, ends: tuple[str, str, str, str], size: int, waiting: int, moving: int, idle: int
    ) -> None:
        if ends != self.ends:
            pairs = zip(ends, self.ends, strict=True)
            self.ends = tuple(a if a == b else "" for a, b in pairs)  # type: ignore[assignment]
        self.calls += 1
        self.bytes += size
        self.total += waiting + moving
        self.waiting += waiting
        self.moving += moving
        self.idle += idle
        self.longest = max(self.longest, waiting + moving)


class _Gathered:
    """Sums over runs: memory per row of the result and per step, not per transfer."""

    def __init__(self, by: By) -> None:
        self._by = by
        self._sums: dict[str, _Sums] = {}
        self._tasks: dict[str, None] = {}
        self._counts: dict[str, int] = defaultdict(int)
        self._late: list[Straggler] = []

    def add(self, run: str, ops: OpColumns) -> None:
        found = traffic(ops)
        self._tasks.update(dict.fromkeys(found.tasks.table))
        if not found.messages and not found.collectives:
            return
        idle, waits = idle_of(ops, found)
        names = ops.names
        for message, nothing_to_do in zip(found.messages, idle, strict=True):
            producer = message.tensor
            if message.producer >= 0 and ops.op[message.producer] not in ("_Send", "_HostSend"):
                producer = names.table[names.codes[message.producer]]
            consumer = ""
            if message.consumer >= 0:
                consumer = names.table[names.codes[message.consumer]]
            self._message(message, producer, consumer, nothing_to_do)
        for together in found.collectives:
            self._collective(together)
        self._counts["steps"] += len(set(ops.step.tolist()))
        self._late += stragglers(run, ops, waits)

    def _message(self, message: Message, producer: str, consumer: str, idle: int) -> None:
        asked, end = min(message.asked_ns, message.received_ns), message.received_ns
        made = asked
        if message.producer >= 0:
            made = min(max(message.sent_ns, asked), end)
        else:
            self._counts["unmatched"] += 1
            asked = made = min(message.began_ns, end)
        self._counts["transfers"] += 1
        ends = (producer, consumer, message.source, message.target)
        self._sum(ends, message.bytes, made - asked, end - made, idle)

    def _collective(self, together: Collective) -> None:
        self._counts["collectives"] += 1
        last = max(together.starts)
        each = zip(together.tasks, together.starts, together.ends, together.bytes, strict=True)
        for task, start, end, size in each:
            arrived = min(max(last, start), end)
            ends = (together.name, together.name, together.source or _ALL, task)
            self._sum(ends, size, arrived - start, max(end - arrived, 0), max(end - start, 0))

    def _sum(
        self, ends: tuple[str, str, str, str], size: int, waiting: int, moving: int, idle: int
    ) -> None:
        producer, consumer, source, target = ends
        if self._by == "pair":
            key = f"{source} -> {target}"
        elif self._by == "op":
            key = producer
        else:
            key = f"{producer} {source} -> {target}" + (f" {consumer}" if consumer else "")
        known = self._sums.get(key)
        if known is None:
            known = self._sums[key] = _Sums(ends)
        known.add(ends, size, waiting, moving, idle)

    def result(self, clocks: Clocks) -> Network:
        rows = [
            NetworkRow(
                key=key,
                producer=sums.ends[0],
                consumer=sums.ends[1],
                source=sums.ends[2],
                target=sums.ends[3],
                calls=sums.calls,
                bytes=sums.bytes,
                total_ns=sums.total,
                waiting_ns=sums.waiting,
                moving_ns=sums.moving,
                idle_ns=sums.idle,
                max_ns=sums.longest,
                rate=sums.bytes * 1e9 / sums.moving if sums.moving else 0.0,
            )
            for key, sums in self._sums.items()
        ]
        named = [task for task in self._tasks if not is_local(task)]
        rows.sort(key=lambda row: (-row.idle_ns, -row.total_ns, -row.bytes, row.key))
        return Network(
            by=self._by,
            rows=tuple(rows),
            tasks=tuple(named or self._tasks),
            steps=self._counts["steps"],
            transfers=self._counts["transfers"],
            unmatched=self._counts["unmatched"],
            collectives=self._counts["collectives"],
            bytes=sum(row.bytes for row in rows),
            waiting_ns=sum(row.waiting_ns for row in rows),
            moving_ns=sum(row.moving_ns for row in rows),
            idle_ns=sum(row.idle_ns for row in rows),
            stragglers=tuple(self._late),
            clocks=clocks,
        )
