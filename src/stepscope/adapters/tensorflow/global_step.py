"""Which step of a loop a session's next run is, found out at little cost.

Reading the global step is a run of its own. So it is not read before every run: between two
readings it is taken to lie between the last one and as far on as the runs since can have moved it
at the speed seen so far. Only if the schedule wants any step in there is it read again, and every
16th run in any case. A loop of one worker is thus recorded at exactly the steps named. Where others
move the step on, unevenly, a step may be noticed late, by 16 runs at the most; none is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from stepscope.scheduling import Action, Schedule

__all__ = ["StepCounter"]

_READ_EVERY: Final = 16
_LOOK_AHEAD: Final = 64
"""The most steps a run is asked about beforehand; beyond, reading is cheaper than asking."""
_LOOK_BACK: Final = 10_000
"""How many of the steps that others made since the last reading are looked at."""
_HARMLESS: Final = frozenset(
    {"ReadVariableOp", "VarIsInitializedOp", "Identity", "IsVariableInitialized", "SaveV2"}
)
"""What may be done with a variable without changing it."""


class StepCounter:
    """Counts the runs of one session by its global step, or where that does not move by 1 each.

    The step of a run is the value of the global step before it. A graph without a global step, one
    in which nothing changes it (prediction), and one that evaluates have their runs counted from 0.
    """

    def __init__(self, session: Any) -> None:
        self._at = -1
        self._runs = 0
        """How many runs began since the global step was known to be `_at`."""
        self._speed = 1
        self._read_after = 1
        self._read: Callable[[], Any] | None = None
        v1 = tf.compat.v1
        variable = v1.train.get_global_step(session.graph)
        # An evaluation counts its batches; its graph may hold the training's ops all the same.
        evaluates = bool(session.graph.get_collection(v1.GraphKeys.EVAL_STEP))
        if variable is not None and not evaluates and _is_advanced(variable):
            self._read = session.make_callable(variable)
            self._at = int(self._read()) - 1

    def next(self, schedule: Schedule) -> range | None:
        """The steps the next run stands for; to be called once before each run.

        The last of them is its own; those before it were made by others since. None if the
        schedule skips the run in any case.
        """
        if self._read is None:
            self._at += 1
            return range(self._at, self._at + 1)
        self._runs += 1
        ahead = self._runs * self._speed
        if (
            self._runs < self._read_after
            and ahead <= _LOOK_AHEAD
            and schedule.among(range(self._at, self._at + ahead + 1)) is Action.SKIP
        ):
            return None
        before, self._at = self._at, int(self._read())
        self._speed = max(1, -(-(self._at - before) // self._runs))
        self._read_after = min(2 * self._read_after, _READ_EVERY)
        self._runs = 0
        first = min(before + 1, self._at)
        return range(max(first, self._at - _LOOK_BACK), self._at + 1)


def _is_advanced(variable: Any) -> bool:
    """Whether the graph has an op that moves this variable on: initialising and restoring do not.

    Where that cannot be told it is taken to have one.
    """
    handle = getattr(variable, "handle", None)
    if handle is None:
        handle = getattr(variable, "_variable", None)  # of TensorFlow 1's reference variables
    if handle is None:
        return True
    for op in handle.consumers():
        if op.type in _HARMLESS or op is variable.initializer:
            continue
        if op.type in ("Assign", "AssignVariableOp"):
            value = op.inputs[1].op
            while value.type == "Identity":
                value = value.inputs[0].op
            if value.type == "RestoreV2":
                continue
        return True
    return False
