"""`tf.contrib.learn.Estimator`: an Estimator in the words of before `tf.estimator`.

A translation of those words. Training, checkpoints, event files and tracing are the Estimator's.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from stepscope.errors import UnimplementedError
from stepscope.options import ConfigProto, GPUOptions
from stepscope.programs import estimator as core
from stepscope.programs.estimator.run_config import RunConfig as CoreRunConfig
from stepscope.programs.learn.monitors import replace_monitors_with_hooks
from stepscope.programs.run_hooks import SessionRunHook
from stepscope.programs.scaffold import Scaffold

_BATCH = 128


class ModeKeys:
    """What a `model_fn` is called for."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key: str) -> None:
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")


class _Fields(NamedTuple):
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: dict[str, Any]
    output_alternatives: Any
    training_chief_hooks: tuple[SessionRunHook, ...]
    training_hooks: tuple[SessionRunHook, ...]
    scaffold: Scaffold | None
    mode: str


class ModelFnOps(_Fields):
    """What a `model_fn` returns: the ops of a model."""

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        output_alternatives: Any = None,
        training_chief_hooks: Iterable[SessionRunHook] | None = None,
        training_hooks: Iterable[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
    ) -> ModelFnOps:
        ModeKeys.validate(mode)
        if predictions is None and mode in (ModeKeys.INFER, ModeKeys.EVAL):
            raise ValueError("Missing predictions.")
        if eval_metric_ops is not None and not isinstance(eval_metric_ops, Mapping):
            raise ValueError("eval_metric_ops must be a dict.")
        return super().__new__(
            cls,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=dict(eval_metric_ops or {}),
            output_alternatives=output_alternatives,
            training_chief_hooks=tuple(training_chief_hooks or ()),
            training_hooks=tuple(training_hooks or ()),
            scaffold=scaffold,
            mode=mode,
        )

    def estimator_spec(
        self, default_serving_output_alternative_key: str | None = None
    ) -> core.EstimatorSpec:
        """The same in the words of `tf.estimator`. A metric called loss is the Estimator's own."""
        del default_serving_output_alternative_key
        metrics = {name: ops for name, ops in self.eval_metric_ops.items() if name != "loss"}
        return core.EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            training_chief_hooks=self.training_chief_hooks,
            training_hooks=self.training_hooks,
            scaffold=self.scaffold,
        )


class RunConfig(CoreRunConfig):
    """`tf.estimator.RunConfig` with the arguments it had before, and `save_run_metadata_steps`."""

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_secs: Any = None,
        save_checkpoints_steps: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        protocol: str | None = None,
        evaluation_master: str = "",
        model_dir: str | os.PathLike[str] | None = None,
        session_config: Any = None,
        save_run_metadata_steps: int | None = None,
    ) -> None:
        if master or evaluation_master:
            raise UnimplementedError.without_op(
                "tf.contrib.learn.RunConfig(master=...): an Estimator of Stepscope's embedded "
                "engine trains in this process alone; leave it out.",
            )
        if session_config is None:
            session_config = ConfigProto(
                log_device_placement=log_device_placement,
                inter_op_parallelism_threads=num_cores,
                intra_op_parallelism_threads=num_cores,
                gpu_options=GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
            )
        saved = {"save_checkpoints_secs": save_checkpoints_secs}
        if save_checkpoints_steps is not None:
            saved["save_checkpoints_steps"] = save_checkpoints_steps
        elif save_checkpoints_secs is None:
            saved = {}
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
            save_run_metadata_steps=save_run_metadata_steps,
            **saved,
        )


class Estimator:
    """A model given by a function, and the directory where it is kept.

    `model_fn(features, labels, mode, params, config, model_dir)` gets of these what it has
    arguments for (labels may be called targets), and returns `ModelFnOps`, an `EstimatorSpec` or
    `(predictions, loss, train_op)`.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | os.PathLike[str] | None = None,
        config: CoreRunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        feature_engineering_fn: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    ) -> None:
        self._model_fn = model_fn
        self._names = set(inspect.signature(model_fn).parameters)
        if params is not None and "params" not in self._names:
            raise ValueError(
                f"Estimator's model_fn ({model_fn}) does not have a params argument, but params "
                f"({params}) were passed to the Estimator's constructor."
            )
        self._engineer = feature_engineering_fn
        self._core = core.Estimator(self._translated, model_dir, config, dict(params or {}))

    def _with_metrics(self, metrics: Mapping[str, Callable[..., Any]] | None) -> core.Estimator:
        """The Estimator below, its evaluation with more metrics."""
        if not metrics:
            return self._core
        model_fn = functools.partial(self._translated, metrics=metrics)
        return core.Estimator(model_fn, config=self._core.config, params=self._core.params)

    @property
    def model_dir(self) -> str:
        """Where checkpoints and event files are."""
        return self._core.model_dir

    @property
    def config(self) -> CoreRunConfig:
        return self._core.config

    @property
    def params(self) -> dict[str, Any]:
        return self._core.params

    def get_variable_names(self) -> list[str]:
        """The names of what the last checkpoint holds."""
        return self._core.get_variable_names()

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the last checkpoint."""
        return self._core.get_variable_value(name)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[[], Any] | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        monitors: Any = None,
        max_steps: int | None = None,
    ) -> Estimator:
        """Train on arrays, shuffled, over and over, or on what `input_fn` gives.

        `monitors` are monitors and hooks.
        """
        found = _input_fn(x, y, input_fn, batch_size, epochs=None, shuffle=True)
        hooks = replace_monitors_with_hooks(monitors, self)
        self._core.train(found, hooks=hooks, steps=steps, max_steps=max_steps)
        return self

    partial_fit = fit

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[[], Any] | None = None,
        feed_fn: Any = None,
        batch_size: int | None = None,
        steps: int | None = None,
        metrics: Mapping[str, Callable[..., Any]] | None = None,
        name: str | None = None,
        checkpoint_path: str | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        log_progress: bool = True,
    ) -> dict[str, Any]:
        """The metrics of the model, with `loss` and `global_step`.

        `metrics` are functions of `labels` and `predictions`, as in `tf.metrics`, by name.
        """
        del log_progress
        if feed_fn is not None:
            raise _not_here("evaluate(feed_fn=...)", "use input_fn, or a tf.train.FeedFnHook")
        return self._with_metrics(metrics).evaluate(
            _input_fn(x, y, input_fn, batch_size, epochs=1, shuffle=False),
            steps=steps, hooks=hooks, checkpoint_path=checkpoint_path, name=name,
        )  # fmt: skip

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[[], Any] | None = None,
        batch_size: int | None = None,
        outputs: Iterable[str] | None = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """The predictions, row by row, batch by batch, or with `as_iterable=False` all at once."""
        found = _input_fn(x, None, input_fn, batch_size, epochs=1, shuffle=False)
        keys = None if outputs is None else list(outputs)
        rows: Iterator[Any] = self._core.predict(
            found, predict_keys=keys, yield_single_examples=as_iterable and not iterate_batches
        )
        if as_iterable:
            return rows
        batches = list(rows)
        if batches and isinstance(batches[0], dict):
            return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
        return np.concatenate(batches)

    def export_savedmodel(self, *args: Any, **kwargs: Any) -> NoReturn:
        """`UnimplementedError`."""
        del args, kwargs
        raise _not_here("export_savedmodel", "use the checkpoints of model_dir")

    export = export_savedmodel

    def _translated(
        self,
        features: Any,
        labels: Any,
        mode: str,
        params: Any,
        config: Any,
        *,
        metrics: Mapping[str, Callable[..., Any]] | None = None,
    ) -> core.EstimatorSpec:
        """The model in the words of `tf.estimator`."""
        if self._engineer is not None:
            features, labels = self._engineer(features, labels)
        known = {
            "labels": labels, "targets": labels, "mode": mode, "params": params, "config": config,
            "model_dir": self.model_dir,
        }  # fmt: skip
        given = {name: value for name, value in known.items() if name in self._names}
        made = self._model_fn(features, **given)
        if isinstance(made, core.EstimatorSpec):
            spec = made
        elif isinstance(made, ModelFnOps):
            spec = made.estimator_spec()
        elif isinstance(made, tuple) and len(made) == 3:
            predictions, loss, train_op = made
            spec = core.EstimatorSpec(mode, predictions, loss, train_op)
        else:
            raise ValueError(
                "Unrecognized value returned by model_fn, please return ModelFnOps; found "
                f"{type(made).__name__}"
            )
        if mode != ModeKeys.EVAL or not metrics:
            return spec
        own = {
            name: function(labels=labels, predictions=spec.predictions)
            for name, function in metrics.items()
        }
        return core.EstimatorSpec(*spec._replace(eval_metric_ops={**spec.eval_metric_ops, **own}))


def _input_fn(
    x: Any, y: Any, input_fn: Any, batch_size: int | None, epochs: int | None, shuffle: bool
) -> Callable[[], Any]:
    if input_fn is not None:
        if x is not None or y is not None:
            raise ValueError("Can not provide both input_fn and x or y.")
        if batch_size is not None:
            raise ValueError("Can not provide both input_fn and batch_size.")
        found: Callable[[], Any] = input_fn
        return found
    if x is None:
        raise ValueError("Either x or input_fn must be provided.")
    return core.numpy_input_fn(
        x if isinstance(x, Mapping) else np.asarray(x),
        y if y is None or isinstance(y, Mapping) else np.asarray(y),
        batch_size=batch_size or _BATCH,
        num_epochs=epochs,
        shuffle=shuffle,
    )


def _not_here(asked: str, instead: str) -> UnimplementedError:
    return UnimplementedError.without_op(
        f"tf.contrib.learn.Estimator.{asked}: Stepscope's embedded engine does not have it; "
        f"{instead}.",
    )
