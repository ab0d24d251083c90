"""Notes of the graphs that TensorFlow builds of a script's functions, as they are built.

Nothing is done in a call for which there is a graph already: TensorFlow is watched where it builds
one. What is noted (`stepscope.metadata.program_notes`, kind "trace"):

    what     the function's name; of a step of Keras what it does
    where    the line of the program that called it
    details  `defined`: the line that the function is written in; `own`: that is of the program, and
             of no library; `function`: a number that is the
             same for all graphs of one `tf.function`; `arguments`: what the graph is for, one
             `[kind, path, type, text]` per value; `nodes`: how many the graph has; `grew_bytes`:
             how much larger the process was afterwards; `creates_variables`: the graph is the first
             of two that TensorFlow builds of a function that makes variables; `inside`: it was
             built while another one was; `failed`: it did not come to its end
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.source_lines import innermost_of_user, is_users
from stepscope.adapters.tensorflow.function_building import (
    ArgumentLeaf,
    Building,
    argument_leaves,
    unwrapped,
    watch_building,
)
from stepscope.adapters.tensorflow.script.cost import ScriptCost
from stepscope.adapters.tensorflow.script.names import keras_step
from stepscope.metadata.program_notes import TRACE, Note

_MOST_VALUES: Final = 64
_LONGEST: Final = 120
"""Of so many values of the arguments is noted what they are, and so many letters of each."""
NOT_SEEN: Final = (
    "when functions were traced, and why: this TensorFlow has no place known to Stepscope in which "
    "to see it"
)


class _Here(threading.local):
    depth = 0


class TraceNotes:
    """Notes each graph that TensorFlow builds of a function. `watch`, once TensorFlow is there."""

    def __init__(self, note: Callable[[Note], None], cost: ScriptCost) -> None:
        """`note` is given each note, `cost` what it took to make them."""
        self._note = note
        self._cost = cost
        self._here = _Here()
        self._numbers = itertools.count(1)
        self._functions: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def watch(self) -> bool:
        """Note what is built from now on; False where this TensorFlow does not let us see it."""
        return watch_building(self._begins)

    def _begins(self, building: Building) -> Callable[[Any], None]:
        with self._cost.ours():
            self._here.depth += 1
            where = ""
            with suppress(Exception):  # the script is not to fail for being watched
                where = innermost_of_user(versions.lines_of_stack())
            size = _resident_bytes()
            began = time.time_ns()

        def ends(graph: Any) -> None:
            ended = time.time_ns()
            with self._cost.ours():
                self._here.depth -= 1
                try:
                    details = self._details(building, graph, size)
                except Exception as error:  # noqa: BLE001 - as above
                    details = {"problem": repr(error)}
                self._note(
                    Note(
                        TRACE, began, ended, threading.get_native_id(),
                        _name(building), where, details,
                    )
                )  # fmt: skip

        return ends

    def _details(self, building: Building, graph: Any, size: int) -> dict[str, Any]:
        leaves: list[ArgumentLeaf] = []
        for name, kind in building.arguments.items():
            leaves += argument_leaves(name, kind, _MOST_VALUES - len(leaves))
        return {
            "defined": _defined(building.python_function),
            "own": is_users(_defined(building.python_function) or "<"),
            "function": self._number_of(building.function),
            "arguments": [[leaf.kind, *map(_cut, leaf[1:])] for leaf in leaves],
            "nodes": len(graph.get_operations()) if graph is not None else 0,
            "grew_bytes": max(0, _resident_bytes() - size),
            "creates_variables": building.creates_variables,
            "inside": self._here.depth > 0,
            "failed": graph is None,
        }

    def _number_of(self, function: Any) -> int:
        """The same for all graphs of a `tf.function`."""
        try:
            number = self._functions.get(function)
            if number is None:
                number = self._functions[function] = next(self._numbers)
        except TypeError:  # there is none, of what TensorFlow builds by itself
            number = next(self._numbers)
        return number


def _name(building: Building) -> str:
    return keras_step(unwrapped(building.python_function)) or building.name


def _defined(function: Any) -> str:
    code = getattr(unwrapped(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _resident_bytes() -> int:
    """How much memory the process has; 0 where the system does not say it cheaply."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - ten times as fast
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
