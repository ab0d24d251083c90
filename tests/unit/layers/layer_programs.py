"""Programs of layers, built here and by TensorFlow 2.15, the last that has `tf.layers`.

`python tests/unit/layers/layer_programs.py`, run with TensorFlow 2.15, writes again what it gives
for each of them (`tests/data/layers.json`): nodes, variables, collections, values and gradients.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).parents[2] / "data" / "layers.json"
IMAGES = np.sin(np.arange(2 * 6 * 5 * 3)).reshape(2, 6, 5, 3)
ROWS = np.cos(np.arange(4 * 3)).reshape(4, 3)


def rows(tf: Any) -> Any:
    return tf.placeholder("float32", [None, 3], name="rows")


def images(tf: Any) -> Any:
    return tf.placeholder("float32", [None, 6, 5, 3], name="images")


def flag(tf: Any) -> Any:
    return tf.placeholder("bool", [], name="flag")


def dense(tf: Any) -> Any:
    x = tf.layers.dense(rows(tf), 4, activation=tf.nn.relu)
    x = tf.layers.dense(x, 2, use_bias=False)
    with tf.variable_scope("head"):
        return tf.layers.dense(x, 1, tf.nn.sigmoid), tf.layers.dense(x, 1)


def dense_options(tf: Any) -> Any:
    def penalty(w: Any) -> Any:
        return 0.5 * tf.nn.l2_loss(w)

    x = tf.layers.dense(
        rows(tf), 2, kernel_initializer=tf.ones_initializer(), bias_regularizer=penalty,
        kernel_regularizer=penalty, bias_initializer=tf.constant_initializer(0.5), name="first",
    )  # fmt: skip
    frozen = tf.layers.dense(x, 2, trainable=False, name="frozen")
    with tf.variable_scope("scoped", regularizer=penalty, reuse=tf.AUTO_REUSE):
        a = tf.layers.dense(frozen, 2, tf.nn.tanh, name="same", activity_regularizer=penalty)
        return tf.layers.dense(a, 2, name="same")


def dense_reused(tf: Any) -> Any:
    x = rows(tf)
    first = tf.layers.dense(x, 3, name="shared")
    second = tf.layers.dense(first, 3, name="shared", reuse=True)
    layer = tf.layers.Dense(2)
    return layer(second), layer(first), tf.layers.Dense(2, name="named")(x)


def dense_rank3(tf: Any) -> Any:
    return tf.layers.dense(tf.placeholder("float32", [2, None, 5, 3], name="images"), 2)


def convolutions(tf: Any) -> Any:
    x = tf.layers.conv2d(images(tf), 4, 3, padding="same", activation=tf.nn.relu)
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.conv2d(x, filters=3, kernel_size=[1, 2], strides=[2, 1], name="second")
    return tf.layers.flatten(x), tf.layers.average_pooling2d(x, [2, 1], [1, 1], "same")


def convolution_classes(tf: Any) -> Any:
    layer = tf.layers.Conv2D(3, (2, 2), use_bias=False)
    x = layer(images(tf))
    x = tf.layers.MaxPooling2D(2, 1, name="pool")(tf.layers.AveragePooling2D(2, 1)(x))
    return tf.layers.Flatten()(layer(x))


def flattened(tf: Any) -> Any:
    return [
        tf.layers.flatten(images(tf)),
        tf.layers.flatten(tf.placeholder("float32", [None, None, 3], name="rows3")),
        tf.layers.flatten(images_of_unknown_rank := tf.placeholder("float32", name="any")),
        tf.layers.flatten(tf.placeholder("float32", [None], name="vector")),
        tf.identity(images_of_unknown_rank),
    ]


def normalized(training: Callable[[Any], Any], **more: Any) -> Callable[[Any], Any]:
    def build(tf: Any) -> Any:
        phase = training(tf)
        x = tf.layers.batch_normalization(images(tf), training=phase, momentum=0.9, **more)
        y = tf.layers.batch_normalization(tf.layers.flatten(x), training=phase, name="flat", **more)
        return x, y

    return build


def normalized_along_axis_1(tf: Any) -> Any:
    x = tf.layers.batch_normalization(images(tf), axis=1, training=True, fused=False)
    return tf.layers.batch_normalization(x, axis=1, training=True, epsilon=0.1)


def normalized_and_reused(tf: Any) -> Any:
    layer = tf.layers.BatchNormalization(name="norm")
    x = images(tf)
    return layer(x, training=True), layer(x)


def dropped(tf: Any) -> Any:
    x = rows(tf)
    return tf.layers.dropout(x), tf.layers.dropout(x, 0.3, training=False, name="off")


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "dense": dense,
    "dense_options": dense_options,
    "dense_reused": dense_reused,
    "dense_rank3": dense_rank3,
    "convolutions": convolutions,
    "convolution_classes": convolution_classes,
    "flattened": flattened,
    "normalized_in_training": normalized(lambda _tf: True),
    "normalized_in_inference": normalized(lambda _tf: False),
    "normalized_by_flag": normalized(flag),
    "normalized_unfused_by_flag": normalized(flag, fused=False),
    "normalized_plain": normalized(lambda _tf: True, center=False, scale=False),
    "normalized_along_axis_1": normalized_along_axis_1,
    "normalized_and_reused": normalized_and_reused,
    "dropped": dropped,
}
FEEDS = {
    "rows:0": ROWS,
    "images:0": IMAGES,
    "rows3:0": IMAGES[0],
    "any:0": IMAGES,
    "vector:0": ROWS[0],
}


def outcome(tf: Any, program: str) -> dict[str, Any]:
    """What a program gives with one TensorFlow or another, in plain values."""
    graph = tf.Graph()
    with graph.as_default():
        built = PROGRAMS[program](tf)
        fetches = list(built) if isinstance(built, (list, tuple)) else [built]
        nodes = sorted([op.name, op.type] for op in graph.get_operations())
        keys = tf.GraphKeys
        losses = tf.get_collection(keys.REGULARIZATION_LOSSES)
        updates = tf.get_collection(keys.UPDATE_OPS)
        variables, trained = tf.global_variables(), tf.trainable_variables()
        total = tf.add_n([tf.reduce_sum(tf.square(y)) for y in fetches] + losses)
        slopes = tf.gradients(total, trained)
        known = {op.name for op in graph.get_operations()}
        feeds = {n: v for n, v in FEEDS.items() if n[:-2] in known}
        runs = []
        with tf.Session(graph=graph) as session:
            for phase in (True, False) if "flag" in known else (None,):
                given = {**feeds, "flag:0": phase} if phase is not None else feeds
                for number, v in enumerate(variables):
                    count = int(np.prod(v.shape.as_list()))
                    value = np.sin(np.arange(count) + number).reshape(v.shape.as_list())
                    start = np.abs(value) if "variance" in v.name else value
                    session.run(v.initializer, {v.initializer.inputs[1]: start})
                values = session.run([fetches, slopes, losses], given)
                session.run(updates, given)
                after = session.run([v for v in variables if v not in trained])
                runs.append([[np.asarray(v).tolist() for v in group] for group in (*values, after)])
    return {
        "outputs": [[t.name, str(t.shape)] for t in fetches],
        "nodes": nodes,
        "variables": [[v.name, v.shape.as_list()] for v in variables],
        "trained": [v.name for v in trained],
        "losses": [t.name for t in losses],
        "updates": [t.name for t in updates],
        "runs": runs,
    }


def main() -> None:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    recorded = {name: outcome(tf, name) for name in PROGRAMS}
    text = ",\n".join(f"{json.dumps(n)}: {json.dumps(rounded(v))}" for n, v in recorded.items())
    RECORDED.write_text(f"{{{text}}}\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
