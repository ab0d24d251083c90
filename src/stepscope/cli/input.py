"""`stepscope input`: what the stages of input pipelines did, which one limits, what would help."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import runs_argument
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis.input.input_pipeline import Pipeline
    from stepscope.cli.output.tables import Column, TableChoice


@click.command(
    name="input",
    epilog="Example: stepscope input stepscope-out/train",
)
@runs_argument
@table_options
def command(path: Path, choice: TableChoice) -> None:
    """What the input pipelines did of the program that was recorded in PATH: datasets and queues.

    A row per stage, in the order of the data. Times are per element that the pipeline put out:
    "own" is what the stage took itself, of all its parallel calls together; "waiting" is how long
    it stood still, for its input, for room (what comes after it is slower) or for its turn on a
    thread that others run on. "buffered" is how many elements lay in its buffer on average. Below
    is what a change would save: predicted, with the least and the most.
    """
    from stepscope.analysis import input_pipeline
    from stepscope.cli.output import run_report, tables, terminal, wording

    found = input_pipeline(path)
    columns = _columns()
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    if found.lacking:
        waited = ""
        if found.waited_ns:
            runs = wording.number(found.runs, "run")
            waited = f"{runs} waited {wording.time(found.waited_ns)} in all for elements; "
        run_report.say(waited + found.lacking)
    for number, pipeline in enumerate(found.pipelines):
        if number:
            terminal.console().print()
        _show(pipeline, columns, choice)


def _columns() -> list[Column]:
    from stepscope.cli.output import tables, wording

    return [
        tables.Column("stage", "stage", wording.plain, style="bold"),
        tables.Column("line", "made at", wording.place),
        tables.time_column("own_ns", "own"),
        tables.time_column("waiting_ns", "waiting"),
        tables.Column("waits_for", "for"),
        tables.count_column("calls", "calls"),
        tables.Column(
            "buffered", "buffered", lambda mean: "-" if mean < 0 else f"{mean:.1f}", right=True
        ),
        tables.count_column("buffer", "of", rank=1),
        tables.count_column("elements", "elements", rank=2),
        tables.Column("function", "function", wording.plain, rank=2),
        tables.Column("defined", "written at", wording.place, rank=3),
    ]


def _show(pipeline: Pipeline, columns: list[Column], choice: TableChoice) -> None:
    from stepscope.analysis.input import input_words
    from stepscope.cli.output import run_report, tables, terminal

    screen = terminal.console()
    for line in input_words.heading(pipeline):
        run_report.say(line)
    if pipeline.lacking:
        run_report.say(pipeline.lacking, style="yellow")
    screen.print()
    tables.show_table(pipeline.stages, columns, choice, what="stage")
    if not pipeline.changes:
        return
    screen.print("\nwhat would help, per element")
    rows = [
        SimpleNamespace(
            what=input_words.change(pipeline, change),
            saves_ns=change.saves_ns,
            low_ns=change.low_ns,
            high_ns=change.high_ns,
            condition=input_words.condition(change),
        )
        for change in pipeline.changes
    ]
    described = [
        tables.Column("what", "change", style="bold"),
        tables.time_column("saves_ns", "saves"),
        tables.time_column("low_ns", "least"),
        tables.time_column("high_ns", "most"),
        tables.Column("condition", "if"),
    ]
    screen.print(tables.grid(rows, described, screen.width), soft_wrap=True)
