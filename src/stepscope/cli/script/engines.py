"""The engines a script can run on: how each is put in place, what it is called, what it lost."""

from __future__ import annotations

import functools
import sys
import threading
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from stepscope.cli.output import wording
from stepscope.cli.script import provided_modules
from stepscope.cli.script.program_imports import version_1_use
from stepscope.engine_loading import when_loaded
from stepscope.errors import StepscopeError
from stepscope.metadata.fed_values import FedValues
from stepscope.metadata.program_notes import PLAN, RECORDING, STOPPED, Note
from stepscope.scheduling import Action

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from stepscope.adapters.tensorflow.script.recorder import ScriptRecorder
    from stepscope.cli.script.program import FoundProgram
    from stepscope.cli.script.recorded_runs import RecordedRuns, StoresRun
    from stepscope.metadata import RunMetadata
    from stepscope.recorder.kept_runs import KeptRuns
    from stepscope.scheduling import Schedule

NONE = "none was used"
"""What the report says in place of an engine's name."""


class ScriptEngine(ABC):
    """What executes a script's runs."""

    counts: str
    """What counts as a run, as a sentence."""
    needed = False
    """Whether the script needs what `record` loads in any case: it is the engine itself."""

    @abstractmethod
    def record(self, runs: RecordedRuns, level: int, schedule: Schedule | None) -> None:
        """Put the engine in place; its runs go to `runs` from now on."""

    @abstractmethod
    def name(self, runs: RecordedRuns) -> str:
        """The engine that ran, as the report says it."""

    @abstractmethod
    def failed(self, error: BaseException) -> None:
        """The script ended with an error."""

    def ended(self) -> None:  # noqa: B027 - what most have nothing to do for
        """The script has ended, and all that it left is still to be found."""

    def follow_memory(self, limit_mb: int | None) -> None:
        """Follow allocations from the start of the script, under a limit if one is given."""
        del limit_mb
        raise StepscopeError(
            "--memory and --memory-limit are for TensorFlow, whose allocator has to be told before "
            "it is imported; the script runs on the embedded engine, which always counts its "
            "memory: --trace full shows it, and a limit is a session's configuration"
        )

    def made(self) -> int:
        """How many runs the script made, recorded or not, until no further one was asked for."""
        return 0

    def cost_ns(self, runs: RecordedRuns) -> int:
        """What the script waited for so far because its runs are recorded."""
        return runs.overhead_ns + runs.writing_ns

    def costs(self, runs: RecordedRuns) -> dict[str, int]:
        """The same by where the main thread waited, as a note of kind "cost" has it."""
        return {"around_ns": runs.writing_ns, "inside_ns": 0, "unrecorded_ns": runs.unrecorded_ns}

    def losses(self) -> list[str]:
        """What was not recorded and belongs to no recorded run."""
        return []

    def problems(self) -> list[str]:
        """What went wrong in recording."""
        return []


def choose(engine: str | None, program: FoundProgram, tf1: bool | None) -> ScriptEngine:
    """The engine asked for; without a wish, whichever the program turns out to use.

    Nothing of the program is read for that: TensorFlow is used when the program imports it, in
    whichever of its modules. Where it is not installed, the embedded engine stands in its place.
    """
    from stepscope.adapters.tensorflow.script import importing

    there = importing.installed()
    if engine == "embedded" or (engine is None and not there):
        if tf1 is False:
            raise StepscopeError("--no-tf1: the embedded engine has TensorFlow 1's names only")
        return Embedded(in_tensorflows_place=True)
    if not there:
        raise StepscopeError(
            "--engine tensorflow: TensorFlow is not installed; pip install tensorflow, or run "
            "TensorFlow 1 graphs without it: --engine embedded"
        )
    tensorflow = TensorFlow(program, tf1)
    return tensorflow if engine else Whichever(tensorflow, Embedded(in_tensorflows_place=False))


def recorded_on(runs: Sequence[tuple[str, RunMetadata]]) -> str:
    """The engines that recorded runs were made on, as the report says it; `NONE` of none."""
    engines = {run.engine for _, run in runs}
    kinds = {engine.removeprefix("tensorflow ") for engine in engines if engine != "embedded"}
    names = [_tensorflow_name(kinds)] if kinds else []
    if "embedded" in engines:
        names.append(_embedded_name())
    return " and ".join(names) or NONE


def _embedded_name() -> str:
    import numpy

    return f"embedded (NumPy {numpy.__version__})"


def _tensorflow_name(kinds: set[str]) -> str:
    from stepscope.adapters.tensorflow.script import importing

    shown = [kind for kind in ("session", "function", "eager", "server") if kind in kinds]
    of = f" ({', '.join(shown)})" if shown else ""
    return f"tensorflow {importing.version()}{of}"


class Embedded(ScriptEngine):
    """Stepscope's own, in TensorFlow's place."""

    counts = (
        "a run is a call of Session.run; function calls, Keras steps and eager code need "
        "--engine tensorflow"
    )

    needed = True

    def __init__(self, *, in_tensorflows_place: bool = True) -> None:
        """With `in_tensorflows_place`, `import tensorflow` gives this engine, too."""
        self._in_tensorflows_place = in_tensorflows_place
        self._budgeted: KeptRuns | None = None
        self._made = 0
        self._counting = threading.Lock()

    def record(self, runs: RecordedRuns, level: int, schedule: Schedule | None) -> None:
        if self._in_tensorflows_place:
            from stepscope.tf1 import shim

            shim.install()

        @contextmanager
        def source(add: StoresRun) -> Iterator[None]:
            with ExitStack() as watching:

                def watch() -> None:
                    watching.enter_context(self._watching(runs, add, level, schedule))

                with when_loaded(watch):
                    yield

        runs.record(source)

    def _watching(
        self, runs: RecordedRuns, add: StoresRun, level: int, schedule: Schedule | None
    ) -> AbstractContextManager[None]:
        """Have the engine, which is loaded, hand over its runs."""
        from stepscope.runtime.observers import recording
        from stepscope.runtime.pipeline_notes import PipelineNotes

        def maybe(metadata: RunMetadata, graph: Any) -> None:
            number = self._next()
            if schedule is None or schedule(number) is not Action.SKIP:
                add(metadata, graph=graph, kept=runs.live.kept(metadata.step_id))
            else:
                runs.skip(metadata)

        def planned(nodes: int, ns: int) -> None:
            ended = time.time_ns()
            thread = threading.get_native_id()
            what = wording.number(nodes, "node")
            runs.note(Note(PLAN, ended - ns, ended, thread, what, details={"nodes": nodes}))

        fed = FedValues()
        runs.note_at_the_end(fed.note)
        pipelines = PipelineNotes(runs.note)
        watch = recording(maybe, level, runs.live, planned, fed.add, pipelines=pipelines)
        if runs.kept is not None:
            from stepscope.recorder.kept_runs import given_up
            from stepscope.runtime.budgeted_runs import choosing

            lacks = functools.partial(given_up, budget=runs.kept.control.budget.share)
            self._budgeted = runs.kept
            choose = choosing(
                runs.kept, lacks, runs.live, lambda metadata: runs.live.kept(metadata.step_id),
                runs.part_of, trace_level=level, fed=fed.add, pipelines=pipelines,
            )  # fmt: skip
            watch = recording(None, 0, planned=planned, choose=choose)

        @contextmanager
        def watched() -> Iterator[None]:
            with watch:
                try:
                    yield
                finally:
                    pipelines.end()

        return watched()

    def _next(self) -> int:
        """Runs are numbered in the order in which they ended."""
        with self._counting:
            self._made += 1
            return self._made - 1

    def name(self, runs: RecordedRuns) -> str:
        del runs
        return _embedded_name()

    def failed(self, error: BaseException) -> None:
        """The run that failed has said so itself."""

    def made(self) -> int:
        if self._budgeted is not None:
            return self._budgeted.seen("embedded")
        return self._made

    def cost_ns(self, runs: RecordedRuns) -> int:
        if runs.kept is not None:
            return runs.kept.control.budget.spent_ns
        return super().cost_ns(runs)

    def costs(self, runs: RecordedRuns) -> dict[str, int]:
        if runs.kept is None:
            return super().costs(runs)
        around = runs.kept.control.budget.spent_ns
        return {"around_ns": around, "inside_ns": 0, "unrecorded_ns": runs.kept.unwritten_ns}


def _say(line: str) -> None:
    from stepscope.cli.output import terminal

    terminal.echo(f"stepscope: {line}", err=True)


class TensorFlow(ScriptEngine):
    """The real one."""

    counts = (
        "a run is an outermost Session.run, function call or Keras step, a gradient tape, or eager "
        "code that executes an op"
    )

    def __init__(self, program: FoundProgram, tf1: bool | None) -> None:
        """`tf1` says whether the program gets TensorFlow 1's names; None: where it uses them."""
        self._program = program
        self._tf1 = tf1
        self._found = ""
        """What in the program says that it needs TensorFlow 1's names, once that is known."""
        self._recorder: ScriptRecorder | None = None
        """Once the program imports TensorFlow."""
        self._over = False
        self._memory = False

    def follow_memory(self, limit_mb: int | None) -> None:
        from stepscope.adapters.tensorflow.memory.memory_events import set_environment

        set_environment(limit_mb)
        self._memory = True

    def record(self, runs: RecordedRuns, level: int, schedule: Schedule | None) -> None:
        from stepscope.adapters.tensorflow.script import importing

        @contextmanager
        def source(add: Any) -> Iterator[None]:
            importing.install(
                lambda: self._load_recorder(runs, add, level, schedule),
                as_tensorflow1=self._as_tensorflow1, package=self._program.package,
            )  # fmt: skip
            try:
                yield
            finally:
                self._over = True
                if self._recorder is not None:
                    self._recorder.stop()
                else:
                    runs.note(Note(STOPPED, time.time_ns()))

        runs.record(source)

    def _load_recorder(
        self, runs: RecordedRuns, add: StoresRun, level: int, schedule: Schedule | None
    ) -> ScriptRecorder:
        """The script imports TensorFlow: what records it there is loaded now, and not before."""
        began = time.time_ns()
        from stepscope.adapters.tensorflow.script.budgeted import Budgeted
        from stepscope.adapters.tensorflow.script.recorder import ScriptRecorder

        budgeted = None
        if runs.kept is not None:
            budgeted = Budgeted(runs.kept, runs.part_of, level, wants_peaks=False)
        recorder = self._recorder = ScriptRecorder(
            add, level, schedule, runs.limit, memory=self._memory, say=_say,
            store=runs.file, note=runs.note, budgeted=budgeted,
        )  # fmt: skip
        runs.note_at_the_end(recorder.fed.note)
        runs.also_kept_by(recorder)
        # The script gets what it needs all the same.
        recorder.active = not (self._over or runs.in_child_process)
        ended, thread = time.time_ns(), threading.get_native_id()
        runs.note(Note(RECORDING, began, ended, thread, "loading the recorder"))
        recorder.cost.add(ended - began)
        return recorder

    def _as_tensorflow1(self) -> bool:
        """TensorFlow was imported: whether the program wants version 1's names."""
        from stepscope.adapters.tensorflow.script.importing import is_library

        if self._tf1 is None:
            program = self._program
            self._found = version_1_use(program.source, program.package, is_library)
        wanted = bool(self._tf1 or self._found)
        if wanted:
            provided_modules.provide()
        return wanted

    def name(self, runs: RecordedRuns) -> str:
        text = _tensorflow_name({run.engine.removeprefix("tensorflow ") for _, run in runs.runs})
        if self._tf1:
            text += " as TensorFlow 1"
        elif self._found:
            text += f" as TensorFlow 1, because of {self._found}"
        return text

    def failed(self, error: BaseException) -> None:
        if self._recorder is not None:
            self._recorder.failed(error)

    def ended(self) -> None:
        if self._recorder is not None:
            self._recorder.program_ended()

    def made(self) -> int:
        recorder = self._recorder
        if recorder is None:
            return 0
        budgeted = recorder.budgeted
        return recorder.runs if budgeted is None else budgeted.runs.seen("tensorflow")

    def cost_ns(self, runs: RecordedRuns) -> int:
        del runs  # writing them is part of what the recorder measured
        return self._recorder.cost.ns if self._recorder is not None else 0

    def costs(self, runs: RecordedRuns) -> dict[str, int]:
        recorder = self._recorder
        if recorder is None:
            return super().costs(runs)
        cost, kept = recorder.cost, runs.kept
        return {
            "around_ns": cost.main_ns - cost.inside_ns,
            "before_ns": recorder.cost_before_ns,
            "after_ns": cost.main_ns - recorder.cost_until_last_ns,
            "inside_ns": cost.inside_ns,
            "unrecorded_ns": recorder.unrecorded_ns if kept is None else kept.unwritten_ns,
            "input_ns": recorder.input_ns,
        }

    def losses(self) -> list[str]:
        if self._recorder is None:
            return []
        missed = self._recorder.missed
        found = self._recorder.losses()
        if missed:
            what = wording.number(missed, "run")
            found.append(f"{what}: the script was profiling or recording itself")
        return found

    def problems(self) -> list[str]:
        return self._recorder.problems if self._recorder is not None else []


class Whichever(ScriptEngine):
    """TensorFlow from the moment that the program imports it, and the embedded engine all along.

    A program may use both, to compare them: each numbers its own runs.
    """

    def __init__(self, tensorflow: TensorFlow, embedded: Embedded) -> None:
        self._tensorflow = tensorflow
        self._embedded = embedded
        self._memory = False

    @property
    def _used(self) -> Sequence[ScriptEngine]:
        """What executed runs; where nothing did, TensorFlow if the program imported it."""
        engines = [engine for engine in (self._tensorflow, self._embedded) if engine.made()]
        return engines or ([self._tensorflow] if "tensorflow" in sys.modules else [])

    @property
    def counts(self) -> str:  # type: ignore[override]
        return (self._used or [self._tensorflow])[0].counts

    def follow_memory(self, limit_mb: int | None) -> None:
        self._memory = True
        self._tensorflow.follow_memory(limit_mb)

    def record(self, runs: RecordedRuns, level: int, schedule: Schedule | None) -> None:
        self._tensorflow.record(runs, level, schedule)
        self._embedded.record(runs, level, schedule)

    def name(self, runs: RecordedRuns) -> str:
        return " and ".join(engine.name(runs) for engine in self._used) or NONE

    def failed(self, error: BaseException) -> None:
        self._tensorflow.failed(error)
        self._embedded.failed(error)

    def ended(self) -> None:
        self._tensorflow.ended()
        self._embedded.ended()

    def made(self) -> int:
        return self._tensorflow.made() + self._embedded.made()

    def cost_ns(self, runs: RecordedRuns) -> int:
        if not self._tensorflow.made():
            return self._embedded.cost_ns(runs)
        beside = (run.overhead.ns for _, run in runs.runs if run.engine == "embedded")
        return self._tensorflow.cost_ns(runs) + sum(beside)

    def costs(self, runs: RecordedRuns) -> dict[str, int]:
        used = self._tensorflow if self._tensorflow.made() else self._embedded
        return used.costs(runs)

    def losses(self) -> list[str]:
        unheeded = []
        if self._memory and "tensorflow" not in sys.modules:
            unheeded = ["allocations (--memory): the program did not import TensorFlow"]
        return [*unheeded, *self._tensorflow.losses(), *self._embedded.losses()]

    def problems(self) -> list[str]:
        return [*self._tensorflow.problems(), *self._embedded.problems()]
