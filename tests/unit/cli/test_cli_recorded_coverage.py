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
    done = stepscope("run", "--engine", "tensorflow", "--out", "out", script(MODELS), timeout=590)
    assert done.returncode == 0, done.stderr
    # Two steps of each model, and the eager code around them.
    assert len(load(tmp_path / "out")) == 11
    for number in range(1, 10, 2):
        share, names = unknown(command, number)
        assert share <= 0.01, (number, names)


def test_every_node_of_a_session_is_accounted_for(stepscope, script, command, tensorflow):
    del tensorflow
    done = stepscope("run", "--engine", "tensorflow", "--out", "out", script(SESSION))
    assert done.returncode == 0, done.stderr
    for number in (1, 3):
        assert unknown(command, number) == (0.0, [])
