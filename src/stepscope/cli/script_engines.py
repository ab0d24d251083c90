"""The engines a script can run on: how each is put in place, what it is called, what it lost."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.cli import script_data, wording
from stepscope.cli.script_imports import tensorflow_use
from stepscope.errors import StepscopeError
from stepscope.scheduling import Action

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from stepscope.adapters.tensorflow.scripts import ScriptRecorder
    from stepscope.cli.recorded_runs import Add, RecordedRuns
    from stepscope.metadata import RunMetadata
    from stepscope.scheduling import Schedule


class ScriptEngine(ABC):
    """What executes a script's runs."""

    counts: str
    """What counts as a run, as a sentence."""

    @abstractmethod
    def record(self, runs: RecordedRuns, level: int, schedule: Schedule | None) -> None:
        """Put the engine in place; its runs go to `runs` from now on."""

    @abstractmethod
    def name(self, runs: RecordedRuns) -> str:
        """The engine that ran, as the report says it."""

    @abstractmethod
    def failed(self, error: BaseException) -> None:
        """The script ended with an error."""

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

    def losses(self) -> list[str]:
        """What was not recorded and belongs to no recorded run."""
        return []

    def problems(self) -> list[str]:
        """What went wrong in recording."""
        return []


def choose(engine: str | None, source: bytes, tf1: bool | None) -> ScriptEngine:
    """The engine asked for; without a wish TensorFlow, if it is there and the script imports it."""
    from stepscope.adapters.tensorflow import script_patches

    use = tensorflow_use(source)
    if engine is None:
        engine = "tensorflow" if use.imports and script_patches.installed() else "embedded"
    if engine == "embedded":
        if tf1 is False:
            raise StepscopeError("--no-tf1: the embedded engine has TensorFlow 1's names only")
        return Embedded()
    if not script_patches.installed():
        raise StepscopeError(
            "--engine tensorflow: TensorFlow is not installed; pip install tensorflow, or run "
            "TensorFlow 1 graphs without it: --engine embedded"
        )
    return TensorFlow(asked=bool(tf1), found="" if tf1 is not None else use.version_1)


class Embedded(ScriptEngine):
    """Stepscope's own, in TensorFlow's place."""

    counts = (
        "a run is a call of Session.run; function calls, Keras steps and eager code need "
        "--engine tensorflow"
    )

    def __init__(self) -> None:
        self._made = 0
        self._counting = threading.Lock()

    def record(self, runs: RecordedRuns, level: int, schedule: Schedule | None) -> None:
        from stepscope.runtime.observers import recording
        from stepscope.tf1 import shim

        def source(add: Add) -> AbstractContextManager[None]:
            def maybe(metadata: RunMetadata, graph: Any) -> None:
                number = self._next()
                if schedule is None or schedule(number) is not Action.SKIP:
                    add(metadata, graph=graph)

            return recording(maybe, level)

        shim.install()
        runs.record(source)

    def _next(self) -> int:
        """Runs are numbered in the order in which they ended."""
        with self._counting:
            self._made += 1
            return self._made - 1

    def name(self, runs: RecordedRuns) -> str:
        import numpy

        del runs
        return f"embedded (NumPy {numpy.__version__})"

    def failed(self, error: BaseException) -> None:
        """The run that failed has said so itself."""

    def made(self) -> int:
        return self._made


@dataclass
class TensorFlow(ScriptEngine):
    """The real one."""

    counts = (
        "a run is an outermost Session.run, function call or Keras step, a gradient tape, or eager "
        "code that executes an op"
    )

    asked: bool
    """Whether TensorFlow 1's names were asked for."""
    found: str
    """What in the script says that it needs them, if anything does."""

    def __post_init__(self) -> None:
        self._recorder: ScriptRecorder | None = None
        self._memory = False

    def follow_memory(self, limit_mb: int | None) -> None:
        from stepscope.adapters.tensorflow.memory_events import set_environment

        set_environment(limit_mb)
        self._memory = True

    def record(self, runs: RecordedRuns, level: int, schedule: Schedule | None) -> None:
        from stepscope.adapters.tensorflow import script_patches
        from stepscope.adapters.tensorflow.scripts import ScriptRecorder

        @contextmanager
        def source(add: Any) -> Iterator[None]:
            recorder = ScriptRecorder(add, level, schedule, runs.limit, memory=self._memory)
            self._recorder = recorder
            as_tensorflow1 = self.asked or bool(self.found)
            if as_tensorflow1:
                script_data.provide()
            script_patches.install(recorder, as_tensorflow1=as_tensorflow1)
            try:
                yield
            finally:
                recorder.stop()

        runs.record(source)

    def name(self, runs: RecordedRuns) -> str:
        from stepscope.adapters.tensorflow import script_patches

        kinds = {run.engine.removeprefix("tensorflow ") for _, run in runs.runs}
        shown = [kind for kind in ("session", "function", "eager", "server") if kind in kinds]
        text = f"tensorflow {script_patches.version()}"
        if shown:
            text += f" ({', '.join(shown)})"
        if self.asked:
            text += " as TensorFlow 1"
        elif self.found:
            text += f" as TensorFlow 1, because of {self.found}"
        return text

    def failed(self, error: BaseException) -> None:
        if self._recorder is not None:
            self._recorder.failed(error)

    def made(self) -> int:
        return self._recorder.runs if self._recorder is not None else 0

    def losses(self) -> list[str]:
        missed = self._recorder.missed if self._recorder is not None else 0
        if not missed:
            return []
        return [f"{wording.number(missed, 'run')}: the script was profiling or recording itself"]

    def problems(self) -> list[str]:
        return self._recorder.problems if self._recorder is not None else []
