"""What a `model_fn` says of its model: `EstimatorSpec`, and the modes it is asked in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stepscope.graph import Operation, Tensor, get_default_graph
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.shapes import SCALAR
from stepscope.ops.arrays.shaping import reshape
from stepscope.programs.run_hooks import SessionRunHook
from stepscope.programs.scaffold import Scaffold


class ModeKeys:
    """What a `model_fn` is called for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: dict[str, tuple[Any, Any]]
    export_outputs: Any
    training_chief_hooks: tuple[SessionRunHook, ...]
    training_hooks: tuple[SessionRunHook, ...]
    scaffold: Scaffold
    evaluation_hooks: tuple[SessionRunHook, ...]
    prediction_hooks: tuple[SessionRunHook, ...]


class EstimatorSpec(_Fields):
    """The ops of a model, checked when they are given.

    TRAIN needs `loss` and `train_op`, EVAL needs `loss`, PREDICT needs `predictions`; what a mode
    has no use for may be there all the same. All of it has to be in the default graph.
    """

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Iterable[SessionRunHook] | None = None,
        training_hooks: Iterable[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        evaluation_hooks: Iterable[SessionRunHook] | None = None,
        prediction_hooks: Iterable[SessionRunHook] | None = None,
    ) -> EstimatorSpec:
        if scaffold is not None and not isinstance(scaffold, Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(
            cls,
            mode=mode,
            predictions=_predictions(predictions, mode),
            loss=_loss(loss, mode),
            train_op=_train_op(train_op, mode),
            eval_metric_ops=_metrics(eval_metric_ops),
            export_outputs=export_outputs,
            training_chief_hooks=_hooks(training_chief_hooks),
            training_hooks=_hooks(training_hooks),
            scaffold=scaffold or Scaffold(),
            evaluation_hooks=_hooks(evaluation_hooks),
            prediction_hooks=_hooks(prediction_hooks),
        )


def _train_op(train_op: Any, mode: str) -> Any:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not isinstance(train_op, (Tensor, Operation)) and not hasattr(train_op, "op"):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    return _here(train_op, "train_op", train_op.name)


def _loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    loss = _here(_tensor(loss, "loss"), "loss", loss.name)
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}")
    return loss if loss.shape.is_compatible_with(SCALAR) else reshape(loss, [])


def _predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}
    if isinstance(predictions, Mapping):
        return {
            key: _here(
                _tensor(value, f"predictions[{key}]"), "prediction values", f"{key}: {value}"
            )
            for key, value in predictions.items()
        }
    return _here(_tensor(predictions, "predictions"), "prediction values", predictions.name)


def _metrics(metrics: Any) -> dict[str, tuple[Any, Any]]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    for key, value in metrics.items():
        if not isinstance(value, tuple) or len(value) != 2:
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: "
                f"{value} for key: {key}"
            )
        for part in value:
            _here(part, "eval_metric_ops", f"{key}: {part.name}")
    return metrics


def _hooks(hooks: Iterable[SessionRunHook] | None) -> tuple[SessionRunHook, ...]:
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
    return found


def _tensor(value: Any, name: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "op"):  # a variable
        return convert_to_tensor(value)
    raise TypeError(f"{name} must be Tensor, given: {value}")


def _here(value: Any, name: str, shown: str) -> Any:
    if value.graph is not get_default_graph():
        raise ValueError(
            f'{name} with "{shown}" must be from the default graph. Possible causes of this error '
            f"include: \n\n1) {name} was created outside the context of the default graph.\n\n2) "
            "The object passed through to EstimatorSpec was not created in the most recent call to "
            '"model_fn".'
        )
    return value
