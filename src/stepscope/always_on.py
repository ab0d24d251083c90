"""`Recorder`: a program recorded from its first step to its last, for a price that its owner names.

    with stepscope.Recorder("recorded", budget="1%") as recorder:
        train()
        if strange:
            recorder.keep("the loss is not a number")

What there is to know of it stands in docs/recorder.md; what it decides by in `stepscope.recorder`.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, Self

from stepscope.errors import StepscopeError
from stepscope.recorder.kept_runs import KeptRuns, given_up
from stepscope.recorder.terms import Terms
from stepscope.recorder.triggers import FileTrigger, MemoryTrigger, Retracing, SignalTrigger
from stepscope.store import LiveRuns, Store

if TYPE_CHECKING:
    from stepscope.adapters.tensorflow.script.recorder import ScriptRecorder
    from stepscope.metadata.readers.kept_file import StepsRecording
    from stepscope.metadata.stored.stored_run import StoredRun
    from stepscope.recorder.keeping import Keep
    from stepscope.recorder.triggers import Trigger

__all__ = ["Recorder"]

_FULL_TRACE: Final = 3
_LOOK_S: Final = 1.0
"""So often is looked for the files of triggers."""


def tensorflow_is_possible() -> bool:
    """Whether the program has TensorFlow, or could import it; nothing is imported to find out."""
    import importlib.util
    import sys

    return "tensorflow" in sys.modules or importlib.util.find_spec("tensorflow") is not None


class Recorder:
    """Records the runs of this process: on the embedded engine, and on TensorFlow.

    On TensorFlow these are calls of functions (a step of Keras is one), runs of sessions, and
    gradient tapes outside of both with the eager code after them. Sessions that were made before it
    was entered are seen by TensorFlow's profiler alone, of which there is less for the same budget.

    Guarantees:

    - `budget` is the share of the program's own time that it waits for us: what recording costs is
      measured as it happens, and less is recorded where it would cost more. The first run of each
      kind is recorded in detail whatever that costs; it is made up for later;
    - at most `memory` bytes are held in memory and `disk` bytes in the store;
    - what the program does, gets and raises is what it would be without us; a recorder that cannot
      write stops recording, and `problem` says why.

    It is entered once. `keep` and `triggers` are as `stepscope.recorder.keeping.Keep` and
    `stepscope.recorder.triggers` have them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        budget: str | float | None = "1%",
        memory: str | float = "64 MB",
        disk: str | float = "1 GB",
        keep: Keep | Mapping[str, float] | None = None,
        triggers: Iterable[str | Trigger] | None = None,
    ) -> None:
        """`path` is a directory, which is made; each process has a file of its own there."""
        self.path = Path(path)
        self._terms = Terms.of(budget, memory, disk, keep, triggers)
        self._stack = ExitStack()
        self._runs: KeptRuns | None = None
        self._store: Store | None = None
        self._is_open = False

    def __enter__(self) -> Self:
        if self._store is not None:
            raise StepscopeError("a Recorder is entered once; make another one")
        place = self.path.absolute()
        try:
            place.mkdir(parents=True, exist_ok=True)
            store = self._store = Store(place, self._committed)
        except OSError as error:
            raise StepscopeError(
                f"{self.path} cannot be used to record in: {error.strerror or error}"
            ) from error
        self._live = LiveRuns(store.path)
        runs = self._runs = KeptRuns(store, self._terms.controller(), self._let_go)
        self._on_tensorflow: ScriptRecorder | None = None
        for last in (self._live.close, self._close_logs, runs.over, store.close, runs.close):
            self._stack.callback(last)
        self._watch_embedded(runs)
        if tensorflow_is_possible():
            self._watch_tensorflow(runs)
        self._watch_triggers()
        self._is_open = True
        # A loop that a hook opened it for may end without telling.
        atexit.register(self.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and self._runs is not None:
            self._runs.keep(f"the program raised {kind.__name__}")
        self.close()

    def close(self) -> None:
        """Record no more, and write what is to be kept. Twice is fine."""
        self._is_open = False
        atexit.unregister(self.close)
        self._stack.close()

    def keep(self, why: str) -> None:
        """Keep the runs of the seconds before now; `why` is shown with them."""
        if self._runs is not None:
            self._runs.keep(why)

    @property
    def is_open(self) -> bool:
        """Whether it records."""
        return self._is_open

    @property
    def problem(self) -> str | None:
        """What went wrong first in writing; None where nothing did."""
        return self._store.problem if self._store is not None else None

    @property
    def overhead(self) -> float:
        """What recording cost so far, as a share of the program's own time."""
        return self._runs.control.budget.overhead if self._runs is not None else 0.0

    @property
    def file(self) -> Path:
        """The store, which every command and `stepscope.load` read."""
        if self._store is None:
            raise StepscopeError("nothing is recorded yet: enter the Recorder first")
        return self._store.path

    def summary(self) -> StepsRecording | None:
        """What was recorded, from the store: after `close`, all of it."""
        from stepscope.metadata.readers.kept_file import recording_of

        return recording_of(self.file)

    # -- engines -----------------------------------------------------------------------------------

    def _watch_embedded(self, runs: KeptRuns) -> None:
        from stepscope.runtime.budgeted_runs import choosing
        from stepscope.runtime.observers import recording

        lacks = functools.partial(given_up, budget=self._terms.budget)
        choose = choosing(
            runs,
            lacks,
            self._live,
            lambda metadata: self._live.kept(metadata.step_id),
            wants_peaks=any(isinstance(one, MemoryTrigger) for one in self._terms.triggers),
        )
        self._stack.enter_context(recording(None, 0, choose=choose))

    def _watch_tensorflow(self, runs: KeptRuns) -> None:
        from stepscope.adapters.tensorflow.script.budgeted import Budgeted
        from stepscope.adapters.tensorflow.script.watching import watching

        wants = {type(one) for one in self._terms.triggers}
        budgeted = Budgeted(
            runs, lambda _graph: None, _FULL_TRACE, wants_peaks=MemoryTrigger in wants
        )
        retraced = self.keep if Retracing in wants else None
        self._on_tensorflow = self._stack.enter_context(watching(budgeted, self.file, retraced))

    def _close_logs(self) -> None:
        if self._on_tensorflow is not None:
            self._on_tensorflow.close()

    def _let_go(self, runs: Sequence[tuple[str, int]]) -> None:
        self._live.stored([step_id for engine, step_id in runs if engine == "embedded"])
        if self._on_tensorflow is not None:
            self._on_tensorflow.stored([step for engine, step in runs if engine != "embedded"])

    def _committed(self, runs: Sequence[StoredRun]) -> None:
        self._let_go([(run.engine, run.step_id) for run in runs])
        if self._runs is not None:
            self._runs.committed(runs)

    # -- triggers ----------------------------------------------------------------------------------

    def _watch_triggers(self) -> None:
        files = []
        for trigger in self._terms.triggers:
            if isinstance(trigger, SignalTrigger):
                self._watch_signal(trigger.signal)
            elif isinstance(trigger, FileTrigger):
                files.append(trigger.path)
        if files:
            ended = threading.Event()
            self._stack.callback(ended.set)
            threading.Thread(
                target=self._look_for, args=(files, ended), name="stepscope triggers", daemon=True
            ).start()

    def _watch_signal(self, number: signal.Signals) -> None:
        """Only the main thread can handle signals; a handler of the program's own stays."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            return

        def came(_number: int, _frame: FrameType | None) -> None:
            self.keep(f"signal {number.name}")

        signal.signal(number, came)
        self._stack.callback(signal.signal, number, signal.SIG_DFL)

    def _look_for(self, files: Sequence[Path], ended: threading.Event) -> None:
        while not ended.wait(_LOOK_S):
            for file in files:
                if file.exists():
                    with suppress(OSError):
                        file.unlink()
                    self.keep(f"file {file}")
