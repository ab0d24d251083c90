"""Layers and regularizers under the names they had in `tf.contrib.layers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import GraphKeys, add_to_collection, name_scope
from stepscope.graph.operation import Tensor
from stepscope.layers.dense import Activation, Dense
from stepscope.layers.image_layers import Conv2D
from stepscope.layers.initializers import (
    GlorotNormal,
    GlorotUniform,
    Initializer,
    zeros_initializer,
)
from stepscope.layers.layer_base import Layer
from stepscope.layers.variable_scope import variable_scope
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
