"""Linear algebra where TensorFlow 1 says more than later releases do, and norms of matrices."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope.tf1 as tf
from stepscope.errors import InvalidArgumentError


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_matrix_that_is_not_positive_has_no_cholesky_factor(session):
    """Later releases of TensorFlow give NaNs."""
    with pytest.raises(InvalidArgumentError, match="decomposition was not successful"):
        session.run(tf.cholesky([[1.0, 2.0], [2.0, 1.0]]))


def test_a_zero_on_the_diagonal_cannot_be_solved(session):
    """Later releases of TensorFlow give infinity."""
    with pytest.raises(InvalidArgumentError, match="not invertible"):
        session.run(tf.matrix_triangular_solve([[1.0, 0.0], [3.0, 0.0]], [[1.0], [2.0]]))


@pytest.mark.parametrize(("axis", "shape"), [((1, 2), (2, 1, 1)), ((2, 0), (1, 3, 1))])
def test_the_largest_stretch_of_matrices(session, axis, shape):
    x = np.sin(np.arange(18.0)).reshape(2, 3, 3)
    expected = np.linalg.norm(x, 2, axis=axis)
    assert session.run(tf.norm(x, 2, axis=axis)) == pytest.approx(expected)
    kept = session.run(tf.norm(x, 2, axis=axis, keepdims=True))
    assert kept.shape == shape
    assert kept.ravel() == pytest.approx(expected.ravel())


def test_the_factors_make_the_matrix_again(session):
    x = np.cos(np.arange(24.0)).reshape(2, 4, 3)
    q, r = tf.qr(x)
    s, u, v = tf.svd(x)
    again = tf.matmul(u, tf.matmul(tf.matrix_diag(s), v, adjoint_b=True))
    for found in session.run([tf.matmul(q, r), again]):
        assert found == pytest.approx(x)
