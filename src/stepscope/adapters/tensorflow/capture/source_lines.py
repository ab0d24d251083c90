"""The user's source lines of ops: which frames are the user's, and where eager ops were called.

TensorFlow keeps the frames that made a node of a graph. Of an eager op it keeps nothing, so a full
trace looks at the stack after each op, some microseconds. Eager ops have no names but their types:
a type that was called from several lines has none of them in `sources`, and `completeness` says so.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from stepscope.adapters.tensorflow import versions
from stepscope.metadata import Loss

_LIBRARIES = ("tensorflow", "keras", "tf_keras", "tensorflow_estimator")
_INSTALLED = ("/site-packages/", "/dist-packages/")

_CALL = "__"
"""What the types begin with that stand for calls of functions."""


@functools.lru_cache(1)
def _library_folders() -> tuple[str, ...]:
    beside = Path(versions.tensorflow().__file__).parent.parent
    ours = Path(__file__).parents[2]
    return tuple(f"{folder}/" for folder in (*(beside / name for name in _LIBRARIES), ours))


@functools.lru_cache(4096)
def is_users(filename: str) -> bool:
    """Whether a file is the user's, and not of TensorFlow, Keras, Python or ours."""
    if filename.startswith(("<", *_library_folders())):
        return False
    own = filename.startswith(f"{sysconfig.get_paths()['stdlib']}/")
    return not own or any(part in filename for part in _INSTALLED)


def innermost_of_user(frames: Iterable[tuple[str, int]]) -> str:
    """`file:line` of the first of these frames that is the user's; "" if none is."""
    return next((f"{name}:{line}" for name, line in frames if is_users(name)), "")


class EagerSources:
    """The lines from which eager ops were called, by op type, and how often."""

    def __init__(self) -> None:
        self._lines: dict[str, Counter[tuple[str, int]]] = {}

    def note(self, op: str) -> None:
        """An op of this type was just called by the code on this thread's stack."""
        if op.startswith(_CALL):
            return
        frame = sys._getframe(1)
        while frame is not None:
            filename = frame.f_code.co_filename
            if is_users(filename):
                line = frame.f_lineno or frame.f_code.co_firstlineno
                self._lines.setdefault(op, Counter())[filename, line] += 1
                return
            frame = frame.f_back  # type: ignore[assignment]

    def add(self, other: EagerSources) -> None:
        """What another stretch of code noted, too."""
        for op, lines in other._lines.items():
            self._lines.setdefault(op, Counter()).update(lines)

    def sources(self) -> dict[str, str]:
        """`file:line` by op type, of the types that were called from one line alone."""
        return {
            op: "{}:{}".format(*next(iter(lines)))
            for op, lines in self._lines.items()
            if len(lines) == 1
        }

    def several(self) -> list[str]:
        """The types that were called from several lines, and have none for it."""
        return sorted(op for op, lines in self._lines.items() if len(lines) > 1)

    def losses(self) -> list[Loss]:
        """The executions of types that were called from several lines."""
        several = self.several()
        if not several:
            return []
        count = sum(self._lines[op].total() for op in several)
        reason = f"eager ops are named by their types, and these have several: {', '.join(several)}"
        return [Loss("source lines of eager ops", count, reason)]
