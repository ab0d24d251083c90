"""`optimize_loss`: a step of training in one call, as `tf.contrib.layers` has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepscope.errors import UnimplementedError
from stepscope.graph.graph import GraphKeys, control_dependencies, get_collection
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Tensor
from stepscope.layers import adaptive_optimizers, optimizers, proximal_optimizers
from stepscope.layers.clipping import clip_by_global_norm, global_norm
from stepscope.layers.global_steps import get_global_step
from stepscope.layers.initializers import constant_initializer
from stepscope.layers.number_checks import verify_tensor_all_finite
from stepscope.layers.optimizer_base import Optimizer
from stepscope.layers.variable_scope import get_variable, variable_scope
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.flow.ordering import with_dependencies
from stepscope.ops.io import summaries as summary
from stepscope.ops.state.variable_collections import trainable_variables

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "Adagrad": adaptive_optimizers.AdagradOptimizer,
    "Adam": optimizers.AdamOptimizer,
    "Ftrl": proximal_optimizers.FtrlOptimizer,
    "Momentum": lambda rate: optimizers.MomentumOptimizer(rate, momentum=0.9),
    "RMSProp": optimizers.RMSPropOptimizer,
    "SGD": optimizers.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = [
    "learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm",
]  # fmt: skip
_DEFAULT_SUMMARIES = ["learning_rate", "loss", "global_gradient_norm"]


_Pairs = Sequence[tuple[Any, Any]]


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Any = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Iterable[Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Tensor:
    """The loss after a step of an optimizer on it; the graph's updates run before.

    `optimizer` is one, or its class, a function of the rate, or a name in `OPTIMIZERS`. Gradients
    are clipped by their global norm, or by a function of (gradient, variable) pairs.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     x = tf.get_variable("x", initializer=1.0)
    ...     step = tf.train.get_or_create_global_step()
    ...     train = tf.contrib.layers.optimize_loss(x * x, step, 0.25, "SGD")
    ...     session.run(tf.global_variables_initializer())
    ...     print(session.run(train), session.run(x), session.run(step))
    1.0 0.5 1
    """
    if gradient_noise_scale is not None:
        raise UnimplementedError.without_op("optimize_loss: gradient_noise_scale is not supported.")
    step = get_global_step() if global_step is None else global_step
    wanted = _DEFAULT_SUMMARIES if summaries is None else summaries
    for kind in wanted:
        if kind not in OPTIMIZER_SUMMARIES:
            raise ValueError(
                f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided "
                f"{kind}."
            )
    with variable_scope(name, "OptimizeLoss", [loss, step]):
        updates = get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if updates:
            with control_dependencies(list(updates)):
                loss = identity(loss)
        rate = _rate(learning_rate, learning_rate_decay_fn, step, "learning_rate" in wanted)
        made = _optimizer(optimizer, rate)
        pairs: _Pairs = made.compute_gradients(
            loss, trainable_variables() if variables is None else variables,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )  # fmt: skip
        if gradient_multipliers is not None:
            pairs = _multiplied(pairs, gradient_multipliers)
        norm = global_norm([g for g, _ in pairs]) if "global_gradient_norm" in wanted else None
        if norm is not None:
            summary.scalar("global_norm/gradient_norm", norm)
        pairs = _clipped(pairs, clip_gradients)
        _summarize(loss, pairs, wanted)
        applied = made.apply_gradients(
            pairs, global_step=step if increment_global_step else None, name="train"
        )
        checked = verify_tensor_all_finite(loss, "Loss is inf or nan")
        return with_dependencies([applied], checked)


def _rate(given: Any, decay: Callable[[Any, Any], Any] | None, step: Any, shown: bool) -> Any:
    """The learning rate: a variable where it is a number, decayed by the step."""
    rate = given
    if isinstance(given, (int, float)):
        if given < 0:
            raise ValueError(f"Invalid learning_rate {given}.")
        rate = get_variable(
            "learning_rate", [], trainable=False, initializer=constant_initializer(float(given))
        )
    elif given is not None and not isinstance(given, Tensor):
        raise ValueError(
            f"Learning rate should be 0d Tensor or float. Got {given} of type {type(given)}"
        )
    if rate is None:
        return None
    if decay is not None:
        if step is None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        rate = decay(rate, step)
    if shown:
        summary.scalar("learning_rate", rate)
    return rate


def _optimizer(given: Any, rate: Any) -> Optimizer:
    if isinstance(given, str):
        if given not in OPTIMIZERS:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZERS)}], you provided {given}."
            )
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified for {given}.")
        return OPTIMIZERS[given](rate)
    if isinstance(given, Optimizer):
        return given
    if callable(given):
        made = given(rate) if rate is not None or isinstance(given, type) else given()
        if isinstance(made, Optimizer):
            return made
    raise ValueError(
        f"Optimizer should be a name, an Optimizer, its class or a function that makes one; got "
        f"{given!r}."
    )


def _multiplied(pairs: _Pairs, factors: Any) -> _Pairs:
    """Gradients times the numbers of their variables (or of the variables' names)."""
    result = []
    for gradient, variable in pairs:
        factor = factors.get(variable, factors.get(variable.op.name))
        if factor is not None and gradient is None:
            raise ValueError(f"Requested multiple of `None` gradient of {variable.op.name}.")
        if factor is not None:
            factor = cast(factor, gradient.dtype.base_dtype)
            if isinstance(gradient, IndexedSlices):
                gradient = IndexedSlices(
                    gradient.values * factor, gradient.indices, gradient.dense_shape
                )
            else:
                gradient = gradient * factor
        result.append((gradient, variable))
    return result


def _clipped(pairs: _Pairs, limit: Any) -> _Pairs:
    if limit is None:
        return pairs
    if callable(limit):
        changed: _Pairs = limit(pairs)
        return changed
    if not isinstance(limit, (int, float)):
        raise TypeError(f"Unknown type {type(limit)} for clip_gradients: a number or a function.")
    gradients, variables = zip(*pairs, strict=True)
    clipped, _ = clip_by_global_norm(gradients, float(limit))
    return list(zip(clipped, variables, strict=True))


def _summarize(loss: Any, pairs: _Pairs, wanted: Sequence[str]) -> None:
    if "loss" in wanted:
        summary.scalar("loss", loss)
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        if values is None:
            continue
        name = variable.op.name
        if "gradients" in wanted:
            summary.histogram(f"gradients/{name}", values)
        if "gradient_norm" in wanted:
            summary.scalar(f"gradient_norm/{name}", global_norm([values]))
    if "global_gradient_norm" in wanted:
        summary.scalar("global_norm/clipped_gradient_norm", global_norm([g for g, _ in pairs]))
