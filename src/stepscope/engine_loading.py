"""To be told when a program loads the embedded engine, without loading it.

`stepscope run` records whichever engine a program uses, and most programs on TensorFlow never use
the embedded one: its op types and names are loaded when the program asks for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["engine_is_there", "when_loaded"]

_lock = threading.RLock()
_waiting: list[Callable[[], None]] = []
_loaded = False


@contextmanager
def when_loaded(tell: Callable[[], None]) -> Iterator[None]:
    """While active, call `tell` once, as soon as the engine can be watched.

    Now, where it is loaded already; else on the thread that imports it, before the program has it.

    >>> with when_loaded(lambda: print("there it is")):
    ...     engine_is_there()
    there it is
    """
    with _lock:
        if not _loaded:
            _waiting.append(tell)
        else:
            tell()
    try:
        yield
    finally:
        with _lock:
            if tell in _waiting:
                _waiting.remove(tell)


def engine_is_there() -> None:
    """The engine's own call, when it can be watched."""
    global _loaded
    with _lock:
        _loaded = True
        while _waiting:
            _waiting.pop(0)()
