"""Keras loops: a callback that records the scheduled steps of fit, evaluate and predict.

Keras tells a callback when a batch begins and when it ended, but not that it failed, and between
the two other callbacks run as well. So the callback does not record from one to the other: when a
scheduled batch begins it stands in for the model's `train_function` (`test_function`,
`predict_function`) for one call, which runs the function itself under the recorder. That call is
the step and nothing else, it ends with the recorder off whatever happens, and the exception of a
failed step passes by with its metadata. At all other times the model is as Keras made it.

In Keras 3 that function is some Python around a `tf.function`: the call of the latter is the step,
which our executor sees all of.

This module needs TensorFlow with its Keras, 2 or 3, and imports it.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from stepscope.adapters.tensorflow.runs.function import run_step
from stepscope.adapters.tensorflow.support import EAGER, check
from stepscope.adapters.tensorflow.versions import is_function
from stepscope.cached_property import cached_property
from stepscope.errors import UnimplementedError
from stepscope.export.loop_log import RecordedLoop
from stepscope.metadata import RunMetadata
from stepscope.options import ResolvedRunOptions
from stepscope.scheduling import Action

__all__ = ["TraceCallback"]


class TraceCallback(RecordedLoop, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Records the steps of a Keras loop that a schedule names.

    Steps are counted from 0 over all epochs, apart for `fit` (train), `evaluate` and validation
    (test), and `predict`; they are tagged `train_step_7`, `test_step_0`, `predict_step_3`. With
    `steps_per_execution` above 1 one run makes several steps; it is recorded whole if the schedule
    names any of them, and tagged with its first.

    - `schedule`: `stepscope.schedule(...)`, `stepscope.every(n)`, `"10:15"`, or a function.
    - `logdir`: where to write an event file with the model's graph and each step's metadata; give
      it the directory Keras writes to (`logs/train`) to see both as one run of TensorBoard.
    - `options`: what to record; without it SOFTWARE_TRACE.
    - `callback`: called with (step, run_metadata) after each recorded step, failed ones included.
    - `recorder`: a `stepscope.Recorder`, which records the loop from its beginning to its end
      within its budget; there need not be a schedule then.

    Without `logdir` and `callback` all recorded steps are kept in `steps`; `last` is always there.
    """

    _supports_tf_logs = True  # Keras 2 else turns every batch's logs into NumPy for us

    _restore: Callable[[], None] | None = None
    _in_fit = False
    _warned = False

    def _check(self, options: ResolvedRunOptions) -> None:
        check(options, EAGER)  # a model that is not compiled to a function is run so

    @cached_property
    def _next(self) -> Counter[str]:
        """By mode, the number of the next step."""
        return Counter()

    @cached_property
    def _began(self) -> Counter[str]:
        """By mode, the batch that began last, as Keras counts."""
        return Counter()

    # -- what Keras calls ----------------------------------------------------------------------

    def set_model(self, model: Any) -> None:
        """Refuse a model that does not run on TensorFlow."""
        backend = tf.keras.backend.backend()
        if backend != "tensorflow":
            raise UnimplementedError.without_op(
                f"TraceCallback records steps that TensorFlow runs; Keras runs on {backend!r} "
                "here. Set KERAS_BACKEND=tensorflow before Keras is imported.",
            )
        super().set_model(model)

    def on_train_begin(self, logs: Any = None) -> None:
        """A fit begins."""
        del logs
        self._loop_begins()
        self._in_fit = True
        self._disarm()

    def on_train_end(self, logs: Any = None) -> None:
        """A fit ended well."""
        del logs
        self._in_fit = False
        self._finish()

    def on_test_begin(self, logs: Any = None) -> None:
        """An evaluation begins."""
        del logs
        self._loop_begins()
        self._disarm()

    def on_test_end(self, logs: Any = None) -> None:
        """An evaluation, or the validation inside a fit, ended."""
        del logs
        self._finish()

    def on_predict_begin(self, logs: Any = None) -> None:
        """A prediction begins."""
        del logs
        self._loop_begins()
        self._disarm()

    def on_predict_end(self, logs: Any = None) -> None:
        """A prediction ended."""
        del logs
        self._finish()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A training step is next."""
        del logs
        self._before("train", batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A training step is done."""
        del logs
        self._after("train", batch)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step of an evaluation is next."""
        del logs
        self._before("test", batch)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step of an evaluation is done."""
        del logs
        self._after("test", batch)

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step of a prediction is next."""
        del logs
        self._before("predict", batch)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step of a prediction is done."""
        del logs
        self._after("predict", batch)

    # -- one step ------------------------------------------------------------------------------

    def _before(self, mode: str, batch: int) -> None:
        self._disarm()
        first = self._next[mode]
        self._began[mode] = int(batch)
        if self._schedule.ended(first):
            return
        action = self._schedule.among(range(first, first + _steps_per_run(self.model)))
        if action is not Action.SKIP:
            self._arm(mode, first, action)

    def _after(self, mode: str, batch: int) -> None:
        self._next[mode] += int(batch) - self._began[mode] + 1
        if self._restore is not None:
            self._disarm()
            self._warn_of_own_loop(mode)

    def _finish(self) -> None:
        self._disarm()
        if not self._in_fit:
            self._log.close()
            self._loop_ends()

    def _arm(self, mode: str, step: int, action: Action) -> None:
        """Stand in for the model's function of this mode, for one call."""
        model, attribute = self.model, f"{mode}_function"
        function = getattr(model, attribute, None)
        if function is None:
            self._warn_of_own_loop(mode)
            return

        def recorded(*args: Any) -> Any:
            self._disarm()
            inside = _function_in(function)
            if inside is None or inside is function or not _is_iterator(args):
                return self._run(mode, step, action, function, args)

            def step_inside(*args: Any) -> Any:
                self._disarm()
                return self._run(mode, step, action, inside, args)

            self._restore = _answered_by(inside, step_inside)
            return function(*args)

        if is_function(function):
            # Keras 2 may hold on to the function before it tells callbacks anything, so the object
            # itself is made to answer, and not the model's attribute.
            self._restore = _answered_by(function, recorded)
        else:
            self._restore = lambda: setattr(model, attribute, function)
            setattr(model, attribute, recorded)

    def _disarm(self) -> None:
        if self._restore is not None:
            self._restore()
            self._restore = None

    def _run(
        self, mode: str, step: int, action: Action, function: Any, args: tuple[Any, ...]
    ) -> Any:
        metadata = RunMetadata()
        tag = f"{mode}_step_{step}"

        def keep(error: BaseException | None, result: Any) -> None:
            if isinstance(error, (StopIteration, tf.errors.OutOfRangeError)) or _is_empty(result):
                return  # how a Keras loop learns that its data are at an end: this was no step
            if error is not None:
                # A step that failed is kept even where it was to be a warm-up.
                self._log.add(step, tag, metadata)
            elif action is Action.RECORD:
                graph = _graph_of(function, args) if self._log.wants_graph else None
                self._log.add(step, tag, metadata, graph)

        call = functools.partial(function, *args)
        return run_step(call, _function_in(function), self._options, metadata, keep)

    def _warn_of_own_loop(self, mode: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"A scheduled step was not recorded: this loop does not call {mode}_function of "
                "the model, as Keras's loops do (but for an eager evaluation in Keras 2). Wrap its "
                "step in stepscope.observe() instead.",
                RuntimeWarning,
                stacklevel=4,
            )


def _steps_per_run(model: Any) -> int:
    steps = getattr(model, "steps_per_execution", None)
    if steps is None:
        return 1
    # A variable in Keras 2, which changes it while it runs if told to tune itself.
    return int(steps.numpy()) if hasattr(steps, "numpy") else int(steps)


def _answered_by(function: Any, call: Callable[..., Any]) -> Callable[[], None]:
    """Have `call` answer the calls of a `tf.function`; gives what ends that."""
    kind = type(function)
    function.__class__ = type(
        kind.__name__, (kind,), {"__call__": lambda _self, *args: call(*args)}
    )  # fmt: skip
    return lambda: setattr(function, "__class__", kind)


def _is_iterator(args: tuple[Any, ...]) -> bool:
    """Whether these are the arguments with which Keras 3 calls the function inside, once."""
    return bool(args) and isinstance(args[0], (tf.data.Iterator, tf.distribute.DistributedIterator))


def _is_empty(result: Any) -> bool:
    """Whether several steps in one execution found no data for the first of them."""
    return isinstance(result, tf.experimental.Optional) and not bool(result.has_value())


def _function_in(function: Any) -> Any:
    """The `tf.function` that a model's function is; None where the model runs eagerly.

    In Keras 2 it is one; in Keras 3 a Python function around one, which an iterator is given to.
    """
    if is_function(function):
        return function
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return next(filter(is_function, cells), None)


def _graph_of(function: Any, args: tuple[Any, ...]) -> Any:
    """The graph of what was just called with these arguments; None where it is not to be had.

    Asked with the arguments of a call just made, a `tf.function` gives the graph it ran and traces
    nothing; the one inside Keras 3's is called with iterators alone.
    """
    inside = _function_in(function)
    if inside is not function and not _is_iterator(args):
        return None
    try:
        return inside.get_concrete_function(*args).graph if inside is not None else None
    except Exception:  # noqa: BLE001 - the graph is an extra; the step was recorded
        return None
