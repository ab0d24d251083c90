"""Which step a run of a TensorFlow session is: by its global step, if something moves that on."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from stepscope.scheduling import StepCounter

__all__ = ["step_counter"]

_HARMLESS: Final = frozenset(
    {"ReadVariableOp", "VarIsInitializedOp", "Identity", "IsVariableInitialized", "SaveV2"}
)
"""What may be done with a variable without changing it."""


def step_counter(session: Any) -> StepCounter:
    """Counts the runs of a session by its global step.

    In a graph without one, in one in which nothing changes it (prediction), and in one that
    evaluates, the runs are counted from 0.
    """
    v1 = tf.compat.v1
    variable = v1.train.get_global_step(session.graph)
    # An evaluation counts its batches; its graph may hold the training's ops all the same.
    evaluates = bool(session.graph.get_collection(v1.GraphKeys.EVAL_STEP))
    if variable is None or evaluates or not _is_advanced(variable):
        return StepCounter(None)
    return StepCounter(session.make_callable(variable))


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
