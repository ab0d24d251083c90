"""The runs of many workers, each recorded on its own, as steps of one cluster.

A worker is a directory of runs. Which task it was says, in this order: `worker.json` beside its
runs, the devices in its rows, the directory's name. A directory below which there are
`worker.json` files is as many workers.

How runs are joined: a run that holds one task's rows and talks to other tasks (sends, receives,
collectives) is a part of a step; the n-th such run of every worker make up the n-th step. Runs of
servers (`SERVED`) are parts of calls that all tasks know by the same `step_id`, and are joined by
that. A run that holds the rows of several tasks is a step of its own already, and one that talks to
nobody stands alone.

Workers are read side by side, a few runs at a time: in memory are some hundred bytes for each op of
one step, the names of ops and of files, and those runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.analysis.cluster.messages import communicates
from stepscope.analysis.cluster.run_times import RunTimes
from stepscope.analysis.cluster.step_joiner import Calls, Joiner, StepPart
from stepscope.analysis.cluster.tasks import as_task, is_local, natural_order, task_column
from stepscope.analysis.runs import NamedRun
from stepscope.errors import UnreadableFileError
from stepscope.metadata import (
    Completeness,
    LoadedRun,
    Loss,
    Recording,
    RunMetadata,
    iter_runs,
)
from stepscope.metadata.wire.together import TOGETHER, decode_together

__all__ = ["RUN_FILE", "SERVED", "WORKER_FILE", "Absence", "Worker", "WorkerRuns", "workers_at"]

WORKER_FILE = "worker.json"
RUN_FILE = "run_metadata.pb"
SERVED = "tensorflow server"
"""The engine of runs that others had a task execute: all that took part know their `step_id`."""
_WAITING_ROWS = 500_000
_AT_ONCE_NS = 1_000_000_000
_OF_ROWS = ("run", "op executions", "bytes of the file")
"""The losses that say why a run has no rows."""


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
        return map(self.read, names) if names else iter_runs(self.path)

    def run_names(self) -> list[str]:
        """The directories that hold a run each, in order; none where it is laid out otherwise."""
        places = self.path.glob(f"*/{RUN_FILE}") if self.path.is_dir() else ()
        return sorted((place.parent.name for place in places), key=natural_order)

    def read(self, name: str) -> LoadedRun:
        """The run in the directory of that name, of those in `run_names`."""
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
        self._served: dict[str, bool] = {}
        self._times: dict[str, RunTimes] = {}
        self._seen: set[str] = set()
        self._steps = 0

    def __call__(self) -> Iterator[NamedRun]:
        """Every step, and every run that is part of none."""
        joiner = Joiner()
        several = len(self.workers) > 1
        sources = [_Source(worker, joiner, several=several) for worker in self.workers]
        calls = Calls()
        self._steps = 0
        found = True
        while found:
            found = False
            parts = []
            for some in _due_together(sources):
                for source in some:
                    yield from source.until_part()
                    if source.part is None:
                        continue
                    found = True
                    if source.call is None:
                        parts.append(source.part)
                    else:
                        calls.add(source.call, source.part)
                    source.part = None
            if parts:
                absent = [s.task for s in sources if not s.found and not s.served]
                yield joiner.joined(parts, absent)
                self._steps += 1
            for whole in calls.taken(_WAITING_ROWS if found else 0):
                yield joiner.joined(whole, [])
        for source in sources:
            key = str(source.worker.path)
            self._counts[key] = source.parts
            self._tasks[key] = source.task
            self._troubles[key] = source.troubles
            self._local[key] = source.local or not source.seen
            self._served[key] = source.served
            self._times[key] = source.times
            self._seen |= source.seen

    def named(self) -> list[tuple[str, Worker]]:
        """The workers, each with what keeps its devices apart from those of others.

        That is "" where they tell their task themselves, and where nothing relates it to others.
        """
        self._go_over()
        found = []
        for worker in self.workers:
            key = str(worker.path)
            part = worker.task or self._counts.get(key, 0)
            task = self._tasks.get(key, worker.name) if part and self._local.get(key) else ""
            found.append((worker.prefix or task, worker))
        return found

    def times(self, worker: Worker) -> RunTimes:
        """When the runs of a worker were."""
        self._go_over()
        return self._times[str(worker.path)]

    def _go_over(self) -> None:
        """Go over all runs, unless somebody has."""
        if not self._times:
            for _ in self():
                pass

    def missing(self) -> list[Absence]:
        """What is not there, of the workers given and of the cluster they were in."""
        absent = []
        tasks = set(self._tasks.values()) | self._seen
        for worker in self.workers:
            key = str(worker.path)
            task = self._tasks.get(key) or as_task(worker.task or worker.name)
            said = list(self._troubles.get(key, ()))
            count = self._counts.get(key, 0)
            if count < self._steps and not self._served.get(key):
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

    def __init__(self, worker: Worker, joiner: Joiner, *, several: bool) -> None:
        self.worker = worker
        self._several = several
        self._joiner = joiner
        self.task = as_task(worker.task)
        self.part: StepPart | None = None
        self.parts = 0
        self.call: int | None = None
        """The call that the part is of, where all tasks know it by a number."""
        self.served = False
        self.last_ns = 0
        """When the last part began that was one of a call."""
        self.found = False
        self.local = False
        self.seen: set[str] = set()
        """Tasks that are in the rows of its runs."""
        self.troubles: list[str] = []
        self.times = RunTimes()
        self._ahead: LoadedRun | None = None
        self._runs: Iterator[LoadedRun] | None = worker.runs()

    def look_ahead(self) -> LoadedRun | None:
        """The next run, which is read and still to come."""
        if self._ahead is None and self._runs is not None:
            self._ahead = next(self._runs, None)
        return self._ahead

    @property
    def over(self) -> bool:
        """Whether there are no more runs."""
        return self._runs is None

    def _take(self) -> LoadedRun | None:
        run = self.look_ahead()
        self._ahead = None
        return run

    def until_part(self) -> Iterator[NamedRun]:
        """The runs before the next that is part of a step, which is then `part`."""
        self.found = False
        if self._runs is None:
            return
        while (run := self._take()) is not None:
            ops = run.metadata.ops
            self.times.add(run.name, ops)
            tasks = task_column(ops).table
            own = [task for task in tasks if not is_local(task)]
            if not self.task:
                self.task = own[0] if len(own) == 1 else as_task(self.worker.name)
            self.local |= any(is_local(task) for task in tasks)
            self.seen.update(own)
            whole = len(own) > 1 and not self._several
            name = run.name if whole and run.name else f"{self.task} {run.name}".rstrip()
            if not len(ops):
                losses = run.metadata.completeness.losses
                told = [loss for loss in losses if loss.what in _OF_ROWS]
                self.troubles += [f"{run.name}: {loss.reason}" for loss in told[:1]]
            if len(own) > 1 or not communicates(ops):
                yield NamedRun(name, run.metadata)
                continue
            self.part = self._joiner.part(run.metadata, self.task)
            self.found = True
            self.call = None
            if run.metadata.engine == SERVED:
                self.call, self.served = run.metadata.step_id, True
                self.last_ns = int(ops.start_ns.min())
            else:
                self.parts += 1
            return
        self._runs = None


def _due_together(sources: list[_Source]) -> Iterator[list[_Source]]:
    """The workers whose next part is wanted, a few at a time, with their next runs decoded.

    Of one that took part in more calls than another more parts are read in the same time.
    """
    front = min((s.last_ns for s in sources if s.served and not s.over), default=0)
    due = [s for s in sources if not s.served or s.last_ns <= front + _AT_ONCE_NS]
    for first in range(0, len(due), TOGETHER):
        some = due[first : first + TOGETHER]
        ahead = [source.look_ahead() for source in some]
        decode_together(run.metadata for run in ahead if run is not None)
        del ahead
        yield some
