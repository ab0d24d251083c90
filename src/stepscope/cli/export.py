"""`stepscope export`: saved runs into the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import runs, runs_argument
from stepscope.cli.script.saved_graphs import GRAPH_FILE, METADATA_FILE

if TYPE_CHECKING:
    from collections.abc import Callable


def _chrome(path: Path, out: Path) -> Path:
    from stepscope.export import chrome

    return chrome(runs(path), out)


def _csv(path: Path, out: Path) -> Path:
    from stepscope.export import csv

    return csv(runs(path), out)


def _csv_allocations(path: Path, out: Path) -> Path:
    from stepscope.export import csv

    return csv(runs(path), out, table="allocations")


def _parquet(path: Path, out: Path) -> Path:
    from stepscope.export import parquet

    return parquet(runs(path), out)


def _pb(path: Path, out: Path) -> Path:
    """Each run as `run_000001/run_metadata.pb` and so on, with its user's graph if it has one."""
    from stepscope.metadata.readers import stored_graph
    from stepscope.whole_files import write_whole

    for number, run in enumerate(runs(path), 1):
        place = out / f"run_{number:06d}"
        run.metadata.save(place / METADATA_FILE)
        graph = stored_graph(path, run.name)
        if graph is not None:
            write_whole(place / GRAPH_FILE, [graph])
    return out


def _pprof(path: Path, out: Path) -> Path:
    from stepscope.export import pprof

    return pprof(runs(path), out)


def _tensorboard(path: Path, out: Path) -> Path:
    from stepscope.export import TensorBoardWriter

    with TensorBoardWriter(out) as writer:
        for number, run in enumerate(runs(path)):
            metadata = run.metadata
            step = metadata.global_step or metadata.step_id or number
            writer.add_run(metadata, step, tag=run.name)
    return out


def _xplane(path: Path, out: Path) -> Path:
    from stepscope.export import xplane

    return xplane(runs(path), out)


FORMATS: dict[str, tuple[Callable[[Path, Path], Path], str]] = {
    "chrome": (_chrome, "{}.json.gz"),
    "csv": (_csv, "{}.csv"),
    "csv-allocations": (_csv_allocations, "{}-allocations.csv"),
    "parquet": (_parquet, "{}-parquet"),
    "pb": (_pb, "{}-pb"),
    "pprof": (_pprof, "{}.pb.gz"),
    "tensorboard": (_tensorboard, "{}-tensorboard"),
    "xplane": (_xplane, "{}-xplane"),
}
"""For each format what writes it, and what to call the result where nobody says."""
_XPLANE_PAGES = (
    "Trace Viewer and Framework Op Stats show these runs; HLO Op Profile, HLO Op Stats and\n"
    "Roofline stay empty: they are of XLA's ops on an accelerator. All pages with tables load\n"
    "Google Charts from the internet, and are blank without it."
)
"""What the Profile pages make of such an export; docs/tensorboard.md has more."""
_DIRECTORIES = frozenset({"parquet", "pb", "tensorboard", "xplane"})


@click.command(
    name="export",
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
    help="File to write, or directory (parquet, pb, tensorboard, xplane). Default: "
    "named after PATH, here.",
)
def command(path: Path, kind: str, out: Path | None) -> None:
    """Write the runs in PATH in the format of another tool.

    PATH is a .stepscope, a run_metadata.pb, an event file, a Chrome trace, an .xplane.pb, or a
    directory of them. pb writes each run as TensorFlow's RunMetadata, into run_000001/ and so on;
    xplane as a profile for TensorBoard's Profile pages, into plugins/profile/run_000001/ and so on.
    pprof sums all of them up by layer, line and op type, for `go tool pprof` and its like.
    """
    from stepscope.cli.output import terminal
    from stepscope.metadata.readable import plain

    write, default = FORMATS[kind]
    name = path.resolve().name.partition(".")[0] or "runs"
    target = out or Path(default.format(name))
    if kind in _DIRECTORIES and target.is_file():
        raise click.ClickException(f"cannot write: {target} is a file; name a directory with -o")
    try:
        written = write(path, target)
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write: {error}") from error
    terminal.echo(f"wrote {plain(str(written))}")
    if kind == "xplane":
        terminal.echo(_XPLANE_PAGES)
