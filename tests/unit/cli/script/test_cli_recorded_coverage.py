"""What `stepscope run` records is enough for `coverage`: nobody has to ask for the graphs."""

import json

import pytest

from stepscope.metadata import load

MODELS = """
import sys
import numpy as np, tensorflow as tf

keras, layers = tf.keras, tf.keras.layers

def mlp():
    return [layers.Dense(16, activation="relu"), layers.Dropout(0.2), layers.Dense(5)], (12,)

def lstm():
    return [layers.LSTM(6), layers.Dense(5)], (4, 6)

def transformer():
    x = keras.Input((4, 8))
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    y = layers.LayerNormalization()(y + layers.Dense(8, activation="gelu")(y))
    return [keras.Model(x, layers.GlobalAveragePooling1D()(y)), layers.Dense(5)], (4, 8)

def residual():
    x = keras.Input((8, 8, 4))
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(x))
    return [keras.Model(x, layers.ReLU()(x + y)), layers.GlobalAveragePooling2D(),
            layers.Dense(5)], (8, 8, 4)

def cnn():
    return [layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(),
            layers.Dense(5)], (8, 8, 1)

random = np.random.default_rng(1)
for make in (mlp, lstm, transformer, residual, cnn):
    parts, shape = make()
    model = keras.Sequential([keras.Input(shape), *parts])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = random.random((8, *shape), np.float32)
    model.fit(x, random.integers(0, 5, 8), batch_size=4, verbose=0)
"""

SESSION = """
import numpy as np, tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x, y = tf.placeholder(tf.float32, [None, 12]), tf.placeholder(tf.int64, [None])
weights = [tf.get_variable(f"w{i}", shape) for i, shape in enumerate(((12, 8), (8, 5)))]
logits = tf.matmul(tf.nn.relu(tf.matmul(x, weights[0]) + 0.1), weights[1]) + 0.1
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
train = tf.train.AdamOptimizer().minimize(loss)
random = np.random.default_rng(1)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {x: random.random((4, 12)), y: random.integers(0, 5, 4)})
"""


LOSS, NONE = "sparse_categorical_crossentropy", "(no layer)"
LAYERS = (
    "sequential: dense dropout dense_1",
    "sequential_1: lstm lstm/lstm_cell dense_2",
    "sequential_2: functional_2 functional_2/layer_normalization functional_2/layer_normalization_1"
    " functional_2/multi_head_attention functional_2/multi_head_attention/key"
    " functional_2/multi_head_attention/value functional_2/multi_head_attention/query"
    " functional_2/multi_head_attention/attention_output functional_2/dense_3"
    " functional_2/global_average_pooling1d dense_4",
    "sequential_3: functional_4 functional_4/conv2d functional_4/batch_normalization"
    " functional_4/re_lu global_average_pooling2d dense_5",
    "sequential_4: conv2d_1 max_pooling2d flatten dense_6",
)
"""Of each model, as `model.summary()` has them."""


def unknown(command, number):
    """The states of the nodes of one run, and the names of those that nothing explains."""
    code, out, err = command("coverage", "out", "--run", str(number), "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    names = [row["name"] for row in found["rows"] if row["state"] == "unknown"]
    assert found["counts"]["measured"] > 20
    return found["unknown"], names


@pytest.mark.timeout(600)
def test_every_node_of_a_keras_step_is_accounted_for(
    stepscope, script, command, tmp_path, tensorflow
):
    del tensorflow
    run = ("run", "--budget", "off", "--engine", "tensorflow", "--out", "out", script(MODELS))
    done = stepscope(*run, timeout=590)
    assert done.returncode == 0, done.stderr
    # Two steps of each model, and the eager code around them.
    assert len(load(tmp_path / "out")) == 11
    for number, layers in zip(range(1, 10, 2), LAYERS, strict=True):
        share, names = unknown(command, number)
        assert share <= 0.01, (number, names)
        every_op_has_a_layer_and_a_line(command, number, layers)


def every_op_has_a_layer_and_a_line(command, number, layers):
    """All is in the layers of the model, by the names that Keras gave them, and has a line."""
    run = ("top", "out", "--run", str(number), "--json", "--by")
    by_type, by_layer, by_line = (
        json.loads(command(*run, by)[1]) for by in ("type", "layer", "line")
    )
    assert by_layer["named"] > 0.99
    assert sum(row["self_ns"] for row in by_layer["rows"] if not row["depth"]) == by_type["self_ns"]
    found = {row["key"]: row for row in by_layer["rows"]}
    model, _, parts = layers.partition(": ")
    named = {model, *(f"{model}/{part}" for part in parts.split())}
    assert set(found) == {*named, "input", "loss", f"loss/{LOSS}", "metrics", "optimizer", NONE}
    for name in named:
        if any(kind in name for kind in ("dense", "conv2d", "norm", "query", "lstm")):
            ran = [found[name][f"{phase}_ns"] > 0 for phase in ("forward", "backward")]
            updated = found[name]["optimizer_ns"] > 0 or name.endswith("_cell")
            assert (ran, updated) == ([True, True], True), name
    lines = {row["key"]: row["calls"] for row in by_line["rows"]}
    assert lines.get("(unknown)", 0) <= 0.05 * by_line["calls"]


def test_every_node_of_a_session_is_accounted_for(stepscope, script, command, tensorflow):
    del tensorflow
    run = ("run", "--budget", "off", "--engine", "tensorflow", "--out", "out", script(SESSION))
    done = stepscope(*run)
    assert done.returncode == 0, done.stderr
    for number in (1, 3):
        assert unknown(command, number) == (0.0, [])
