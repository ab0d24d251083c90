"""Turning the allocator's events on, and recording them from the start of the program.

Guarantees.
- `enable_memory_events` works before TensorFlow is imported, or says that it is too late.
- From then on the profiler records all the time, so that what is allocated outside of runs is
  known as well. A stretch without runs is read and forgotten every few seconds, except for what is
  still alive; a run is read as any other.
- TensorFlow has one profiler: while it is held open, the program cannot start its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Final

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture import capture as capture_module
from stepscope.adapters.tensorflow.capture.profiler import Batch, SharedProfiler
from stepscope.adapters.tensorflow.memory.allocator_events import CPU
from stepscope.errors import InvalidOptionError, StepscopeError

_USE: Final = "TF_CPU_ALLOCATOR_USE_BFC"
_LIMIT: Final = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
_READ_EVERY_S: Final = 5.0


def enable_memory_events(limit_mb: int | None = None) -> None:
    """Have TensorFlow's allocator tell what it does, and record it from now on.

    To be called before TensorFlow is imported, which this does. With `limit_mb` the CPU's tensors
    may take that many megabytes (of 2**20 bytes) and no more; else a limit in
    `TF_CPU_BFC_MEM_LIMIT_IN_MB` stands.
    """
    if "tensorflow" in sys.modules and not allocator_tells():
        raise StepscopeError(
            "enable_memory_events: TensorFlow is imported already, and chose its allocator then. "
            "Call enable_memory_events() before the first `import tensorflow`, set "
            f"{_USE}=true in the environment of the process, or use `stepscope run --memory`."
        )
    limit = os.environ.get(_LIMIT)
    if "tensorflow" in sys.modules and limit_mb is not None and limit != str(limit_mb):
        raise StepscopeError(
            f"enable_memory_events: a limit of {limit_mb} megabytes was asked for, but TensorFlow "
            f"is imported already, with {limit or 'none'}. Call it before `import tensorflow`."
        )
    set_environment(limit_mb)
    # Under `stepscope run` the profiler is the script's recorder's, which follows memory itself.
    if type(capture_module.shared) is SharedProfiler:  # type: ignore[attr-defined]
        versions.tensorflow()
        profiler = OpenProfiler()
        capture_module.shared = profiler  # type: ignore[attr-defined]
        profiler.open()


def set_environment(limit_mb: int | None = None) -> None:
    """Choose the allocator that tells what it does, for a TensorFlow that is imported later."""
    if limit_mb is not None:
        if limit_mb < 1:
            raise InvalidOptionError(
                f"a memory limit of {limit_mb} megabytes was asked for; at least 1 is needed"
            )
        os.environ[_LIMIT] = str(limit_mb)
    os.environ[_USE] = "true"


def allocator_tells() -> bool:
    """Whether TensorFlow was told to use the allocator that leaves events."""
    return os.environ.get(_USE, "").lower() in ("true", "1")


def bytes_in_use() -> dict[str, int]:
    """What the CPU's allocator has given out now, by device; nothing where it does not tell."""
    if not allocator_tells():
        return {}
    try:
        info = versions.tensorflow().config.experimental.get_memory_info("CPU:0")
    except ValueError:
        return {}
    return {CPU: int(info["current"])}


class OpenProfiler(SharedProfiler):
    """The shared profiler, never stopped for longer than it takes to read it."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = threading.Event()

    def open(self) -> None:
        """Begin to record, until the program ends."""
        self._reopen()
        reader = threading.Thread(target=self._read, name="stepscope/memory", daemon=True)
        atexit.register(self._end, reader)
        reader.start()

    def _read(self) -> None:
        while not self._ended.wait(_READ_EVERY_S):
            self.read_if_idle()

    def _end(self, reader: threading.Thread) -> None:
        self._ended.set()
        reader.join(_READ_EVERY_S)

    def _finish(self, batch: Batch, *, mine: bool) -> None:
        super()._finish(batch, mine=mine)
        self._reopen()

    def _reopen(self) -> None:
        with self._changed:
            if self._batch is None and not self._closing:
                self._batch = self._start()

    def read_if_idle(self) -> None:
        """Read what was recorded outside of runs, unless a run is going on."""
        with self._changed:
            batch = self._batch
            if self._closing or batch is None or batch.running:
                return
            self._stop(batch)
            batch.done.set()
            self._batch = self._start()
