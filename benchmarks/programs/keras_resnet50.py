"""A Keras fit of 20 steps of ResNet50 on images of 64 by 64."""

import time

import numpy as np
import tensorflow as tf

model = tf.keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
model.compile("sgd", "sparse_categorical_crossentropy")
random = np.random.default_rng(1)
images = random.random((20 * 8, 64, 64, 3), np.float32)
labels = random.integers(0, 10, 20 * 8)
began = time.perf_counter()
model.fit(images, labels, batch_size=8, verbose=0)
print(f"the loop took {time.perf_counter() - began} s")
