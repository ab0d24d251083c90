"""Runs of several workers: which there are, and what they did together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepscope.analysis import Network, WorkerRuns, clocks, network, workers_at
from stepscope.analysis.cluster.task_times import TaskTimes
from stepscope.analysis.cluster.workers import Absence, Worker
from stepscope.analysis.runs import NamedRun
from stepscope.web.resources.asked import CannotAnswerError

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings

__all__ = ["Cluster", "cluster_of", "is_cluster", "longest_step", "workers_of"]


class Cluster(NamedTuple):
    """What moved between tasks and who waited, by one clock; how long steps took; what is missing.

    `longest` is the step that took longest, by that clock.
    """

    network: Network
    times: TaskTimes
    longest: NamedRun | None
    absent: list[Absence]
    workers: list[Worker]


def workers_of(recordings: Recordings) -> list[Worker]:
    """The workers whose runs are shown; one for each path where there is no cluster."""

    def find() -> list[Worker]:
        return workers_at(*recordings.source.paths) if recordings.source.paths else []

    return recordings.kept("workers", find)


def is_cluster(recordings: Recordings) -> bool:
    """Whether the runs are of several tasks."""
    named = {worker.task for worker in workers_of(recordings) if worker.task}
    return len(named | recordings.survey.tasks) > 1


def cluster_of(recordings: Recordings) -> Cluster:
    """What several tasks did together; an error where there are not several."""
    return recordings.kept("cluster", lambda: _found(recordings))


def _found(recordings: Recordings) -> Cluster:
    workers = workers_of(recordings)
    if not is_cluster(recordings):
        raise CannotAnswerError(
            "these runs are of one process",
            "give the directory that holds those of several workers",
        )
    runs = WorkerRuns(workers)
    times = TaskTimes()
    # Runs that are of all tasks each are the steps: their clocks were compared on the way.
    joined = len(workers) > 1 or any(worker.task for worker in workers)
    known = None if joined else recordings.survey.clocks
    by_one_clock = clocks(runs()) if known is None else known
    found = network(lambda: times.passing(runs()), "pair", clocks=by_one_clock)
    longest = times.longest
    if longest is not None:
        longest = NamedRun(longest.name, by_one_clock.correct(longest.metadata))
    return Cluster(found, times, longest, runs.missing(), workers)


def longest_step(recordings: Recordings) -> NamedRun:
    """The step of all workers that took longest, by one clock."""
    found = cluster_of(recordings).longest
    if found is None:
        raise CannotAnswerError("no step of several workers was found", "look at a run of one")
    return found
