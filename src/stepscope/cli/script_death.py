"""The report on a script whose process died before it could report: from what it had written.

Loaded by the process that stands outside (`outside.py`) once the script's process is gone. It shows
what `stepscope run` shows of a script that came to its end, headed by how it died.
"""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.analysis import advise, op_profile, verdict
from stepscope.analysis.verdict import notes_for_verdict
from stepscope.cli import outside, program_verdict, run_report, script_engines, terminal, wording
from stepscope.cli.recorded_runs import REPORT_FILE, TIMELINE_FILE, write_page
from stepscope.errors import StepscopeError, UnreadableFileError
from stepscope.export import chrome
from stepscope.metadata import iter_runs
from stepscope.metadata.readers.store_file import SUFFIX

if TYPE_CHECKING:
    from stepscope.cli.outside import Ended, Notes
    from stepscope.metadata import RunMetadata

_MEANINGS = {
    signal.SIGKILL: "by somebody, or by the kernel because memory ran out",
    signal.SIGSEGV: "native code accessed memory that it does not have",
    signal.SIGBUS: "native code accessed memory that is not there, as on a full disk",
    signal.SIGABRT: "native code gave up, and says why above if it does",
    signal.SIGFPE: "native code divided by zero",
    signal.SIGILL: "native code has an instruction that this processor does not know",
    signal.SIGTERM: "somebody asked it to end",
    signal.SIGHUP: "its terminal was closed",
    signal.SIGXCPU: "its limit of processor time was reached",
}


def show(
    ended: Ended, notes: Notes, script: str, directory: Path, trace: str, top: int, *, report: bool
) -> None:
    """Say how the script's process died and what it had recorded; write the timeline.

    With `report`, write the page of `stepscope run --report`, too.

    Where it had reported already, a death after that is one line; an exit code is nothing to tell.
    """
    if notes.stage == outside.RECORDING:
        lived = wording.time(ended.at_ns - notes.began_ns)
        how = f"the script {_how(ended)}, after {lived}"
        _show_recorded(how, script, directory, trace, top, report=report)
    elif ended.signal:
        when = "after this report" if notes.stage == outside.REPORTED else "before the script began"
        terminal.echo(f"stepscope: {when}, its process {_how(ended)}", err=True)


def _how(ended: Ended) -> str:
    if not ended.signal:
        return f"ended with exit code {ended.code} past all exit handlers (os._exit, or os.exec)"
    try:
        number = signal.Signals(ended.signal)
    except ValueError:  # one of the real-time signals
        return f"was killed by signal {ended.signal}"
    meaning = _MEANINGS.get(number)
    return f"was killed by {number.name}" + (f" ({meaning})" if meaning else "")


def _show_recorded(
    how: str, script: str, directory: Path, trace: str, top: int, *, report: bool
) -> None:
    problem = None
    try:
        runs = [(run.name, run.metadata) for run in iter_runs(directory)]
    except UnreadableFileError:
        runs = []  # there is none
    except (OSError, StepscopeError) as error:
        runs, problem = [], f"what was recorded cannot be read: {error}"
    console = terminal.console(stderr=True)
    table = op_profile(runs)
    said = []
    if runs:
        limits = verdict(runs, notes_for_verdict(directory))
        advice = advise(directory)
        said = program_verdict.parts(limits, advice, directory, directory, console.width)
    timeline = None
    if runs:
        try:
            timeline = chrome(runs, directory / TIMELINE_FILE)
        except (OSError, StepscopeError) as error:
            problem = f"{TIMELINE_FILE} could not be written: {error}"
    pages = []
    if runs and report:
        try:
            pages.append(write_page(directory, directory / REPORT_FILE))
        except (OSError, StepscopeError) as error:
            problem = f"{REPORT_FILE} could not be written: {error}"
    run_report.show(
        [
            run_report.death(how, _in_flight(runs), console.width),
            run_report.heading(script, script_engines.recorded_on(runs), trace, table),
            *said,
            run_report.ops(table, console.width, top) if len(table) else None,
            run_report.failures(runs),
            run_report.ends_of_input(runs, console.width),
            run_report.losses(runs, [], console.width),
            run_report.notes(_remarks(runs, directory), console.width),
            run_report.files(next(directory.glob(f"*{SUFFIX}")), timeline, pages) if runs else None,
        ],
        console,
    )
    if problem is not None:
        terminal.echo(f"stepscope: error: {wording.plain(problem)}", err=True)


def _in_flight(runs: list[tuple[str, RunMetadata]]) -> list[str]:
    """The ops that were executing, as the runs say that did not end."""
    return [
        f"{op.name} (in {name})"
        for name, run in runs
        for op in run.status.outcomes
        if op.outcome == "running"
    ]


def _remarks(runs: list[tuple[str, RunMetadata]], directory: Path) -> list[str]:
    if not runs:
        return ["no run was recorded: the script died before one had ended and was written"]
    if any(run.out_of_memory is not None for _, run in runs):
        return [f"who held the memory: stepscope oom {shlex.quote(str(directory))}"]
    return []
