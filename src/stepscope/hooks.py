"""Hooks that fit the engine a program uses, so that the program is the same on each."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stepscope import engines
from stepscope.metadata import RunMetadata


def TraceHook(
    schedule: Any,
    logdir: str | os.PathLike[str] | None = None,
    options: Any = None,
    callback: Callable[[int, RunMetadata], object] | None = None,
) -> Any:
    """A hook that records the scheduled steps of a `MonitoredSession` or an Estimator.

    TensorFlow's where the program has imported that, the embedded engine's otherwise. The arguments
    and what comes of them are the same; `stepscope.programs.trace_hook` and
    `stepscope.adapters.tensorflow.training.session_hook` describe them.

        estimator.train(input_fn, hooks=[stepscope.TraceHook("10:15", logdir=estimator.model_dir)])
    """
    adapter = engines.adapter_in_use()
    if adapter is not None:
        return adapter.TraceHook(schedule, logdir, options, callback)
    from stepscope.programs.trace_hook import TraceHook as EmbeddedHook

    return EmbeddedHook(schedule, logdir, options, callback)
