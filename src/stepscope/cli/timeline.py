"""`stepscope timeline`: saved runs as a Chrome trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stepscope.cli.arguments.saved_runs import all_runs, runs_argument, working


@click.command(
    name="timeline",
    epilog="Example: stepscope timeline stepscope-out/train -o train.json.gz",
)
@runs_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("timeline.json"),
    show_default=True,
    help="Where to write it; compressed where the name ends in .gz.",
)
@click.option(
    "--tf1",
    is_flag=True,
    help="Draw it as TensorFlow's timeline.Timeline does: the same events, lanes and numbers.",
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
    path: Path, out: Path, tf1: bool, max_bytes: int | None, dataflow: bool, memory: bool
) -> None:
    """Write the runs in PATH as a Chrome trace.

    Takes whatever `stepscope info` reads. Open the trace in ui.perfetto.dev or chrome://tracing.
    """
    from stepscope.cli.output import terminal
    from stepscope.metadata.readable import plain

    if tf1 and max_bytes is not None:
        raise click.UsageError("--max-bytes folds ops, which TensorFlow's timeline does not do")
    from stepscope.export import chrome

    options: dict[str, Any] = {"show_dataflow": dataflow, "show_memory": memory}
    try:
        with working(f"writing {out}"):
            if tf1:
                _like_tensorflow(path, out, options)
            else:
                chrome(path, out, max_bytes=max_bytes, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{out} could not be written: {error}") from error
    terminal.echo(f"wrote {plain(str(out))}  (open it in ui.perfetto.dev or chrome://tracing)")


def _like_tensorflow(path: Path, out: Path, options: dict[str, Any]) -> None:
    from stepscope.export import Timeline, TimeLiner
    from stepscope.export.timeline.timeliner import save_text

    found = all_runs(path)
    if len(found) == 1:
        save_text(out, Timeline(found[0].metadata).generate_chrome_trace_format(**options))
        return
    liner = TimeLiner()
    for run in found:
        liner.update(run.metadata, **options)
    liner.save(out)
