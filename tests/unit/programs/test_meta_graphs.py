"""Meta graphs, written here and read by TensorFlow, and the other way round."""

import numpy as np
import pytest
from google.protobuf import text_format

import stepscope.tf1 as tf1

POINTS = np.arange(6, dtype=np.float32).reshape(3, 2)
COLLECTIONS = {
    *("variables", "trainable_variables", "local_variables", "global_step", "queue_runners"),
    *("summaries", "loss", "train", "train_op", "n", "rate", "text"),
}


def build(tf, use_resource=False):
    """Something to train, fed from a queue, with collections of every kind."""
    rows = tf.train.slice_input_producer([tf.constant(POINTS)], num_epochs=4, shuffle=False)
    x = tf.train.batch(rows, 3, name="x")
    w = tf.Variable([[1.0], [2.0]], name="w", use_resource=use_resource)
    fixed = tf.Variable(3.0, trainable=False, name="fixed", use_resource=use_resource)
    # Squared, so that the update needs the value and comes after the loss.
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w))) * fixed
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.001).minimize(loss, global_step=step)
    for name, value in {"loss": loss, "train": train, "n": 5, "rate": 0.5, "text": b"hi"}.items():
        tf.add_to_collection(name, value)


def train(tf):
    """The losses of the graph that is there, and what its collections hold."""
    (loss,), (train_op,) = tf.get_collection("loss"), tf.get_collection("train")
    found = []
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        try:
            while len(found) < 100:
                found.append(round(float(sess.run([loss, train_op])[0]), 3))
        except tf.errors.OutOfRangeError:
            coord.request_stop()
        coord.join(threads)
        steps = int(sess.run(tf.train.get_global_step()))
    plain = [tf.get_collection(key) for key in ("n", "rate", "text")]
    trainable = [v.op.name for v in tf.trainable_variables()]
    return found, steps, plain, trainable, [v.op.name for v in tf.global_variables()]


@pytest.mark.tensorflow
@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_from_one_engine_to_the_other(tf, tmp_path, use_resource, as_text):
    paths, results = {}, {}
    for name, engine in (("ours", tf1), ("theirs", tf)):
        with engine.Graph().as_default():
            build(engine, use_resource)
            paths[name] = str(tmp_path / name)
            written = engine.train.export_meta_graph(paths[name], as_text=as_text)
            assert set(written.collection_def) == COLLECTIONS
            results[name] = train(engine)
    assert results["ours"] == results["theirs"]
    assert len(results["ours"][0]) == 4
    for source, path in paths.items():
        for reader in (tf1, tf):
            with reader.Graph().as_default():
                reader.train.import_meta_graph(path)
                assert train(reader) == results[source]


@pytest.mark.tensorflow
def test_into_a_scope_and_out_of_it(tf):
    with tf1.Graph().as_default():
        build(tf1)
        whole = tf1.train.export_meta_graph()
    with tf1.Graph().as_default():
        tf1.train.import_meta_graph(whole, import_scope="inner", clear_devices=True)
        # The nodes of the saver that import makes are not cleared.
        made = [op for op in tf1.get_default_graph().get_operations() if op.name[:4] != "save"]
        assert {op.device for op in made} == {""}
        inside = train(tf1)
        assert inside[3] == ["inner/w"]
        part = tf1.train.export_meta_graph(export_scope="inner")
    names = {node.name for node in whole.graph_def.node}
    assert {node.name for node in part.graph_def.node} == names
    for reader in (tf1, tf):
        with reader.Graph().as_default():
            message = reader.MetaGraphDef.FromString(part.SerializeToString())
            reader.train.import_meta_graph(message)
            assert train(reader)[:2] == inside[:2]


@pytest.mark.tensorflow
def test_with_savers(tf, tmp_path):
    """A graph with savers, also in its collections, goes from TensorFlow to here and back."""
    with tf.Graph().as_default():
        build(tf)
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(sharded=True, name="sharded"))
        tf.train.Saver().export_meta_graph(str(tmp_path / "theirs.meta"))
        expected = train(tf)
    for reader, path in ((tf1, "theirs.meta"), (tf, "ours.meta")):
        with reader.Graph().as_default():
            saver = reader.train.import_meta_graph(str(tmp_path / path))
            assert saver.as_saver_def().restore_op_name == "save/restore_all"
            (other,) = reader.get_collection(reader.GraphKeys.SAVERS)
            assert other.as_saver_def().restore_op_name == "sharded/restore_all"
            saver.export_meta_graph(str(tmp_path / "ours.meta"))
            assert train(reader) == expected


@pytest.mark.tensorflow
@pytest.mark.parametrize("as_text", [True, False])
def test_write_graph(tf, tmp_path, graph, as_text):
    tf1.constant(POINTS, name="points") + 1.0
    path = tf1.train.write_graph(graph, tmp_path / "deep" / "er", "graph.pb", as_text)
    assert path == str(tmp_path / "deep" / "er" / "graph.pb")
    found = tf.GraphDef()
    data = (tmp_path / "deep" / "er" / "graph.pb").read_bytes()
    text_format.Parse(data, found) if as_text else found.ParseFromString(data)
    assert [node.op for node in found.node] == ["Const", "Const", "AddV2"]
    assert tf1.io.write_graph(found, str(tmp_path), "again.pb", as_text).endswith("again.pb")
    assert (tmp_path / "again.pb").read_bytes() == data


def test_what_cannot_be_read_or_written(graph, tmp_path, said):
    with pytest.raises(OSError, match="does not exist"):
        tf1.train.import_meta_graph(str(tmp_path / "none.meta"))
    (tmp_path / "bad.meta").write_bytes(b"\xff\xfe nothing")
    with pytest.raises(OSError, match="Cannot parse file"):
        tf1.train.import_meta_graph(tmp_path / "bad.meta")
    with pytest.raises(TypeError, match="expected a MetaGraphDef message, found"):
        tf1.train.import_meta_graph(tf1.GraphDef())
    tf1.add_to_collection("odd", object())
    assert "odd" not in tf1.train.export_meta_graph().collection_def
    assert "it holds object" in said[-1][1]
    with tf1.name_scope("a"):
        tf1.identity(tf1.constant(1.0, name="outside"))
    with tf1.name_scope("b"):
        tf1.identity(graph.get_tensor_by_name("a/outside:0"))
    with pytest.raises(ValueError, match="has the input 'a/outside', which is not in that scope"):
        tf1.train.export_meta_graph(export_scope="b")
