"""A Keras fit of 200 steps of a small network."""

import time

import numpy as np
import tensorflow as tf

layers = tf.keras.layers
model = tf.keras.Sequential(
    [
        layers.Input((784,)),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(10),
    ]
)
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
random = np.random.default_rng(1)
images = random.random((200 * 32, 784), np.float32)
labels = random.integers(0, 10, 200 * 32)
began = time.perf_counter()
model.fit(images, labels, batch_size=32, verbose=0)
print(f"the loop took {time.perf_counter() - began} s")
