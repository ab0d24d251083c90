"""Monitors of `tf.contrib.learn`: what hooks were called before there were hooks.

A monitor is told of each step by its number, counted from 1, and may ask for tensors by name.
`RunHookAdapterForMonitors` is the hook that tells them; it runs in any monitored session.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscope.programs import log
from stepscope.programs.hooks import NanLossDuringTrainingError, element, step_for
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.programs.saving.checkpoints import latest_checkpoint
from stepscope.programs.summary_writers import writer_for


class BaseMonitor:
    """Something that is told of a training's steps. Who overrides a method calls it, too."""

    def __init__(self) -> None:
        self._begun = False
        self._current_step: int | None = None
        self._max_steps: int | None = None
        self._estimator: Any = None

    @property
    def run_on_all_workers(self) -> bool:
        return False

    def set_estimator(self, estimator: Any) -> None:
        """Called by the estimator that is trained."""
        if estimator is None:
            raise ValueError("Missing estimator.")
        self._estimator = estimator

    def begin(self, max_steps: int | None = None) -> None:
        """Called before the first step, while the graph can still be changed."""
        if self._begun:
            raise ValueError("begin called twice without end.")
        self._max_steps = max_steps
        self._begun = True

    def end(self, session: Any = None) -> None:
        """Called after the last step."""
        del session
        if not self._begun:
            raise ValueError("end called without begin.")
        self._max_steps = None
        self._begun = False

    def step_begin(self, step: int) -> Sequence[Any]:
        """Called before a step; the tensors, or their names, that are wanted of it."""
        if step < 0 or (self._max_steps is not None and step > self._max_steps):
            raise ValueError(f"Invalid step {step}.")
        self._current_step = step
        return []

    def step_end(self, step: int, output: Mapping[str, Any]) -> bool | None:
        """Called with the values asked for, by name; True ends the training."""
        del output
        if self._current_step != step:
            raise ValueError(f"step_end expected {self._current_step} but got {step}.")
        self._current_step = None
        return False

    def post_step(self, step: int, session: Any) -> None:
        """Called after `step_end`, with a session for runs of its own."""


class EveryN(BaseMonitor):
    """A monitor with methods that are called every so many steps, and at the first ones."""

    def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1) -> None:
        super().__init__()
        self._every_n_steps = every_n_steps
        self._first_n_steps = first_n_steps
        self._last_successful_step: int | None = None
        self._last_active_step = 0
        self._is_active = False

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        """As `step_begin`."""
        del step
        return []

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool | None:
        """As `step_end`."""
        del step, outputs
        return False

    def every_n_post_step(self, step: int | None, session: Any) -> None:
        """As `post_step`; at the end once more, if the last step was none of the n-th ones."""

    def step_begin(self, step: int) -> Sequence[Any]:
        super().step_begin(step)
        self._is_active = (
            step <= self._first_n_steps
            or step >= self._every_n_steps + self._last_active_step
            or step == self._max_steps
        )
        return self.every_n_step_begin(step) if self._is_active else []

    def step_end(self, step: int, output: Mapping[str, Any]) -> bool | None:
        super().step_end(step, output)
        return self.every_n_step_end(step, output) if self._is_active else False

    def post_step(self, step: int, session: Any) -> None:
        super().post_step(step, session)
        if self._is_active:
            self.every_n_post_step(step, session)
            self._last_active_step = step
        self._last_successful_step = step

    def end(self, session: Any = None) -> None:
        super().end(session=session)
        if self._last_successful_step != self._last_active_step:
            self.every_n_post_step(self._last_successful_step, session)


class StopAtStep(BaseMonitor):
    """Ends the training at a step, or after a number of steps."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        super().__init__()
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps or 0
        self._last_step = last_step

    @property
    def run_on_all_workers(self) -> bool:
        return True

    def step_begin(self, step: int) -> Sequence[Any]:
        super().step_begin(step)
        if self._last_step is None:
            self._last_step = step + self._num_steps - 1
        return []

    def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
        super().step_end(step, output)
        return step >= (self._last_step or 0)


class PrintTensor(EveryN):
    """Logs values of tensors."""

    def __init__(
        self, tensor_names: Mapping[str, str] | Iterable[str], every_n: int = 100, first_n: int = 1
    ) -> None:
        super().__init__(every_n, first_n)
        self._names = (
            dict(tensor_names)
            if isinstance(tensor_names, Mapping)
            else {name: name for name in tensor_names}
        )

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        super().every_n_step_begin(step)
        return list(self._names.values())

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool | None:
        super().every_n_step_end(step, outputs)
        shown = [f"{tag} = {outputs[name]}" for tag, name in self._names.items()]
        log.info("Step %d: %s", step, ", ".join(shown))
        return False


class SummarySaver(EveryN):
    """Adds a summary to an event file."""

    def __init__(
        self,
        summary_op: Any,
        save_steps: int = 100,
        output_dir: str | os.PathLike[str] | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
    ) -> None:
        """Without `output_dir` and a writer, to that of the estimator's directory."""
        super().__init__(every_n_steps=save_steps)
        self._summary_op = summary_op
        self._scaffold = scaffold
        self._writer = summary_writer
        if summary_writer is None and output_dir:
            self._writer = writer_for(output_dir)

    def set_estimator(self, estimator: Any) -> None:
        super().set_estimator(estimator)
        if self._writer is None:
            self._writer = writer_for(estimator.model_dir)

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        super().every_n_step_begin(step)
        if self._summary_op is None and self._scaffold is not None:
            self._summary_op = self._scaffold.summary_op
        return [] if self._summary_op is None else [self._summary_op]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool | None:
        super().every_n_step_end(step, outputs)
        if self._summary_op is not None and self._writer is not None:
            self._writer.add_summary(outputs[_name(self._summary_op)], step)
        return False

    def end(self, session: Any = None) -> None:
        super().end(session=session)
        if self._writer is not None:
            self._writer.flush()


class ValidationMonitor(EveryN):
    """Evaluates the last checkpoint, if it is a new one; may end the training early."""

    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Any = None,
        batch_size: int | None = None,
        eval_steps: int | None = None,
        every_n_steps: int = 100,
        metrics: Any = None,
        hooks: Any = None,
        early_stopping_rounds: int | None = None,
        early_stopping_metric: str = "loss",
        early_stopping_metric_minimize: bool = True,
        name: str | None = None,
    ) -> None:
        """Stops once the metric has not become better for `early_stopping_rounds` steps."""
        super().__init__(every_n_steps=every_n_steps, first_n_steps=-1)
        if x is None and input_fn is None:
            raise ValueError("Either x or input_fn should be provided.")
        self._arguments = {
            "x": x, "y": y, "input_fn": input_fn, "batch_size": batch_size, "steps": eval_steps,
            "metrics": metrics, "hooks": hooks, "name": name,
        }  # fmt: skip
        self._rounds = early_stopping_rounds
        self._metric = early_stopping_metric
        self._smaller_is_better = early_stopping_metric_minimize
        self._best: tuple[int, Any] | None = None
        self._early_stopped = False
        self._latest: tuple[str, int] | None = None

    @property
    def early_stopped(self) -> bool:
        """Whether this monitor ended the training."""
        return self._early_stopped

    @property
    def best_step(self) -> int | None:
        return None if self._best is None else self._best[0]

    @property
    def best_value(self) -> Any:
        return None if self._best is None else self._best[1]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        super().every_n_step_end(step, outputs)
        if self._estimator is None:
            raise ValueError("Missing call to set_estimator.")
        path = latest_checkpoint(self._estimator.model_dir)
        if path is None:
            log.info("Skipping evaluation since model has not been saved yet at step %d.", step)
            return False
        if self._latest is not None and self._latest[0] == path:
            log.info(
                "Skipping evaluation due to same checkpoint %s for step %d as for step %d.",
                path, step, self._latest[1],
            )  # fmt: skip
            return False
        self._latest = path, step
        found = self._estimator.evaluate(checkpoint_path=path, **self._arguments)
        shown = ", ".join(f"{name} = {value}" for name, value in found.items())
        log.info("Validation (step %d): %s", step, shown)
        return self._rounds is not None and self._is_enough(step, found, self._rounds)

    def _is_enough(self, step: int, found: Mapping[str, Any], rounds: int) -> bool:
        if self._metric not in found:
            raise ValueError(
                f"Metric {self._metric} missing from outputs {sorted(found)}: it cannot end the "
                "training."
            )
        value = found[self._metric]
        if self._best is None or (
            value < self._best[1] if self._smaller_is_better else value > self._best[1]
        ):
            self._best = step, value
        if step - self._best[0] < rounds:
            return False
        log.info(
            "Stopping. Best step: %s with %s = %s.", self._best[0], self._metric, self._best[1]
        )
        self._early_stopped = True
        return True


class CaptureVariable(EveryN):
    """Keeps a tensor's values: `values`, by step."""

    def __init__(self, var_name: str, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        self._var_name = var_name
        self.values: dict[int, Any] = {}

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        super().every_n_step_begin(step)
        return [self._var_name]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool | None:
        super().every_n_step_end(step, outputs)
        self.values[step] = outputs[self._var_name]
        return False


class NanLoss(EveryN):
    """Fails, or ends the training, once the loss is not a number."""

    def __init__(
        self, loss_tensor: Any, every_n_steps: int = 100, fail_on_nan_loss: bool = True
    ) -> None:
        super().__init__(every_n_steps=every_n_steps)
        self._loss = loss_tensor
        self._fail = fail_on_nan_loss

    def every_n_step_begin(self, step: int) -> Sequence[Any]:
        super().every_n_step_begin(step)
        return [self._loss]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        super().every_n_step_end(step, outputs)
        if not np.isnan(outputs[_name(self._loss)]):
            return False
        if self._fail:
            log.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError
        log.warning("Model diverged with loss = NaN.")
        return True


class RunHookAdapterForMonitors(SessionRunHook):
    """Monitors as one hook."""

    def __init__(self, monitors: Iterable[BaseMonitor]) -> None:
        self._monitors = list(monitors)

    def begin(self) -> None:
        self._last_step: int | None = None
        self._step = step_for(self)
        for monitor in self._monitors:
            monitor.begin(max_steps=None)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        if self._last_step is None:
            self._last_step = int(run_context.session.run(self._step)) + 1
        wanted: dict[str, Any] = {}
        for monitor in self._monitors:
            for tensor in monitor.step_begin(self._last_step) or ():
                wanted[_name(tensor)] = element(tensor)
        return SessionRunArgs({"step": self._step, "wanted": wanted})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = self._last_step or 0
        outputs = run_values.results["wanted"]
        for monitor in self._monitors:
            if monitor.step_end(step, outputs):
                run_context.request_stop()
        for monitor in self._monitors:
            monitor.post_step(step, run_context.session)
        self._last_step = int(run_values.results["step"]) + 2

    def end(self, session: Any) -> None:
        self._last_step = None
        for monitor in self._monitors:
            # Monitors from before it had the argument are told without it.
            if "session" in inspect.signature(monitor.end).parameters:
                monitor.end(session=session)
            else:
                monitor.end()


def replace_monitors_with_hooks(monitors_or_hooks: Any, estimator: Any) -> list[SessionRunHook]:
    """Hooks as they are, and one hook for all the monitors among them."""
    given = monitors_or_hooks or []
    found = given if isinstance(given, (list, tuple)) else [given]
    hooks = [each for each in found if isinstance(each, SessionRunHook)]
    monitors = [each for each in found if not isinstance(each, SessionRunHook)]
    for monitor in monitors:
        if not isinstance(monitor, BaseMonitor):
            raise TypeError(f"monitors must be BaseMonitor or SessionRunHook, given: {monitor}")
        monitor.set_estimator(estimator)
    return [*hooks, RunHookAdapterForMonitors(monitors)] if monitors else hooks


def _name(tensor: Any) -> str:
    return tensor if isinstance(tensor, str) else str(tensor.name)
