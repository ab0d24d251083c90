"""One `Session.run` of a script, recorded: its own options and metadata are as without us."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow

from stepscope import options as opts
from stepscope.adapters.tensorflow.runs.cluster import ClusterRun, is_cluster
from stepscope.adapters.tensorflow.runs.session_run import SessionRun
from stepscope.adapters.tensorflow.runs.session_shared import shared_by_runs_of
from stepscope.metadata import Recording, RunNumbers

v1 = tensorflow.compat.v1


class SessionCall:
    """A call of TensorFlow's `Session.run`. Enter it, `call()`, leave it, ask for its recording."""

    def __init__(
        self,
        session: Any,
        native: Callable[..., Any],
        fetches: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
        asked: opts.RunOptions,
    ) -> None:
        """`options` and `run_metadata` are the script's, `asked` is what is recorded."""
        self._options = options
        self._run_metadata = run_metadata
        self._full = asked.trace_level >= opts.RunOptions.FULL_TRACE
        shared = shared_by_runs_of(session)
        self.needs_no_profiler = is_cluster(session.sess_str)
        self._run = (ClusterRun if self.needs_no_profiler else SessionRun)(
            session.graph, functools.partial(native, session), shared, fetches, feed_dict, asked,
            log_alone=True,
        )  # fmt: skip

    @property
    def memory(self) -> Any:
        """What the run's memory was."""
        return self._run.memory

    @property
    def step_id(self) -> int:
        """The run's number."""
        return self._run.step_id

    @property
    def engine(self) -> str:
        """What executes it, as recordings say it."""
        return self._run.engine

    @property
    def graph(self) -> Any:
        """The session's graph."""
        return self._run.graph

    @property
    def capture(self) -> Any:
        """The run's recording; another may be put in its place before the run."""
        return self._run.capture

    @capture.setter
    def capture(self, capture: Any) -> None:
        self._run.capture = capture

    def __enter__(self) -> None:
        self.capture.__enter__()

    def __exit__(self, *exc: object) -> None:
        self.capture.__exit__(*exc)

    def call(self) -> Any:
        """Run it: with the script's options, or with ours where it has none and we need any."""
        options, run_metadata = self._options, self._run_metadata
        if self.needs_no_profiler:
            return self._call_cluster(options or v1.RunOptions(), run_metadata)
        if options is None and run_metadata is None and self.capture.batch is not None:
            ours = self._run.native_options()
            if ours.output_partition_graphs:
                result = self._run.call_native(ours, self._run.told)
                self._run.take_graphs(ours)
                return result
        return self._run.call_native(options, run_metadata)

    def _call_cluster(self, options: Any, run_metadata: Any) -> Any:
        """With what a cluster tells of a run; the script's metadata get what it asked for."""
        ours = self._run.native_options()
        asked = v1.RunOptions()
        asked.CopyFrom(options)
        asked.trace_level = max(asked.trace_level, ours.trace_level)
        asked.output_partition_graphs |= ours.output_partition_graphs
        told = self._run.told
        result = self._run.call_native(asked, told)
        self._run.take_graphs(asked)
        if run_metadata is not None:
            run_metadata.ParseFromString(told.SerializeToString())
            if not options.trace_level:
                run_metadata.ClearField("step_stats")
            if not options.output_partition_graphs:
                run_metadata.ClearField("partition_graphs")
        return result

    def numbers(self) -> RunNumbers | None:
        """What is the run's own, should it be like others of its session; see `RunNumbers`."""
        return self._run.numbers()

    def recording(self) -> Recording:
        """The run as it ended; at full level with its graphs as executed, for `coverage`."""
        recording = self._run.recording(None)
        if self._full and recording.partition_graphs is None:
            return replace(recording, partition_graphs=self._run.shared_graphs())
        return recording
