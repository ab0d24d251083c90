"""`stepscope merge`: the runs of several files, steps and workers as one Chrome trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import working

if TYPE_CHECKING:
    from stepscope.analysis import Worker


@click.command(
    name="merge",
    epilog="Example: stepscope merge chief=logs/chief worker=logs/worker -o all.json",
)
@click.argument("files", nargs=-1, required=True, metavar="[WORKER=]FILE...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("merged.json"),
    show_default=True,
    help="Where to write it; compressed where the name ends in .gz.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Fold short ops until the trace is smaller than this; totals per op stay right.",
)
@click.option("--dataflow/--no-dataflow", default=True, help="Arrows between ops.")
@click.option("--memory/--no-memory", default=True, help="Live bytes over time.")
def command(
    files: tuple[str, ...], out: Path, max_bytes: int | None, dataflow: bool, memory: bool
) -> None:
    """Write the runs of several files or directories as one Chrome trace.

    Directories that workers of a cluster recorded into are joined by step and task: everything
    stands at its wall-clock time by the first task's clock, and what is missing is said. Files are
    read one at a time, so any number of them fits into memory. WORKER= before a file or directory
    keeps its devices apart from those of the others, even if they have the same names.
    """
    from stepscope.analysis import WorkerRuns, clocks
    from stepscope.cli.arguments.cluster_runs import say_clocks, say_missing
    from stepscope.cli.output import terminal
    from stepscope.export import merge
    from stepscope.metadata.readable import plain

    runs = WorkerRuns(_workers(files))
    try:
        with working("comparing clocks"):
            found = clocks(runs())
        # One clock, and one that nothing relates to another, need no correction.
        with working(f"writing {out}"):
            merge(
                runs,
                out,
                max_bytes=max_bytes,
                show_dataflow=dataflow,
                show_memory=memory,
                clocks=found if len(found.rows) > 1 else None,
            )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{out} could not be written: {error}") from error
    terminal.echo(f"wrote {plain(str(out))}  (open it in ui.perfetto.dev or chrome://tracing)")
    say_clocks(found)
    say_missing(runs)


def _workers(files: tuple[str, ...]) -> list[Worker]:
    """The workers in directories; those with a name of the user's as it says."""
    from stepscope.analysis import Worker, workers_at

    found: list[Worker] = []
    for file in files:
        name, path = _worker(file)
        found += [Worker(name, path, name, name)] if name else workers_at(path)
    return found


def _worker(file: str) -> tuple[str, Path]:
    """The worker before "=", and the path; a file that has "=" in its own name is just a file."""
    worker, equals, path = file.partition("=")
    if not equals or Path(file).exists() or not worker or "/" in worker:
        return "", Path(file)
    if not path:
        raise click.BadParameter(f"{file!r} names a worker and no file: write {worker}=PATH")
    return worker, Path(path)
