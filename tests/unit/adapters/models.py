"""Small models, each as a session, a function and eager code where it exists.

`build(tensorflow, kind, mode)` makes a fresh instance: `call()` runs one step untraced, `trace()`
runs one under the contract and gives its metadata, `graph()` is what the user built.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

KINDS = ("mlp", "cnn", "lstm", "keras_fit", "input_pipeline")
MODES = ("session", "function", "eager")
CASES = [
    (kind, mode) for kind in KINDS for mode in MODES if (kind, mode) != ("keras_fit", "session")
]
"""Keras has had no sessions of its own since version 3."""


class Model:
    """One instance of a model in one mode."""

    session: Any = None
    fetches: Any = None

    def __init__(
        self, call: Callable[[], Any], trace: Callable[..., Any], graph: Callable[[], Any]
    ) -> None:
        self.call = call
        self._trace = trace
        self.graph = graph

    def trace(self, level: int = RunOptions.SOFTWARE_TRACE, **options: Any) -> RunMetadata:
        metadata = RunMetadata()
        self._trace(options=RunOptions(trace_level=level, **options), run_metadata=metadata)
        return metadata


def counted(metadata: RunMetadata) -> Counter[tuple[str, str]]:
    """How often each node ran, by name and op type."""
    ops = metadata.ops
    return Counter(zip(list(ops.name), list(ops.op), strict=True))


def build(tensorflow: Any, kind: str, mode: str, scale: int = 1) -> Model:
    """A fresh instance of a model; its work grows with `scale`, its graph does not."""
    tensorflow.keras.utils.set_random_seed(11)
    if mode == "session":
        return _session(tensorflow, kind, scale)
    return _python(tensorflow, kind, scale, eager=mode == "eager")


def _session(tensorflow: Any, kind: str, scale: int) -> Model:
    from stepscope.adapters.tensorflow import Session

    v1 = tensorflow.compat.v1
    graph = tensorflow.Graph()
    with graph.as_default():
        with v1.variable_scope("model", use_resource=True):
            step = STEPS[kind](tensorflow, _SessionWorld(tensorflow, scale))()
        init = [v1.global_variables_initializer(), v1.tables_initializer()]
    session = Session(graph=graph)
    session.run(init)
    model = Model(
        lambda: session.run(step),
        lambda **kw: session.run(step, **kw),
        lambda: graph,
    )
    model.session, model.fetches = session, step
    return model


def _python(tensorflow: Any, kind: str, scale: int, *, eager: bool) -> Model:
    from stepscope.adapters.tensorflow import run

    step = STEPS[kind](tensorflow, _PythonWorld(tensorflow, scale, eager=eager))
    if eager:
        return Model(step, lambda **kw: run(step, **kw), lambda: None)
    if kind == "keras_fit":
        # Keras has made the function; `step` calls it as `fit` does.
        inner = step.inner
        return Model(
            step,
            lambda **kw: run(step, **kw),
            lambda: inner.get_concrete_function(step.iterator).graph,
        )
    function = tensorflow.function(step)
    return Model(
        function,
        lambda **kw: run(function, **kw),
        lambda: function.get_concrete_function().graph,
    )


class _SessionWorld:
    """How a step is written for a session."""

    eager = False

    def __init__(self, tensorflow: Any, scale: int) -> None:
        self._tf = tensorflow
        self.scale = scale

    def variable(self, name: str, value: Any) -> Any:
        return self._tf.compat.v1.get_variable(name, initializer=value)

    def gradients(self, loss_of: Callable[[], Any], variables: list[Any]) -> tuple[Any, list[Any]]:
        loss = loss_of()
        return loss, self._tf.gradients(loss, variables)

    def iterator(self, dataset: Any) -> Callable[[], Any]:
        v1 = self._tf.compat.v1
        iterator = v1.data.make_initializable_iterator(dataset)
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator.get_next


class _PythonWorld:
    """How a step is written for a function and for eager code."""

    def __init__(self, tensorflow: Any, scale: int, *, eager: bool) -> None:
        self._tf = tensorflow
        self.scale = scale
        self.eager = eager

    def variable(self, name: str, value: Any) -> Any:
        return self._tf.Variable(value, name=name)

    def gradients(self, loss_of: Callable[[], Any], variables: list[Any]) -> tuple[Any, list[Any]]:
        with self._tf.GradientTape() as tape:
            loss = loss_of()
        return loss, tape.gradient(loss, variables)

    def iterator(self, dataset: Any) -> Callable[[], Any]:
        return iter(dataset).get_next


def _values(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(0, 0.3, shape).astype(np.float32)


def _descent(tf: Any, loss: Any, variables: list[Any], gradients: list[Any]) -> Any:
    updates = [v.assign_sub(0.01 * g) for v, g in zip(variables, gradients, strict=True)]
    with contextlib.ExitStack() as stack:
        if not tf.executing_eagerly():
            stack.enter_context(tf.control_dependencies(updates))
        return tf.identity(loss, name="loss")


def _mlp(tf: Any, world: Any) -> Callable[[], Any]:
    """Two dense layers and one step of gradient descent."""
    n = world.scale
    x, y = _values(32 * n, 16), _values(32 * n, 4 * n)
    sizes = {"w1": (16, 32 * n), "b1": (32 * n,), "w2": (32 * n, 4 * n), "b2": (4 * n,)}
    w1, b1, w2, b2 = variables = [world.variable(n, _values(*s)) for n, s in sizes.items()]

    def loss() -> Any:
        hidden = tf.nn.relu(tf.matmul(x, w1) + b1)
        return tf.reduce_mean(tf.square(tf.matmul(hidden, w2) + b2 - y))

    return lambda: _descent(tf, *_swap(variables, world.gradients(loss, variables)))


def _swap(variables: list[Any], found: tuple[Any, list[Any]]) -> tuple[Any, list[Any], list[Any]]:
    return found[0], variables, found[1]


def _cnn(tf: Any, world: Any) -> Callable[[], Any]:
    """Convolution, batch norm with moving averages, pooling, a dense layer, gradient descent."""
    batch = 4 * world.scale**2
    images, labels = _values(batch, 8, 8, 3), np.arange(batch) % 4
    sizes = {"kernel": (3, 3, 3, 4), "gamma": (4,), "beta": (4,), "dense": (64, 4)}
    kernel, gamma, beta, dense = variables = [
        world.variable(n, _values(*s)) for n, s in sizes.items()
    ]
    mean, variance = (world.variable(n, np.ones(4, np.float32)) for n in ("mean", "variance"))

    def loss() -> Any:
        convolved = tf.nn.conv2d(images, kernel, 1, "SAME")
        normed, batch_mean, batch_variance = tf.compat.v1.nn.fused_batch_norm(
            convolved, gamma, beta, is_training=True
        )
        moved = [
            mean.assign_sub(0.1 * (mean - batch_mean)),
            variance.assign_sub(0.1 * (variance - batch_variance)),
        ]
        pooled = tf.nn.max_pool2d(tf.nn.relu(normed), 2, 2, "SAME")
        with contextlib.ExitStack() as stack:
            if not tf.executing_eagerly():
                stack.enter_context(tf.control_dependencies(moved))
            logits = tf.matmul(tf.reshape(pooled, [batch, 64]), dense)
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )

    return lambda: _descent(tf, *_swap(variables, world.gradients(loss, variables)))


def _lstm(tf: Any, world: Any) -> Callable[[], Any]:
    """An LSTM over eight steps in a loop, and its gradients through the loop."""
    batch, units = 4 * world.scale, 5 * world.scale
    sequence = _values(8, batch, 6)
    variables = [
        world.variable("weights", _values(6 + units, 4 * units)),
        world.variable("bias", _values(4 * units)),
    ]

    def cell(inputs: Any, hidden: Any, carry: Any) -> tuple[Any, Any]:
        gates = tf.matmul(tf.concat([inputs, hidden], 1), variables[0]) + variables[1]
        i, f, g, o = tf.split(gates, 4, axis=1)
        carry = tf.sigmoid(f) * carry + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(carry), carry

    def loss() -> Any:
        inputs = tf.constant(sequence)
        state = (tf.zeros([batch, units]), tf.zeros([batch, units]))
        if world.eager:
            for t in range(8):
                state = cell(inputs[t], *state)
        else:
            _, *state = tf.while_loop(
                lambda t, _h, _c: t < 8,
                lambda t, h, c: (t + 1, *cell(inputs[t], h, c)),
                (0, *state),
            )
        return tf.reduce_sum(state[0] ** 2)

    return lambda: _descent(tf, *_swap(variables, world.gradients(loss, variables)))


def _keras_fit(tf: Any, world: Any) -> Callable[..., Any]:
    """What `fit` calls for each step, with an iterator over batches."""
    keras = tf.keras
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Keras 2 draws seeds up to 1e9
        model = keras.Sequential(
            [
                keras.layers.Input((6,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.Dense(1),
            ]
        )
    model.compile(optimizer="sgd", loss="mse", run_eagerly=world.eager)
    dataset = tf.data.Dataset.from_tensor_slices((_values(16, 6), _values(16, 1)))
    iterator = iter(dataset.batch(4).repeat().with_options(_read_when_asked(tf)))
    with contextlib.suppress(AttributeError):
        model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    function = model.train_function

    def step() -> Any:
        return function(iterator)

    if not world.eager:
        step.inner = _inner_function(function)
        step.iterator = iterator
    return step


def _inner_function(function: Any) -> Any:
    """The tf.function that Keras 3 hides in a Python function."""
    if hasattr(function, "get_concrete_function"):
        return function
    for cell in function.__closure__ or ():
        if hasattr(cell.cell_contents, "get_concrete_function"):
            return cell.cell_contents
    raise AssertionError("Keras's train function holds no tf.function any more")


def _read_when_asked(tf: Any) -> Any:
    """Nothing is read ahead: what one step's reading runs is the same in every step."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    return options


def _input_pipeline(tf: Any, world: Any) -> Callable[[], Any]:
    """A map and a batch, read once per step and reduced."""
    dataset = (
        tf.data.Dataset.from_tensor_slices(_values(64, 6 * world.scale**3))
        .map(lambda row: tf.tanh(row) * 2.0 + tf.reduce_sum(row))
        .batch(4)
        .repeat()
        .with_options(_read_when_asked(tf))
    )
    get_next = world.iterator(dataset)
    return lambda: tf.reduce_sum(tf.square(get_next()), axis=0)


STEPS = {
    "mlp": _mlp,
    "cnn": _cnn,
    "lstm": _lstm,
    "keras_fit": _keras_fit,
    "input_pipeline": _input_pipeline,
}
