"""GraphDefs between TensorFlow and us: written here, read there, and the other way round."""

import numpy as np
import pytest
from graph_names import OURS, nodes

from stepscope.errors import UnimplementedError
from stepscope.graph import Graph, import_graph_def


def network(tf):
    """A small graph with scopes, devices, control inputs, lists, attrs and constants."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.name_scope("layer"), tf.device("/cpu:0"):
        w = tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
        y = tf.add(tf.matmul(x, w, name="mm"), [0.5, -0.5], name="y")
    with tf.control_dependencies([w]):
        parts = tf.unstack(y, axis=1, name="parts")
    joined = tf.concat([tf.reshape(p, [-1, 1]) for p in parts] + [y], 1, name="joined")
    return tf.identity(joined[:, 1:], name="out")


def as_theirs(tf, message):
    return tf.compat.v1.GraphDef.FromString(message.SerializeToString())


def attrs_of(tf, message):
    found = {}
    for node in message.node:
        for key, value in node.attr.items():
            if value.WhichOneof("value") == "tensor":
                array = tf.make_ndarray(value.tensor)
                found[node.name, key] = (array.dtype, array.shape, array.tobytes())
            elif not key.startswith("_"):
                found[node.name, key] = str(value)
    return found


def run_in_tensorflow(tf, graph_def, x):
    with tf.Graph().as_default():
        (out,) = tf.import_graph_def(graph_def, return_elements=["out:0"], name="")
        with tf.compat.v1.Session() as session:
            return session.run(out, {"x:0": x})


def test_the_same_program_gives_the_same_graph_def(tf):
    with Graph().as_default() as ours:
        network(OURS)
    with tf.Graph().as_default() as theirs:
        network(tf.compat.v1)
    assert nodes(ours.as_graph_def()) == nodes(theirs.as_graph_def())
    assert attrs_of(tf, as_theirs(tf, ours.as_graph_def())) == attrs_of(tf, theirs.as_graph_def())


def test_our_graph_runs_on_tensorflow(tf):
    with Graph().as_default() as ours:
        network(OURS)
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    y = x @ np.arange(6, dtype=np.float32).reshape(3, 2) + np.float32([0.5, -0.5])
    expected = np.concatenate([y, y], axis=1)[:, 1:]
    result = run_in_tensorflow(tf, as_theirs(tf, ours.as_graph_def()), x)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_tensorflows_graph_is_read_and_written_back_unchanged(tf):
    with tf.Graph().as_default() as theirs:
        network(tf.compat.v1)
    message = theirs.as_graph_def()
    with Graph().as_default() as ours:
        (out,) = import_graph_def(message, return_elements=["out:0"], name="")
    assert out.shape.as_list() == theirs.get_tensor_by_name("out:0").shape.as_list()
    back = as_theirs(tf, ours.as_graph_def())
    assert nodes(back) == nodes(message)
    assert attrs_of(tf, back) == attrs_of(tf, message)
    x = np.float32([[1, 2, 3]])
    np.testing.assert_array_equal(run_in_tensorflow(tf, back, x), run_in_tensorflow(tf, message, x))


def test_an_imported_graph_has_tensorflows_prefix_and_shapes(tf):
    with tf.Graph().as_default() as source:
        network(tf.compat.v1)
    message = source.as_graph_def()

    def imported(names, graph):
        with graph.as_default():
            names.import_graph_def(message)
            names.import_graph_def(message, name="again")
            names.import_graph_def(message, name="again")
            names.constant(1.0, name="import/x")
            return (
                nodes(graph.as_graph_def()),
                [t.shape.as_list() for op in graph.get_operations() for t in op.outputs],
            )

    assert imported(OURS, Graph()) == imported(tf.compat.v1, tf.Graph())


def test_input_map_and_return_elements(tf):
    with tf.Graph().as_default() as source:
        network(tf.compat.v1)
    message = source.as_graph_def()

    def imported(names, graph):
        with graph.as_default():
            mine = names.constant([[1.0, 2.0, 3.0]], name="mine")
            op, tensor = names.import_graph_def(
                message, {"x:0": mine}, return_elements=["layer/mm", "parts:1"], name="net"
            )
            return op.name, tensor.name, [t.name for t in op.inputs], tensor.shape.as_list()

    assert imported(OURS, Graph()) == imported(tf.compat.v1, tf.Graph())


def test_an_input_that_is_not_there_is_refused(tf):
    with tf.Graph().as_default() as source:
        network(tf.compat.v1)
    message = source.as_graph_def()
    for names, graph in ((OURS, Graph()), (tf.compat.v1, tf.Graph())):
        with graph.as_default():
            one = names.constant(1.0)
            with pytest.raises(ValueError, match="nothing"):
                names.import_graph_def(message, {"nothing:0": one})
            with pytest.raises(ValueError, match="nothing"):
                names.import_graph_def(message, return_elements=["nothing:0"])


def test_unsupported_ops_are_listed_all_at_once_and_nothing_is_added(tf):
    with tf.Graph().as_default() as source:
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        tf.raw_ops.Lu(input=x)
        tf.raw_ops.MatrixSquareRoot(input=x)
        tf.signal.fft(tf.cast(x, tf.complex64))
        tf.signal.fft(tf.cast(x, tf.complex64))
    with Graph().as_default() as ours:
        with pytest.raises(UnimplementedError) as error:
            import_graph_def(source.as_graph_def())
        assert ours.get_operations() == []
    assert "FFT (x2), Lu (x1), MatrixSquareRoot (x1)" in str(error.value)
    assert "3 op type(s)" in str(error.value)


def test_nodes_in_any_order_and_cycles(tf):
    with tf.Graph().as_default() as source:
        network(tf.compat.v1)
    message = source.as_graph_def()
    shuffled = tf.compat.v1.GraphDef()
    shuffled.node.extend(reversed(message.node))
    with Graph().as_default() as ours:
        import_graph_def(shuffled, name="")
    assert nodes(ours.as_graph_def()) == nodes(message)

    cyclic = tf.compat.v1.GraphDef()
    cyclic.CopyFrom(message)
    next(n for n in cyclic.node if n.name == "layer/mm").input[0] = "out"
    with Graph().as_default(), pytest.raises(Exception, match="cycle"):
        import_graph_def(cyclic, name="")


def test_a_dangling_input_and_a_wrong_type_are_named(tf):
    with tf.Graph().as_default() as source:
        network(tf.compat.v1)
    message = source.as_graph_def()
    mm = next(n for n in message.node if n.name == "layer/mm")
    mm.input[0] = "gone"
    with Graph().as_default(), pytest.raises(ValueError, match=r"layer/mm.*gone"):
        import_graph_def(message, name="")
    mm.input[0] = "joined/axis"
    with Graph().as_default(), pytest.raises(ValueError, match=r"layer/mm.*int32.*float"):
        import_graph_def(message, name="")


def test_only_graph_defs_are_imported():
    with Graph().as_default(), pytest.raises(TypeError, match=r"GraphDef message, not dict"):
        import_graph_def({"node": []})


def test_shapes_can_be_added_and_versions_asked_for(tf):
    with Graph().as_default() as ours:
        OURS.placeholder("float32", [None, 2], name="a")
        before = ours.version
        OURS.constant([1], name="b")
    with tf.Graph().as_default() as theirs:
        tf.compat.v1.placeholder("float32", [None, 2], name="a")
        tf.constant([1], name="b")
    shapes = [
        {n.name: str(n.attr["_output_shapes"]) for n in graph.as_graph_def(add_shapes=True).node}
        for graph in (ours, theirs)
    ]
    assert shapes[0] == shapes[1]
    assert [n.name for n in ours.as_graph_def(from_version=before).node] == ["b"]
    assert theirs.as_graph_def().versions.producer >= ours.as_graph_def().versions.producer


def test_a_colocation_survives_the_prefix(tf):
    with Graph().as_default() as ours:
        a = OURS.constant(1.0, name="a")
        with OURS.colocate_with(a):
            OURS.constant(2.0, name="b")
        message = ours.as_graph_def()
    with Graph().as_default() as here:
        import_graph_def(message, name="p")
    with tf.Graph().as_default() as there:
        tf.import_graph_def(as_theirs(tf, message), name="p")
    assert here.get_operation_by_name("p/b").get_attr("_class") == [b"loc:@p/a"]
    assert there.get_operation_by_name("p/b").get_attr("_class") == [b"loc:@p/a"]
