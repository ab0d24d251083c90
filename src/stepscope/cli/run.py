"""`stepscope run`: an unchanged script, with every run of it recorded."""

from __future__ import annotations

import atexit
import gc
import shlex
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepscope.cli.script import outside
from stepscope.errors import StepscopeError
from stepscope.scheduling import Schedule, every, parse_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from stepscope.analysis import Advice, OpProfile, Verdict
    from stepscope.analysis.advice import AdviceSums
    from stepscope.analysis.program.account import AccountedRuns
    from stepscope.cli.script.engines import ScriptEngine
    from stepscope.cli.script.program_course import ProgramCourse
    from stepscope.cli.script.recorded_runs import RecordedRuns
    from stepscope.metadata.program_notes import Note
    from stepscope.recorder.terms import Terms

TRACE_LEVELS = {"none": 0, "software": 1, "hardware": 2, "full": 3}
DEFAULT_TOP = 20
_DEFAULT_BUDGET = "5%"


@click.command(
    name="run",
    epilog="Example: stepscope run --every 100 --out traces train.py --epochs 10",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--engine",
    type=click.Choice(["embedded", "tensorflow"]),
    help="What executes the script's runs. There is no falling back from one to the other."
    "  [default: tensorflow if it is installed and the program imports it, else embedded]",
)
@click.option(
    "-m",
    "--module",
    "is_module",
    is_flag=True,
    help="SCRIPT is the name of a module (package.module), found and run as python -m does.",
)
@click.option(
    "--budget",
    metavar="SHARE",
    help="What recording may cost, of the program's own time: 1%, 5%, or off to record every run "
    "in full whatever it costs. The first runs of each kind are recorded in full; where all would "
    "cost more, others with op times or by their length alone, and kept is what matters: failed, "
    "slow, first and latest ones, and a random sample.  [default: 5%; off with --steps, --every, "
    "--limit and --memory]",
)
@click.option(
    "--steps",
    metavar="STEPS",
    help="Record these runs only, counted from 0: 10:15 is 10 to 14; 7, 10: and 0:100:10 work too.",
)
@click.option(
    "--every",
    "every_n",
    type=click.IntRange(min=1),
    metavar="N",
    help="Record every N-th run only: 0, N, 2N and so on.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="End recording after N runs; later ones run unrecorded.  [default: all]",
)
@click.option(
    "--trace",
    type=click.Choice(list(TRACE_LEVELS)),
    default="full",
    show_default=True,
    help="How much to record of each run, where the script itself does not ask for more: software "
    "is when and where each op ran, full adds shapes and bytes. On TensorFlow, full has functions "
    "made anew once, in the run before the first recorded one if there is one.",
)
@click.option(
    "--memory",
    is_flag=True,
    help="Follow every allocation from the start, so that all memory has an owner. TensorFlow only:"
    " its CPU gets the allocator that can tell.",
)
@click.option(
    "--memory-limit",
    type=click.IntRange(min=1),
    metavar="MB",
    help="With --memory, what the CPU's tensors may take.  [default: "
    "TF_CPU_BFC_MEM_LIMIT_IN_MB, if set]",
)
@click.option(
    "--tf1/--no-tf1",
    default=None,
    help="Give the script TensorFlow 1's names (tf.Session) for `import tensorflow`."
    "  [default: where the script uses such names]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to write.  [default: stepscope-out/NAME-OF-THE-SCRIPT]",
)
@click.option(
    "--pb",
    is_flag=True,
    help="Also write each run as TensorFlow's RunMetadata: DIR/run_000001/run_metadata.pb and so "
    "on, when the script has ended.",
)
@click.option(
    "--tensorboard",
    type=click.Path(path_type=Path),
    metavar="LOGDIR",
    help="Also write the runs into an event file in LOGDIR, when the script has ended.",
)
@click.option(
    "--report",
    is_flag=True,
    help="Also write DIR/report.html, the pages of `stepscope view` in one file, when the script "
    "has ended.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=DEFAULT_TOP,
    show_default=True,
    metavar="N",
    help="How many op types the table shows.",
)
@click.option(
    "--in-process",
    is_flag=True,
    help="Run the script in this process, for a debugger: nothing reports when it is killed.",
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.pass_obj
# Long: it is one argument per option, and the order in which things are put in place.
def command(
    own_process: bool,
    engine: str | None,
    is_module: bool,
    budget: str | None,
    steps: str | None,
    every_n: int | None,
    limit: int | None,
    trace: str,
    memory: bool,
    memory_limit: int | None,
    tf1: bool | None,
    out: Path | None,
    pb: bool,
    tensorboard: Path | None,
    report: bool,
    top: int,
    in_process: bool,
    script: str,
    arguments: tuple[str, ...],
) -> Any:
    """Run a TensorFlow script, unchanged, and show where its time went.

    Each outermost Session.run, function call and Keras step is a run, and so is each gradient tape
    outside of functions with the eager code after it; all other eager code is one last run. They
    are written to one file, DIR/*.stepscope, as they come, which every other command reads; those
    of a short recording also to DIR/timeline.json, a Chrome trace. What an earlier recording left
    in DIR is replaced. Of a program that makes few runs all are recorded in full; of one that makes
    many, as much as --budget allows.

    Everything after SCRIPT belongs to the script. So do its output and its exit code: the table
    goes to stderr, and the runs of a script that fails are written all the same. The script has a
    process of its own: where that is killed, crashes or leaves by os._exit, the one that you called
    reports what was written, and ends as the script did.
    """
    entered = time.perf_counter_ns()
    shown = f"-m {script}" if is_module else script
    directory = out or Path("stepscope-out") / (script if is_module else Path(script).stem)
    notes: outside.Notes | None = None
    if own_process and not in_process and outside.is_possible():
        side = outside.fork()
        if isinstance(side, outside.Parent):
            return _stand_outside(side, shown, directory, trace, top, report=report)
        notes = side

    shared = _load_shared()
    from stepscope.cli.script import engines as script_engines
    from stepscope.cli.script import import_times
    from stepscope.cli.script.earlier_imports import early
    from stepscope.cli.script.program import ModuleProgram, Script
    from stepscope.cli.script.program_course import ProgramCourse
    from stepscope.cli.script.recorded_runs import RecordedRuns
    from stepscope.cli.script.termination import Termination

    began = early.began_ns or entered
    schedule = _schedule(steps, every_n)
    found = ModuleProgram(script) if is_module else Script(script)
    chosen = script_engines.choose(engine, found, tf1)
    choices = {"--steps": steps, "--every": every_n, "--limit": limit, "--memory": memory or None}
    terms = _terms(budget, [name for name, given in choices.items() if given is not None])
    runs = RecordedRuns(
        directory, limit, pb=pb, tensorboard=tensorboard, report=report,
        terms=terms if trace != "none" else None,
    )  # fmt: skip
    if memory or memory_limit is not None:
        chosen.follow_memory(memory_limit)
    course = ProgramCourse(runs, chosen, shown, began, forked=notes is not None)
    needed = shared if chosen.needed else shared[:1]
    for note in needed:
        runs.note(note)
    if chosen.needed:
        # What is loaded from here on is the engine, which is not counted.
        early.loaded()
    ready = time.perf_counter_ns()
    early.look_at_program()
    chosen.record(runs, TRACE_LEVELS[trace], schedule)
    early.loaded()
    before_ns = (ready if chosen.needed else time.perf_counter_ns()) - began
    waiting = Waiting(began, before_ns, needed)
    if notes is not None:
        notes.recording()
        Termination(runs.stop).install()
    course.begins(import_times.watch(runs.note))
    status = found.run(arguments, chosen.failed)
    course.ended()

    def finish() -> bool:
        chosen.ended()
        return _finish(runs, chosen, shown, trace, top, status, waiting, notes, course)

    if _threads_left():
        # As Python does, wait for them: exit handlers are called when they are done.
        atexit.register(finish)
        return status
    written = finish()
    return status if written or status not in (None, 0) else 2


def _stand_outside(
    parent: outside.Parent, script: str, directory: Path, trace: str, top: int, *, report: bool
) -> int:
    """Wait for the script's process, report where it could not, and end as it did."""
    ended = parent.wait()
    now = time.time_ns()
    try:
        _note_end(directory, parent.child, now)
        if ended.signal or parent.notes.stage == outside.RECORDING:
            from stepscope.cli.script import death as script_death

            script_death.show(ended, parent.notes, script, directory, trace, top, report=report)
    except Exception as error:  # noqa: BLE001 - how the script ended is more than what we saw of it
        from stepscope.cli.output import terminal

        terminal.echo(
            f"stepscope: error: no report could be made: {type(error).__name__}: {error}", err=True
        )
    finally:
        if ended.signal:
            outside.die_of(ended.signal)
    return ended.code


def _note_end(directory: Path, process: int, now: int) -> None:
    """The process that recorded in a directory is gone: it could not say when."""
    from stepscope.note_rows import add_row

    for store in directory.glob(f"runs-{process}-*.stepscope"):
        add_row(store, "ended", now, 0, 0, "", "", {})


def _schedule(steps: str | None, every_n: int | None) -> Schedule | None:
    if steps is not None and every_n is not None:
        raise StepscopeError("--steps and --every: give one of them; --steps 0:1000:100 does both")
    if steps is not None:
        return parse_steps(steps)
    return None if every_n is None else every(every_n)


def _terms(budget: str | None, chosen: list[str]) -> Terms | None:
    """What recording may cost; None where all is recorded that was `chosen` by other options."""
    from stepscope.recorder.terms import Terms

    if budget is None and chosen:
        return None
    terms = Terms.of_script(_DEFAULT_BUDGET if budget is None else budget)
    if terms.budget == float("inf"):
        return None
    if chosen:
        raise StepscopeError(
            f"--budget and {chosen[0]}: a budget chooses by itself what is recorded of which runs; "
            "give one of them, or --budget off"
        )
    return terms


def _threads_left() -> bool:
    here = (threading.current_thread(), threading.main_thread())
    return any(not thread.daemon and thread not in here for thread in threading.enumerate())


class Waiting(NamedTuple):
    """What the user waits for around the script."""

    began: int
    """When the command began."""
    before_ns: int
    """How long it took until the script began."""
    needed: Sequence[Note]
    """The imports in that which the script's engine needs in any case."""


def _load_shared() -> list[Note]:
    """Import what a script imports as well: NumPy, and what the embedded engine is built on."""
    from importlib import import_module

    times = [time.time_ns()]
    modules = ("numpy", "stepscope.metadata")
    for module in modules:
        import_module(module)
        times.append(time.time_ns())
    # Not before: it is a part of them.
    from stepscope.metadata.program_notes import IMPORT, Note

    thread = threading.get_native_id()
    spans = zip(modules, pairwise(times), strict=True)
    return [Note(IMPORT, began, ended, thread, module) for module, (began, ended) in spans]


class _Sums(NamedTuple):
    """What is said of all runs: advice, where their time went by op type, what limits them.

    `times` are what the account of the program needs of them, if they were read one by one.
    """

    advice: AdviceSums
    table: OpProfile
    limits: Verdict
    times: AccountedRuns | None = None


def _summed_up(runs: RecordedRuns) -> _Sums:
    """Of all runs, also of those that were not kept. What was kept is read once."""
    from stepscope.analysis import op_profile
    from stepscope.analysis.advice import AdviceSums, program_at
    from stepscope.analysis.program.account import AccountedRuns
    from stepscope.analysis.program.verdict import notes_for_verdict
    from stepscope.analysis.sampling.all_steps import all_steps

    every = all_steps(runs.file) if runs.kept is not None else None
    if every is not None and every.profile.runs:
        return _Sums(every.sums, every.profile, every.verdict)
    sums, program = AdviceSums(), program_at(runs.file)
    times, each = None, runs.each()
    if program is not None and runs.runs:
        times = AccountedRuns(program)
        each = times.passing(program.runs())
    table = op_profile(sums.passing(each))
    return _Sums(sums, table, sums.limits.verdict(notes_for_verdict(runs.file)), times)


def _exported(runs: RecordedRuns, course: ProgramCourse) -> tuple[list[Path], int]:
    """Write the files that were asked for; which they are, and how long it took."""
    began = time.perf_counter_ns()
    written = runs.write_exports()
    took = time.perf_counter_ns() - began if written else 0
    course.exported(took)
    return written, took


def _problems_said(runs: RecordedRuns, engine: ScriptEngine) -> int:
    """Show what went wrong with the recording; how much that was."""
    from stepscope.cli.output import terminal, wording

    problems = [*([runs.problem] if runs.problem is not None else []), *engine.problems()]
    for problem in problems:
        terminal.echo(f"stepscope: error: {wording.plain(problem)}", err=True)
    return len(problems)


@contextmanager
def _collecting_garbage_of_its_own() -> Iterator[None]:
    """The garbage collector passes over what the script left: that is for the script's end.

    It does not list what it passes over, so who looks for the script's objects does that before.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@_collecting_garbage_of_its_own()
def _finish(
    runs: RecordedRuns, engine: ScriptEngine, script: str, trace: str, top: int, status: Any,
    waiting: Waiting, notes: outside.Notes | None, course: ProgramCourse,
) -> bool:  # fmt: skip
    """Write what is written at the end, and show the report; False where something failed.

    `status` is the script's exit status, `notes` what the process outside is told.
    """
    begun = time.perf_counter_ns()
    course.report_begins()
    from stepscope.analysis.advice import program_at
    from stepscope.cli.output import run_report, terminal

    stopping = time.perf_counter_ns()
    runs.stop()
    if runs.in_child_process:
        return True
    # What stopping takes is a part of what the engine and the store say.
    began = begun + time.perf_counter_ns() - stopping
    starting_ns = _starting_ns(waiting, course)
    try:
        timeline = runs.write_timeline()
        others, exporting_ns = _exported(runs, course)
        sums = _summed_up(runs)
        advice = sums.advice.advice(program_at(runs.file))
    finally:
        # An error is shown as well: nobody else has to say anything.
        if notes is not None:
            notes.reported()

    def costs() -> run_report.Costs:
        """What recording cost, as of now."""
        reporting_ns = time.perf_counter_ns() - began - exporting_ns
        during_ns = engine.cost_ns(runs) + runs.storing_ns
        return run_report.Costs(starting_ns, during_ns, reporting_ns, exporting_ns)

    # As of now, for the account that the report gives, and once more when that is made.
    course.reported(costs().recording_ns)
    console = terminal.console(stderr=True)
    terminal.flush()
    went_on = status in (None, 0)
    at_last: list[run_report.Costs] = []

    def said() -> Text:
        """Made when all before it is on the screen."""
        at_last.append(costs())
        return run_report.cost(at_last[0], time.perf_counter_ns() - waiting.began, runs.budget)

    run_report.show(
        [
            run_report.heading(script, engine.name(runs), trace, sums.table),
            *_verdict(runs, sums, advice, console.width, costs().recording_ns),
            run_report.ops(sums.table, console.width, top) if len(sums.table) else None,
            run_report.failures(runs.runs, ends_too=not went_on),
            run_report.ends_of_input(runs.runs, console.width) if went_on else None,
            said if runs.runs else None,
            run_report.losses(runs.runs, [*runs.given_up(), *engine.losses()], console.width),
            run_report.notes(_remarks(runs, engine, len(sums.table), trace, status), console.width),
            run_report.files(runs.store, timeline, others) if runs.runs else None,
        ],
        console,
    )
    course.reported((at_last or [costs()])[0].recording_ns)
    return not _problems_said(runs, engine)


def _starting_ns(waiting: Waiting, course: ProgramCourse) -> int:
    """What the user waited for before the script, without what the script imports as well."""
    from stepscope.cli.script.earlier_imports import early

    early.stop()
    counted = {note.what: note.ns for note in waiting.needed}
    for name in counted:
        early.claim(name)
    shared = early.shared()
    course.shared(load for load in shared if load.name not in counted)
    # Where the command was not the first to be loaded, its loads are known by their notes alone.
    timed = {load.name for load in early.loads}
    untimed_ns = sum(ns for name, ns in counted.items() if name not in timed)
    return max(0, waiting.before_ns - sum(load.took_ns for load in shared) - untimed_ns)


def _verdict(
    runs: RecordedRuns, sums: _Sums, advice: Advice, width: int, recording_ns: int
) -> list[Any]:
    """What limits the program, and what to look at next; nothing where nothing ran."""
    from stepscope.cli.output import program_verdict

    if not runs.runs:
        return []
    return program_verdict.parts(
        sums.limits, advice, runs.file, runs.directory, width, recording_ns, sums.times
    )


def _remarks(
    runs: RecordedRuns, engine: ScriptEngine, op_types: int, trace: str, status: Any
) -> list[str]:
    lines = []
    if runs.out_of_memory:
        lines.append(f"who held the memory: stepscope oom {shlex.quote(str(runs.directory))}")
    if runs.without_timeline:
        lines.append(f"as a Chrome trace: stepscope timeline {shlex.quote(str(runs.directory))}")
    if runs.limit_reached:
        lines.append(f"recording ended after {runs.limit:,} (--limit); later runs are not here")
    if not runs.runs and not runs.limit_reached and runs.problem is None:
        lines += _without_runs(engine, status)
    elif not op_types and trace == "none":
        lines.append("no op was traced: --trace none")
    return lines


def _without_runs(engine: ScriptEngine, status: Any) -> list[str]:
    """Why there is nothing to show, and what to do about it."""
    from stepscope.cli.output import wording
    from stepscope.cli.script.program import INTERRUPTED

    none = "no run was recorded: the script"
    made = engine.made()
    if made and engine.losses():
        return []
    if made:
        return [
            f"{none} made {wording.number(made, 'run')}, none of which --steps or --every asks for "
            "(they are counted from 0)"
        ]
    if status == INTERRUPTED:
        return [f"{none} was interrupted before it made one"]
    if status not in (None, 0):
        code = status if isinstance(status, int) else 1
        return [f"{none} failed (exit code {code}) before it made one; its own output says why"]
    return [
        f"{none} ended well and made none",
        engine.counts,
        "arguments after SCRIPT are passed on to it; runs of other processes that it starts are "
        "not recorded",
    ]
