"""How long each task of a cluster was busy, and how long it took in each step.

Noted while runs are read for something else; no clock is compared with another's.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analysis.cluster.tasks import is_local, task_column
from stepscope.analysis.intervals import merged_by_key
from stepscope.analysis.runs import NamedRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["SlowestTask", "StepTimes", "TaskTimes"]

_OVER = 1.2
"""A task is slow whose usual step is so many times as long as that of most others."""


class SlowestTask(NamedTuple):
    """The task whose steps take longest: its median, and the median over all tasks of theirs."""

    task: str
    ns: int
    usual_ns: int


class StepTimes(NamedTuple):
    """One step: how long it took, as far as its longest task did, and each task by itself."""

    name: str
    ns: int
    tasks: dict[str, int]


class TaskTimes:
    """Per task how many ops it executed and how long it was busy; per step how long tasks took."""

    def __init__(self) -> None:
        self.ops: dict[str, int] = {}
        self.busy_ns: dict[str, int] = {}
        self.steps: list[StepTimes] = []
        self.longest: NamedRun | None = None
        """The step that took longest, which is the only one that is kept."""

    def passing(self, runs: Iterable[NamedRun]) -> Iterator[NamedRun]:
        """The runs, each noted on its way."""
        for run in runs:
            self._add(run)
            yield run

    def slowest(self) -> SlowestTask | None:
        """The task that is slower than the others are; None where none is, or where there are two.

        Of two, one is always the slower.
        """
        lengths: dict[str, list[int]] = defaultdict(list)
        for step in self.steps:
            for task, ns in step.tasks.items():
                lengths[task].append(ns)
        medians = {task: float(np.median(known)) for task, known in lengths.items()}
        if len(medians) < 3:
            return None
        usual = float(np.median(list(medians.values())))
        task = max(medians, key=lambda one: medians[one])
        if medians[task] <= _OVER * usual:
            return None
        return SlowestTask(task, round(medians[task]), round(usual))

    def _add(self, run: NamedRun) -> None:
        ops = run.metadata.ops
        tasks = task_column(ops)
        names = [task for task in tasks.table if not is_local(task)]
        if not names or not len(ops):
            return
        count = len(tasks.table)
        keys, firsts, lasts = merged_by_key(tasks.codes, ops.start_ns, ops.end_ns)
        busy = np.zeros(count, np.int64)
        np.add.at(busy, keys, lasts - firsts)
        ran = np.bincount(tasks.codes, minlength=count)
        took = _lengths(keys, firsts, lasts, count)
        for code, task in enumerate(tasks.table):
            if not is_local(task):
                self.ops[task] = self.ops.get(task, 0) + int(ran[code])
                self.busy_ns[task] = self.busy_ns.get(task, 0) + int(busy[code])
        if len(names) < 2:
            return  # no step of several: what a task did by itself
        each = {task: int(took[code]) for code, task in enumerate(tasks.table) if task in names}
        step = StepTimes(run.name, max(each.values()), each)
        if self.longest is None or step.ns > max(known.ns for known in self.steps):
            self.longest = run
        self.steps.append(step)


def _lengths(
    keys: NDArray[np.int32], firsts: NDArray[np.int64], lasts: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    begin = np.full(count, np.iinfo(np.int64).max)
    end = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(begin, keys, firsts)
    np.maximum.at(end, keys, lasts)
    there = begin <= end
    return np.where(there, np.where(there, end, 0) - np.where(there, begin, 0), 0)
