"""One program on both engines: what it gives here and on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stepscope.tf1 as tf1


def both(tf: Any, program: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What a program gives on each engine: its result, or the class of its error."""
    found = []
    for engine in (tf1, tf):
        with engine.Graph().as_default():
            try:
                found.append(program(engine))
            except (TypeError, ValueError) as error:
                found.append(type(error))
    return found[0], found[1]
