"""Lookup tables that change, in checkpoints: as TensorFlow writes and reads them."""

from __future__ import annotations

import pytest

import stepscope.tf1 as tf1
from stepscope.programs.saving.checkpoints import CheckpointReader

WORDS = {b"one": 1, b"two": 2, b"": -5}
VECTORS = {3: [0.5, -1.0], 900: [2.0, 4.0]}


def tables(tf):
    """A table of words and one of vectors, between two variables."""
    tf.Variable(4.0, name="before", use_resource=False)
    words = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, name="words")
    with tf.name_scope("scope"):
        vectors = tf.lookup.experimental.MutableHashTable(
            tf.int64, tf.float32, [0.0, 0.0], name="vectors"
        )
    tf.Variable([1, 2], name="zlast", use_resource=False)
    return words, vectors


def filled(tf, words, vectors):
    return tf.group(
        words.insert(list(WORDS), tf.constant(list(WORDS.values()), tf.int64)),
        vectors.insert(tf.constant(list(VECTORS), tf.int64), list(VECTORS.values())),
    )


def content(session, words, vectors):
    keys, values = session.run(words.export())
    numbers, rows = session.run(vectors.export())
    return (
        dict(zip(keys.tolist(), values.tolist(), strict=True)),
        dict(zip(numbers.tolist(), rows.tolist(), strict=True)),
    )


def saved(tf, prefix, **options):
    made = tables(tf)
    fill, saver = filled(tf, *made), tf.train.Saver(**options)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), fill])
        return saver.save(session, prefix, write_meta_graph=False)


def restored(tf, prefix):
    made = tables(tf)
    other = made[0].insert(["gone"], tf.constant([9], tf.int64))
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(other)
        saver.restore(session, prefix)
        return content(session, *made)


@pytest.mark.tensorflow
def test_the_nodes_are_tensorflows(both):
    def program(tf):
        tables(tf)
        tf.train.Saver()
        tf.train.Saver(sharded=True)
        return [
            (n.name, n.op, list(n.input), str(n.attr["dtypes"]), str(n.attr["_class"]))
            for n in tf.get_default_graph().as_graph_def().node
            if n.name.startswith("save") or "export" in n.name
        ]

    ours, theirs = both(program)
    assert ours == theirs
    assert len(ours) > 30


@pytest.mark.tensorflow
@pytest.mark.parametrize("sharded", [False, True])
def test_entries_go_both_ways(both, tmp_path, sharded):
    prefixes = both(lambda tf: saved(tf, str(tmp_path / tf.__name__), sharded=sharded))
    for prefix in prefixes:
        assert both(lambda tf, p=prefix: restored(tf, p)) == [(WORDS, VECTORS)] * 2
    ours, theirs = (CheckpointReader(p).get_variable_to_shape_map() for p in prefixes)
    assert ours == theirs
    assert ours["words-keys"] == [3]
    assert ours["vectors-values"] == [2, 2]


def test_a_saver_of_an_imported_graph_restores_tables(tmp_path):
    with tf1.Graph().as_default():
        made = tables(tf1)
        fill, saver = filled(tf1, *made), tf1.train.Saver()
        asked = made[0].lookup(tf1.constant(["two", "three"]), name="asked")
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), fill])
            prefix = saver.save(session, str(tmp_path / "c"))
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.train.import_meta_graph(f"{prefix}.meta").restore(session, prefix)
        assert session.run(asked.name).tolist() == [2, -1]


def test_monitored_training_goes_on_with_its_tables(tmp_path):
    def visits(steps):
        with tf1.Graph().as_default():
            table = tf1.lookup.experimental.MutableHashTable(tf1.string, tf1.int64, 0, name="t")
            step = tf1.train.get_or_create_global_step()
            with tf1.control_dependencies([tf1.assign_add(step, 1)]):
                count = table.insert(["n"], table.lookup(tf1.constant(["n"])) + 1)
            now = table.lookup(tf1.constant(["n"]))
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), save_checkpoint_secs=None, save_checkpoint_steps=2
            ) as session:
                for _ in range(steps):
                    session.run(count)
                return session.run(now).tolist()

    assert visits(2) == [2]
    assert visits(4) == [6]


def test_a_table_without_checkpoint_is_not_saved(tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.lookup.experimental.MutableHashTable(tf1.string, tf1.int64, 0, checkpoint=False)
        with pytest.raises(ValueError, match="No variables to save"):
            tf1.train.Saver()
        tf1.Variable(1.0, name="v")
        session.run(tf1.global_variables_initializer())
        saver = tf1.train.Saver()
        prefix = saver.save(session, str(tmp_path / "c"))
    assert list(CheckpointReader(prefix).get_variable_to_shape_map()) == ["v"]


def test_of_two_tables_of_one_name_the_saver_says_that_one_is_lost(tmp_path, said):
    with tf1.Graph().as_default(), tf1.Session() as session:
        for value in (1, 2):
            table = tf1.lookup.experimental.MutableHashTable(tf1.string, tf1.int64, 0)
            session.run(table.insert(["a"], tf1.constant([value], tf1.int64)))
        saver = tf1.train.Saver()
        prefix = saver.save(session, str(tmp_path / "c"))
    assert "two objects of the name 'MutableHashTable'" in said[0][1]
    assert CheckpointReader(prefix).get_tensor("MutableHashTable-values").tolist() == [2]


def test_a_program_saves_objects_of_its_own(tmp_path):
    """As seq2seq programs of the time did: a subclass of `SaveableObject` in the list."""
    from stepscope.tf1.python.training.saver import BaseSaverBuilder

    class Doubled(BaseSaverBuilder.SaveableObject):
        def __init__(self, variable):
            spec = BaseSaverBuilder.SaveSpec(variable * 2.0, "", "doubled")
            super().__init__(variable, [spec], "doubled")

        def restore(self, restored_tensors, restored_shapes):
            assert restored_shapes is None
            return self.op.assign(restored_tensors[0])

    with tf1.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(3.0)
        saver = tf1.train.Saver([Doubled(variable)])
        session.run(tf1.global_variables_initializer())
        saver.restore(session, saver.save(session, str(tmp_path / "c")))
        assert session.run(variable) == 6.0
