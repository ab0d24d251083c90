"""Evaluation of a checkpoint: metrics over the input, and what an event file is told of them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepscope._messages import Summary
from stepscope.graph import GraphKeys, Operation, get_collection
from stepscope.graph.dtypes import as_dtype, int64, string
from stepscope.graph.graph import control_dependencies
from stepscope.graph.tensor_proto import make_tensor_proto
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.variable_scope import get_variable
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.flow.ordering import group
from stepscope.ops.state.variable import assign_add
from stepscope.programs import log
from stepscope.programs.hooks import FinalOpsHook
from stepscope.programs.monitored_session import MonitoredSession
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.programs.scaffold import ChiefSessionCreator, Scaffold
from stepscope.programs.summary_writers import writer_for

_OFTEN = 20
"""From so many evaluations on only every tenth part of them is logged."""


def eval_step() -> Any:
    """The default graph's count of evaluated batches, a local variable, made if it has none."""
    found = get_collection(GraphKeys.EVAL_STEP)
    if found:
        return found[0]
    return get_variable(
        "eval_step", shape=[], dtype=int64, initializer=zeros_initializer(), trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP],
    )  # fmt: skip


class StopAfterNEvals(SessionRunHook):
    """Ends an evaluation after a number of batches; `None` waits for the end of the input."""

    def __init__(self, batches: int | None) -> None:
        self._batches = batches
        self._every = 1 if batches is None or batches < _OFTEN else math.floor(batches / 10)
        self.done: Any = None
        """The count after a batch: to be set before the session begins."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        return SessionRunArgs({"evals_completed": self.done})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        done = int(run_values.results["evals_completed"])
        if self._batches is None:
            log.info("Evaluation [%d]", done)
            return
        if done % self._every == 0 or done == self._batches:
            log.info("Evaluation [%d/%d]", done, self._batches)
        if done >= self._batches:
            run_context.request_stop()


def evaluate_once(
    checkpoint_path: str | None,
    metrics: Mapping[str, tuple[Any, Any]],
    values: Mapping[str, Any],
    steps: int | None,
    scaffold: Scaffold,
    hooks: Sequence[SessionRunHook],
    config: Any,
) -> dict[str, Any]:
    """Run the metrics' updates over the input, in the default graph; their values at its end.

    `metrics` has a value and its update by name, `values` what else is wanted at the end. The
    variables are those of the checkpoint, or initialised where it is None.
    """
    count = eval_step()
    metrics = dict(sorted(metrics.items()))
    updates = [_op(update) for _, update in metrics.values()]
    ops = [group(*updates), assign_add(count, 1, use_locking=True)]
    stop = StopAfterNEvals(steps)
    with control_dependencies(ops):
        stop.done = identity(count.read_value())
    final = FinalOpsHook({**{name: value for name, (value, _) in metrics.items()}, **values})
    creator = ChiefSessionCreator(
        scaffold, config=config, checkpoint_filename_with_path=checkpoint_path
    )
    log.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
    with MonitoredSession(creator, [*hooks, stop, final]) as session:
        while not session.should_stop():
            session.run(ops)
    log.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S"))
    found: dict[str, Any] = final.final_ops_values
    return found


def _op(update: Any) -> Any:
    return update if isinstance(update, Operation) else update.op


def write_results(directory: str, results: Mapping[str, Any], checkpoint: str | None) -> None:
    """Add an evaluation to the event file of its directory: numbers, arrays, and what of."""
    step = int(results[GraphKeys.GLOBAL_STEP])
    shown = ", ".join(f"{key} = {value}" for key, value in sorted(results.items()))
    log.info("Saving dict for global step %d: %s", step, shown)
    summary = Summary()
    for name, value in results.items():
        if name != GraphKeys.GLOBAL_STEP and value is not None:
            _add(summary, name, value)
    writer = writer_for(directory)
    writer.add_summary(summary, step)
    if checkpoint:
        log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint)
        path = np.array(checkpoint.encode(), object)
        value = Summary.Value(tag="checkpoint_path", tensor=make_tensor_proto(path, string))
        writer.add_summary(Summary(value=[value]), step)
    writer.flush()


def _add(summary: Any, name: str, value: Any) -> None:
    if isinstance(value, (float, int, np.floating, np.integer)):
        summary.value.add(tag=name, simple_value=float(value))
    elif isinstance(value, bytes):
        try:
            packed = Summary.FromString(value)
        except Exception:  # noqa: BLE001 - protobuf's error has a name of its own per version
            log.warning("Skipping summary for %s, cannot parse string to Summary.", name)
            return
        for number, part in enumerate(packed.value):
            part.tag = f"{name}/{number}"
        summary.value.extend(packed.value)
    elif isinstance(value, np.ndarray):
        proto = make_tensor_proto(value, as_dtype(value.dtype))
        summary.value.add(tag=name, node_name=name, tensor=proto)
    else:
        log.warning(
            "Skipping summary for %s, must be a float, np.float32, np.int64, np.int32 or int or "
            "np.ndarray or a serialized string of Summary.", name
        )  # fmt: skip
