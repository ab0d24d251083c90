"""A run of a session that TensorFlow's own step stats tell of.

TensorFlow collects them while the run goes, which costs some microseconds per op and nothing before
or after it; the profiler costs the run itself less, and several times as much to be read. They are
less of a record, which is declared: they name no threads, and of a run that fails there are none.

Guarantees. What TensorFlow told is kept as the bytes it came in, and decoded when somebody looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
import tensorflow

from stepscope.adapters.tensorflow.capture.capture import Capture, FindNodes, Nodes, clock
from stepscope.adapters.tensorflow.capture.events import NO_NODES, Row
from stepscope.cached_property import cached_property
from stepscope.metadata import Loss, OpColumns, RunMetadata

v1 = tensorflow.compat.v1

_ROW_NS: Final = 1_100
"""What a row of step stats costs the run, about: measured on warm runs of a thousand ops."""
CHEAPER: Final = "TensorFlow's own step stats, which cost less than the profiler"
INSTEAD: Final = (
    "the profiler is in use by the program itself; TensorFlow's own step stats, which were used "
    "instead"
)
_NO_THREADS: Final = "{why}, do not tell on which thread an op ran"
_NOTHING: Final = (
    "TensorFlow gives no step stats of a run that failed; the next run of the same fetches is "
    "profiled, which is kept however it ends"
)


class ToldByTensorFlow:
    """Stands in for a `RunMetadata` message where TensorFlow's `Session.run` takes one.

    TensorFlow has its message parse what it tells while the caller waits. This keeps the bytes.
    """

    def __init__(self) -> None:
        self._data = b""
        self._message: Any = None

    def ParseFromString(self, data: bytes) -> None:
        self._data = data
        self._message = None

    def SerializeToString(self) -> bytes:
        return self._data

    @property
    def message(self) -> Any:
        """The same as a message of TensorFlow's, parsed once."""
        if self._message is None:
            self._message = v1.RunMetadata.FromString(self._data)
        return self._message


class StepStatsCapture(Capture):
    """Has TensorFlow's own step stats tell of a run.

    `told` is to be given to the run as its metadata.
    """

    has_all: ClassVar[bool] = True
    keeps_failed: ClassVar[bool] = False

    def __init__(self, level: int, told: ToldByTensorFlow, why: str = CHEAPER) -> None:
        """`why` begins the sentence that says what is lost by it."""
        super().__init__(level)
        self._told = told
        self._why = why

    def __enter__(self) -> StepStatsCapture:
        self._begin()
        self.started = clock()
        return self

    def __exit__(self, *_exc: object) -> None:
        ended = clock()
        with self._lock:
            if not self.abandoned:
                self.ended = self.left = ended

    def finish(self) -> None:
        """Nothing is left to be taken."""

    # -- what the run executed -----------------------------------------------------------------

    def logged(self) -> None:
        return None

    def logged_alone(self) -> None:
        return None

    @property
    def has_log_alone(self) -> bool:
        return False

    @cached_property
    def _ops(self) -> OpColumns:
        ops = RunMetadata.FromString(self._told.SerializeToString()).ops
        return ops[np.lexsort((ops.end_ns, ops.start_ns))]

    def executed(self) -> list[tuple[str, str, int]]:
        counts = Counter(zip(self._ops.name, self._ops.op, strict=True))
        return [(name, op, count) for (name, op), count in counts.items()]

    def rows(self, nodes: Nodes = NO_NODES) -> list[Row]:  # noqa: ARG002
        ops = self._ops
        columns = ops.name, ops.op, ops.start_ns.tolist(), ops.end_ns.tolist(), ops.device
        return [
            Row(name, op, start, end, 0, "", device)
            for name, op, start, end, device in zip(*columns, strict=True)
        ]

    def step_names(self) -> list[set[str]]:
        names = self.done()
        return [names] if names else []

    def done(self) -> set[str]:
        return set(self._ops.name)

    def unfinished(self) -> list[Row]:
        return []

    def unseen(self) -> list[Loss]:
        if self.failed:
            return [Loss("op executions", 0, _NOTHING)]
        return [Loss("threads", 0, _NO_THREADS.format(why=self._why))]

    def columns(self, step_id: int, find_nodes: FindNodes) -> OpColumns:  # noqa: ARG002
        ops = self._ops
        return ops.replace(step=np.full(len(ops), step_id, np.int64))

    def recorder(self) -> str:
        return "step stats"

    def storable(self, memory: Mapping[str, Any]) -> None:  # noqa: ARG002
        return None

    # -- what it cost --------------------------------------------------------------------------

    def slowed_ns(self) -> int:
        return min(len(self._ops) * _ROW_NS, (self.ended - self.started) * 9 // 10)
