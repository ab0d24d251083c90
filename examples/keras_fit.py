"""A small Keras model: every step of training, evaluation and prediction is a run.

stepscope run examples/keras_fit.py
stepscope run --steps 20:25 examples/keras_fit.py --epochs 2
"""

import argparse

import keras
import numpy as np

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=1)
epochs = parser.parse_args().epochs

keras.utils.set_random_seed(7)
rng = np.random.default_rng(7)
images = rng.random((512, 28, 28, 1), dtype=np.float32)
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype(np.int32)

model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(2),
    ]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=False,
)
history = model.fit(images, labels, batch_size=32, epochs=epochs, verbose=0)
print("steps:", epochs * 16, "losses:", len(history.history["loss"]))
print("predicted:", model.predict(images[:8], verbose=0).shape)
