"""Feeding: what is accepted, converted, refused, and that fed arrays are only borrowed."""

import numpy as np
import pytest

import stepscope.tf1 as st
from stepscope.errors import InvalidArgumentError


@pytest.fixture
def graph():
    graph = st.Graph()
    with graph.as_default():
        x = st.placeholder(st.float32, [2, None], name="x")
        i = st.placeholder(st.int32, [], name="i")
        s = st.placeholder(st.string, [None], name="s")
        y = st.add(x, 1.0, name="y")
        st.multiply(y, 2.0, name="z")
        st.identity(i, name="j")
        st.identity(s, name="t")
    return graph


@pytest.fixture
def session(graph):
    with st.Session(graph=graph) as session:
        yield session


@pytest.mark.parametrize(
    "value",
    [
        [[1], [2]],
        np.array([[1], [2]], np.float64),
        np.array([[1], [2]], np.int64),
        np.array([[1, 0], [2, 0]], np.float32)[:, :1],
        ((1.0,), (2.0,)),
        [[True], [2]],
    ],
    ids=["list", "float64", "int64", "a strided view", "tuple", "bool"],
)
def test_what_can_be_fed(session, value):
    result = session.run("y:0", {"x:0": value})
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [[2.0], [3.0]])


def test_keys_are_tensors_names_or_tuples_of_them(session, graph):
    x = graph.get_tensor_by_name("x:0")
    for key in (x, "x:0"):
        assert session.run("y:0", {key: [[1], [1]]}).shape == (2, 1)
    both = session.run(["y:0", "j:0"], {(x, "i:0"): ([[1], [1]], 4)})
    assert both[1] == 4


def test_an_intermediate_tensor_can_be_fed(session):
    assert session.run("z:0", {"y:0": [[5], [6]]}).tolist() == [[10.0], [12.0]]


def test_a_constant_can_be_fed():
    with st.Graph().as_default() as graph:
        c = st.constant([1.0, 2.0], name="c")
        y = st.add(c, 1.0)
    with st.Session(graph=graph) as session:
        assert session.run(y, {c: [5.0, 5.0]}).tolist() == [6.0, 6.0]
        assert session.run(y).tolist() == [2.0, 3.0]


def test_what_is_fed_can_be_fetched(session):
    fed = np.array([[1.0], [2.0]], np.float32)
    back = session.run("x:0", {"x:0": fed})
    np.testing.assert_array_equal(back, fed)
    assert not np.shares_memory(back, fed)


def test_strings_are_fed_as_text_and_come_back_as_bytes(session):
    result = session.run("t:0", {"s:0": ["a", b"b\x00", "ü"]})
    assert result.tolist() == [b"a", b"b\x00", "ü".encode()]


def test_new_shapes_are_planned_for_and_many_of_them_do_not_pile_up(session):
    for n in range(1, 80):
        assert session.run("y:0", {"x:0": np.ones((2, n))}).shape == (2, n)
    (compiled,) = session._compiled.values()
    assert len(compiled._plans) <= 33


@pytest.mark.parametrize("value", [[1.0], 1.0, np.ones((3, 1)), np.ones((2, 1, 1))])
def test_a_wrong_shape_names_both_shapes(session, value):
    shape = str(np.shape(value)).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(
        ValueError, match=rf"^Cannot feed value of shape {shape} for Tensor x:0, which has shape "
    ):
        session.run("y:0", {"x:0": value})


def test_a_number_that_does_not_fit_is_refused(session):
    with pytest.raises(TypeError, match=r"1099511627776.*not compatible with Tensor type int32"):
        session.run("j:0", {"i:0": 2**40})


NUMBERS = [
    1.5, 2.0, -1.9, True, 7, -1, 2**40, 2**24 + 1, 1 + 0j, np.float32(1.5), np.float64(2.5),
    np.int64(2**40), np.array([1.5, -2.5]), [1.5, 2.5], [1, 2.5], np.array([300, 2]), [True, 2],
]  # fmt: skip


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool", "float32", "float16"])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_numbers_of_another_type_become_what_they_become_on_tensorflow(tf, dtype, value):
    def fed(names):
        with names.Graph().as_default() as graph:
            x = names.placeholder(getattr(names, dtype), None)
            y = names.identity(x)
        with names.Session(graph=graph) as session:
            try:
                found = session.run(y, {x: value})
            except TypeError as error:
                return type(error), "not compatible with Tensor type" in str(error)
        return found.dtype, found.tolist()

    assert fed(st) == fed(tf)


@pytest.mark.parametrize("value", [[["a"], ["b"]], [[1], [2, 3]], None], ids=str)
def test_what_is_no_number_is_refused(session, value):
    with pytest.raises((ValueError, TypeError)):
        session.run("y:0", {"x:0": value})


def test_a_tensor_as_value_is_refused(session, graph):
    with pytest.raises(TypeError, match="The value of a feed cannot be a tensor or variable"):
        session.run("y:0", {"x:0": graph.get_tensor_by_name("z:0")})


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("nope:0", r"The name 'nope:0' refers to a Tensor which does not exist"),
        (3, "Can not convert a int into a Tensor"),
        ("x", "looks like an .invalid. Tensor name|refers to an Operation, not a Tensor"),
    ],
)
def test_a_key_that_is_no_tensor_is_named(session, key, message):
    with pytest.raises(
        TypeError, match=f"^Cannot interpret feed_dict key as Tensor: .*({message})"
    ):
        session.run("y:0", {key: 1})


def test_feeds_have_to_be_a_mapping(session):
    with pytest.raises(TypeError, match="feed_dict must be a dictionary"):
        session.run("y:0", [1])


def test_a_placeholder_that_was_not_fed_is_named(session):
    with pytest.raises(
        InvalidArgumentError,
        match=r"You must feed a value for placeholder tensor 'x' with dtype float",
    ) as caught:
        session.run("y:0")
    assert caught.value.op.name == "x"
    assert caught.value.run_metadata.status.in_flight == ["x"]


def test_a_fed_array_is_never_written_to_and_never_kept(session):
    kept = []
    with st.Graph().as_default() as graph:
        x = st.placeholder(st.float32, [3], name="x")
        v = st.Variable(np.zeros(3, np.float32), name="v")
        keep = st.py_func(lambda a: kept.append(a) or a, [x], st.float32)
        init = st.global_variables_initializer()
        store = st.assign(v, x)
        grow = st.assign_add(v, x)
    fed = np.array([1.0, 2.0, 3.0], np.float32)
    fed.setflags(write=False)
    with st.Session(graph=graph) as session:
        session.run(init)
        session.run([store, keep], {x: fed})
        fed.setflags(write=True)
        fed[:] = 50
        np.testing.assert_array_equal(session.run(v), [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(kept[0], [1.0, 2.0, 3.0])
        session.run(grow, {x: fed})
        np.testing.assert_array_equal(fed, [50.0, 50.0, 50.0])
        np.testing.assert_array_equal(session.run(v), [51.0, 52.0, 53.0])
