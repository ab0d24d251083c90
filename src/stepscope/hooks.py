"""Hooks that fit the engine a program uses, so that the program is the same on each."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepscope import engines
from stepscope.metadata import RunMetadata

if TYPE_CHECKING:
    from stepscope.always_on import Recorder


def TraceHook(
    schedule: Any = None,
    logdir: str | os.PathLike[str] | None = None,
    options: Any = None,
    callback: Callable[[int, RunMetadata], object] | None = None,
    recorder: Recorder | None = None,
) -> Any:
    """A hook that records the scheduled steps of a `MonitoredSession` or an Estimator.

    With `recorder` that one records the loop as well, or alone, within its budget.

    TensorFlow's where the program has imported that, the embedded engine's otherwise. The arguments
    and what comes of them are the same; `stepscope.programs.trace_hook` and
    `stepscope.adapters.tensorflow.training.session_hook` describe them.

        estimator.train(input_fn, hooks=[stepscope.TraceHook("10:15", logdir=estimator.model_dir)])
        estimator.train(input_fn, hooks=[stepscope.TraceHook(recorder=stepscope.Recorder("out"))])
    """
    adapter = engines.adapter_in_use()
    if adapter is not None:
        return adapter.TraceHook(schedule, logdir, options, callback, recorder)
    from stepscope.programs.trace_hook import TraceHook as EmbeddedHook

    return EmbeddedHook(schedule, logdir, options, callback, recorder)
