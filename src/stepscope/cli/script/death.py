"""The report on a script whose process died before it could report: from what it had written.

Loaded by the process that stands outside (`outside.py`) once the script's process is gone. It shows
what `stepscope run` shows of a script that came to its end, headed by how it died.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.analysis import op_profile
from stepscope.analysis.advice import AdviceSums, program_at
from stepscope.analysis.program.account import one_program
from stepscope.analysis.program.verdict import notes_for_verdict
from stepscope.cli.output import program_verdict, run_report, terminal, wording
from stepscope.cli.script import engines as script_engines
from stepscope.cli.script import outside
from stepscope.cli.script.recorded_runs import REPORT_FILE, TIMELINE_FILE, TIMELINE_OPS, write_page
from stepscope.errors import StepscopeError, UnreadableFileError
from stepscope.export import chrome
from stepscope.metadata import Recording, RunMetadata, iter_runs
from stepscope.metadata.program_notes import ENDED, PROCESS
from stepscope.metadata.readers.store_file import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from stepscope.cli.script.outside import Notes, ProcessEnd
    from stepscope.metadata import LoadedRun

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
    ended: ProcessEnd,
    notes: Notes,
    script: str,
    directory: Path,
    trace: str,
    top: int,
    *,
    report: bool,
) -> None:
    """Say how the script's process died and what it had recorded; write the timeline.

    With `report`, write the page of `stepscope run --report`, too.

    Where it had reported already, a death after that is one line; an exit code is nothing to tell.
    """
    if notes.stage == outside.RECORDING:
        how = f"the script {_how(ended)}, after {wording.time(_lived_ns(ended, notes, directory))}"
        _show_recorded(how, script, directory, trace, top, report=report)
    elif ended.signal:
        when = "after this report" if notes.stage == outside.REPORTED else "before the script began"
        terminal.echo(f"stepscope: {when}, its process {_how(ended)}", err=True)


def _lived_ns(ended: ProcessEnd, notes: Notes, directory: Path) -> int:
    """How long the process lived, as the account of its time has it.

    Of one that left no note of its beginning it is how long its script did.
    """
    with contextlib.suppress(StepscopeError):
        program = one_program(directory)
        process, last = program.last(PROCESS), program.last(ENDED)
        if process is not None and last is not None:
            return last.started_ns - process.started_ns
    return ended.at_ns - notes.began_ns


def _how(ended: ProcessEnd) -> str:
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
    ended = _Endings()
    sums = AdviceSums()
    problem = None
    try:
        table = op_profile(sums.passing(ended.passing(iter_runs(directory))))
    except UnreadableFileError:
        table = op_profile([])  # there is none
    except (OSError, StepscopeError) as error:
        problem = f"what was recorded cannot be read: {error}"
        ended, table = _Endings(), op_profile([])
    runs = ended.runs
    console = terminal.console(stderr=True)
    said: list[RenderableType] = []
    if runs:
        limits = sums.limits.verdict(notes_for_verdict(directory))
        advice = sums.advice(program_at(directory))
        said = program_verdict.parts(limits, advice, directory, directory, console.width)
    timeline = None
    too_long = table.calls > TIMELINE_OPS
    if runs and not too_long:
        try:
            timeline = chrome(directory, directory / TIMELINE_FILE)
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
            run_report.notes(_remarks(runs, directory, without_timeline=too_long), console.width),
            run_report.files(next(directory.glob(f"*{SUFFIX}")), timeline, pages) if runs else None,
        ],
        console,
    )
    if problem is not None:
        terminal.echo(f"stepscope: error: {wording.plain(problem)}", err=True)


class _Endings:
    """How each run ended: what is kept of runs that are read one after the other.

    A store of hundreds of megabytes takes ten times that in memory if all its runs are there.
    """

    def __init__(self) -> None:
        self.runs: list[tuple[str, RunMetadata]] = []

    def passing(self, runs: Iterable[LoadedRun]) -> Iterator[tuple[str, RunMetadata]]:
        """The runs as they come, each noted on its way."""
        for run in runs:
            whole, ending = run.metadata, RunMetadata()
            ending.record(
                Recording(
                    engine=whole.engine,
                    status=whole.status,
                    completeness=whole.completeness,
                    out_of_memory=whole.out_of_memory,
                )
            )
            self.runs.append((run.name, ending))
            yield run.name, whole
            del run, whole  # the next one is read without this one in memory


def _in_flight(runs: list[tuple[str, RunMetadata]]) -> list[str]:
    """The ops that were executing, as the runs say that did not end."""
    return [
        f"{op.name} (in {name})"
        for name, run in runs
        for op in run.status.outcomes
        if op.outcome == "running"
    ]


def _remarks(
    runs: list[tuple[str, RunMetadata]], directory: Path, *, without_timeline: bool
) -> list[str]:
    if not runs:
        return ["no run was recorded: the script died before one had ended and was written"]
    found, place = [], shlex.quote(str(directory))
    if any(run.out_of_memory is not None for _, run in runs):
        found.append(f"who held the memory: stepscope oom {place}")
    if without_timeline:
        found.append(f"as a Chrome trace: stepscope timeline {place}")
    return found
