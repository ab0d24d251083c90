"""Gradients of grouped convolutions, which TensorFlow's CPU lacks: those of their parts."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope.tf1 as tf


@pytest.mark.parametrize(("stride", "padding"), [(1, "SAME"), (2, "SAME"), (1, "VALID")])
def test_is_a_convolution_per_group(stride, padding):
    random = np.random.default_rng(4)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(random.normal(size=(2, 5, 6, 6)))
        weights = tf.constant(random.normal(size=(3, 2, 2, 9)))
        whole = tf.nn.conv2d(x, weights, stride, padding)
        pairs = zip(tf.split(x, 3, 3), tf.split(weights, 3, 3), strict=True)
        parts = tf.concat([tf.nn.conv2d(a, b, stride, padding) for a, b in pairs], 3)
        found, expected = session.run(
            [[y, *tf.gradients(tf.sin(y), [x, weights])] for y in (whole, parts)]
        )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
