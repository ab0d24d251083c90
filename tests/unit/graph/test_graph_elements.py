"""Looking elements up, building ops from Python values, errors at build time, source lines."""

import inspect
import threading

import numpy as np
import pytest
from graph_names import OURS, on_both

from stepscope.graph import Graph, get_default_graph, reset_default_graph
from stepscope.graph.defaults import get_default_session


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


BAD_TENSOR_NAMES = ["a", "missing", "missing:0", "a:1", "s:3", "a:x", "a:", "a:0:0", 7, None]


@pytest.mark.parametrize("name", BAD_TENSOR_NAMES)
def test_bad_tensor_names_fail_as_in_tensorflow(tf, name):
    def program(tf):
        a = tf.constant([1.0, 2.0, 3.0], name="a")
        tf.split(a, 3, name="s")
        with pytest.raises((KeyError, ValueError, TypeError)) as error:
            tf.get_default_graph().get_tensor_by_name(name)
        assert str(name) in str(error.value) or not isinstance(name, str)
        return error.type

    ours, theirs = on_both(tf, program)
    assert ours is theirs


@pytest.mark.parametrize("name", ["missing", "a:0", "missing:0", 7, None])
def test_bad_operation_names_fail_as_in_tensorflow(tf, name):
    def program(tf):
        tf.constant(1.0, name="a")
        with pytest.raises((KeyError, ValueError, TypeError)) as error:
            tf.get_default_graph().get_operation_by_name(name)
        return error.type

    ours, theirs = on_both(tf, program)
    assert ours is theirs


def test_lookup_errors_say_what_to_write(graph):
    OURS.constant(1.0, name="a")
    with pytest.raises(ValueError, match="'a:0'"):
        graph.get_tensor_by_name("a")
    with pytest.raises(KeyError, match="only has 1 outputs"):
        graph.get_tensor_by_name("a:1")


def test_elements_are_found(graph):
    parts = OURS.split(OURS.constant([1.0, 2.0], name="a"), 2, name="s")
    assert graph.get_tensor_by_name("s:1") is parts[1]
    assert graph.get_operation_by_name("s") is parts[0].op
    assert graph.as_graph_element("s") is parts[0].op
    assert graph.as_graph_element(b"s:0") is parts[0]
    assert [op.name for op in graph.get_operations()] == ["a", "s/split_dim", "s"]
    assert parts[0].consumers() == []
    assert graph.get_tensor_by_name("a:0").consumers() == [parts[0].op]
    assert parts[1].value_index == 1


def test_elements_of_another_graph_are_refused(graph):
    mine = OURS.constant(1.0)
    with pytest.raises(ValueError, match="not an element of this graph"):
        Graph().as_graph_element(mine)
    with Graph().as_default():
        other = OURS.constant(2.0)
    with pytest.raises(ValueError, match="same graph"):
        OURS.add(mine, other)


def test_a_finalized_graph_refuses_ops(graph):
    OURS.constant(1.0)
    graph.finalize()
    assert graph.finalized
    with pytest.raises(RuntimeError, match="finalized"):
        OURS.constant(2.0)
    assert len(graph.get_operations()) == 1


# -- errors when the graph is built ------------------------------------------------------------


def test_a_shape_error_names_both_shapes_and_the_node(graph):
    a, b = OURS.placeholder("float32", [2, 3]), OURS.placeholder("float32", [4, 5])
    with pytest.raises(ValueError, match=r"3 and 4.*node mm.*\[2,3\], \[4,5\]"):
        OURS.matmul(a, b, name="mm")


def test_a_dtype_error_names_both_types(graph):
    a, b = OURS.constant([1.0]), OURS.constant([1])
    with pytest.raises(TypeError, match=r"int32.*float32"):
        OURS.add(a, b)


def test_a_failed_op_leaves_no_node_behind(graph):
    a = OURS.constant([1.0, 2.0], name="a")
    with pytest.raises(ValueError, match=r"\[2\]"):
        OURS.add(a, OURS.constant([1.0, 2.0, 3.0], name="b"))
    assert [op.name for op in graph.get_operations()] == ["a", "b"]


def test_a_missing_or_unknown_attr_is_said(graph):
    with pytest.raises(ValueError, match="'dtype'"):
        graph.create_op("Placeholder")
    with pytest.raises(ValueError, match="no attr 'colour'"):
        graph.create_op("Placeholder", [], {"dtype": "float32", "colour": 1})
    with pytest.raises(ValueError, match=r"no attr named 'colour'.*dtype"):
        OURS.constant(1.0).op.get_attr("colour")


def test_an_unknown_op_type_names_the_close_ones(graph):
    from stepscope.errors import UnimplementedError

    with pytest.raises(UnimplementedError, match=r"'MatMull'.*MatMul"):
        graph.create_op("MatMull")


def test_tensors_have_no_truth_value_length_or_array(graph):
    t = OURS.constant([1.0, 2.0])
    with pytest.raises(TypeError, match="truth value"):
        bool(t)
    with pytest.raises(TypeError, match="len"):
        len(t)
    with pytest.raises(NotImplementedError, match="run it in a session"):
        np.asarray(t)
    with pytest.raises(TypeError, match="known first"):
        iter(OURS.placeholder("float32", [None]))
    assert [x.name for x in t] == ["strided_slice:0", "strided_slice_1:0"]
    with pytest.raises(ValueError, match="no default session"):
        t.eval()


def test_tensors_are_dict_keys(graph):
    a, b = OURS.constant(1.0), OURS.constant(1.0)
    assert {a: 1, b: 2}[b] == 2


def test_set_shape_merges(tf):
    def program(tf):
        x = tf.placeholder(tf.float32, [None, 3])
        x.set_shape([2, None])
        with pytest.raises(ValueError, match=r"2, ?3.* and .*2, ?4"):
            x.set_shape([2, 4])
        return x.shape.as_list()

    ours, theirs = on_both(tf, program)
    assert ours == theirs == [2, 3]


# -- where an op comes from --------------------------------------------------------------------


def test_an_op_knows_the_users_line(graph):
    line = inspect.currentframe().f_lineno + 1
    x = OURS.constant([1.0, 2.0]) * 3.0
    assert x.op.source == f"{__file__}:{line}"
    assert graph.get_operation_by_name("mul/y").source == x.op.source
    assert x[0].op.source == f"{__file__}:{inspect.currentframe().f_lineno}"
    frame = x.op.traceback[-1]
    assert (frame.filename, frame.lineno) == (__file__, line)
    assert frame.name == "test_an_op_knows_the_users_line"


def test_the_line_is_that_of_the_innermost_user_function(graph):
    def layer(x):
        return x + 1.0

    line = layer.__code__.co_firstlineno + 1
    assert layer(OURS.constant(1.0)).op.source == f"{__file__}:{line}"
    assert layer(OURS.constant(1.0)).op.traceback[-1].name == "layer"


# -- default graphs ----------------------------------------------------------------------------


def test_the_default_graph_is_a_stack_per_thread(graph):
    assert get_default_graph() is graph
    with Graph().as_default() as inner:
        assert get_default_graph() is inner
        seen = []
        thread = threading.Thread(target=lambda: seen.append(get_default_graph()))
        thread.start()
        thread.join()
        assert seen[0] not in (graph, inner)
    assert get_default_graph() is graph


def test_reset_default_graph():
    reset_default_graph()
    first = get_default_graph()
    assert get_default_graph() is first
    OURS.constant(1.0)
    reset_default_graph()
    assert get_default_graph() is not first
    assert get_default_graph().get_operations() == []


def test_reset_inside_a_block_is_refused(graph):
    with pytest.raises(AssertionError, match="nested graphs"):
        reset_default_graph()


def test_there_is_no_default_session_by_itself():
    assert get_default_session() is None


# -- Python values to tensors ------------------------------------------------------------------

VALUES = {
    "int": 1,
    "big_int": 2**40,
    "float": 1.5,
    "bool": True,
    "text": "ä",
    "bytes": b"\xff\x00",
    "ints": [1, 2],
    "ints_and_floats": [1, 2.5],
    "nested": [[1, 2], [3, 4]],
    "tuple": ((1.0, 2.0),),
    "empty": [],
    "empty_rows": [[], []],
    "texts": ["a", "bc"],
    "bools": [True, False],
    "numpy_double": np.float64(1.5),
    "numpy_int": np.int64(3),
    "numpy_array": np.arange(3, dtype=np.int16),
    "numpy_fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "numpy_text": np.array(["a", "b"]),
    "list_of_small_ints": [np.int8(1), np.int8(2)],
    "list_of_big_scalars": [np.int64(2**40)],
    "list_of_scalar_arrays": [np.array(1.5), np.array(2.5)],
    "bools_and_ints": [True, 2],
    "list_of_int_scalars": [np.int64(1), np.int64(2)],
    "list_of_float_scalars": [np.float64(1), np.float32(2)],
    "half": np.float16([0.1]),
    "complex": 1 + 2j,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_plain_values_become_the_same_constants(tf, value):
    from tensorflow.core.framework.tensor_pb2 import TensorProto

    def program(tf):
        t = tf.convert_to_tensor(value)
        return t.dtype.name, t.shape.as_list(), t.op.node_def.attr["value"].tensor

    (ours_type, ours_shape, ours), (type_, shape, theirs) = on_both(tf, program)
    assert (ours_type, ours_shape) == (type_, shape)
    read = tf.make_ndarray(TensorProto.FromString(ours.SerializeToString()))
    np.testing.assert_array_equal(read, tf.make_ndarray(theirs))


WANTED = [
    (1, "float32"), (1.5, "float64"), ([1, 2], "int64"), (True, "bool"), ("a", "string"),
    (1.5, "int32"), ("a", "float32"), (1, "string"), (True, "float32"), (1, "bool"),
    (np.float64(1.5), "float32"), ([1.0, 2], "float16"), (300, "int8"), (-1, "uint8"),
    ([True], "int32"), (np.array([1.5]), "int32"), (np.int64(1), "bool"), ([1], "bool"),
    (np.float32(1.5), "int64"), (np.array([1]), "string"), (1, "complex64"), (1j, "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), WANTED)
def test_a_wanted_dtype_is_taken_or_refused_alike(tf, value, dtype):
    def program(tf):
        try:
            return tf.convert_to_tensor(value, dtype).dtype.name
        except (TypeError, ValueError, OverflowError):
            return "refused"

    ours, theirs = on_both(tf, program)
    assert ours == theirs


def test_ragged_lists_are_refused(graph):
    with pytest.raises((TypeError, ValueError)):
        OURS.convert_to_tensor([[1, 2], [3]])


def test_mixed_lists_are_packed(tf):
    def program(tf):
        a = tf.placeholder(tf.float32, [], name="a")
        t = tf.convert_to_tensor([a, 2, [3.0][0]], name="v")
        m = tf.convert_to_tensor([[a, 1], [2, a]])
        tf.convert_to_tensor([[a, 1], [2, 3], [4, 5]], name="rows")
        nodes = {n.name: (n.op, list(n.input)) for n in tf.get_default_graph().as_graph_def().node}
        return t.name, t.shape.as_list(), m.shape.as_list(), nodes

    ours, theirs = on_both(tf, program)
    assert ours == theirs


def test_a_tensor_of_another_type_is_refused(graph):
    with pytest.raises(ValueError, match=r"float64.*float32"):
        OURS.convert_to_tensor(OURS.constant(1.0), "float64")


@pytest.mark.usefixtures("graph")
def test_wrong_shapes_and_dtypes_name_both_sides_and_the_lines(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import stepscope.tf1 as tf\n"
        "rows = tf.placeholder(tf.float32, [2, 3], name='rows')\n"
        "halves = tf.placeholder(tf.float16, [3], name='halves')\n"
        "def shapes():\n"
        "    return tf.matmul(rows, rows)\n"
        "def dtypes():\n"
        "    return rows + halves\n"
    )
    names = {}
    exec(compile(program.read_text(), str(program), "exec"), names)
    with pytest.raises(ValueError, match=r"3 and 2 for .*\[2,3\], \[2,3\]\. At ") as caught:
        names["shapes"]()
    assert f"At {program}:5; rows:0 was made at {program}:2." in str(caught.value)
    with pytest.raises(TypeError, match=r"float16 .* float32 of argument 'x'") as caught:
        names["dtypes"]()
    assert f"At {program}:7; halves:0 was made at {program}:3." in str(caught.value)
