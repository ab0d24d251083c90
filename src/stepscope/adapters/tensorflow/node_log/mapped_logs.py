"""The file that the logs of a recorded script lie in, so that they outlive its process.

The records of runs under way, and of those that ended and are not in the store yet, lie in a file
that is mapped (`native/log.h`), and the facts of the graphs that they name beside it. What is read
of them after the process's death stands in `metadata/readers/node_log_file.py`.

Guarantees.
- The file is as large from the start as it ever gets. Where it cannot be made, logs lie on the heap
  as ever, and `MappedLogs.problem` says why.
- A run's log is kept from its end until it is stored.
- A process that ends well removes its files, unless a run that ended could not be stored.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from stepscope.adapters.tensorflow.node_log.log import NodeLog
from stepscope.metadata.readers.node_log_file import GRAPHS, SUFFIX

_BYTES: Final = 1 << 25
"""Room for half a million executions: for more than wait to be stored."""
_KEPT_RUNS: Final = 256
_KEPT_RECORDS: Final = 200_000
"""So many wait here to be stored, before the store is not to wait for more of them."""


class MappedLogs:
    """The file that this process's logs lie in, from making it to `close`."""

    def __init__(self, library: Any, store: Path) -> None:
        """Have logs of this process lie beside the store."""
        self._library = library
        self._process = os.getpid()
        self._path = Path(f"{store}{SUFFIX}")
        self._ended: dict[int, NodeLog] = {}
        code = library.stepscope_map(os.fsencode(self._path), _BYTES)
        self.problem = os.strerror(code) if code else ""
        """Why they lie on the heap; "" where they do not."""

    def ended(self, step_id: int, log: NodeLog) -> float:
        """The run is over, and its log, which was to `stay`, is to be kept until it is stored.

        Gives which share it has of what may wait here.
        """
        self._ended[step_id] = log
        return max(1 / _KEPT_RUNS, log.records / _KEPT_RECORDS)

    def stored(self, step_ids: Iterable[int]) -> None:
        """These runs are in the store, or nobody wants them there. From any thread."""
        for step_id in step_ids:
            log = self._ended.pop(step_id, None)
            if log is not None:
                log.release()

    def close(self) -> None:
        """The process is going to end well: nothing is left behind. In a fork it does nothing."""
        if self.problem or os.getpid() != self._process:
            return
        self._library.stepscope_map(None, 0)
        if not self._ended:
            for file in (self._path, Path(f"{self._path}{GRAPHS}")):
                with contextlib.suppress(OSError):
                    file.unlink()
