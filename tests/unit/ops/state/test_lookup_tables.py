"""Lookup tables where programs use them: in sessions, input pipelines, conditionals, from files."""

from __future__ import annotations

import pytest

import stepscope.tf1 as tf
from stepscope.errors import FailedPreconditionError


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def colours():
    return tf.contrib.lookup.index_table_from_tensor(["red", "green"], default_value=-1)


def test_a_session_has_a_content_of_its_own():
    found = colours().lookup(tf.constant(["green", "grey"]))
    fill = tf.tables_initializer()
    with tf.Session() as first, tf.Session() as second:
        first.run(fill)
        assert first.run(found).tolist() == [1, -1]
        with pytest.raises(FailedPreconditionError, match="Table not initialized"):
            second.run(found)


def test_a_pipeline_looks_words_up():
    table = colours()
    words = tf.data.Dataset.from_tensor_slices(["green", "blue", "red"]).map(table.lookup)
    iterator = tf.data.make_initializable_iterator(words)
    following = iterator.get_next()
    with tf.Session() as session:
        session.run([tf.tables_initializer()])
        session.run(iterator.initializer)
        assert [session.run(following) for _ in range(3)] == [1, -1, 0]


def test_a_table_of_a_conditional_is_there_in_both_branches():
    asked = tf.placeholder(tf.bool, [])
    made = []

    def made_inside():
        entries = tf.lookup.KeyValueTensorInitializer(
            ["red", "green"], [3, 4], value_dtype=tf.int64
        )
        made.append(tf.lookup.StaticHashTable(entries, -1))
        return made[0].lookup(tf.constant("green"))

    answer = tf.cond(asked, made_inside, lambda: tf.constant(9, tf.int64))
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        assert session.run(answer, {asked: True}) == 4
        assert session.run(answer, {asked: False}) == 9
        assert session.run(made[0].size()) == 2


def test_a_monitored_session_fills_tables():
    found = colours().lookup(tf.constant(["red"]))
    with tf.train.MonitoredSession() as session:
        assert session.run(found).tolist() == [0]


def test_tables_of_one_file_are_one(tmp_path):
    (tmp_path / "words").write_text("one\ntwo\n")
    first, second = (
        tf.contrib.lookup.index_table_from_file(str(tmp_path / "words")) for _ in range(2)
    )
    with tf.Session() as session:
        session.run(first.init)
        assert session.run(second.lookup(tf.constant("two"))) == 1


def test_the_content_of_a_table_that_changes_stays():
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    word = tf.placeholder(tf.string, [1])
    insert = table.insert(word, tf.expand_dims(table.size(), 0))
    with tf.Session() as session:
        for _ in range(3):
            for text in ("a", "b", "a"):
                if session.run(table.lookup(tf.constant([text])))[0] < 0:
                    session.run(insert, {word: [text]})
        assert session.run(table.lookup(tf.constant(["a", "b", "c"]))).tolist() == [0, 1, -1]
