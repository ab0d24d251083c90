"""The runs of many workers, each recorded on its own, as steps of one cluster.

A worker is a directory of runs. Which task it was says, in this order: `worker.json` beside its
runs, the devices in its rows, the directory's name. A directory below which there are
`worker.json` files is as many workers.

How runs are joined: a run that holds one task's rows and talks to other tasks (sends, receives,
collectives) is a part of a step; the n-th such run of every worker make up the n-th step. A run
that holds the rows of several tasks is a step of its own already, and one that talks to nobody
stands alone.

Workers are read side by side, one run at a time: in memory are some hundred bytes for each op of
one step, the names of ops and of files, and one run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscope.analysis.cluster_tasks import as_task, is_local, natural_order, task_column, task_of
from stepscope.analysis.messages import communicates
from stepscope.analysis.runs import NamedRun
from stepscope.errors import UnreadableFileError
from stepscope.metadata import (
    Completeness,
    LoadedRun,
    Loss,
    OpColumns,
    Recording,
    RunMetadata,
    StringColumn,
    TensorColumns,
    iter_runs,
)

if TYPE_CHECKING:
    from stepscope.metadata import Status

__all__ = ["RUN_FILE", "WORKER_FILE", "Absence", "Worker", "WorkerRuns", "workers_at"]

WORKER_FILE = "worker.json"
RUN_FILE = "run_metadata.pb"
_TIMES = ("scheduled_ns", "start_ns", "end_ns", "op_start_ns", "op_end_ns")


@dataclass(frozen=True, slots=True)
class Worker:
    """Where the runs of a worker are.

    `task` is "" where its rows must say; `prefix` is what a user called it, if so; `ended` is
    False where its recording was cut off, None where that is not known; `cluster` are all tasks
    there should be, as far as it knew.
    """

    name: str
    path: Path
    task: str = ""
    prefix: str = ""
    ended: bool | None = None
    cluster: tuple[str, ...] = ()

    def runs(self) -> Iterator[LoadedRun]:
        """Its runs in order, read one at a time; the iterator holds none of them."""
        names = self.run_names()
        return map(self._read, names) if names else iter_runs(self.path)

    def run_names(self) -> list[str]:
        """The directories that hold a run each, in order; none where it is laid out otherwise."""
        places = self.path.glob(f"*/{RUN_FILE}") if self.path.is_dir() else ()
        return sorted((place.parent.name for place in places), key=natural_order)

    def _read(self, name: str) -> LoadedRun:
        try:
            (run,) = iter_runs(self.path / name / RUN_FILE)
        except UnreadableFileError as error:
            unread = RunMetadata()
            lost = Completeness((Loss("run", 1, str(error)),))
            unread.record(Recording(engine="", completeness=lost))
            return LoadedRun(name, unread)
        return LoadedRun(name, run.metadata)


class Absence(NamedTuple):
    """What is missing of a task, and why, as far as that is known."""

    task: str
    what: str


def workers_at(*paths: str | os.PathLike[str]) -> list[Worker]:
    """The workers in directories, in the order of their tasks."""
    workers = []
    for given in paths:
        path = Path(given)
        found = sorted(path.rglob(WORKER_FILE)) if path.is_dir() else []
        workers += [_described(file) for file in found] or [Worker(path.stem, path)]
    return sorted(workers, key=lambda worker: natural_order(worker.task or worker.name))


def _described(file: Path) -> Worker:
    try:
        said: Any = json.loads(file.read_bytes())
        task, cluster = str(said.get("task", "")), said.get("cluster", [])
        ended = said.get("ended")
        known = tuple(map(str, cluster)) if isinstance(cluster, list) else ()
    except (OSError, ValueError, AttributeError):
        return Worker(file.parent.name, file.parent)
    name = task or file.parent.name
    ended = ended if isinstance(ended, bool) else None
    return Worker(name, file.parent, task, ended=ended, cluster=known)


class WorkerRuns:
    """The runs of workers as steps; calling it goes over them, from the beginning each time.

    After it has gone over all, `missing` says what is not there.
    """

    def __init__(self, workers: Iterable[Worker]) -> None:
        """Nothing is read yet."""
        self.workers = list(workers)
        self._counts: dict[str, int] = {}
        self._tasks: dict[str, str] = {}
        self._troubles: dict[str, list[str]] = {}
        self._local: dict[str, bool] = {}
        self._seen: set[str] = set()
        self._steps = 0

    def __call__(self) -> Iterator[NamedRun]:
        """Every step, and every run that is part of none."""
        joiner = _Joiner()
        several = len(self.workers) > 1
        sources = [_Source(worker, joiner, several=several) for worker in self.workers]
        number = 0
        while True:
            parts = []
            for source in sources:
                yield from source.until_part()
                if source.part is not None:
                    parts.append(source.part)
                    source.part = None
            if not parts:
                break
            yield joiner.joined(number, parts, [s.task for s in sources if not s.found])
            number += 1
        self._steps = number
        for source in sources:
            key = str(source.worker.path)
            self._counts[key] = source.parts
            self._tasks[key] = source.task
            self._troubles[key] = source.troubles
            self._local[key] = source.local
            self._seen |= source.seen

    def named(self) -> list[tuple[str, Worker]]:
        """The workers, each with what keeps its devices apart from those of others.

        That is "" where they tell their task themselves, and where nothing relates it to others.
        To be asked when all runs have been gone over.
        """
        found = []
        for worker in self.workers:
            key = str(worker.path)
            part = worker.task or self._counts.get(key, 0)
            task = self._tasks.get(key, worker.name) if part and self._local.get(key) else ""
            found.append((worker.prefix or task, worker))
        return found

    def missing(self) -> list[Absence]:
        """What is not there, of the workers given and of the cluster they were in."""
        absent = []
        tasks = set(self._tasks.values()) | self._seen
        for worker in self.workers:
            key = str(worker.path)
            task = self._tasks.get(key) or as_task(worker.task or worker.name)
            said = list(self._troubles.get(key, ()))
            count = self._counts.get(key, 0)
            if count < self._steps:
                said.append(f"{self._steps - count} of {self._steps} steps: it has runs of {count}")
            if worker.ended is False:
                said.append("what came after its last run: it was killed, or is still running")
            absent += [Absence(task, what) for what in said]
        expected = {task for worker in self.workers for task in worker.cluster}
        absent += [
            Absence(task, "everything: it is part of the cluster, and no run is of it")
            for task in sorted(expected - tasks, key=natural_order)
        ]
        return absent


class _Source:
    """One worker's runs, up to the next that is part of a step."""

    def __init__(self, worker: Worker, joiner: _Joiner, *, several: bool) -> None:
        self.worker = worker
        self._several = several
        self._joiner = joiner
        self.task = as_task(worker.task)
        self.part: _Part | None = None
        self.parts = 0
        self.found = False
        self.local = False
        self.seen: set[str] = set()
        """Tasks that are in the rows of its runs."""
        self.troubles: list[str] = []
        self._runs: Iterator[LoadedRun] | None = worker.runs()

    def until_part(self) -> Iterator[NamedRun]:
        """The runs before the next that is part of a step, which is then `part`."""
        self.found = False
        if self._runs is None:
            return
        while (run := next(self._runs, None)) is not None:
            ops = run.metadata.ops
            tasks = task_column(ops).table
            own = [task for task in tasks if not is_local(task)]
            if not self.task:
                self.task = own[0] if len(own) == 1 else as_task(self.worker.name)
            self.local |= any(is_local(task) for task in tasks)
            self.seen.update(own)
            whole = len(own) > 1 and not self._several
            name = run.name if whole and run.name else f"{self.task} {run.name}".rstrip()
            if not len(ops):
                self.troubles += [
                    f"{run.name}: {loss.reason}" for loss in run.metadata.completeness.losses[:1]
                ]
            if len(own) > 1 or not communicates(ops):
                yield NamedRun(name, run.metadata)
                continue
            self.part = self._joiner.part(run.metadata, self.task)
            self.parts += 1
            self.found = True
            return
        self._runs = None


class _Strings:
    """Strings of all steps and workers, each kept once."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._table: tuple[str, ...] = ()

    def codes(self, column: StringColumn, renamed: Iterable[str] | None = None) -> Any:
        give = self._codes.setdefault
        table = column.table if renamed is None else renamed
        return np.array([give(text, len(self._codes)) for text in table], np.int32)[column.codes]

    def column(self, parts: list[Any]) -> StringColumn:
        if len(self._table) != len(self._codes):
            self._table = tuple(self._codes)
        return StringColumn(np.concatenate(parts), self._table)


class _Part(NamedTuple):
    """A worker's part of a step: what is needed of its rows, without the run they came from."""

    codes: tuple[Any, Any, Any, Any]
    times: Any
    thread: Any
    tensors: tuple[Any, Any]
    losses: tuple[Loss, ...]
    status: Status
    engine: str


class _Joiner:
    """Puts the parts of a step together; strings are shared between steps."""

    def __init__(self) -> None:
        self._strings = tuple(_Strings() for _ in range(4))

    def part(self, metadata: RunMetadata, task: str) -> _Part:
        """What to keep of a run; the rest may go."""
        ops = metadata.ops
        names, kinds, devices, labels = self._strings
        label = StringColumn.of(ops.label) if ops.labels is None else ops.labels
        times = np.stack([getattr(ops, field) for field in _TIMES])
        return _Part(
            (
                names.codes(ops.names),
                kinds.codes(ops.ops),
                devices.codes(ops.devices, _devices(ops.devices.table, task)),
                labels.codes(label),
            ),
            times,
            ops.thread.copy(),
            (ops.tensors.op_index.copy(), ops.tensors.bytes.copy()),
            metadata.completeness.losses,
            metadata.status,
            metadata.engine,
        )

    def joined(self, number: int, parts: list[_Part], absent: list[str]) -> NamedRun:
        """One step of all workers as one run."""
        sizes = [len(part.thread) for part in parts]
        firsts = np.repeat(np.cumsum([0, *sizes[:-1]]), [len(part.tensors[0]) for part in parts])
        times = np.concatenate([part.times for part in parts], axis=1)
        name, kind, device, label = (
            strings.column([part.codes[i] for part in parts])
            for i, strings in enumerate(self._strings)
        )
        owner = np.concatenate([part.tensors[0] for part in parts]) + firsts
        unknown = np.zeros(len(owner), np.int32)
        ops = OpColumns.build(
            name=name,
            op=kind,
            device=device,
            label=label,
            thread=_threads([part.thread for part in parts]),
            **dict(zip(_TIMES, times, strict=True)),
            step=number,
            tensors=TensorColumns.build(
                op_index=owner,
                slot=unknown,
                dtype=unknown,
                shape=[None] * len(owner),
                bytes=np.concatenate([part.tensors[1] for part in parts]),
            ),
        )
        failed = [part.status for part in parts if part.status.code != "OK"]
        losses = [loss for part in parts for loss in part.losses]
        losses += [Loss("worker", 1, f"{task} has no run for this step") for task in absent]
        whole = RunMetadata()
        whole.record(
            Recording(
                engine=parts[0].engine,
                step_id=number,
                status=failed[0] if failed else parts[0].status,
                completeness=Completeness(tuple(losses)),
                ops=lambda: ops,
            )
        )
        return NamedRun(f"step {number}", whole)


def _devices(table: tuple[str, ...], task: str) -> Iterator[str]:
    """Devices under the task's name where they have none of their own."""
    job, _, index = task.rpartition(":")
    for device in table:
        if not is_local(task_of(device)):
            yield device
        else:
            kind = device.partition("/device:")[2] or device or "CPU:0"
            yield f"/job:{job}/replica:0/task:{index}/device:{kind}"


def _threads(columns: list[Any]) -> Any:
    """Threads numbered through, as different workers give them the same numbers; 0 is unknown."""
    parts = []
    following = 1
    for column in columns:
        numbers, codes = np.unique(column, return_inverse=True)
        fresh = np.arange(following, following + len(numbers))
        following += len(numbers)
        parts.append(np.where(numbers == 0, 0, fresh)[codes])
    return np.concatenate(parts)
