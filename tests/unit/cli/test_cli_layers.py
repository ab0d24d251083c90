"""Models under `stepscope run`: what their steps do is in their layers, by name."""

import re
import statistics

import pytest

from stepscope.analysis import layer_profile, op_profile
from stepscope.analysis.runs import iter_named_runs
from stepscope.metadata import load

MODELS = """
import numpy as np, tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
random = np.random.default_rng(1)

def fit(x, model):
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    model.fit(x, random.integers(0, 5, len(x)), batch_size=len(x) // 6, verbose=0)

x = keras.Input((32, 128))
y = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 32)(x, x))
y = layers.LayerNormalization()(y + layers.Dense(128)(layers.Dense(256, activation="gelu")(y)))
y = layers.Dense(5)(layers.GlobalAveragePooling1D()(y))
fit(random.random((192, 32, 128), np.float32), keras.Model(x, y, name="transformer"))

x = keras.Input((32, 32, 16))
y = layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(x))
y = layers.GlobalAveragePooling2D()(layers.ReLU()(x + y))
fit(random.random((96, 32, 32, 16), np.float32),
    keras.Model(x, layers.Dense(5)(y), name="residual"))

fit(random.random((192, 12, 64), np.float32),
    keras.Sequential([layers.LSTM(64), layers.Dense(5)], name="recurrent"))

class Block(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.up, self.down = layers.Dense(2 * units, activation="relu"), layers.Dense(units)

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[-1:], initializer="ones")

    def call(self, x):
        return x + self.scale * self.down(self.up(x))

class Custom(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks, self.last = [Block(256), Block(256)], layers.Dense(1)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(x)

net, optimizer = Custom(), keras.optimizers.Adam()

@tf.function
def own_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x) - 1))
    wanted = net.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, wanted), wanted))
    return loss

for _ in range(6):
    own_step(tf.constant(random.random((256, 256), np.float32)))
"""


LAYERS = {
    "transformer": "multi_head_attention/attention_output layer_normalization dense",
    "residual": "conv2d batch_normalization dense_3",
    "recurrent": "lstm dense_4",
    "custom": "block/dense_5 block/dense_6 block_1/dense_7 dense_9",
}
"""Of each model some that have weights, as `model.summary()` names them."""


@pytest.mark.timeout(600)
def test_the_work_of_training_steps_is_in_layers(stepscope, script, command, tmp_path, tensorflow):
    del tensorflow
    run = ("run", "--budget", "off", "--engine", "tensorflow", "--out", "out", script(MODELS))
    done = stepscope(*run, timeout=590)
    assert done.returncode == 0, done.stderr
    runs = [run.metadata for run in iter_named_runs(load(tmp_path / "out"))]
    profiles = [layer_profile(run) for run in runs]
    for model, layers in LAYERS.items():
        ran = [
            number for number, found in enumerate(profiles)
            if found.model.runs and any(row.key == model for row in found)
        ]  # fmt: skip
        assert len(ran) == 6
        # Of the later ones, which build nothing: the one in the middle, as on a busy machine any
        # op of a step may be held up.
        shares = [profiles[number].model.in_layers for number in ran[1:]]
        assert statistics.median(shares) >= 0.95, (model, shares)
        steps = [runs[number] for number in ran]
        by_layer = layer_profile(steps)
        rows = {row.key: row for row in by_layer}
        for layer in layers.split():
            row = rows[f"{model}/{layer}"]
            assert min(row.forward_ns, row.backward_ns, row.optimizer_ns) > 0, layer
        by_type = op_profile(steps)
        assert sum(row.self_ns for row in by_layer if not row.depth) == by_type.self_ns
        assert by_layer.model.self_ns + by_layer.model.input_ns == by_type.self_ns

    code, out, _ = command("top", "out", "--by", "layer", columns=200)
    said = re.search(r"^24 runs with layers: (\d+)\.\d% of their work in layers, .*$", out, re.M)
    assert code == 0
    assert said is not None, out
    assert re.search(r"\(not counted: .* in runs without layers\)$", said[0])
