"""Which lines are the user's, of the frames that made or called an op.

TensorFlow keeps the frames that made a node of a graph. Of an eager op it keeps nothing: there the
stack is looked at after each call (`called_ops`).
"""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from stepscope.adapters.tensorflow import versions

_LIBRARIES = ("tensorflow", "keras", "tf_keras", "tensorflow_estimator", "optree", "wrapt")
_INSTALLED = ("/site-packages/", "/dist-packages/")


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
