"""A graph of 60 nodes whose fate in a TensorFlow session is known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np

FATES: dict[str, tuple[str, str]] = {
    # What is fed, and what nothing asks for.
    "x": ("fed", ""),
    "weights": ("fed", ""),
    "bias": ("fed", ""),
    "flag": ("fed", ""),
    "times": ("fed", ""),
    "idle": ("pruned", ""),
    "unasked": ("pruned", ""),
    # Product, bias and relu become one kernel under the last name.
    "matmul": ("fused", "relu"),
    "biased": ("fused", "relu"),
    "relu": ("measured", "as _FusedMatMul"),
    # Arithmetic on constants is done once, before the run.
    "two": ("folded", "into sum"),
    "three": ("folded", "into sum"),
    "sum": ("folded", ""),
    "product": ("folded", ""),
    "scaled": ("measured", ""),
    # Two ways to the same value.
    "twin": ("measured", ""),
    "other_twin": ("duplicate", "twin"),
    "angle": ("measured", ""),
    # What changes nothing.
    "same": ("no-op", ""),
    "stopped": ("no-op", ""),
    "there/perm": ("no-op", "with there"),
    "there": ("no-op", ""),
    "back/perm": ("no-op", "with back"),
    "back": ("no-op", ""),
    # A product of equals becomes a square.
    "square": ("rewritten", "ArithmeticOptimizer/ReplaceMulWithSquare_square (Square)"),
    # A conditional, of which one side is taken.
    "choice": ("lowered", "to Identity, Merge, Switch"),
    "choice/Identity": ("no-op", ""),
    "sine": ("measured", ""),
    "sine_scale": ("measured", ""),
    "sine_scaled_0": ("measured", ""),
    "cosine": ("branch not taken", "else of choice"),
    "cosine_shift": ("branch not taken", "else of choice"),
    "cosine_shifted_0": ("branch not taken", "else of choice"),
    # A call whose body runs in its place.
    "PartitionedCall": ("inlined", "inner"),
    "inner_tanh": ("measured", ""),
    "inner_scale": ("measured", ""),
    "inner_scaled": ("measured", ""),
    "inner:Identity": ("no-op", ""),
    # A function that XLA compiles.
    "PartitionedCall_1": ("measured", ""),
    "compiled_exp": ("in XLA cluster", "PartitionedCall_1"),
    "compiled:Identity": ("in XLA cluster", "PartitionedCall_1"),
    # A loop, with the counter that TensorFlow gives it and the results nobody takes.
    "start": ("measured", ""),
    "loop/maximum_iterations": ("pruned", "loop does not use it"),
    "loop/loop_counter": ("duplicate", "start"),
    "loop": ("lowered", "to Enter, Exit, Identity, LoopCond, Merge, NextIteration, Switch"),
    "loop/Identity": ("pruned", ""),
    "loop/Identity_1": ("pruned", ""),
    "loop/Identity_2": ("pruned", ""),
    "loop/Identity_3": ("no-op", ""),
    "loop/Identity_4": ("pruned", ""),
    "before_end_0": ("measured", ""),
    "step": ("measured", ""),
    "next_step_0": ("measured", ""),
    "root": ("measured", ""),
    "one_more": ("measured", ""),
    "one_more_sum_0": ("measured", ""),
    "add/y": ("duplicate", "loop/body/step"),
    "add_0": ("measured", ""),
    # What was asked for.
    "out": ("measured", ""),
    "done": ("measured", ""),
}
"""State and detail by node; `function:name` where functions have a node of the same name."""

ITERATIONS = 3


def build(tensorflow: Any) -> tuple[Any, list[Any], dict[Any, Any]]:
    """The graph, what to fetch and what to feed."""
    tf = tensorflow.compat.v1

    @tensorflow.function
    def inner(value: Any) -> Any:
        scale = tf.constant(0.75, name="inner_scale")
        return tf.multiply(tf.tanh(value, name="inner_tanh"), scale, name="inner_scaled")

    @tensorflow.function(jit_compile=True)
    def compiled(value: Any) -> Any:
        return tf.exp(value, name="compiled_exp")

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [8, 16], name="x")
        weights = tf.placeholder(tf.float32, [16, 16], name="weights")
        bias = tf.placeholder(tf.float32, [16], name="bias")
        flag = tf.placeholder(tf.bool, [], name="flag")
        times = tf.placeholder(tf.int32, [], name="times")
        tf.exp(tf.placeholder(tf.float32, [], name="idle"), name="unasked")

        value = tf.nn.bias_add(tf.matmul(x, weights, name="matmul"), bias, name="biased")
        relu = tf.nn.relu(value, name="relu")
        two, three = tf.constant(2.0, name="two"), tf.constant(3.0, name="three")
        product = tf.multiply(tf.add(two, three, name="sum"), two, name="product")
        scaled = tf.multiply(relu, product, name="scaled")
        twin, other = tf.exp(scaled, name="twin"), tf.exp(scaled, name="other_twin")
        angle = tf.atan2(twin, other, name="angle")
        stopped = tf.stop_gradient(tf.identity(angle, name="same"), name="stopped")
        back = tf.transpose(tf.transpose(stopped, name="there"), name="back")
        square = tf.multiply(back, back, name="square")

        def then() -> Any:
            scale = tf.constant(2.0, name="sine_scale")
            return tf.multiply(tf.sin(square, name="sine"), scale, name="sine_scaled")

        def otherwise() -> Any:
            shift = tf.constant(1.0, name="cosine_shift")
            return tf.add(tf.cos(square, name="cosine"), shift, name="cosine_shifted")

        def grow(i: Any, v: Any) -> tuple[Any, Any]:
            following = tf.add(i, tf.constant(1, name="step"), name="next_step")
            one = tf.constant(1.5, name="one_more")
            return following, tf.add(tf.sqrt(v, name="root"), one, name="one_more_sum")

        chosen = tensorflow.cond(flag, then, otherwise, name="choice")
        called = compiled(inner(chosen))
        start = tf.constant(0, name="start")
        _, grown = tensorflow.while_loop(
            lambda i, _: tf.less(i, times, name="before_end"), grow, [start, called], name="loop"
        )
        out = tf.tanh(grown, name="out")
        done = tf.group(out, name="done")
    generator = np.random.default_rng(7)
    feeds = {
        x: generator.normal(size=(8, 16)),
        weights: generator.normal(size=(16, 16)),
        bias: generator.normal(size=16),
        flag: True,
        times: ITERATIONS,
    }
    return graph, [out, done], feeds
