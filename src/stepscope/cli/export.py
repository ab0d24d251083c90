"""`stepscope export`: saved runs into the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli.saved_runs import runs, runs_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.metadata import LoadedRun


def _chrome(runs: Iterator[LoadedRun], out: Path) -> Path:
    from stepscope.export import chrome

    return chrome(runs, out)


def _csv(runs: Iterator[LoadedRun], out: Path) -> Path:
    from stepscope.export import csv

    return csv(runs, out)


def _csv_allocations(runs: Iterator[LoadedRun], out: Path) -> Path:
    from stepscope.export import csv

    return csv(runs, out, table="allocations")


def _parquet(runs: Iterator[LoadedRun], out: Path) -> Path:
    from stepscope.export import parquet

    return parquet(runs, out)


def _tensorboard(runs: Iterator[LoadedRun], out: Path) -> Path:
    from stepscope.export import TensorBoardWriter

    with TensorBoardWriter(out) as writer:
        for number, run in enumerate(runs):
            metadata = run.metadata
            step = metadata.global_step or metadata.step_id or number
            writer.add_run(metadata, step, tag=run.name)
    return out


FORMATS: dict[str, tuple[Callable[[Iterator[LoadedRun], Path], Path], str]] = {
    "chrome": (_chrome, "{}.json.gz"),
    "csv": (_csv, "{}.csv"),
    "csv-allocations": (_csv_allocations, "{}-allocations.csv"),
    "parquet": (_parquet, "{}-parquet"),
    "tensorboard": (_tensorboard, "{}-tensorboard"),
}
"""For each format what writes it, and what to call the result where nobody says."""
_DIRECTORIES = frozenset({"parquet", "tensorboard"})


@click.command(
    name="export",
    short_help="Runs as CSV, Parquet, TensorBoard or Chrome files.",
    epilog="Example: stepscope export stepscope-out/train --to parquet -o tables",
)
@runs_argument
@click.option(
    "--to", "kind", type=click.Choice(sorted(FORMATS)), required=True, help="What to write."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="File to write, or directory (parquet, tensorboard). Default: named after PATH, here.",
)
def command(path: Path, kind: str, out: Path | None) -> None:
    """Write the runs in PATH in the format of another tool.

    PATH is a run_metadata.pb, an event file, a Chrome trace, an .xplane.pb, or a directory of them.
    """
    from stepscope.cli import terminal
    from stepscope.metadata.readable import plain

    write, default = FORMATS[kind]
    name = path.resolve().name.partition(".")[0] or "runs"
    target = out or Path(default.format(name))
    if kind in _DIRECTORIES and target.is_file():
        raise click.ClickException(f"cannot write: {target} is a file; name a directory with -o")
    try:
        written = write(runs(path), target)
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write: {error}") from error
    terminal.echo(f"wrote {plain(str(written))}")
