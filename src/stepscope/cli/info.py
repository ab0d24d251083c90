"""`stepscope info`: what a file or directory holds, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import numpy as np

from stepscope.cli.arguments.saved_runs import all_runs, every_run_option, runs_argument
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from stepscope.analysis import Verdict
    from stepscope.cli.arguments.saved_runs import SavedRun
    from stepscope.cli.output.tables import TableChoice
    from stepscope.metadata import RunMetadata
    from stepscope.metadata.readers.kept_file import KeptRun

_DEVICES_SHOWN = 50


@click.command(
    name="info",
    epilog="Example: stepscope info stepscope-out/train --run -1",
)
@runs_argument
@every_run_option
@table_options
def command(path: Path, number: int | None, choice: TableChoice) -> None:
    """Show what PATH holds: what limits its runs, and a table of them, or all about a single one.

    What comes first is the verdict: how long each kind of step takes, the largest cause of that and
    its line, and commands to look further. Then of each run its engine, how it ended, ops, devices,
    threads, and what was not measured. Of a recording with a budget there is before it what was
    seen of all steps, and why those were slow or failed that were kept for that; runs are listed by
    why they were kept. Read are .stepscope, run_metadata.pb, event files, Chrome traces,
    .xplane.pb, and directories of them.
    """
    from stepscope.analysis.advice import AdviceSums, program_at
    from stepscope.analysis.cluster.clock import OneClock
    from stepscope.analysis.program.run_kinds import RunKinds
    from stepscope.analysis.program.verdict import notes_for_verdict
    from stepscope.analysis.run_length import run_length
    from stepscope.analysis.runs import NamedRun
    from stepscope.analysis.sampling.explained_runs import explained_runs
    from stepscope.cli.output import kept_steps, program_verdict, tables, terminal, wording
    from stepscope.metadata.readers.kept_file import recordings_at

    if number is None and kept_steps.info(path, choice):
        return
    recorded = recordings_at(path) if number is None else []
    runs = all_runs(path, number, unread=True)
    columns = [
        tables.Column("run", "run", style="bold"),
        tables.Column("number", "#", right=True),
        tables.Column("tag", "tag", rank=4),
        tables.Column("engine", "engine", lambda engine: engine or "not said", rank=2),
        tables.Column("status", "status"),
        tables.count_column("ops", "ops"),
        tables.time_column("ns", "length"),
        tables.count_column("devices", "devices", rank=3),
        tables.size_column("peak_bytes", "peak", rank=1),
        tables.count_column("losses", "losses", rank=1),
    ]
    sums = AdviceSums()
    clock, kinds = OneClock(lambda: [run.metadata for run in runs]), RunKinds()
    shown = []
    for run in runs:
        timed = NamedRun(run.found or run.name, clock.of(run.metadata))
        sums.add(timed)
        shown.append(_row(run, run_length(timed, kinds.of(timed))))
    rows = tuple(shown)
    found = sums.limits.verdict(notes_for_verdict(path))
    kept = tuple(run for _, recording in recorded for run in recording.kept)
    if tables.write_for_programs(_info(rows, found, kept), rows, columns, choice):
        return
    for store, recording in recorded:
        if not recording.summaries:
            continue  # its process was killed before it wrote what it had seen of all steps
        explained = explained_runs(store, recording)
        terminal.console().print(kept_steps.shown(recording, explained))
    if recorded and (told := kept_steps.slowed(kept, [row.ns for row in rows])) is not None:
        terminal.console().print(told)
    if len(runs) == 1:
        terminal.console().print(_summary(path, runs[0], rows[0].ns))
    else:
        screen = terminal.console()
        advice = sums.advice(program_at(path))
        for part in program_verdict.parts(found, advice, path, path, screen.width):
            screen.print(part, soft_wrap=True)
            screen.print()
        screen.print(
            f"{wording.number(len(runs), 'run')} in {wording.plain(str(path))}; --run takes the #\n"
        )
        tables.show_table(rows, columns, choice, what="run")


@dataclass(frozen=True, slots=True)
class InfoRow:
    """One run. `number` is what `--run` calls it, `threads` counts those that are known, `losses`
    is how many things its completeness says are missing.
    """

    run: str
    number: int
    tag: str
    global_step: int
    engine: str
    status: str
    ops: int
    ns: int
    devices: int
    threads: int
    peak_bytes: int
    overhead_ns: int
    losses: int


def _info(rows: tuple[InfoRow, ...], found: Verdict, kept: tuple[KeptRun, ...]) -> object:
    from stepscope.analysis import Result

    @dataclass(frozen=True)
    class Info(Result):
        rows: tuple[InfoRow, ...]
        verdict: Verdict
        kept: tuple[KeptRun, ...]

    return Info(rows, found, kept)


def _row(run: SavedRun, ns: int) -> InfoRow:
    metadata = run.metadata
    ops = metadata.ops
    return InfoRow(
        run=run.found or run.name,
        number=run.number,
        tag=metadata.tag,
        global_step=metadata.global_step,
        engine=metadata.engine,
        status=metadata.status.in_words,
        ops=len(ops),
        ns=ns,
        devices=len(np.unique(ops.devices.codes)),
        threads=_threads(metadata),
        peak_bytes=_peak(metadata),
        overhead_ns=metadata.overhead.ns,
        losses=len(metadata.completeness.losses),
    )


def _threads(metadata: RunMetadata) -> int:
    """How many threads are known; an op whose thread was not recorded has number 0."""
    return int(np.count_nonzero(np.unique(metadata.ops.thread)))


def _peak(metadata: RunMetadata) -> int:
    return max(metadata.device_peaks().values(), default=0)


def _summary(path: Path, run: SavedRun, ns: int) -> RenderableType:
    from rich.table import Table

    from stepscope.cli.output import wording
    from stepscope.metadata import readable

    metadata = run.metadata
    ops = metadata.ops
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")

    def say(title: str, text: str) -> None:
        grid.add_row(title, wording.plain(text))

    say("file", str(path))
    if run.found:
        say("run", run.found)
    if metadata.tag:
        say("tag", f"{metadata.tag}, step {metadata.global_step}")
    say("engine", metadata.engine or "not said in the file")
    if metadata.recorder:
        say("recorded by", metadata.recorder)
    say("status", metadata.status.in_words)
    report = metadata.out_of_memory
    if report is not None:
        asked, where = wording.size(report.request.bytes), wording.device(report.request.device)
        say("", f"{report.request.op} asked for {asked} on {where}; stepscope oom says who has it")
    else:
        for line in readable.first_lines(metadata.status.message):
            say("", line)
    for op in metadata.status.outcomes:
        say("in flight", f"{op.name} ({op.outcome.replace('_', ' ')})")
    say("length", wording.time(ns))
    spent = int((ops.end_ns - ops.start_ns).sum())
    kinds = len(np.unique(ops.ops.codes))
    say(
        "ops",
        f"{wording.number(len(ops), 'execution')} of {wording.number(kinds, 'op type')} "
        f"in {wording.time(spent)}",
    )
    about = "about " if metadata.completeness.memory_is_estimated else ""
    # A kernel's own memory is on a device of its own.
    peaks = metadata.device_peaks()
    for device, peak in list(peaks.items())[:_DEVICES_SHOWN]:
        held = f"  (peak {about}{wording.size(peak)})" if peak else ""
        say("device", f"{wording.device(device)}{held}")
    if len(peaks) > _DEVICES_SHOWN:
        rest = wording.number(len(peaks) - _DEVICES_SHOWN, "more device")
        say("device", f"and {rest} (stepscope top --by device has them)")
    say("threads", f"{_threads(metadata):,}" if _threads(metadata) else "not recorded")
    if metadata.overhead.ns:
        cost = metadata.overhead
        say("overhead", readable.cost(cost.ns, cost.fraction))
    if metadata.completeness.complete:
        say("not measured", "nothing is missing that the engine knows of")
    for loss in metadata.completeness.losses:
        amount = f"{loss.count:,} " if loss.count else ""
        say("not measured", f"{amount}{loss.what}: {loss.reason}")
    return grid
