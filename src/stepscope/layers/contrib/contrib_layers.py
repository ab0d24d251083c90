"""Layers and regularizers under the names they had in `tf.contrib.layers`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from stepscope.graph.graph import (
    GraphKeys,
    add_to_collection,
    control_dependencies,
    get_collection_ref,
    name_scope,
)
from stepscope.graph.operation import Tensor
from stepscope.layers.arg_scopes import add_arg_scope
from stepscope.layers.contrib.regularizers import Regularizer
from stepscope.layers.convolutions.image_layers import Conv2D, average_pooling2d, max_pooling2d
from stepscope.layers.dense import Activation, Dense, Dropout
from stepscope.layers.dense import flatten as flattened
from stepscope.layers.initializers import (
    GlorotNormal,
    GlorotUniform,
    Initializer,
    VarianceScaling,
    zeros_initializer,
)
from stepscope.layers.layer_base import Layer
from stepscope.layers.normalization import BatchNormalization
from stepscope.layers.variable_scope import variable_scope
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.nn.activations import relu

_NAMES = {
    "kernel": "weights", "bias": "biases", "depthwise_kernel": "depthwise_weights",
    "pointwise_kernel": "pointwise_weights",
}  # fmt: skip


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = "float32"
) -> Initializer:
    """Glorot's initializer, under its other name."""
    return GlorotUniform(seed, dtype) if uniform else GlorotNormal(seed, dtype)


def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None,
    dtype: Any = "float32",
) -> Initializer:  # fmt: skip
    """Values whose variance is `factor` by the number of inputs, outputs ("FAN_OUT") or their mean.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     start = tf.contrib.layers.variance_scaling_initializer(seed=1)
    ...     values = session.run(start([1000, 50]))
    >>> print(f"{values.std():.3f}")
    0.045
    """
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    shape = "uniform" if uniform else "truncated_normal"
    return VarianceScaling(factor, mode.lower(), shape, seed, dtype)


def contrib_getter(collections: Any = None) -> Callable[..., Any]:
    """Makes a layer's variables under the names that `tf.contrib` gave them.

    They are among the model's variables, and in `collections`: names, or a dict by variable.
    """

    def get(getter: Callable[..., Any], name: str, **more: Any) -> Any:
        place, slash, own = name.rpartition("/")
        public = _NAMES.get(own, own)
        variable = getter(f"{place}{slash}{public}", **more)
        wanted = collections.get(public) if isinstance(collections, Mapping) else collections
        for key in (GraphKeys.MODEL_VARIABLES, *_listed(wanted)):
            if not any(variable is other for other in get_collection_ref(key)):
                add_to_collection(key, variable)
        return variable

    return get


def _listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


@dataclass(frozen=True)
class LayerOptions:
    """What every layer of contrib with weights takes, behind the arguments that are its own.

    `biases_initializer=None` leaves the biases out, and so does a `normalizer_fn`.
    """

    activation_fn: Activation | None = relu
    normalizer_fn: Callable[..., Any] | None = None
    normalizer_params: dict[str, Any] | None = None
    weights_initializer: Any = None
    weights_regularizer: Regularizer | None = None
    biases_initializer: Any = zeros_initializer
    biases_regularizer: Regularizer | None = None
    reuse: Any = None
    variables_collections: Any = None
    outputs_collections: Any = None
    trainable: bool = True
    scope: Any = None

    @property
    def biased(self) -> bool:
        return self.biases_initializer is not None and self.normalizer_fn is None

    @property
    def weights_start(self) -> Any:
        return self.weights_initializer or xavier_initializer()

    @property
    def biases_start(self) -> Any:
        return made_initializer(self.biases_initializer)

    def variables(self) -> dict[str, Any]:
        """What the one kernel and the bias of a layer are made with."""
        return {
            "use_bias": self.biased, "trainable": self.trainable,
            "kernel_initializer": self.weights_start,
            "kernel_regularizer": self.weights_regularizer,
            "bias_initializer": self.biases_start, "bias_regularizer": self.biases_regularizer,
        }  # fmt: skip

    def outputs(self, make: Callable[..., Layer], inputs: Any, default_scope: str) -> Tensor:
        """What the layer, its normalizer and its activation give, by the names of contrib."""
        getter = contrib_getter(self.variables_collections)
        with variable_scope(
            self.scope, default_scope, [inputs], reuse=self.reuse, custom_getter=getter
        ) as inner:
            outputs = make(_scope=inner, _reuse=self.reuse)(inputs)
            if self.normalizer_fn is not None:
                outputs = self.normalizer_fn(outputs, **(self.normalizer_params or {}))
            if self.activation_fn is not None:
                outputs = self.activation_fn(outputs)
            return collected(outputs, self.outputs_collections)


def contrib_layer(default_scope: str) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]:
    """Makes a layer of a function that gives, for `options` and its own arguments, how to make it.

    The layer takes these and `LayerOptions` behind them. Own arguments that are passed by keyword
    alone stand behind `weights_initializer`.
    """

    def decorate(make: Callable[..., Any]) -> Callable[..., Tensor]:
        inputs = inspect.Parameter("inputs", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        own = list(inspect.signature(make).parameters.values())[1:]
        options = list(inspect.signature(LayerOptions).parameters.values())
        weights = 1 + [one.name for one in options].index("weights_initializer")
        late = [one.replace(kind=inputs.kind) for one in own if one.kind is one.KEYWORD_ONLY]
        signature = inspect.Signature([
            inputs, *own[: len(own) - len(late)], *options[:weights], *late, *options[weights:],
        ])  # fmt: skip
        names = {one.name for one in options}

        @functools.wraps(make)
        def layer(*args: Any, **kwargs: Any) -> Tensor:
            given = signature.bind(*args, **kwargs).arguments
            inputs = given.pop("inputs")
            chosen = LayerOptions(**{name: given.pop(name) for name in names & given.keys()})
            return chosen.outputs(make(chosen, **given), inputs, default_scope)

        layer.__signature__ = signature  # type: ignore[attr-defined]
        return add_arg_scope(layer)

    return decorate


@contrib_layer("fully_connected")
def fully_connected(options: LayerOptions, num_outputs: int) -> Callable[..., Layer]:
    """activation_fn(inputs times new weights, plus new biases).

    `biases_initializer=None` leaves the biases out, and so does a `normalizer_fn`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.fully_connected(tf.zeros([2, 3]), 8).shape)
    (2, 8)
    """
    return partial(Dense, num_outputs, **options.variables())


@contrib_layer("Conv")
def conv2d(
    options: LayerOptions,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
) -> Callable[..., Layer]:
    """activation_fn(images filtered by new weights, plus new biases).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.conv2d(tf.zeros([2, 4, 4, 3]), 8, 3, 2).shape)
    (2, 2, 2, 8)
    """
    return partial(
        Conv2D, num_outputs, kernel_size, stride, padding, order_of(data_format), rate,
        **options.variables(),
    )  # fmt: skip


def made_initializer(initializer: Any) -> Any:
    """An initializer, where it or its class may be given."""
    return initializer() if isinstance(initializer, type) else initializer


def collected(outputs: Tensor, collections: Any) -> Tensor:
    """The outputs, which are in the collections from now on."""
    for key in _listed(collections):
        add_to_collection(key, outputs)
    return outputs


def order_of(data_format: str | None) -> str:
    """The order of axes as layers have it."""
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
    for what, given in (
        ("batch_weights", batch_weights), ("zero_debias_moving_mean", zero_debias_moving_mean)
    ):  # fmt: skip
        if given:
            raise NotImplementedError(f"contrib.layers.batch_norm: {what} is not supported.")
    starts, costs = dict(param_initializers or {}), dict(param_regularizers or {})
    getter = contrib_getter(variables_collections)
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse, custom_getter=getter) as inner:
        layer = BatchNormalization(
            1 if order_of(data_format) == "channels_first" else -1, decay, epsilon, center, scale,
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
        return collected(outputs, outputs_collections)


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
        return collected(layer(inputs, training=is_training), outputs_collections)


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
        pooled = max_pooling2d(inputs, kernel_size, stride, padding, order_of(data_format))
        return collected(pooled, outputs_collections)


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
        pooled = average_pooling2d(inputs, kernel_size, stride, padding, order_of(data_format))
        return collected(pooled, outputs_collections)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Tensor:
    """The batch, and all else in one axis.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.flatten(tf.zeros([2, 3, 4])).shape)
    (2, 12)
    """
    with name_scope(scope, "Flatten", [inputs]):
        return collected(flattened(inputs), outputs_collections)


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
