"""A cluster whose every moment is known: rows as TensorFlow records them, by many clocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from stepscope.metadata import OpColumns, Recording, RunMetadata, TensorColumns

BEGIN = 1_794_769_119_000_000_000
SECOND = 1_000_000_000
MS = 1_000_000


@dataclass
class Clock:
    """A clock that is `offset_ns` ahead at the beginning and gains `ppm`."""

    offset_ns: int = 0
    ppm: float = 0.0

    def __call__(self, true: int) -> int:
        return true + self.difference(true)

    def difference(self, true: int) -> int:
        """How far it is ahead at a moment."""
        return self.offset_ns + round((true - BEGIN) * self.ppm * 1e-6)


@dataclass
class Rows:
    """Rows of several tasks, given in true time."""

    clocks: dict[str, Clock]
    rows: list[tuple[str, str, str, int, int, str, int]] = field(default_factory=list)
    sent: list[tuple[str, str, int, str, int]] = field(default_factory=list)
    """What really happened: tensor, source, true time sent, target, true time received."""

    def op(self, task: str, name: str, op: str, start: int, end: int, *inputs: str) -> int:
        """A row, and its end."""
        clock = self.clocks.get(task, Clock())
        label = f"{name} = {op}({', '.join(inputs)})"
        self.rows.append((name, op, device(task), clock(start), clock(end), label, 4))
        return end

    def transfer(
        self, tensor: str, source: str, made: int, target: str, asked: int, end: int, size: int
    ) -> int:
        """A RecvTensor row as TensorFlow records it: its start is the sender's, cut to fit."""
        sender, receiver = self.clocks.get(source, Clock()), self.clocks.get(target, Clock())
        until = receiver(end) // 1000 * 1000
        began = min(max(receiver(asked), sender(max(made, asked))) // 1000 * 1000, until - 1000)
        label = f"[{size}B] edge_7_{tensor} from {device(source)} to {device(target)}"
        self.rows.append(("RecvTensor", "RecvTensor", device(target), began, until, label, size))
        self.sent.append((tensor, source, made, target, end))
        return end

    def metadata(self, step: int = 0, only: str | None = None) -> RunMetadata:
        """The rows as a run; those of one task alone, if it is given."""
        wanted = None if only is None else device(only)
        rows = [row for row in self.rows if wanted is None or row[2] == wanted]
        threads: dict[str, int] = {}
        ops = OpColumns.build(
            name=[row[0] for row in rows],
            op=[row[1] for row in rows],
            device=[row[2] for row in rows],
            thread=[threads.setdefault(row[2], len(threads) + 1) for row in rows],
            scheduled_ns=[row[3] for row in rows],
            start_ns=[row[3] for row in rows],
            end_ns=[row[4] for row in rows],
            label=[row[5] for row in rows],
            step=step,
            tensors=TensorColumns.build(
                op_index=range(len(rows)),
                slot=[0] * len(rows),
                dtype=[1] * len(rows),
                shape=[(row[6] // 4,) for row in rows],
                bytes=[row[6] for row in rows],
            ),
        )
        metadata = RunMetadata()
        metadata.record(Recording(engine="simulated", step_id=step, ops=lambda: ops))
        return metadata


def device(task: str) -> str:
    """The device of a task."""
    job, _, index = task.partition(":")
    return f"/job:{job}/replica:0/task:{index}/device:CPU:0"


Delay = Callable[[str, str], int]


def parameter_server_step(
    begin: int,
    workers: int,
    clocks: dict[str, Clock] | None = None,
    *,
    work: Callable[[str], int] = lambda _task: 4 * MS,
    delay: Delay = lambda _source, _target: MS // 5,
    size: int = 4096,
    server: str = "ps:0",
) -> tuple[Rows, int]:
    """One step: workers fetch w, compute, send gradients; the server applies them all.

    Gives the rows and the true time at which it was over.
    """
    rows = Rows(clocks or {})
    rows.op(server, "_SOURCE", "NoOp", begin, begin + 1000)
    read = rows.op(server, "w/read", "Identity", begin + 2000, begin + 20_000, "w")
    over = []
    for number in range(workers):
        task = f"worker:{number}"
        asked = rows.op(task, "_SOURCE", "NoOp", begin, begin + 1000)
        there = max(read, asked) + delay(server, task)
        rows.transfer("w/read", server, read, task, asked, there, size)
        begun = there + 5000
        gradient = f"grad_{number}"
        done = rows.op(task, gradient, "MatMul", begun, begun + work(task), "w/read_S1")
        at_server = done + delay(task, server)
        rows.transfer(gradient, task, done, server, begin + 1000, at_server, size)
        over.append(at_server)
    inputs = [f"grad_{number}_S{number + 2}" for number in range(workers)]
    added = rows.op(server, "add", "AddN", max(over) + 5000, max(over) + 25_000, *inputs)
    return rows, rows.op(server, "w/assign", "AssignSub", added + 1000, added + 30_000, "add")


def all_reduce_step(
    begin: int,
    workers: int,
    clocks: dict[str, Clock] | None = None,
    *,
    work: Callable[[str], int] = lambda _task: 4 * MS,
    exchange: int = MS // 2,
    skew: Callable[[str], int] = lambda _task: 0,
) -> tuple[Rows, int]:
    """One step of workers that reduce their gradients together."""
    rows = Rows(clocks or {})
    ready = {}
    for number in range(workers):
        task = f"worker:{number}"
        ready[task] = rows.op(task, "grad", "MatMul", begin, begin + work(task), "x")
    over = begin
    for task, start in ready.items():
        end = max(ready.values()) + exchange + skew(task)
        rows.op(task, "reduce", "CollectiveReduceV2", start, end, "grad")
        over = max(over, rows.op(task, "apply", "AssignSub", end + 1000, end + 50_000, "reduce"))
    return rows, over


def jittered(seed: int, least: int, most: int) -> Callable[..., int]:
    """Delays at random."""
    chance = random.Random(seed)
    return lambda *_of: chance.randint(least, most)
