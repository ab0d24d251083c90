"""Keeping TensorFlow's C++ log quiet about a profiler that is ours, not the program's.

Starting and reading the profiler writes some ten lines to stderr each time. TensorFlow's log level
is fixed when it is loaded, but the logging library under it has a level of its own that can be
changed: its functions are found by name in TensorFlow's library. Where they are not there, or have
no say because TensorFlow has a log of its own (2.15), the lines stay.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepscope.adapters.tensorflow import versions

_ERROR = 2
_SETTER = re.compile(rb"_ZN4absl\d+lts_\d+14SetMinLogLevelENS\d_\d+LogSeverityAtLeastE")
_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_framework.2.dylib")
_lock = threading.RLock()
_found: list[Any] = []


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, nothing below an error is logged, by any thread: for moments only."""
    with _lock:
        functions = _functions()
        if functions is None:
            yield
            return
        get, set_level = functions
        before = get()
        set_level(max(before, _ERROR))
        try:
            yield
        finally:
            set_level(before)


def _functions() -> Any:
    """The getter and the setter of the level, looked for once; None if they are not there."""
    if not _found:
        _found.append(_look())
    return _found[0]


def _look() -> Any:
    folder = Path(versions.tensorflow().__file__).parent
    for name in _LIBRARIES:
        path = folder / name
        if not path.exists():
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            match = _SETTER.search(data)
            setter = match[0].decode() if match is not None else ""
        if not setter:
            continue
        getter = re.sub(r"14SetMinLogLevel.*", "11MinLogLevelEv", setter)
        try:
            library = ctypes.CDLL(str(path))
            functions = library[getter], library[setter]
        except (OSError, AttributeError):
            continue
        functions[0].restype = ctypes.c_int
        functions[1].argtypes = (ctypes.c_int,)
        functions[1].restype = None
        return functions
    return None
