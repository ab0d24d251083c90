"""`stepscope run`: an unchanged script, with every run of it recorded."""

from __future__ import annotations

import atexit
import functools
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.cli.recorded_runs import RecordedRuns

TRACE_LEVELS = {"none": 0, "software": 1, "hardware": 2, "full": 3}
DEFAULT_TOP = 20


@click.command(
    name="run",
    epilog="Example: stepscope run --trace full --out traces train.py --steps 10",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--engine",
    type=click.Choice(["embedded", "tensorflow"]),
    default="embedded",
    show_default=True,
    help="What executes the script's runs. There is no falling back from one to the other.",
)
@click.option(
    "--trace",
    type=click.Choice(list(TRACE_LEVELS)),
    default="full",
    show_default=True,
    help="How much to record of each run, where the script itself does not ask for more.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to write.  [default: stepscope-out/NAME-OF-THE-SCRIPT]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Record the first N runs only; later ones run unrecorded.  [default: all]",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=DEFAULT_TOP,
    show_default=True,
    metavar="N",
    help="How many op types the table shows.",
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def command(
    engine: str,
    trace: str,
    out: Path | None,
    limit: int | None,
    top: int,
    script: str,
    arguments: tuple[str, ...],
) -> Any:
    """Run a TensorFlow 1 script, unchanged, and show where its time went.

    `import tensorflow` in the script gives the chosen engine. Each Session.run is recorded and
    written to DIR/run_000001/run_metadata.pb and so on; all of them together, as a Chrome trace,
    to DIR/timeline.json. What an earlier recording left in DIR is replaced.

    Everything after SCRIPT belongs to the script. So do its output and its exit code: the table
    goes to stderr, and the runs of a script that fails are written all the same.
    """
    if engine != "embedded":
        raise StepscopeError(
            f"the engine {engine!r} needs Stepscope's TensorFlow adapter, which this version does "
            "not have yet; --engine embedded runs TensorFlow 1 graphs without TensorFlow"
        )
    from stepscope.cli.recorded_runs import RecordedRuns
    from stepscope.cli.script import Script

    found = Script(script)
    runs = RecordedRuns(out or Path("stepscope-out") / found.name, limit)

    from stepscope.runtime.observers import recording
    from stepscope.tf1 import shim

    shim.install()
    runs.record(lambda add: recording(add, TRACE_LEVELS[trace]))
    status = found.run(arguments)
    finish = functools.partial(_finish, runs, script, trace, top)
    if _threads_left():
        # As Python does, wait for them: exit handlers are called when they are done.
        atexit.register(finish)
        return status
    written = finish()
    return status if written or status not in (None, 0) else 2


def _threads_left() -> bool:
    here = (threading.current_thread(), threading.main_thread())
    return any(not thread.daemon and thread not in here for thread in threading.enumerate())


def _finish(runs: RecordedRuns, script: str, trace: str, top: int) -> bool:
    """Write what is written at the end, and show the report; False where something failed."""
    from stepscope.analysis import op_table
    from stepscope.cli import report
    from stepscope.cli.recorded_runs import METADATA_FILE

    runs.stop()
    if runs.in_child_process:
        return True
    timeline = runs.write_timeline()
    table = op_table(runs.runs)
    console = report.stderr_console()
    sys.stdout.flush()
    report.show(
        [
            report.heading(script, _engine(), trace, table),
            report.ops(table, console.width, top) if len(table) else None,
            report.failures(runs.runs),
            report.losses(runs.runs),
            report.notes(_remarks(runs, len(table), trace)),
            report.files(runs.directory, runs.runs, timeline, METADATA_FILE),
        ],
        console,
    )
    if runs.problem is not None:
        click.echo(f"stepscope: error: {runs.problem}", err=True)
    return runs.problem is None


def _engine() -> str:
    import numpy

    return f"embedded (NumPy {numpy.__version__})"


def _remarks(runs: RecordedRuns, op_types: int, trace: str) -> list[str]:
    lines = []
    if runs.limit_reached:
        lines.append(f"recording ended after {runs.limit:,} (--limit); later runs are not here")
    if not runs.runs and not runs.limit_reached:
        lines.append("the script made no Session.run")
    elif not op_types and trace == "none":
        lines.append("no op was traced: --trace none")
    return lines
