"""One run of a session on TensorFlow's own cluster (a target `grpc://host:port`).

Nothing of such a run happens in this process, so nothing here can be profiled: what it did is told
by the tasks, in TensorFlow's own step stats. They come at FULL_TRACE only, which is used for every
level, and of runs that end well only. Several of their parts may be about one device (what it
executed, what it received); here every device is there once, its rows in order of time. A row
`RecvTensor` is a transfer: its label names producer, both devices, size and rate, its output has
the exact number of bytes, and it ends when the tensor was there. What TensorFlow leaves out of
them is added (`capture.transfers`). Clocks are those of the tasks.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import tensorflow

from stepscope.adapters.tensorflow.capture.profiled_capture import ProfiledCapture
from stepscope.adapters.tensorflow.capture.transfers import (
    UnloggedTransfer,
    add_rows,
    losses_of,
    unlogged,
)
from stepscope.adapters.tensorflow.failures import inside_python_unknown, new_error, status_of
from stepscope.adapters.tensorflow.memory import cluster_memory
from stepscope.adapters.tensorflow.runs.session_run import NO_GRAPHS, SessionRun
from stepscope.adapters.tensorflow.support import CLUSTER, without_effect
from stepscope.cached_property import cached_property
from stepscope.metadata import Completeness, Loss, OpColumns, Overhead, Recording, RunMetadata
from stepscope.metadata.memory.allocation_log import AllocationLog, LogSettings, log_of
from stepscope.metadata.memory.out_of_memory import OutOfMemory
from stepscope.metadata.wire.allocation_codec import allocations_of
from stepscope.options import RunOptions

v1 = tensorflow.compat.v1

_RUN_NS: Final = 1_000_000
"""What tracing costs a run, about: each task is asked to log its transfers, and for the log."""
_ROW_NS: Final = 4_000
"""What a row of TensorFlow's step stats costs, about."""
_NOT_TOLD: Final = (
    Loss("threads", 0, "the step stats of a cluster do not tell on which thread an op ran"),
    Loss("sends", 0, "the step stats of a cluster have a row for each receive, none for its send"),
)
_NOTHING_TOLD: Final = Loss(
    "op executions", 0, "a cluster gives no step stats of a run that did not end well"
)


def is_cluster(target: str | bytes) -> bool:
    """Whether a session's target is a server, and not this process."""
    return b"://" in target if isinstance(target, bytes) else "://" in target


def check_config(config: Any) -> None:
    """Refuse what a server does not take from a session, before anything is connected."""
    if config is not None and len(config.session_inter_op_thread_pool):
        raise new_error(
            "InvalidArgumentError",
            "ConfigProto.session_inter_op_thread_pool: a session on a cluster cannot have thread "
            "pools of its own; give the configuration to the servers, and leave it out here.",
        )


class ClusterRun(SessionRun):
    """As any run of a session; see the module's text for what is different."""

    engine = CLUSTER

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.capture = ProfiledCapture(0)
        self._log_settings = LogSettings.of(self._options)
        self._out_of_memory: OutOfMemory | None = None

    def _recorder(self) -> str:
        return "step stats" if len(self.native.step_stats.dev_stats) else ""

    def timed_out(self) -> Exception:
        """In the words of a cluster."""
        return new_error(
            "DeadlineExceededError", f"Operation timed out. (timeout of {self._timeout_ms} ms)"
        )

    def execute(self) -> Any:
        """Run it; a deadline that the client or the master saw first is the same deadline."""
        try:
            return super().execute()
        except tensorflow.errors.DeadlineExceededError as error:
            if self._timeout_ms <= 0:
                raise
            raise self.timed_out() from error

    def native_options(self) -> Any:
        """TensorFlow's options for this run, at the one level that a cluster traces at."""
        options = v1.RunOptions()
        if self._asked is not None:
            options.ParseFromString(self._asked.SerializeToString())
        traced = self._options.trace_level > 0
        told = traced or self._log_settings is not None
        options.trace_level = v1.RunOptions.FULL_TRACE if told else v1.RunOptions.NO_TRACE
        if traced and self._kind not in self._shared.graphs:
            options.output_partition_graphs = True
        return options

    def recording(self, error: BaseException | None) -> Recording:
        """The run as it ended."""
        status = status_of(error, self._outcomes)
        level = self._options.trace_level
        losses = [*without_effect(self._options, self._shared.config), *self._reset_ignored]
        if level:
            losses += _NOT_TOLD if status.ok else [_NOTHING_TOLD]
            losses += inside_python_unknown(self.graph) if status.ok else []
            if level != RunOptions.FULL_TRACE:
                losses.append(_other_level(level))
        report = self._report(error)
        if report is not None:
            losses.append(cluster_memory.HOLDERS)
        if not status.ok and not status.in_flight:
            losses.append(self._unnamed("the cluster named none"))
        if self._options.output_partition_graphs and not self.graphs():
            losses.append(NO_GRAPHS)
        settings = self._log_settings

        def completeness() -> Completeness:
            found = [*losses, *losses_of(self._told[1])] if level else losses
            return Completeness((*found, *(log().losses(settings) if settings else ())))

        @functools.cache
        def log() -> AllocationLog:
            return log_of(allocations_of(self._told[0]), settings or LogSettings())

        memory: dict[str, Any] = {"out_of_memory": report}
        if settings is not None:
            memory["allocation_log"] = lambda: log().columns
        return self._recording(status, completeness, self._overhead, lambda: self._told[0], memory)

    def _report(self, error: BaseException | None) -> OutOfMemory | None:
        """Who held memory, as far as is known, if that is what the run wanted for."""
        shared = self._shared
        if error is None and self._options.trace_level:
            shared.fitted = lambda: allocations_of(self._told[0])
        if error is None or self._out_of_memory is not None:
            return self._out_of_memory
        self._out_of_memory = cluster_memory.report_on(
            error, self.graph, shared.fitted, self._sources
        )
        return self._out_of_memory

    @cached_property
    def _told(self) -> tuple[OpColumns, list[UnloggedTransfer]]:
        """The run's rows, and the transfers that TensorFlow had none of."""
        message = RunMetadata.FromString(self.native.SerializeToString())
        found = unlogged(message.ops, self.graphs()) if len(message.ops) else []
        add_rows(message.step_stats, found)
        ops = message.ops
        ops = ops[np.lexsort((ops.end_ns, ops.start_ns))]
        ops.step = np.full(len(ops), self.step_id, np.int64)
        return ops, found

    def _overhead(self) -> Overhead:
        rows = sum(len(device.node_stats) for device in self.native.step_stats.dev_stats)
        if not rows:
            return Overhead()
        whole = self.capture.ended - self.capture.started
        return self.capture.overhead_with(min(_RUN_NS + rows * _ROW_NS, whole // 2))


def _other_level(level: int) -> Loss:
    name = v1.RunOptions.TraceLevel.Name(level)
    return Loss("trace_level", 0, f"a cluster traces at FULL_TRACE only, used instead of {name}")
