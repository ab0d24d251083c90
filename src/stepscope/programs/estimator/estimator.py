"""`Estimator`: a model trained, evaluated and asked, each time in a graph of its own.

Guarantees. Every call of `train`, `evaluate` and `predict` builds its graph anew from `input_fn`
and `model_fn` and begins with the last checkpoint of `model_dir`; nothing else is carried over.
Checkpoints, event files and their folders are those that TensorFlow's Estimator leaves, in the
same places and formats. The default graph of the caller is not touched.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from stepscope.errors import UnimplementedError
from stepscope.graph import Graph, GraphKeys, add_to_collection, get_collection
from stepscope.layers import metrics
from stepscope.layers.global_steps import create_global_step
from stepscope.ops.flow import ordering
from stepscope.ops.io import summaries
from stepscope.ops.math.random import set_random_seed
from stepscope.options import ConfigProto
from stepscope.programs import log
from stepscope.programs.checkpoint_hook import CheckpointSaverHook
from stepscope.programs.estimator.evaluation import eval_step, evaluate_once, write_results
from stepscope.programs.estimator.model_fn import EstimatorSpec, ModeKeys
from stepscope.programs.estimator.run_config import RunConfig
from stepscope.programs.hooks import LoggingTensorHook, NanTensorHook, StopAtStepHook
from stepscope.programs.monitored_session import MonitoredSession, MonitoredTrainingSession
from stepscope.programs.run_hooks import SessionRunHook
from stepscope.programs.saving.checkpoints import latest_checkpoint, list_variables, load_variable
from stepscope.programs.saving.saver import Saver
from stepscope.programs.scaffold import ChiefSessionCreator, Scaffold
from stepscope.programs.summary_writers import writer_for
from stepscope.programs.trace_hook import run_metadata_hook

_LOSS: Final = "loss"
_MODEL_FN_ARGS: Final = frozenset({"features", "labels", "mode", "params", "self", "config"})


class Estimator:
    """A model given by a function, and the directory where it is kept.

    `model_fn(features, labels, mode, params, config)` gets of these what it has arguments for, and
    returns an `EstimatorSpec`.

        estimator = tf.estimator.Estimator(model_fn, model_dir="model", params={"rate": 0.1})
        estimator.train(input_fn, max_steps=1000)
        estimator.evaluate(eval_input_fn)
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: Any = None,
    ) -> None:
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        if warm_start_from is not None:
            raise _not_here("Estimator(warm_start_from=...)", "restore in Scaffold(init_fn=...)")
        _refuse_overridden(type(self))
        self._config = _whole_config(config, model_dir)
        self._model_fn = model_fn
        self._params = copy.deepcopy(dict(params or {}))
        _check_model_fn(model_fn, params)
        log.info("Using config: %s", self._config)

    @property
    def model_dir(self) -> str:
        """Where checkpoints and event files are."""
        return str(self._config.model_dir)

    @property
    def config(self) -> RunConfig:
        return copy.copy(self._config)

    @property
    def params(self) -> dict[str, Any]:
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model as a function of (features, labels, mode, config), params filled in."""

        def public_model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    def latest_checkpoint(self) -> str | None:
        """The prefix of the last checkpoint; None if there is none."""
        return latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """The names of what the last checkpoint holds."""
        return [name for name, _ in list_variables(self._trained())]

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the last checkpoint."""
        return load_variable(self._trained(), name)

    def eval_dir(self, name: str | None = None) -> str:
        """Where evaluations of that name write."""
        return str(Path(self.model_dir) / ("eval" if not name else f"eval_{name}"))

    # -- training ------------------------------------------------------------------------------

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Iterable[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> Estimator:
        """Train `steps` more steps, or up to step `max_steps`, or to the end of the input."""
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, number in (("steps", steps), ("max_steps", max_steps)):
            if number is not None and number <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {number}")
        if max_steps is not None and self._saved_step() >= max_steps:
            log.info("Skipping training since max_steps has already saved.")
            return self
        wanted = _checked_hooks(hooks)
        if steps is not None or max_steps is not None:
            wanted.append(StopAtStepHook(steps, max_steps))
        loss = self._train(input_fn, wanted, _checked_listeners(saving_listeners))
        log.info("Loss for final step: %s.", loss)
        return self

    def _train(
        self, input_fn: Callable[..., Any], hooks: list[SessionRunHook], listeners: list[Any]
    ) -> Any:
        config = self._config
        with Graph().as_default() as graph, graph.device(config.device_fn):
            set_random_seed(config.tf_random_seed)
            step = create_global_step(graph)
            features, labels = self._input(input_fn, ModeKeys.TRAIN)
            spec = self._call_model_fn(features, labels, ModeKeys.TRAIN, config)
            if not any(s.op.name == _LOSS for s in get_collection(GraphKeys.SUMMARIES)):
                summaries.scalar(_LOSS, spec.loss)
            add_to_collection(GraphKeys.LOSSES, spec.loss)
            hooks = [*hooks, NanTensorHook(spec.loss)]
            if config.log_step_count_steps is not None:
                shown = {"loss": spec.loss, "step": step}
                hooks.append(LoggingTensorHook(shown, every_n_iter=config.log_step_count_steps))
            hooks += spec.training_hooks
            if config.save_run_metadata_steps is not None:
                writer = writer_for(self.model_dir)
                hooks.append(run_metadata_hook(config.save_run_metadata_steps, writer))
            self._add_saver(spec.scaffold)
            first = [*self._checkpoint_hooks(spec, hooks, listeners), *spec.training_chief_hooks]
            loss, ran = None, False
            with MonitoredTrainingSession(
                checkpoint_dir=self.model_dir,
                scaffold=spec.scaffold,
                hooks=hooks,
                chief_only_hooks=first,
                save_checkpoint_secs=0,
                save_summaries_steps=config.save_summary_steps,
                config=config.session_config,
                log_step_count_steps=config.log_step_count_steps,
                save_graph_def=config.checkpoint_save_graph_def,
            ) as session:
                while not session.should_stop():
                    ran = True
                    _, loss = session.run([spec.train_op, spec.loss])
            if not ran:
                log.warning(
                    "Training with estimator made no steps. Perhaps input is empty or misspecified."
                )
            return loss

    def _add_saver(self, scaffold: Scaffold) -> None:
        if scaffold.saver is None and not get_collection(GraphKeys.SAVERS):
            saver = Saver(
                sharded=True,
                max_to_keep=self._config.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=self._config.keep_checkpoint_every_n_hours,
                defer_build=True,
                save_relative_paths=True,
            )
            add_to_collection(GraphKeys.SAVERS, saver)

    def _checkpoint_hooks(
        self, spec: EstimatorSpec, hooks: Sequence[SessionRunHook], listeners: Sequence[Any]
    ) -> list[SessionRunHook]:
        """The hook that saves checkpoints, unless the program brings its own; listeners hear it."""
        config = self._config
        all_hooks = (*hooks, *spec.training_chief_hooks)
        saving = [hook for hook in all_hooks if isinstance(hook, CheckpointSaverHook)]
        made: list[SessionRunHook] = []
        if not saving and (config.save_checkpoints_secs or config.save_checkpoints_steps):
            saving = [
                CheckpointSaverHook(
                    self.model_dir,
                    save_secs=config.save_checkpoints_secs,
                    save_steps=config.save_checkpoints_steps,
                    scaffold=spec.scaffold,
                    save_graph_def=config.checkpoint_save_graph_def,
                )
            ]
            made = [*saving]
        if listeners and not saving:
            raise ValueError(
                "There should be a CheckpointSaverHook to use saving_listeners. Please set one of "
                "the RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
            )
        for listener in listeners:
            saving[0].add_listener(listener)
        return made

    # -- evaluating ----------------------------------------------------------------------------

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """The metrics of the model over `steps` batches, or all; with `loss` and `global_step`.

        They are written to the event file of the folder `eval`, or `eval_<name>`.
        """
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        wanted = _checked_hooks(hooks)
        checkpoint = self._checkpoint(checkpoint_path, "evaluate")
        with Graph().as_default() as graph, graph.device(self._config.device_fn):
            set_random_seed(self._config.tf_random_seed)
            step = create_global_step(graph)
            features, labels = self._input(input_fn, ModeKeys.EVAL)
            spec = self._call_model_fn(features, labels, ModeKeys.EVAL, self._config)
            found = dict(spec.eval_metric_ops)
            for taken in (_LOSS, GraphKeys.GLOBAL_STEP):
                if taken in found:
                    raise ValueError(
                        f'Metric with name "{taken}" is not allowed, because Estimator already '
                        "defines a default metric with the same name."
                    )
            found[_LOSS] = metrics.mean(spec.loss)
            results = evaluate_once(
                checkpoint,
                found,
                {GraphKeys.GLOBAL_STEP: step},
                steps,
                _with_new_locals(spec.scaffold),
                [*wanted, *spec.evaluation_hooks],
                self._config.session_config,
            )
            write_results(self.eval_dir(name), results, checkpoint)
            return results

    # -- predicting ----------------------------------------------------------------------------

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Iterable[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """The predictions for each row of the input, one after the other, or batch by batch.

        Rows of a dict of predictions are dicts. Nothing is done before the first is asked for.
        """
        wanted = _checked_hooks(hooks)
        checkpoint = self._checkpoint(checkpoint_path, "predict")
        with Graph().as_default() as graph, graph.device(self._config.device_fn):
            set_random_seed(self._config.tf_random_seed)
            create_global_step(graph)
            features, _ = self._input(input_fn, ModeKeys.PREDICT)
            if not graph.get_collection(GraphKeys.QUEUE_RUNNERS):
                log.warning(
                    "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means "
                    "predict yields forever. This is probably a mistake."
                )
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self._config)
            predictions = _chosen(spec.predictions, predict_keys)
            creator = ChiefSessionCreator(
                spec.scaffold,
                config=self._config.session_config,
                checkpoint_filename_with_path=checkpoint,
            )
            session = MonitoredSession(creator, [*wanted, *spec.prediction_hooks])
        # Between two rows the caller works: the graph is the default one only while it is run.
        with session:
            while not session.should_stop():
                with graph.as_default():
                    values = session.run(predictions)
                if yield_single_examples:
                    yield from _single(values)
                else:
                    yield values

    # -- what others have ----------------------------------------------------------------------

    def export_saved_model(self, *args: Any, **kwargs: Any) -> NoReturn:
        """`UnimplementedError`."""
        del args, kwargs
        raise _not_here("Estimator.export_saved_model", "use the checkpoints of model_dir")

    export_savedmodel = experimental_export_all_saved_models = export_saved_model

    # -- inside --------------------------------------------------------------------------------

    def _input(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any]:
        """What the input gives: features, and labels or None."""
        names = _arguments(input_fn)
        given = {"mode": mode, "params": self.params, "config": self.config}
        found = input_fn(**{name: value for name, value in given.items() if name in names})
        if isinstance(found, (list, tuple)):
            if len(found) != 2:
                raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
            return found[0], found[1]
        return found, None

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        names = _arguments(self._model_fn)
        given = {"mode": mode, "params": self.params, "config": config}
        kwargs = {name: value for name, value in given.items() if name in names}
        if "labels" in names:
            kwargs["labels"] = labels
        elif labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        log.info("Calling model_fn.")
        spec = self._model_fn(features=features, **kwargs)
        log.info("Done calling model_fn.")
        if not isinstance(spec, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return spec

    def _saved_step(self) -> int:
        found = self.latest_checkpoint()
        return 0 if found is None else int(load_variable(found, GraphKeys.GLOBAL_STEP))

    def _checkpoint(self, given: str | None, purpose: str) -> str | None:
        found = given or self.latest_checkpoint()
        if not found:
            log.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self.model_dir, purpose,
            )  # fmt: skip
        return found

    def _trained(self) -> str:
        found = self.latest_checkpoint()
        if found is None:
            raise ValueError(f"Could not find trained model in model_dir: {self.model_dir}.")
        return found


def _whole_config(config: RunConfig | None, model_dir: Any) -> RunConfig:
    """The configuration with a directory and options of sessions in it."""
    if config is None:
        config = RunConfig()
        log.info("Using default config.")
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    if config.session_config is None:
        config = config.replace(session_config=ConfigProto(allow_soft_placement=True))
    if model_dir is not None:
        path = os.fspath(model_dir)
        if config.model_dir is not None and config.model_dir != path:
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different "
                f"values. In constructor: '{path}', in `RunConfig`: '{config.model_dir}' "
            )
        return config.replace(model_dir=path)
    if config.model_dir is None:
        path = tempfile.mkdtemp()
        log.warning("Using temporary folder as model directory: %s", path)
        return config.replace(model_dir=path)
    return config


def _arguments(function: Any) -> set[str]:
    """The names of the arguments a function can be given by position or by name."""
    if isinstance(function, functools.partial):
        bound = set(function.keywords)
        return set(_ordered(function.func)[len(function.args) :]) - bound
    return set(_ordered(function))


def _ordered(function: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [n for n, p in inspect.signature(function).parameters.items() if p.kind in kinds]


def _check_model_fn(model_fn: Any, params: Any) -> None:
    names = _arguments(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is "
            "passed to Estimator."
        )
    if params is None and "params" in names:
        log.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to "
            "Estimator.", model_fn
        )  # fmt: skip
    unknown = sorted(names - _MODEL_FN_ARGS)
    if unknown:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def _refuse_overridden(kind: type) -> None:
    """A subclass may add to an Estimator, as TensorFlow has it, but not replace what it has."""
    own = {name for name in vars(Estimator) if not name.startswith("__")}
    for base in kind.__mro__[: kind.__mro__.index(Estimator)]:
        replaced = sorted(own & vars(base).keys() - {"params"})
        if replaced:
            raise ValueError(
                "Subclasses of Estimator cannot override members of Estimator. "
                f"{kind} does override {replaced}"
            )


def _checked_hooks(hooks: Iterable[SessionRunHook] | None) -> list[SessionRunHook]:
    found = list(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return found


def _checked_listeners(listeners: Iterable[Any] | None) -> list[Any]:
    found = list(listeners or ())
    for listener in found:
        if not hasattr(listener, "after_save"):
            raise TypeError(
                f"saving_listeners must be a list of CheckpointSaverListener, given: {listener}"
            )
    return found


def _with_new_locals(scaffold: Scaffold) -> Scaffold:
    """A scaffold whose own way to initialise local variables also does those of the evaluation."""
    if scaffold.local_init_op is None:
        return scaffold
    eval_step()
    both = ordering.group(scaffold.local_init_op, Scaffold.default_local_init_op())
    return Scaffold(local_init_op=both, copy_from_scaffold=scaffold)


def _chosen(predictions: Any, keys: Any) -> Any:
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    names = [keys] if isinstance(keys, str) else list(keys)
    found = {name: value for name, value in predictions.items() if name in names}
    if not found:
        raise ValueError(
            f"Expected to run at least one output from {list(predictions)}, provided {names}."
        )
    return found


def _single(values: Any) -> Iterator[Any]:
    if not isinstance(values, dict):
        yield from values
        return
    lengths = {name: len(value) for name, value in values.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"Batch length of predictions should be same. They are {lengths}.")
    for row in range(next(iter(lengths.values()))):
        yield {name: value[row] for name, value in values.items()}


def _not_here(asked: str, instead: str) -> UnimplementedError:
    return UnimplementedError.without_op(
        f"{asked}: Stepscope's embedded engine does not have it; {instead}, or run the program on "
        "TensorFlow 2.15 (stepscope run --engine tensorflow).",
    )
