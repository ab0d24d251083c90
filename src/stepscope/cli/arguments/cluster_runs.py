"""Runs of a cluster for commands: its steps, its clocks, and what is missing of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis import Clocks, TaskClock, WorkerRuns
    from stepscope.cli.arguments.saved_runs import SavedRun
    from stepscope.metadata import RunMetadata

_SHOWN = 10


def one_step(path: Path, number: int | None) -> tuple[SavedRun, Clocks, WorkerRuns] | None:
    """A step of all workers in PATH, by one clock: of this number, or else the longest.

    None where PATH does not hold several workers. Only the step looked for stays in memory.
    """
    from stepscope.analysis import WorkerRuns, workers_at
    from stepscope.analysis.cluster.clock import ClockRecorder
    from stepscope.analysis.cluster.messages import traffic
    from stepscope.cli.arguments.saved_runs import SavedRun, no_such_run, working

    workers = workers_at(path) if path.is_dir() else []
    if len(workers) < 2:
        return None
    runs = WorkerRuns(workers)
    clocks = ClockRecorder()
    kept: list[tuple[str, RunMetadata]] = []
    longest, count = -1, 0
    with working("reading runs"):
        for name, metadata in runs():
            clocks.add(traffic(metadata.ops))
            if number is not None and (count == number or number < 0):
                kept = [*kept, (name, metadata)][-max(-number, 1) :]
            elif number is None and (length := _longest_task(metadata)) > longest:
                longest, kept = length, [(name, metadata)]
            count += 1
    if number is not None and not -count <= number < count:
        raise no_such_run(path, number, count)
    name, metadata = kept[0]
    found = clocks.clocks()
    return SavedRun(name, found.correct(metadata), name), found, runs


def by_one_clock(path: Path, metadata: RunMetadata) -> RunMetadata:
    """A run in PATH with its times by one clock, found from all runs there if it is a cluster's."""
    from stepscope.analysis import WorkerRuns, clocks, workers_at
    from stepscope.analysis.cluster.tasks import task_column
    from stepscope.cli.arguments.saved_runs import working

    if len(task_column(metadata.ops).table) < 2:
        return metadata
    with working("comparing clocks"):
        return clocks(WorkerRuns(workers_at(path))()).correct(metadata)


def _longest_task(metadata: RunMetadata) -> int:
    """How long the task took that took longest: no clock is compared with another's."""
    from stepscope.analysis.cluster.tasks import task_column

    ops = metadata.ops
    tasks = task_column(ops)
    first = np.full(len(tasks.table), np.iinfo(np.int64).max)
    last = np.zeros(len(tasks.table), np.int64)
    np.minimum.at(first, tasks.codes, ops.start_ns)
    np.maximum.at(last, tasks.codes, ops.end_ns)
    return int((last - first).max(initial=0))


def say_clocks(found: Clocks) -> None:
    """The clocks that differ, the most different first."""
    from rich.text import Text

    from stepscope.cli.output import terminal, wording

    others, reference = found.rows[1:], wording.plain(found.reference)
    if not others:
        return
    screen = terminal.console()
    differing = [row for row in others if row.offset_ns or row.found == "unconstrained"]
    if not differing:
        screen.print(f"\nclocks: no task's differs from {reference}'s, as far as is known")
        return
    screen.print(f"\nclocks, corrected to that of {reference}")
    differing.sort(key=lambda row: (row.found != "unconstrained", -abs(row.offset_ns)))
    for row in differing[:_SHOWN]:
        screen.print(Text(wording.plain(f"  {row.task}: {_said(row)}")))
    if len(differing) > _SHOWN:
        rest = wording.number(len(differing) - _SHOWN, "task")
        screen.print(Text(f"  and {rest} more (--json has all)", style="dim"))


def _said(row: TaskClock) -> str:
    from stepscope.cli.output import wording

    if row.found == "unconstrained":
        return "not corrected: no message or collective relates it to the others"
    ahead = "ahead" if row.offset_ns >= 0 else "behind"
    said = f"{wording.time(abs(row.offset_ns))} {ahead}"
    if row.error_ns is None:
        return f"{said} at least: messages went one way only"
    said += f", give or take {wording.time(row.error_ns)}"
    if row.drift_error_ppm is not None and abs(row.drift_ppm) > row.drift_error_ppm:
        gains = "gains" if row.drift_ppm > 0 else "loses"
        said += f"; {gains} {wording.time(abs(row.drift_ppm) * 1000)} per second"
    if row.found == "contradictory":
        said += " (messages contradict one another: it was set, or does not run evenly)"
    return said


def say_missing(runs: WorkerRuns) -> None:
    """What is not there of the workers, on stderr."""
    from rich.text import Text

    from stepscope.cli.output import terminal, wording

    missing = runs.missing()
    if not missing:
        return
    screen = terminal.console(stderr=True)
    screen.print(Text("missing", style="yellow"))
    for task, what in missing[:_SHOWN]:
        screen.print(Text(wording.plain(f"  {task}: {what}")))
    if len(missing) > _SHOWN:
        screen.print(Text(f"  and {wording.number(len(missing) - _SHOWN, 'thing')} more"))
