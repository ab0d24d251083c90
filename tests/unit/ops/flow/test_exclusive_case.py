"""`tf.case(exclusive=True)`: one function, where one predicate at most is true."""

from __future__ import annotations

import pytest

import stepscope.tf1 as tf
from stepscope.errors import InvalidArgumentError


def test_one_true_predicate_decides_and_two_are_an_error():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.int32, [], name="x")
        small, even = tf.less(x, 10, name="small"), tf.equal(x % 2, 0, name="even")
        pairs = [(small, lambda: tf.constant("small")), (even, lambda: tf.constant("even"))]
        word = tf.case(pairs, default=lambda: tf.constant("neither"), exclusive=True)
        assert [session.run(word, {x: n}) for n in (3, 12, 13)] == [b"small", b"even", b"neither"]
        with pytest.raises(
            InvalidArgumentError, match=r"more than 1 conditions \(small:0, even:0\)"
        ):
            session.run(word, {x: 4})


def test_structures_and_the_version_are_there():
    assert tf.nest.flatten({"b": [1, 2], "a": 3}) == [3, 1, 2]
    assert tf.nest.map_structure(lambda a: a + 1, (1, [2])) == (2, [3])
    assert tf.nest.is_nested([1])
    assert tf.version.VERSION == tf.VERSION
    assert tf.version.GRAPH_DEF_VERSION > 100
