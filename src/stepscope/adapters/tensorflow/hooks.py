"""Session loops: a hook for MonitoredSession and Estimator that records the scheduled steps.

A hook is asked before a run and told after one that went well; around the run itself other hooks
run theirs (a checkpoint being saved, say), and of a run that failed no hook is told. So the hook
does not record from one to the other: before a scheduled step it stands in for the session's `run`
for one call, which it knows by its own place among the fetches. That call alone is recorded,
through the profiler where it is free, and the exception of a failed run passes by with its
metadata.

Where another hook or the caller asks for TensorFlow's own step stats in the same run, they get
them, and so does this hook: the profiler is then left alone, which TensorFlow needs for itself. The
session of a cluster, whose ops run in other processes, is recorded in the same way.

This module needs TensorFlow and imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from stepscope.adapters.tensorflow.failures import both_classes
from stepscope.adapters.tensorflow.function import raise_with
from stepscope.adapters.tensorflow.loop_log import LoopLog, RecordedStep
from stepscope.adapters.tensorflow.session import _SessionRun
from stepscope.adapters.tensorflow.support import SESSION, check
from stepscope.metadata import Completeness, Loss, Recording, RunMetadata
from stepscope.options import RunOptions, as_run_options
from stepscope.scheduling import Action, Schedule, as_schedule

__all__ = ["TraceHook"]

v1 = tf.compat.v1
_LOOK_BACK: Final = 10_000
"""How many steps made by others since the last run of ours are looked at."""


class TraceHook(v1.train.SessionRunHook):  # type: ignore[misc]
    """Records the runs of a monitored session that a schedule names.

    The step of a run is the value of the global step before it. Where the graph has none, or
    nothing in it changes it (evaluation, prediction), the runs of each session are counted from 0.
    If other workers moved the global step on, a run stands for the steps since the last as well.
    Steps are tagged `step_7`; a second run at the same step is `step_7_2`.

    - `schedule`: `stepscope.schedule(...)`, `stepscope.every(n)`, `"10:15"`, or a function.
    - `logdir`: where to write an event file with the graph and each step's metadata. It may be the
      directory Estimator writes to: the file is one more there.
    - `options`: what to record; without it SOFTWARE_TRACE. All that is asked for besides the trace
      level is merged with what the caller and other hooks ask for.
    - `callback`: called with (step, run_metadata) after each recorded step, failed ones included.

    Without `logdir` and `callback` all recorded steps are kept in `steps`; `last` is always there.
    """

    def __init__(
        self,
        schedule: Schedule | Callable[[int], Action | bool] | str,
        logdir: str | os.PathLike[str] | None = None,
        options: Any = None,
        callback: Callable[[int, RunMetadata], object] | None = None,
    ) -> None:
        self._schedule = as_schedule(schedule)
        self._options = as_run_options(options) or RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
        check(self._options.resolve(), SESSION)
        self._log = LoopLog(logdir, callback)
        self._session: Any = None
        self._steps: _StepCounter = _StepCounter(None)
        self._over = False
        self._restore: Callable[[], None] | None = None
        self._from_options: tuple[int, Action] | None = None
        self._graphs_seen: dict[Any, list[Any]] = {}

    @property
    def steps(self) -> list[RecordedStep]:
        """The recorded steps, if there is neither `logdir` nor `callback` to take them."""
        return self._log.kept

    @property
    def last(self) -> RecordedStep | None:
        """The step recorded last."""
        return self._log.last

    @property
    def event_file(self) -> Path | None:
        """The event file written to, once there is one."""
        return self._log.path

    # -- what the session calls ----------------------------------------------------------------

    def before_run(self, run_context: Any) -> Any:
        """Ask for what a scheduled step needs; of any other, nothing."""
        session = run_context.session
        if session is not self._session:
            self._adopt(session)
        self._disarm()
        if self._over:
            return None
        steps = self._steps.next()
        step = steps[-1]
        if self._schedule.ended(steps[0]):
            self._over = True
            return None
        action = self._schedule.among(steps)
        if action is Action.SKIP:
            return None
        options = v1.RunOptions.FromString(self._options.SerializeToString())
        if getattr(session, "sess_str", b""):
            self._from_options = (step, action)
            if options.trace_level:
                # The one level at which the tasks of a cluster send anything back.
                options.trace_level = v1.RunOptions.FULL_TRACE
        else:
            self._arm(session, step, action)
            options.trace_level = v1.RunOptions.NO_TRACE
        return v1.train.SessionRunArgs(fetches=[], options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Take the step stats of a run whose recording was left to TensorFlow."""
        self._disarm()
        if self._from_options is not None:
            (step, action), self._from_options = self._from_options, None
            metadata = RunMetadata()
            metadata.record(self._native_recording(run_values.run_metadata))
            self._add(step, action, metadata, run_context.session.graph)

    def end(self, session: Any) -> None:
        """The loop ended well: what was written is made safe on the disk."""
        del session
        self._disarm()
        self._session = None
        self._log.close()

    # -- one step ------------------------------------------------------------------------------

    def _adopt(self, session: Any) -> None:
        """Another session: the first, the next of Estimator's, or one after a recovery."""
        self._disarm()
        self._session = session
        self._steps = _StepCounter(session)
        self._over = False
        self._from_options = None
        self._graphs_seen = {}

    def _arm(self, session: Any, step: int, action: Action) -> None:
        """Stand in for the session's `run` until the call comes that has this hook's fetches."""
        run = session.run

        def recorded(
            fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
        ) -> Any:
            if not (isinstance(fetches, dict) and self in fetches):
                return run(fetches, feed_dict, options, run_metadata)
            self._disarm()
            call = _HookedCall(session, run, fetches, feed_dict, options, run_metadata)
            return self._run(call, step, action)

        self._restore = lambda: vars(session).pop("run", None)
        session.run = recorded

    def _disarm(self) -> None:
        if self._restore is not None:
            self._restore()
            self._restore = None

    def _run(self, call: _HookedCall, step: int, action: Action) -> Any:
        metadata = RunMetadata()
        graph = call.graph
        try:
            if call.options.trace_level:
                result = call.as_asked()
                metadata.record(self._native_recording(call.run_metadata))
            else:
                result = self._traced(call, metadata)
        except tf.errors.OutOfRangeError:
            raise  # how a loop learns that its data are at an end: this was no step
        except BaseException:
            # A step that failed is kept even where it was to be a warm-up.
            self._add(step, Action.RECORD, metadata, graph)
            raise
        self._add(step, action, metadata, graph)
        return result

    def _traced(self, call: _HookedCall, metadata: RunMetadata) -> Any:
        options = RunOptions.FromString(call.options.SerializeToString())
        options.trace_level = self._options.trace_level
        if self._options.HasField("experimental") and not options.HasField("experimental"):
            options.experimental.CopyFrom(self._options.experimental)  # the session's merge has not
        call._stepscope_nodes = self._graphs_seen
        run = _SessionRun(call, call.values, call.feed_dict, options, options.resolve())  # type: ignore[arg-type]
        try:
            values = run.execute()
        except BaseException as error:
            both_classes(error)
            metadata.record(run.recording(error))
            raise_with(error, metadata)
        metadata.record(run.recording(None))
        return dict(zip(call.fetches, values, strict=True))

    def _native_recording(self, native: Any) -> Recording:
        """TensorFlow's own step stats as a run of ours."""
        data = native.SerializeToString()
        kept = RunMetadata.FromString(data)
        traced = bool(self._options.trace_level)
        loss = Loss(
            "threads", 0, "TensorFlow's own step stats do not say on which thread an op ran"
        )
        return Recording(
            engine=SESSION,
            completeness=Completeness((loss,) if traced else ()),
            ops=(lambda: kept.ops) if traced else None,
            partition_graphs=(
                (lambda: list(kept.partition_graphs))
                if self._options.output_partition_graphs
                else None
            ),
            cost_graph=(lambda: kept.cost_graph) if kept.HasField("cost_graph") else None,
            run_options=self._options,
        )

    def _add(self, step: int, action: Action, metadata: RunMetadata, graph: Any) -> None:
        if action is Action.RECORD:
            self._log.add(step, f"step_{step}", metadata, graph if self._log.wants_graph else None)


class _HookedCall:
    """One `run` of a monitored session: what it was called with, and how to do it.

    The fetches of the caller and of each hook come as a dict with objects as keys; what is run are
    its values, in its order.
    """

    def __init__(
        self, session: Any, run: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> None:
        self.graph = session.graph
        self.fetches = fetches
        self.values = list(fetches.values())
        self.feed_dict = feed_dict
        self.options = options if options is not None else v1.RunOptions()
        self.run_metadata = run_metadata if run_metadata is not None else v1.RunMetadata()
        self._stepscope_nodes: dict[Any, list[Any]] = {}
        self._run = run

    def as_asked(self) -> Any:
        """The run as its caller and the other hooks asked for it."""
        return self._run(self.fetches, self.feed_dict, self.options, self.run_metadata)

    def native_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        """The run with options of ours; the caller's and other hooks' metadata are filled too."""
        result = self._run(fetches, feed_dict, options, run_metadata)
        self.run_metadata.CopyFrom(run_metadata)
        if not self.options.output_partition_graphs:
            self.run_metadata.ClearField("partition_graphs")
        if not self.options.trace_level:
            self.run_metadata.ClearField("step_stats")
        return result


class _StepCounter:
    """The steps that the next run of a session stands for, the last of them being its own."""

    def __init__(self, session: Any) -> None:
        self._last = -1
        self._read: Callable[[], Any] | None = None
        variable = None if session is None else v1.train.get_global_step(session.graph)
        if variable is not None and _is_advanced(variable):
            self._read = session.make_callable(variable)
            self._last = int(self._read()) - 1

    def next(self) -> range:
        """To be called once before each run."""
        before = self._last
        self._last = before + 1 if self._read is None else int(self._read())
        first = min(before + 1, self._last)
        return range(max(first, self._last - _LOOK_BACK), self._last + 1)


_NO_ADVANCE: Final = frozenset(
    {"ReadVariableOp", "VarIsInitializedOp", "Identity", "IsVariableInitialized", "SaveV2"}
)


def _is_advanced(variable: Any) -> bool:
    """Whether the graph has an op that moves this variable on: initialising and restoring do not.

    Where that cannot be told it is taken to have one.
    """
    handle = getattr(variable, "handle", None)
    if handle is None:
        handle = getattr(variable, "_variable", None)
    if handle is None:
        return True
    for op in handle.consumers():
        if op.type in _NO_ADVANCE or op is variable.initializer:
            continue
        if op.type in ("Assign", "AssignVariableOp"):
            value = op.inputs[1].op
            while value.type == "Identity":
                value = value.inputs[0].op
            if value.type == "RestoreV2":
                continue
        return True
    return False
