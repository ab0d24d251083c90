"""What a program imports, and how long that takes: notes of the imports that take long.

Python is watched where it loads a module that is not loaded yet: an import of one that is costs
nothing more. Of a library the import is noted that loads it, not what it imports in turn; of the
program's own modules also what they import, so that `import model` does not hide TensorFlow.

Guarantees: imports do, raise and show what they would; on a Python that loads modules in another
way, nothing is noted.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope.metadata.program_notes import IMPORT, Note
from stepscope.own_code import is_own_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["watch"]

LONG_NS: Final = 1_000_000
"""What takes less is not noted."""
_LOADER: Final = "_find_and_load"
_FILE, _NAME = "<frozen importlib._bootstrap>", "_call_with_frames_removed"
"""What frames are called that Python leaves out of the traceback of an import that fails."""


class _Import:
    def __init__(self, name: str) -> None:
        self.name = name
        self.inside: list[Note] = []
        """What it imported that took long, if it is not a library's."""


class _Here(threading.local):
    innermost: _Import | None = None


def watch(note: Callable[[Note], None]) -> Callable[[], None]:
    """Give `note` each import that takes long, of any thread, when it is over.

    That is from now on, until what is returned is called.
    """
    machinery: Any = sys.modules.get("_frozen_importlib")
    original = getattr(machinery, _LOADER, None)
    if not callable(original):
        return lambda: None
    _library_folders()  # which imports modules
    here = _Here()
    clock = time.time_ns

    def find_and_load(name: str, import_: Any) -> Any:
        outer = here.innermost
        here.innermost = mine = _Import(name)
        began = clock()
        try:
            return original(name, import_)
        finally:
            here.innermost = outer
            ended = clock()
            if ended - began >= LONG_NS:
                _ended(mine, began, ended, outer, note)

    code = find_and_load.__code__
    find_and_load.__code__ = code.replace(co_filename=_FILE, co_name=_NAME)
    setattr(machinery, _LOADER, find_and_load)

    def stop() -> None:
        if getattr(machinery, _LOADER) is find_and_load:
            setattr(machinery, _LOADER, original)

    return stop


def _ended(
    mine: _Import, began: int, ended: int, outer: _Import | None, note: Callable[[Note], None]
) -> None:
    library = _is_library(mine.name)
    if outer is not None and library and _is_library(outer.name):
        return
    where = _line(sys._getframe(2))
    made = Note(IMPORT, began, ended, threading.get_native_id(), mine.name, where)
    found = [made] if library else [*mine.inside, made]
    if outer is None:
        for one in found:
            note(one)
    else:
        # Whether that is a library's is known when it is loaded: only then is it in the way.
        outer.inside += found


def _is_library(name: str) -> bool:
    """Whether a module belongs to Python, to an installed package or to us."""
    if is_own_module(name):
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or _is_library_file(file)


@functools.cache
def _library_folders() -> tuple[str, ...]:
    return tuple(f"{sysconfig.get_path(kind)}/" for kind in ("purelib", "platlib", "stdlib"))


def _is_library_file(file: str) -> bool:
    return file.startswith(_library_folders())


def _line(frame: FrameType | None) -> str:
    """The innermost line of the program that is being executed."""
    while frame is not None:
        file = frame.f_code.co_filename
        ours = is_own_module(frame.f_globals.get("__name__"))
        if not (ours or file.startswith("<") or _is_library_file(file)):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
