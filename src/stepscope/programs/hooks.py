"""The hooks that come with TensorFlow 1: counting, logging, summaries, stopping, NaN."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepscope._messages import SessionLog, Summary
from stepscope.errors import OutOfRangeError
from stepscope.graph import get_default_graph
from stepscope.layers.global_steps import get_global_step, global_step_read
from stepscope.programs import log
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.programs.summary_writers import writer_for


class SecondOrStepTimer:
    """Says when something is due that happens every so many seconds, or every so many steps."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        self._last: tuple[int, float] | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at that step; the first time always, and once per step."""
        if self._last is None:
            return True
        last_step, last_time = self._last
        if step == last_step:
            return False
        if self._every_steps is not None:
            return bool(step >= last_step + self._every_steps)
        assert self._every_secs is not None
        return time.time() >= last_time + self._every_secs

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """It happened now; the seconds and steps since the last time, or None and None."""
        now, before = time.time(), self._last
        self._last = (step, now)
        return (None, None) if before is None else (now - before[1], step - before[0])

    def last_triggered_step(self) -> int | None:
        return None if self._last is None else self._last[0]


def step_for(hook: object) -> Any:
    """What a hook fetches to know the step before a run; RuntimeError if the graph counts none."""
    step = global_step_read()
    if step is None:
        raise RuntimeError(f"Global step should be created to use {type(hook).__name__}.")
    return step


def element(wanted: Any) -> Any:
    """The graph element meant by an object or a name; a name without `:0` is of a single output."""
    graph = get_default_graph()
    if not isinstance(wanted, str):
        if getattr(wanted, "graph", None) is not graph:
            raise ValueError(
                f"Passed {wanted} should have graph attribute that is equal to current graph "
                f"{graph}."
            )
        return wanted
    if ":" in wanted:
        return graph.as_graph_element(wanted)
    found = graph.as_graph_element(f"{wanted}:0")
    if len(found.op.values()) > 1:  # type: ignore[union-attr]
        raise ValueError(
            f"Name {wanted} is ambiguous, as this `Operation` has multiple outputs (at least 2)."
        )
    return found


class StopAtStepHook(SessionRunHook):
    """Ends the loop at a global step, or after a number of steps."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        self._step = step_for(self)

    def after_create_session(self, session: Any, coord: Any) -> None:  # noqa: ARG002
        if self._last_step is None:
            self._last_step = int(session.run(self._step)) + (self._num_steps or 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        last = self._last_step or 0
        # The run need not have counted a step: only the session knows.
        if int(run_values.results) + 1 >= last and int(run_context.session.run(self._step)) >= last:
            run_context.request_stop()


class StepCounterHook(SessionRunHook):
    """Logs and writes how many steps per second there were (`global_step/sec`)."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._writer = summary_writer
        self._output_dir = output_dir
        self._seen: int | None = None
        self._warnings_left = 5

    def begin(self) -> None:
        if self._writer is None and self._output_dir:
            self._writer = writer_for(self._output_dir)
        self._step = step_for(self)
        self._tag = f"{get_global_step().op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        stale = int(run_values.results)
        if self._timer.should_trigger_for_step(stale + 1):
            step = int(run_context.session.run(self._step))
            if self._timer.should_trigger_for_step(step):
                seconds, steps = self._timer.update_last_triggered_step(step)
                if seconds and steps is not None:
                    self._tell(steps / seconds, step)
        if stale == self._seen and self._warnings_left:
            self._warnings_left -= 1
            log.warning(
                "The global step did not grow: it was %s before this run and before the last one. "
                "Pass it to minimize or apply_gradients as global_step.", stale
            )  # fmt: skip
        self._seen = stale

    def _tell(self, rate: float, step: int) -> None:
        if self._writer is not None:
            summary = Summary(value=[Summary.Value(tag=self._tag, simple_value=rate)])
            self._writer.add_summary(summary, step)
        log.info("%s: %g", self._tag, rate)


class LoggingTensorHook(SessionRunHook):
    """Logs tensors' values every so many runs or seconds, at the end of the loop, or both."""

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[Any, Any]], str] | None = None,
    ) -> None:
        """`tensors` is a dict by tag, or a list; each is a tensor or its name."""
        at_end_only = at_end and every_n_iter is None and every_n_secs is None
        if not at_end_only and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be "
                "provided."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        self._order: Sequence[Any] = sorted(tensors) if isinstance(tensors, dict) else list(tensors)
        self._wanted = tensors if isinstance(tensors, dict) else {t: t for t in self._order}
        self._timer = None if at_end_only else SecondOrStepTimer(every_n_secs, every_n_iter)
        self._at_end = at_end
        self._formatter = formatter
        self._due = False

    def begin(self) -> None:
        if self._timer is not None:
            self._timer.reset()
        self._runs = 0
        self._tensors = {tag: element(tensor) for tag, tensor in self._wanted.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:  # noqa: ARG002
        self._due = self._timer is not None and self._timer.should_trigger_for_step(self._runs)
        return SessionRunArgs(self._tensors) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:  # noqa: ARG002
        if self._due:
            self._tell(run_values.results)
        self._runs += 1

    def end(self, session: Any) -> None:
        if self._at_end:
            self._tell(session.run(self._tensors))

    def _tell(self, values: dict[Any, Any]) -> None:
        seconds = None
        if self._timer is not None:
            seconds, _ = self._timer.update_last_triggered_step(self._runs)
        with np.printoptions(suppress=True):
            if self._formatter is not None:
                log.info("%s", self._formatter(values))
                return
            text = ", ".join(f"{tag} = {values[tag]}" for tag in self._order)
        log.info("%s", text if seconds is None else f"{text} ({seconds:.3f} sec)")


class SummarySaverHook(SessionRunHook):
    """Writes summaries to an event file every so many steps or seconds."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        """What is written is `summary_op`, a tensor or a list of them, or that of the scaffold."""
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._scaffold = scaffold
        self._writer = summary_writer
        self._output_dir = output_dir
        self._timer = SecondOrStepTimer(save_secs, save_steps)

    def begin(self) -> None:
        if self._writer is None and self._output_dir:
            self._writer = writer_for(self._output_dir)
        self._next_step: int | None = None
        self._step = step_for(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        wanted = {"global_step": self._step}
        summaries = self._summaries() if self._due else None
        if summaries is not None:
            wanted["summary"] = summaries
        return SessionRunArgs(wanted)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._writer is None:
            return
        step = int(run_values.results["global_step"]) + 1
        if self._due:
            step = int(run_context.session.run(self._step))
        if self._next_step is None:
            self._writer.add_session_log(SessionLog(status=SessionLog.START), step)
        if self._due:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Any = None) -> None:  # noqa: ARG002
        if self._writer is not None:
            self._writer.flush()

    def _summaries(self) -> list[Any] | None:
        found = self._scaffold.summary_op if self._summary_op is None else self._summary_op
        return found if found is None or isinstance(found, list) else [found]


class NanLossDuringTrainingError(RuntimeError):
    """The loss was not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Fails, or ends the loop, once the loss is not a number."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss = loss_tensor
        self._fail = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if np.isnan(run_values.results):
            if self._fail:
                log.error("Model diverged with loss = NaN.")
                raise NanLossDuringTrainingError
            log.warning("Model diverged with loss = NaN.")
            run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Evaluates tensors when the loop ends: `final_ops_values`."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops = final_ops
        self._feeds = final_ops_feed_dict
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        return self._values

    def end(self, session: Any) -> None:
        if self._ops is None:
            return
        try:
            self._values = session.run(self._ops, feed_dict=self._feeds)
        except (OutOfRangeError, StopIteration):
            log.warning(
                "FinalOpsHook: an op to be run at the end takes from the input, which is at its "
                "end. It should only read variables."
            )
            raise


class FeedFnHook(SessionRunHook):
    """Feeds what a function returns."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        return SessionRunArgs(None, feed_dict=self.feed_fn())
