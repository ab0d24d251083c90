"""Runs of a script that ask for a memory report or an allocation log, by TensorFlow's options.

TensorFlow's `RunOptions` does not know the names of ours. While a script is recorded it takes them
(`naming_ours`): what it makes is TensorFlow's message, with our fields in its bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepscope import options as opts
from stepscope.adapters.tensorflow.runs.session_run import SessionRun
from stepscope.adapters.tensorflow.runs.session_shared import shared_by_runs_of
from stepscope.metadata import RunMetadata, as_run_metadata_target
from stepscope.metadata.memory.allocation_log import LogSettings


def asks_nothing(options: Any) -> bool:
    """Whether there are no options, or empty ones, as a monitored session has in every step."""
    return options is None or (hasattr(options, "ByteSize") and not options.ByteSize())


def asks_for_memory(options: Any) -> bool:
    """Whether options of TensorFlow's, or of ours, ask for a report or a log."""
    if asks_nothing(options):
        return False
    asked = opts.as_run_options(options)
    return asked is not None and LogSettings.of(asked.resolve()) is not None


class ReportedRun:
    """A call of TensorFlow's `Session.run` whose metadata gets what its options ask for.

    Also where it fails, and then the script's `run_metadata` has it before the error is raised.
    """

    def __init__(
        self,
        session: Any,
        native: Callable[..., Any],
        fetches: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
        trace_level: int,
        note_problem: Callable[[Exception], None],
    ) -> None:
        """`trace_level` is what is recorded of runs that ask for less.

        `note_problem` is told what went wrong in recording: the script does not fail for that.
        """
        asked = opts.RunOptions.FromString(options.SerializeToString())
        asked.trace_level = max(asked.trace_level, trace_level)
        self._note_problem = note_problem
        self._target = as_run_metadata_target(run_metadata)
        self._run = SessionRun(
            session.graph, functools.partial(native, session), shared_by_runs_of(session),
            fetches, feed_dict, asked,
        )  # fmt: skip

    @property
    def metadata(self) -> RunMetadata:
        """What was recorded of the run; after the call."""
        return self._target.metadata

    def call(self) -> Any:
        """Run it; the error of one that fails is TensorFlow's."""
        try:
            result = self._run.execute()
        except BaseException as error:
            self._deliver(error)
            raise
        self._deliver(None)
        return result

    def _deliver(self, error: BaseException | None) -> None:
        try:
            ended = self._run.recording(None) if error is None else self._run.failed(error)
            self._target.deliver(ended)
        except Exception as problem:  # noqa: BLE001 - see above
            self._note_problem(problem)
        self._run.capture.over()


def naming_ours(native: Any) -> Any:
    """TensorFlow's `RunOptions` as it is, but for the names it does not know and ours does."""

    class Names(type):
        def __call__(cls, *args: Any, **fields: Any) -> Any:
            theirs = native.DESCRIPTOR.fields_by_name
            if all(name in theirs for name in fields):
                return native(*args, **fields)
            return native.FromString(opts.RunOptions(**fields).SerializeToString())

        def __getattr__(cls, name: str) -> Any:
            return getattr(native, name)

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, native)

    return Names("RunOptions", (), {"__doc__": native.__doc__, "__module__": native.__module__})
