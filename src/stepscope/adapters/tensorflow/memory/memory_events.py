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
import functools
import os
import sys
import threading
from typing import Final

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.profiler import process_profiler
from stepscope.adapters.tensorflow.memory.allocator_events import CPU
from stepscope.errors import InvalidOptionError, StepscopeError

_USE: Final = "TF_CPU_ALLOCATOR_USE_BFC"
_LIMIT: Final = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
_READ_EVERY_S: Final = 5.0
_reading: Final = threading.Event()
_ended: Final = threading.Event()


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
    if not process_profiler.is_borrowed and not _reading.is_set():
        _reading.set()
        versions.tensorflow()
        process_profiler.keep_open()
        reader = threading.Thread(target=_read, name="stepscope/memory", daemon=True)
        atexit.register(_end, reader)
        reader.start()


def _read() -> None:
    while not _ended.wait(_READ_EVERY_S):
        process_profiler.read_if_idle()


def _end(reader: threading.Thread) -> None:
    _ended.set()
    reader.join(_READ_EVERY_S)


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
    return _told_tensorflow() if "tensorflow" in sys.modules else _is_told()


def _is_told() -> bool:
    return os.environ.get(_USE, "").lower() in ("true", "1")


@functools.cache
def _told_tensorflow() -> bool:
    """The same of one that is imported: it asks once, and every run of ours asks here."""
    return _is_told()


def bytes_in_use() -> dict[str, int]:
    """What the CPU's allocator has given out now, by device; nothing where it does not tell."""
    if not allocator_tells():
        return {}
    try:
        info = versions.tensorflow().config.experimental.get_memory_info("CPU:0")
    except ValueError:
        return {}
    return {CPU: int(info["current"])}
