"""`stepscope merge`: the runs of several files, steps and workers as one Chrome trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stepscope.cli.saved_runs import working


@click.command(
    name="merge", epilog="Example: stepscope merge chief=logs/chief worker=logs/worker -o all.json"
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

    Everything stands at its wall-clock time. Files are read one at a time, so any number of them
    fits into memory. WORKER= before a file or directory keeps its devices apart from those of
    the others, even if they have the same names.
    """
    from stepscope.export import merge

    workers = [_worker(file) for file in files]
    runs: Any = [path for _, path in workers]
    if any(worker for worker, _ in workers):
        runs = {}
        for worker, path in workers:
            runs.setdefault(worker, []).append(path)
    try:
        with working(f"writing {out}"):
            merge(runs, out, max_bytes=max_bytes, show_dataflow=dataflow, show_memory=memory)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{out} could not be written: {error}") from error
    click.echo(f"wrote {out}  (open it in ui.perfetto.dev or chrome://tracing)")


def _worker(file: str) -> tuple[str, Path]:
    """The worker before "=", and the path; a file that has "=" in its own name is just a file."""
    worker, equals, path = file.partition("=")
    if not equals or Path(file).exists() or not worker or "/" in worker:
        return "", Path(file)
    return worker, Path(path)
