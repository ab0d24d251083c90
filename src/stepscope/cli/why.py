"""`stepscope why`: the chain of causes of an op, a run or the memory at an instant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import click

from stepscope.cli.arguments.saved_runs import one_run, readable_runs, runs_argument, say_choice
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from stepscope.analysis import ByteCauses, Cover, Link, OpCauses, RunCauses
    from stepscope.cli.arguments.saved_runs import SavedRun
    from stepscope.cli.output.tables import Column, TableChoice
    from stepscope.metadata import RunMetadata

_AT_RUN = re.compile(r"(?P<what>.+)@(?P<run>-?\d+)\Z", re.DOTALL)
_RUN = re.compile(r"(?:run\s*|#)?(?P<run>-?\d+)\Z", re.IGNORECASE)
_INSTANT = re.compile(r"peak\Z|\d+(\.\d+)?\s*[a-zµ]*\Z", re.IGNORECASE)
_COVERS = {
    "wait": "while it waited, its thread ran",
    "inside": "inside it ran",
    "beside": "beside it, on another thread, ran",
}


@click.command(
    name="why",
    epilog="Example: stepscope why dense/MatMul@12 stepscope-out/train",
)
@click.argument("what", nargs=-1, required=True, metavar="OP|RUN|BYTE")
@runs_argument
@click.option(
    "--run",
    "number",
    type=int,
    metavar="N",
    help="In which of several runs, counted from 0; -1 is the last.  "
    "[default: a typical one; of memory the one with the highest peak]",
)
@click.option("--device", metavar="NAME", help="Memory of this device only, such as CPU:0.")
@table_options
def command(
    what: tuple[str, ...], path: Path, number: int | None, device: str | None, choice: TableChoice
) -> None:
    """Why an op, a run or the memory in PATH is as it is: its causes, backwards.

    OP is a node's name or a part of one (NAME@12: in run 12): why it began when it did and took so
    long. Each row is an op that ran, and says what it has to do with the one above: it made what
    that takes, or kept its thread busy; until the run's beginning, or what came from outside.

    RUN is a number (42, "run 42", #42): what was different from the median run of its kind, and
    the chain of the op that differed most.

    BYTE is an instant (peak, or 120ms after the run's beginning): who held memory then, since when
    and until whom.
    """
    asked = _asked(" ".join(what), number)
    if device is not None and asked.kind != "byte":
        raise click.UsageError("--device is of memory: peak, or an instant such as 120ms")
    if asked.kind == "run":
        _show_run(path, asked, choice)
    elif asked.kind == "byte":
        _show_bytes(path, asked, device, choice)
    else:
        _show_op(path, asked, choice)


class _Asked(NamedTuple):
    kind: str
    what: str
    run: int | None


def _asked(text: str, number: int | None) -> _Asked:
    if match := _RUN.match(text):
        if number is not None:
            raise click.UsageError(f"{text} is a run, and so is --run {number}: leave out one")
        return _Asked("run", text, int(match["run"]))
    if match := _AT_RUN.match(text):
        if number is not None:
            raise click.UsageError(f"{text} names a run, and so does --run {number}: leave out one")
        text, number = match["what"], int(match["run"])
    return _Asked("byte" if _INSTANT.match(text) else "op", text, number)


# -- an op -------------------------------------------------------------------------------------


def _show_op(path: Path, asked: _Asked, choice: TableChoice) -> None:
    from stepscope.analysis import why_op
    from stepscope.cli.arguments.cluster_runs import by_one_clock, one_step, say_clocks, say_missing
    from stepscope.cli.output import tables, wording

    step = one_step(path, asked.run)
    if step is None:
        run = _run_with(path, asked)
        metadata = by_one_clock(path, run.metadata)
        others: Iterator[RunMetadata] = (
            other.metadata for place, other in readable_runs(path) if place != run.number
        )
    else:
        run, metadata = step[0], step[0].metadata
        others = (other for name, other in step[2]() if name != run.name)
    found = why_op(metadata, asked.what, number=run.number, others=others)
    columns = _link_columns()
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    say_choice(run)
    _say_op(found, wording.plain(run.name))
    _show_chain(found.rows, found.origin, found.covered, columns, choice)
    if step is not None:
        say_clocks(step[1])
        say_missing(step[2])


def _run_with(path: Path, asked: _Asked) -> SavedRun:
    """The run asked for; else a typical one, or the first that has such an op."""
    from stepscope.analysis.why import nodes_like

    run = one_run(path, asked.run)
    if asked.run is not None or not run.why or nodes_like(run.metadata, asked.what):
        return run
    for place, other in readable_runs(path):
        if nodes_like(other.metadata, asked.what):
            found = one_run(path, place)
            return found._replace(why="the first run that has such an op; --run takes another")
    return run


def _say_op(found: OpCauses, where: str) -> None:
    from stepscope.cli.output import run_report, wording

    asked = found.rows[0]
    often = ""
    if found.executions > 1:
        often = f", the longest of its {found.executions:,} executions"
    waited = f" ({wording.time(found.waited_ns)} after it was ready)"
    run_report.say(
        f"{wording.plain(found.op)} in {where}: began {wording.time(asked.from_ns)} after the run"
        f"{waited if found.waited_ns else ''}, took {wording.time(found.ns)}{often}"
    )


def _link_columns() -> list[Column]:
    from stepscope.cli.output import tables, wording

    return [
        tables.Column("op", "op", wording.plain, style="bold"),
        tables.Column("type", "type", rank=1),
        tables.Column("run", "run", str, right=True, rank=3),
        tables.time_column("from_ns", "from"),
        tables.time_column("to_ns", "to"),
        tables.time_column("ns", "took"),
        tables.Column("reason", "because it", wording.plain),
        tables.Column("line", "made at", wording.place),
        tables.Column("device", "device", wording.device, rank=3),
    ]


def _show_chain(
    rows: Sequence[Link],
    origin: str,
    covered: Sequence[Cover],
    columns: list[Column],
    choice: TableChoice,
) -> None:
    from stepscope.cli.output import run_report, tables, terminal, wording

    for cover in covered:
        line = f" ({wording.place(cover.line)})" if cover.line else ""
        said = f"{_COVERS[cover.kind]} {wording.plain(cover.op)} for {wording.time(cover.ns)}{line}"
        run_report.say(said, indent="  ")
    screen = terminal.console()
    screen.print()
    tables.show_table(rows, columns, choice, what="link")
    screen.print()
    run_report.say(origin)


# -- a run -------------------------------------------------------------------------------------


def _show_run(path: Path, asked: _Asked, choice: TableChoice) -> None:
    from stepscope.analysis import why_run
    from stepscope.cli.output import tables

    number = asked.run or 0
    if number < 0:
        number = one_run(path, number).number
    found = why_run(readable_runs(path), number)
    columns = _link_columns()
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    _say_run(found)
    _show_chain(found.rows, found.origin, (), columns, choice)


def _say_run(found: RunCauses) -> None:
    from stepscope.analysis.program.steps import cause_in_words
    from stepscope.cli.output import run_report, wording

    took = f"run {found.run} ({wording.plain(found.what)}) took {wording.time(found.ns)}"
    if not found.compared:
        run_report.say(f"{took}; there is no other run of its kind to compare it with")
        return
    over = found.ns - found.median_ns
    runs = wording.number(found.compared, "other run")
    first = "; it is the first of its kind, which builds" if found.first else ""
    more = "more" if over >= 0 else "less"
    run_report.say(
        f"{took}, {wording.time(abs(over))} {more} than the median of {runs}, "
        f"{wording.time(found.median_ns)}{first}"
    )
    for cause in found.causes:
        run_report.say(cause_in_words(cause), indent="  ")
    if not found.causes:
        said = "nothing in it stands out" if over > 0 else "it was not slower"
        run_report.say(f"{said}: below is what its end waited for", indent="  ")


# -- a byte ------------------------------------------------------------------------------------


def _show_bytes(path: Path, asked: _Asked, device: str | None, choice: TableChoice) -> None:
    from stepscope.analysis import why_bytes
    from stepscope.analysis.memory.flame import highest_peak, instant_ns
    from stepscope.analysis.runs import named_runs
    from stepscope.cli.arguments.saved_runs import all_runs
    from stepscope.cli.output import tables
    from stepscope.cli.output.held_memory import device_named

    instant_ns(asked.what)
    saved = all_runs(path, asked.run)
    pairs = [run[:2] for run in saved]
    if device is not None:
        known = {name for run in saved for name in run.metadata.device_peaks()}
        device = device_named(device, sorted(known))
    highest, device, _ = highest_peak(named_runs(pairs), device)
    run = next(run for run in saved if run.metadata is highest.metadata)
    found = why_bytes(run.metadata, asked.what, device=device, number=run.number)
    columns = _holder_columns()
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    _say_bytes(found, run)
    tables.show_table(found.rows, columns, choice, what="tensor")


def _say_bytes(found: ByteCauses, run: SavedRun) -> None:
    from stepscope.cli.output import run_report, terminal, wording

    about = "about " if found.estimated else ""
    held = wording.size(found.bytes) if found.bytes else "nothing"
    run_report.say(
        f"{wording.device(found.device)} held {about}{held} after {wording.time(found.at_ns)} in "
        f"{wording.plain(run.name)}; its peak is {wording.size(found.peak_bytes)}"
    )
    terminal.console().print()


def _holder_columns() -> list[Column]:
    from stepscope.cli.output import tables, wording

    return [
        tables.Column("op", "made by", wording.plain, style="bold"),
        tables.Column("type", "type", rank=2),
        tables.Column("kind", "kind", rank=1),
        tables.Column("run", "run", str, right=True, rank=3),
        tables.size_column("bytes", "bytes"),
        tables.share_column("share", "share", rank=1),
        tables.time_column("from_ns", "from"),
        tables.Column(
            "to_ns", "until", lambda ns: "-" if ns < 0 else wording.time(ns), right=True, least=7
        ),
        tables.Column("reason", "because it", wording.plain),
        tables.Column("line", "made at", wording.place),
        tables.Column("shape", "shape", rank=2),
        tables.Column("dtype", "dtype", rank=3),
        tables.Column("until", "last taken by", wording.plain, rank=4),
    ]
