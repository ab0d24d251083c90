"""Rows of variables that are added to, some of them more than once: as NumPy does it one by one."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope.tf1 as tf
from stepscope.ops.state import variable_ops


@pytest.mark.parametrize(
    ("scatter", "expected"), [(tf.scatter_add, np.add.at), (tf.scatter_sub, np.subtract.at)]
)
@given(indices=st.lists(st.integers(0, 6), max_size=12), width=st.integers(1, 3))
def test_each_row_is_changed_as_often_as_it_is_named(scatter, expected, indices, width):
    start = np.random.default_rng(1).standard_normal((7, width)).astype(np.float32)
    updates = np.random.default_rng(2).standard_normal((len(indices), width)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.Variable(start)
        change = scatter(rows, np.array(indices, np.int32), updates)
        session.run(tf.global_variables_initializer())
        found = session.run(change)
    wanted = start.copy()
    expected(wanted, np.array(indices, np.int32), updates)
    np.testing.assert_array_equal(found, wanted)


def test_the_worked_example():
    assert doctest.testmod(variable_ops).failed == 0
