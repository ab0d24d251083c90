"""`TraceHook`: the scheduled steps of a monitored session or an Estimator, recorded.

The same hook as `stepscope.adapters.tensorflow.hooks.TraceHook`, for the embedded engine: the same
arguments, the same numbers of steps, the same tags in the same kind of event file.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from stepscope.export import FileWriter
from stepscope.export.loop_log import RecordedLoop
from stepscope.graph import GraphKeys
from stepscope.layers.global_steps import get_global_step
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.scheduling import Action, StepCounter, every

_ADVANCING = ("AssignAdd", "AssignAddVariableOp", "Assign", "AssignVariableOp", "CountUpTo")


class TraceHook(RecordedLoop, SessionRunHook):
    """Records the runs of a monitored session that a schedule names.

    The step of a run is the value of the global step before it. Where the graph has none, or
    nothing in it changes it (evaluation, prediction), the runs of each session are counted from 0.
    Steps are tagged `step_7`; a second run at the same step is `step_7_2`.

    - `schedule`: `stepscope.schedule(...)`, `stepscope.every(n)`, `"10:15"`, or a function.
    - `logdir`: where to write an event file with the graph and each step's metadata. It may be the
      directory an Estimator writes to: the file is one more there.
    - `options`: what to record; without it SOFTWARE_TRACE. It is merged with what the caller and
      other hooks ask for.
    - `callback`: called with (step, run_metadata) after each recorded step.
    - `recorder`: a `stepscope.Recorder`, which records the loop from its beginning to its end
      within its budget; there need not be a schedule then.

    Without `logdir` and `callback` all recorded steps are kept in `steps`; `last` is always there.
    A step that fails is not among them: its exception has the metadata (`error.run_metadata`).

        hook = TraceHook(stepscope.every(100), logdir=estimator.model_dir)
        estimator.train(input_fn, hooks=[hook], max_steps=1000)
    """

    _session: Any = None
    _counter: StepCounter | None = None
    _step: int | None = None
    """The step that the run now under way is recorded as."""

    def begin(self) -> None:
        """A session is about to be made."""
        self._loop_begins()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Ask for what a scheduled step needs; of any other, nothing."""
        session = run_context.session
        self._step = None
        if self._schedule.ended(0):
            return None
        if session is not self._session:
            self._session = session
            self._counter = _step_counter(session)
        wanted = self._counter.wanted(self._schedule) if self._counter is not None else None
        if wanted is None:
            return None
        step, action = wanted
        if action is Action.RECORD:
            self._step = step
        return SessionRunArgs(None, options=self._options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Take the run's metadata, if it was one of the steps named."""
        step, self._step = self._step, None
        if step is not None:
            graph = run_context.session.graph if self._log.wants_graph else None
            self._log.add(step, f"step_{step}", run_values.run_metadata, graph)

    def end(self, session: Any) -> None:
        """The loop ended well: what was written is made safe on the disk."""
        del session
        self._session = self._counter = None
        self._log.close()
        self._loop_ends()


def run_metadata_hook(steps: int, writer: FileWriter) -> TraceHook:
    """A hook that adds every `steps`-th step's metadata, at FULL_TRACE, to a writer of event files.

    The tag is `step_<n>`, n being the global step before the run; where the file has that tag from
    somebody else, `step_<n>_2` and so on.
    """

    def write(step: int, metadata: RunMetadata) -> None:
        tags = (f"step_{step}", *(f"step_{step}_{use}" for use in range(2, 100)))
        for tag in tags:
            with suppress(ValueError):  # the tag is taken
                writer.add_run_metadata(metadata, tag, step)
                return

    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    return TraceHook(every(steps), options=options, callback=write)


def _step_counter(session: Any) -> StepCounter:
    graph = session.graph
    variable = get_global_step(graph)
    evaluates = bool(graph.get_collection(GraphKeys.EVAL_STEP))
    if variable is None or evaluates or not _is_advanced(variable):
        return StepCounter(None)
    return StepCounter(lambda: session.run(variable))


def _is_advanced(variable: Any) -> bool:
    """Whether the graph has an op that moves it on: initialising and restoring do not."""
    cell = variable.op.values()[0]
    for op in cell.consumers():
        if op.type not in _ADVANCING or op is variable.initializer:
            continue
        value = op.inputs[1].op if len(op.inputs) > 1 else None
        while value is not None and value.type == "Identity":
            value = value.inputs[0].op
        if value is None or value.type != "RestoreV2":
            return True
    return False
