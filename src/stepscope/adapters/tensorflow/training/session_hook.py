"""Session loops: a hook for MonitoredSession and Estimator that records the scheduled steps.

How a single run is recorded, and what that guarantees to everybody else, is in `hooked_run`. The
session of a cluster runs its ops in other processes; for it the hook asks for TensorFlow's own step
stats, the only thing that comes back from there.

This module needs TensorFlow and imports it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from stepscope.adapters.tensorflow.runs.cluster import is_cluster
from stepscope.adapters.tensorflow.support import SESSION, check
from stepscope.adapters.tensorflow.training.global_step import step_counter
from stepscope.adapters.tensorflow.training.hooked_run import StandIn
from stepscope.export.loop_log import RecordedLoop
from stepscope.metadata import RunMetadata
from stepscope.options import ResolvedRunOptions
from stepscope.scheduling import Action, StepCounter

__all__ = ["TraceHook"]

v1 = tf.compat.v1


class TraceHook(RecordedLoop, tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
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
    - `recorder`: a `stepscope.Recorder`, which records the loop from its beginning to its end
      within its budget; there need not be a schedule then.

    Without `logdir` and `callback` all recorded steps are kept in `steps`; `last` is always there.
    """

    _session: Any = None
    _counter: StepCounter | None = None
    _stand_in: StandIn | None = None

    def _check(self, options: ResolvedRunOptions) -> None:
        check(options, SESSION)

    # -- what the session calls ----------------------------------------------------------------

    def begin(self) -> None:
        """A session is about to be made."""
        self._loop_begins()

    def before_run(self, run_context: Any) -> Any:
        """Ask for what a scheduled step needs; of any other, nothing."""
        session = run_context.session
        self._forget()
        if self._schedule.ended(0):
            return None
        if session is not self._session:
            # The first, the next of Estimator's, or one after a recovery.
            self._session = session
            self._counter = step_counter(session)
        wanted = self._counter.wanted(self._schedule) if self._counter is not None else None
        if wanted is None:
            return None
        step, action = wanted

        def deliver(metadata: RunMetadata, error: BaseException | None) -> None:
            self._take(step, action, metadata, error)

        self._stand_in = StandIn.expect(session, self, self._options, deliver)
        options = v1.RunOptions.FromString(self._options.SerializeToString())
        if options.trace_level:
            # Of a cluster's tasks nothing comes back at lower levels, and the graphs say what
            # they do not tell; here the stand-in decides.
            of_cluster = is_cluster(session.sess_str)
            options.trace_level = options.FULL_TRACE if of_cluster else options.NO_TRACE
            options.output_partition_graphs |= of_cluster
        return v1.train.SessionRunArgs(fetches=[], options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """The run went well, and has been taken."""
        del run_context, run_values
        self._forget()

    def end(self, session: Any) -> None:
        """The loop ended well: what was written is made safe on the disk."""
        del session
        self._forget()
        self._session = self._counter = None
        self._log.close()
        self._loop_ends()

    # -- one step ------------------------------------------------------------------------------

    def _take(
        self, step: int, action: Action, metadata: RunMetadata, error: BaseException | None
    ) -> None:
        if isinstance(error, tf.errors.OutOfRangeError):
            return  # how a loop learns that its data are at an end: this was no step
        # A step that failed is kept even where it was to be a warm-up.
        if action is Action.RECORD or error is not None:
            graph = self._session.graph if self._log.wants_graph else None
            self._log.add(step, f"step_{step}", metadata, graph)

    def _forget(self) -> None:
        """Wait for no run: the last one came, or failed before it came to be one."""
        if self._stand_in is not None:
            self._stand_in.forget(self)
            self._stand_in = None
