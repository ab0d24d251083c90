"""Where the recorded steps of a loop go: event files, the user's function, or memory.

Guarantees:

- A step is in the event file when `add` returns; what comes later, the end of the process
  included, does not take it away.
- Recording is not the program's business: a file that cannot be written or a callback that raises
  is dropped with a warning, and the loop goes on.
- The event file is ours alone, under a name with its own suffix: what TensorFlow, Estimator or
  Keras write into the same directory is never touched. There is none before the first step.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from stepscope.export.tensorboard.writers import TensorBoardWriter
from stepscope.metadata import RunMetadata
from stepscope.options import ResolvedRunOptions, RunOptions, as_run_options
from stepscope.scheduling import Action, Schedule, as_schedule, never

SUFFIX = ".stepscope"
"""What the names of our event files end with."""


class LoggedStep(NamedTuple):
    """One recorded step: its number, its tag in the event file, and what it did."""

    step: int
    tag: str
    metadata: RunMetadata


class LoopLog:
    """Takes the recorded steps of one loop."""

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None,
        callback: Callable[[int, RunMetadata], object] | None,
    ) -> None:
        """Make `logdir` if it is not there; `OSError` where it cannot be made."""
        if callback is not None and not callable(callback):
            raise TypeError(
                f"callback takes a function of (step, run_metadata), found {callback!r:.60}"
            )
        self.last: LoggedStep | None = None
        self.kept: list[LoggedStep] = []
        self._keeps = logdir is None and callback is None
        self._logdir = None if logdir is None else Path(logdir)
        self._callback = callback
        self._writer: TensorBoardWriter | None = None
        self._has_graph = False
        self._uses: Counter[str] = Counter()
        if self._logdir is not None:
            self._logdir.mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> Path | None:
        """The event file, once there is one."""
        return None if self._writer is None else self._writer.event_writer.path

    @property
    def wants_graph(self) -> bool:
        """Whether a graph would be written: TensorBoard shows one per directory."""
        return self._logdir is not None and not self._has_graph

    def add(self, step: int, tag: str, metadata: RunMetadata, graph: Any = None) -> None:
        """Write, hand over or keep a recorded step.

        `graph` goes into the event file before it, if none is there. A tag that comes again (a step
        run twice) is given a number: `step_7`, `step_7_2`.
        """
        self._uses[tag] += 1
        if self._uses[tag] > 1:
            tag = f"{tag}_{self._uses[tag]}"
        self.last = LoggedStep(step, tag, metadata)
        if self._keeps:
            self.kept.append(self.last)
        if self._logdir is not None:
            self._write(self._logdir, self.last, graph)
        if self._callback is not None:
            try:
                self._callback(step, metadata)
            except Exception as error:  # noqa: BLE001 - the loop is not to fail for its observer
                self._callback = None
                _warn(
                    f"The callback for recorded steps raised {type(error).__name__}: {error} "
                    f"(at {tag}); it sees no more steps."
                )

    def _write(self, logdir: Path, recorded: LoggedStep, graph: Any) -> None:
        try:
            if self._writer is None:
                self._writer = TensorBoardWriter(logdir, filename_suffix=SUFFIX)
            elif self._writer.event_writer.closed:
                self._writer.reopen()
            graph = None if self._has_graph else graph
            self._writer.add_run(recorded.metadata, recorded.step, tag=recorded.tag, graph=graph)
            self._has_graph |= graph is not None
        except OSError as error:
            self._logdir = None
            _warn(
                f"{recorded.tag} cannot be written to {logdir}: {error}; no more steps are written."
            )

    def close(self) -> None:
        """Wait until what was written is on the disk. A step added later goes into a new file."""
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                _warn(f"The event file {self.path} may not be on the disk whole: {error}")


class KeepsRuns(Protocol):
    """A `stepscope.Recorder`, which records while it is open."""

    @property
    def is_open(self) -> bool:
        """Whether it records."""

    def __enter__(self) -> Any: ...

    def close(self) -> None:
        """Record no more."""


class RecordedLoop:
    """What hooks and callbacks have in common: a schedule, options, and a log to look at.

    With `recorder`, a `stepscope.Recorder`, the loop is recorded by that as well, within its
    budget: it is opened when the loop begins, and closed when it ends, unless it was open before.
    Then there need not be a schedule.
    """

    _opened = False

    def __init__(
        self,
        schedule: Schedule | Callable[[int], Action | bool] | str | None = None,
        logdir: str | os.PathLike[str] | None = None,
        options: Any = None,
        callback: Callable[[int, RunMetadata], object] | None = None,
        recorder: KeepsRuns | None = None,
    ) -> None:
        super().__init__()
        if schedule is None and recorder is None:
            raise TypeError(
                'a schedule says which steps are recorded: "10:15", stepscope.every(100); or give '
                "recorder=stepscope.Recorder(...), which decides by its budget"
            )
        self._recorder = recorder
        self._schedule = never() if schedule is None else as_schedule(schedule)
        self._options = as_run_options(options) or RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
        self._check(self._options.resolve())
        self._log = LoopLog(logdir, callback)

    def _loop_begins(self) -> None:
        """Have the recorder, if there is one, record from now on."""
        if self._recorder is not None and not self._recorder.is_open:
            self._recorder.__enter__()
            self._opened = True

    def _loop_ends(self) -> None:
        """Close what this opened."""
        if self._opened and self._recorder is not None:
            self._opened = False
            self._recorder.close()

    def _check(self, options: ResolvedRunOptions) -> None:
        """Refuse what the loop's engine cannot do; the embedded engine does everything."""

    @property
    def steps(self) -> list[LoggedStep]:
        """The recorded steps, if there is neither `logdir` nor `callback` to take them."""
        return self._log.kept

    @property
    def last(self) -> LoggedStep | None:
        """The step recorded last."""
        return self._log.last

    @property
    def event_file(self) -> Path | None:
        """The event file written to, once there is one."""
        return self._log.path


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
