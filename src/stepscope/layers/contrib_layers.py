"""Layers and regularizers under the names they had in `tf.contrib.layers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import (
    GraphKeys,
    add_to_collection,
    control_dependencies,
    get_collection_ref,
    name_scope,
)
from stepscope.graph.operation import Tensor
from stepscope.layers.arg_scopes import add_arg_scope
from stepscope.layers.dense import Activation, Dense, Dropout
from stepscope.layers.dense import flatten as flattened
from stepscope.layers.image_layers import Conv2D, average_pooling2d, max_pooling2d
from stepscope.layers.initializers import (
    GlorotNormal,
    GlorotUniform,
    Initializer,
    zeros_initializer,
)
from stepscope.layers.layer_base import Layer
from stepscope.layers.normalization import BatchNormalization
from stepscope.layers.variable_scope import variable_scope
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.math import elementwise, reductions, unary
from stepscope.ops.nn.activations import relu
from stepscope.ops.state.variable_collections import model_variables

Regularizer = Callable[[Any], Tensor | None]
_NAMES = {"kernel": "weights", "bias": "biases"}


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = "float32"
) -> Initializer:
    """Glorot's initializer, under its other name."""
    return GlorotUniform(seed, dtype) if uniform else GlorotNormal(seed, dtype)


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Half the sum of squares, times `scale`; nothing where that is 0."""
    return _regularizer(scale, scope, "l2_regularizer", reductions.l2_loss)


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """The sum of magnitudes, times `scale`; nothing where that is 0."""
    return _regularizer(
        scale, scope, "l1_regularizer", lambda w: reductions.reduce_sum(unary.abs(w))
    )


def _regularizer(
    scale: float, scope: str | None, default: str, size: Callable[[Any], Tensor]
) -> Regularizer:
    if isinstance(scale, int) or scale < 0:
        raise ValueError(f"The scale of a regularizer must be a float of 0 or more: {scale!r}")

    def regularize(weights: Any) -> Tensor | None:
        if scale == 0.0:
            return None
        with name_scope(scope, default, [weights]):
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, "scale")
            return elementwise.multiply(factor, size(weights))

    return regularize


def _renamed(getter: Callable[..., Any], name: str, **more: Any) -> Any:
    """A layer's variable under the name that `tf.contrib` gave it, among the model's variables."""
    place, slash, own = name.rpartition("/")
    variable = getter(f"{place}{slash}{_NAMES.get(own, own)}", **more)
    if not any(variable is other for other in model_variables()):
        add_to_collection(GraphKeys.MODEL_VARIABLES, variable)
    return variable


def _layer(
    make: Callable[..., Layer],
    inputs: Any,
    default: str,
    scope: Any,
    reuse: Any,
    activation_fn: Activation | None,
    normalizer: tuple[Callable[..., Any] | None, dict[str, Any] | None],
    outputs_collections: Any,
) -> Tensor:
    with variable_scope(scope, default, [inputs], reuse=reuse, custom_getter=_renamed) as inner:
        outputs = make(_scope=inner, _reuse=reuse)(inputs)
        function, arguments = normalizer
        if function is not None:
            outputs = function(outputs, **(arguments or {}))
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        if outputs_collections:
            add_to_collection(outputs_collections, outputs)
        result: Tensor = outputs
        return result


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Activation | None = relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Regularizer | None = None,
    biases_initializer: Any = zeros_initializer,
    biases_regularizer: Regularizer | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """activation_fn(inputs times new weights, plus new biases).

    `biases_initializer=None` leaves the biases out, and so does a `normalizer_fn`.
    """
    del variables_collections
    biased = biases_initializer is not None and normalizer_fn is None

    def make(**more: Any) -> Layer:
        return Dense(
            num_outputs, None, biased, weights_initializer or xavier_initializer(),
            _made(biases_initializer), weights_regularizer, biases_regularizer,
            trainable=trainable, **more,
        )  # fmt: skip

    return _layer(
        make, inputs, "fully_connected", scope, reuse, activation_fn,
        (normalizer_fn, normalizer_params), outputs_collections,
    )  # fmt: skip


@add_arg_scope
def conv2d(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Activation | None = relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Regularizer | None = None,
    biases_initializer: Any = zeros_initializer,
    biases_regularizer: Regularizer | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """activation_fn(images filtered by new weights, plus new biases)."""
    del variables_collections
    biased = biases_initializer is not None and normalizer_fn is None
    order = "channels_first" if (data_format or "NHWC").startswith("NC") else "channels_last"

    def make(**more: Any) -> Layer:
        return Conv2D(
            num_outputs, kernel_size, stride, padding, order, rate, None, biased,
            weights_initializer or xavier_initializer(), _made(biases_initializer),
            weights_regularizer, biases_regularizer, trainable=trainable, **more,
        )  # fmt: skip

    return _layer(
        make, inputs, "Conv", scope, reuse, activation_fn, (normalizer_fn, normalizer_params),
        outputs_collections,
    )  # fmt: skip


def _made(initializer: Any) -> Any:
    return initializer() if isinstance(initializer, type) else initializer


def _collected(outputs: Tensor, collections: Any) -> Tensor:
    if collections:
        add_to_collection(collections, outputs)
    return outputs


def _order(data_format: str | None) -> str:
    return "channels_first" if (data_format or "NHWC").startswith("NC") else "channels_last"


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Activation | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Regularizer] | None = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
) -> Tensor:
    """Each channel brought to mean 0 and variance 1, and shifted; scaled only if asked for.

    The moving averages change with the ops in `updates_collections`; without one (None), before
    the outputs are there.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     normed = tf.contrib.layers.batch_norm(tf.ones([4, 3]))
    ...     print([v.op.name for v in tf.global_variables()])
    ['BatchNorm/beta', 'BatchNorm/moving_mean', 'BatchNorm/moving_variance']
    """
    del variables_collections
    for what, given in (
        ("batch_weights", batch_weights), ("zero_debias_moving_mean", zero_debias_moving_mean)
    ):  # fmt: skip
        if given:
            raise NotImplementedError(f"contrib.layers.batch_norm: {what} is not supported.")
    starts, costs = dict(param_initializers or {}), dict(param_regularizers or {})
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse, custom_getter=_renamed) as inner:
        layer = BatchNormalization(
            1 if _order(data_format) == "channels_first" else -1, decay, epsilon, center, scale,
            starts.get("beta"), starts.get("gamma"), starts.get("moving_mean"),
            starts.get("moving_variance"), costs.get("beta"), costs.get("gamma"),
            trainable=trainable, fused=fused, _scope=inner, _reuse=reuse,
        )  # fmt: skip
        outputs = layer(inputs, training=is_training)
        updates = layer.updates
        waiting = get_collection_ref(GraphKeys.UPDATE_OPS)
        waiting[:] = [op for op in waiting if op not in updates]
        if updates_collections is None:
            with control_dependencies(updates):
                outputs = identity(outputs)
        else:
            for update in updates:
                add_to_collection(updates_collections, update)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _collected(outputs, outputs_collections)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> Tensor:
    """In training each element is 0, or with probability `keep_prob` divided by that.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.contrib.layers.dropout([1.0, 2.0], is_training=False)))
    [1. 2.]
    """
    with variable_scope(scope, "Dropout", [inputs]) as inner:
        layer = Dropout(1 - keep_prob, noise_shape, seed, name=inner.name, _scope=inner)
        return _collected(layer(inputs, training=is_training), outputs_collections)


@add_arg_scope
def max_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """The largest of each window.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.max_pool2d(tf.zeros([1, 8, 8, 3]), 2).shape)
    (1, 4, 4, 3)
    """
    with name_scope(scope, "MaxPool2D", [inputs]):
        pooled = max_pooling2d(inputs, kernel_size, stride, padding, _order(data_format))
        return _collected(pooled, outputs_collections)


@add_arg_scope
def avg_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """The mean of each window.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.avg_pool2d(tf.zeros([1, 8, 8, 3]), [8, 8]).shape)
    (1, 1, 1, 3)
    """
    with name_scope(scope, "AvgPool2D", [inputs]):
        pooled = average_pooling2d(inputs, kernel_size, stride, padding, _order(data_format))
        return _collected(pooled, outputs_collections)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Tensor:
    """The batch, and all else in one axis.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.flatten(tf.zeros([2, 3, 4])).shape)
    (2, 12)
    """
    with name_scope(scope, "Flatten", [inputs]):
        return _collected(flattened(inputs), outputs_collections)


def repeat(
    inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """A layer applied again and again; scopes are numbered inside of `scope`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     layers = tf.contrib.layers
    ...     out = layers.repeat(tf.zeros([2, 3]), 2, layers.fully_connected, 4, scope="fc")
    ...     print([v.op.name for v in tf.trainable_variables()][::2])
    ['fc/fc_1/weights', 'fc/fc_2/weights']
    """
    scope = kwargs.pop("scope", None)
    own = scope or getattr(layer, "__name__", "layer")
    with variable_scope(scope, "Repeat", [inputs]):
        outputs = inputs
        for number in range(1, repetitions + 1):
            outputs = layer(outputs, *args, scope=f"{own}_{number}", **kwargs)
        return outputs


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """A layer applied once with each of the arguments, one after the other.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     layers = tf.contrib.layers
    ...     print(layers.stack(tf.zeros([2, 3]), layers.fully_connected, [8, 5], scope="fc").shape)
    (2, 5)
    """
    scope = kwargs.pop("scope", None)
    own = scope or getattr(layer, "__name__", "layer")
    with variable_scope(scope, "Stack", [inputs]):
        outputs = inputs
        for number, given in enumerate(stack_args, 1):
            passed = given if isinstance(given, (list, tuple)) else [given]
            outputs = layer(outputs, *passed, scope=f"{own}_{number}", **kwargs)
        return outputs
