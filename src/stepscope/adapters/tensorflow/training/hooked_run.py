"""One run of a monitored session, recorded for the hooks that want it and for nothing else.

A hook is asked before a run and told after one that went well; in between other hooks run theirs (a
checkpoint being saved, say), and of a run that failed no hook is told. So a hook does not record
from one to the other. It puts a `StandIn` in the place of the session's `run`, which knows the run
that is meant by the hook's place among its fetches: that call is recorded, all others pass.

Guarantees:

- The session has its own `run` back before the run begins, and the recorder is off when it ended,
  whichever way.
- Several hooks that want the same run share one recording, at the highest of their trace levels.
- Where the caller or another hook asks for TensorFlow's own step stats in the same run they get
  them, and the recording is made of them too: TensorFlow needs the profiler for itself then.
  Otherwise it is made through the profiler where that is free, and of step stats where it is not.
- The metadata that the caller and other hooks get hold what they asked for, as without us.
- Calls from other threads (queue runners) pass by at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from stepscope.adapters.tensorflow.failures import (
    inside_python_unknown,
    raise_with,
    status_of,
)
from stepscope.adapters.tensorflow.runs.cluster import ClusterRun, is_cluster
from stepscope.adapters.tensorflow.runs.session_run import SessionRun
from stepscope.adapters.tensorflow.runs.session_shared import shared_by_runs_of
from stepscope.adapters.tensorflow.support import SESSION
from stepscope.metadata import Completeness, Loss, Recording, RunMetadata
from stepscope.options import RunOptions

__all__ = ["StandIn"]

v1 = tf.compat.v1
Deliver = Callable[[RunMetadata, "BaseException | None"], None]


class _Waiting(NamedTuple):
    options: RunOptions
    deliver: Deliver


class StandIn:
    """In the place of a session's `run` until the run comes that hooks wait for."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._run = session.run
        self._before = vars(session).get("run")
        self._waiting: dict[Any, _Waiting] = {}

    @staticmethod
    def expect(session: Any, hook: Any, options: RunOptions, deliver: Deliver) -> StandIn:
        """Record the session's next run with fetches of `hook`, and give it to `deliver`.

        `deliver` gets the metadata and what the run raised, on the thread of the run, before its
        caller gets the result.
        """
        stand_in = vars(session).get("run")
        if not isinstance(stand_in, StandIn):
            stand_in = StandIn(session)
            session.run = stand_in
        stand_in._waiting[hook] = _Waiting(options, deliver)
        return stand_in

    def forget(self, hook: Any) -> None:
        """The hook waits no more. Forgetting twice does nothing."""
        if self._waiting.pop(hook, None) is not None and not self._waiting:
            self._uninstall()

    def _uninstall(self) -> None:
        if vars(self._session).get("run") is not self:
            return
        if self._before is None:
            del self._session.run
        else:
            self._session.run = self._before

    def __call__(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """As the session's `run`."""
        run = self._run
        meant = isinstance(fetches, dict) and any(hook in fetches for hook in self._waiting)
        if not meant:
            return run(fetches, feed_dict, options, run_metadata)
        waiting, self._waiting = list(self._waiting.values()), {}
        self._uninstall()
        call = _Call(self._session, run, fetches, feed_dict, options, run_metadata)
        metadata = RunMetadata()
        try:
            try:
                result = _recorded(call, [want.options for want in waiting], metadata)
            except BaseException as error:
                for want in waiting:
                    want.deliver(metadata, error)
                raise
            for want in waiting:
                want.deliver(metadata, None)
        finally:
            if call.recorded is not None:
                call.recorded.capture.over()
        return result


class _Call:
    """What a session was called with, and how to do it.

    The fetches of the caller and of each hook come as a dict with objects as keys, which has no
    order but its own; `values` are the fetches in that order.
    """

    def __init__(
        self, session: Any, run: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> None:
        self.session = session
        self.fetches = fetches
        self.values = list(fetches.values())
        self.feed_dict = feed_dict
        self.options = options if options is not None else v1.RunOptions()
        self.run_metadata = run_metadata if run_metadata is not None else v1.RunMetadata()
        self._run = run
        self.recorded: SessionRun | None = None
        """The run, where it is recorded by us."""

    def as_asked(self) -> Any:
        """The run as its caller and the other hooks asked for it."""
        return self._run(self.fetches, self.feed_dict, self.options, self.run_metadata)

    def native_run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """A run with other options; the caller's metadata get what the caller asked for."""
        if run_metadata is None:
            return self._run(fetches, feed_dict, options, None)
        # The session may be one of ours, which takes messages alone.
        result = self._run(fetches, feed_dict, options, self.run_metadata)
        run_metadata.ParseFromString(self.run_metadata.SerializeToString())
        self.run_metadata.ClearField("step_stats")
        if not self.options.output_partition_graphs:
            self.run_metadata.ClearField("partition_graphs")
        return result


def _recorded(call: _Call, asked: Sequence[RunOptions], metadata: RunMetadata) -> Any:
    """Do the run, filling `metadata` however it ends."""
    options = RunOptions.FromString(call.options.SerializeToString())
    options.trace_level = max(wish.trace_level for wish in asked)
    for wish in asked:
        # TensorFlow merges the hooks' options into the run's, but for this field.
        if wish.HasField("experimental"):
            options.experimental.MergeFrom(wish.experimental)
    session = call.session
    if is_cluster(session.sess_str):
        options.output_partition_graphs = any(wish.output_partition_graphs for wish in asked)
        return _recorded_on_cluster(call, options, metadata)
    if call.options.trace_level and options.trace_level:
        try:
            result = call.as_asked()
        except BaseException as error:  # noqa: BLE001 - raised again with the run's metadata on it
            metadata.record(_native_recording(call, options, error))
            raise_with(error, metadata)
        metadata.record(_native_recording(call, options, None))
        return result
    run = SessionRun(
        session.graph, call.native_run, shared_by_runs_of(session), call.values, call.feed_dict,
        options,
    )  # fmt: skip
    call.recorded = run
    try:
        values = run.execute()
    except BaseException as error:  # noqa: BLE001 - raised again with the run's metadata on it
        metadata.record(run.failed(error))
        raise_with(error, metadata)
    metadata.record(run.recording(None))
    return dict(zip(call.fetches, values, strict=True))


def _recorded_on_cluster(call: _Call, options: RunOptions, metadata: RunMetadata) -> Any:
    """A run whose options the hook has already raised to what a cluster traces at."""
    session = call.session

    def as_asked(_fetches: Any, _feed_dict: Any, _options: Any, told: Any) -> Any:
        result = call.as_asked()
        told.ParseFromString(call.run_metadata.SerializeToString())
        return result

    run = call.recorded = ClusterRun(
        session.graph, as_asked, shared_by_runs_of(session), call.values, call.feed_dict, options
    )
    try:
        result = run.execute()
    except BaseException as error:  # noqa: BLE001 - raised again with the run's metadata on it
        metadata.record(run.recording(error))
        raise_with(error, metadata)
    metadata.record(run.recording(None))
    return result


def _native_recording(call: _Call, options: RunOptions, error: BaseException | None) -> Recording:
    """What TensorFlow itself recorded of a run with these options: nothing of one that failed."""
    kept = RunMetadata.FromString(call.run_metadata.SerializeToString())
    traced = bool(options.trace_level)
    if error is None:
        losses = [Loss("threads", 0, "TensorFlow's own step stats name no threads")]
        losses += inside_python_unknown(call.session.graph)
    else:
        losses = [Loss("op executions", 0, "TensorFlow gives no step stats of a run that failed")]
    return Recording(
        engine=SESSION,
        status=status_of(error),
        completeness=Completeness(tuple(losses) if traced else ()),
        ops=(lambda: kept.ops) if traced else None,
        partition_graphs=(
            (lambda: list(kept.partition_graphs)) if options.output_partition_graphs else None
        ),
        cost_graph=(lambda: kept.cost_graph) if kept.HasField("cost_graph") else None,
        run_options=options,
    )
