"""What `Session.run` takes and gives back, with TensorFlow's own session beside it."""

import collections

import numpy as np
import pytest

import stepscope.tf1 as st

Point = collections.namedtuple("Point", "x y")


def small_graph(ops):
    a = ops.constant([1.0, 2.0], name="a")
    b = ops.multiply(a, 3.0, name="b")
    n = ops.no_op(name="n")
    s = ops.constant("text", name="s")
    i = ops.constant(7, name="i")
    return a, b, n, s, i


STRUCTURES = {
    "a tensor": lambda a, b, n, s, i: b,
    "an op": lambda a, b, n, s, i: n,
    "a tensor's op": lambda a, b, n, s, i: b.op,
    "a name": lambda a, b, n, s, i: "b:0",
    "an op's name": lambda a, b, n, s, i: "n",
    "a list": lambda a, b, n, s, i: [a, b],
    "a tuple": lambda a, b, n, s, i: (b, n),
    "nested": lambda a, b, n, s, i: [a, (b, [n, "i:0"]), {"k": (s,)}],
    "a dict": lambda a, b, n, s, i: {"a": a, "n": n, 3: [b]},
    "an ordered dict": lambda a, b, n, s, i: collections.OrderedDict([("z", a), ("a", b)]),
    "a namedtuple": lambda a, b, n, s, i: Point(x=b, y=[n, i]),
    "the same twice": lambda a, b, n, s, i: [b, b, {"again": b}],
    "an empty list": lambda a, b, n, s, i: [],
    "an empty dict": lambda a, b, n, s, i: {},
    "an empty list in a list": lambda a, b, n, s, i: [[], b],
    "scalars": lambda a, b, n, s, i: [i, s],
}


def run(ops, structure):
    graph = ops.Graph()
    with graph.as_default():
        fetches = structure(*small_graph(ops))
    with ops.Session(graph=graph) as session:
        return session.run(fetches)


def assert_same(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_values_come_back_in_the_structure_of_the_fetches(tf, structure):
    assert_same(run(st, structure), run(tf.compat.v1, structure))


def test_a_fetch_dict_is_compiled_once():
    graph = st.Graph()
    with graph.as_default():
        a, b, *_ = small_graph(st)
    with st.Session(graph=graph) as session:
        for _ in range(5):
            session.run({"a": a, "b": [b]})
        assert len(session._compiled) == 1
        session.run([a, b])
        assert len(session._compiled) == 1, "the same tensors, held differently"


WRONG = {
    "nothing": (None, TypeError),
    "a number": (3, TypeError),
    "an unknown tensor": ("nope:0", ValueError),
    "an unknown op": ("nope", ValueError),
    "an output that is not there": ("b:4", ValueError),
}


@pytest.mark.parametrize(("fetch", "kind"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_fetched_is_the_error_tensorflow_raises(tf, fetch, kind):
    messages = []
    for ops in (st, tf.compat.v1):
        with pytest.raises(kind) as caught:
            run(ops, lambda *_: fetch)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_tensor_of_another_graph_is_refused():
    with st.Graph().as_default():
        foreign = st.constant(1.0, name="foreign")
    with pytest.raises(ValueError, match=r"foreign.*not an element of this graph"):
        run(st, lambda *_: foreign)


def test_a_variable_can_be_fetched():
    with st.Graph().as_default() as graph:
        v = st.Variable([1.0, 2.0], name="v")
        init = st.global_variables_initializer()
    with st.Session(graph=graph) as session:
        session.run(init)
        np.testing.assert_array_equal(session.run(v), [1.0, 2.0])


def test_nodes_added_after_a_run_are_seen():
    with st.Graph().as_default() as graph:
        a = st.constant(1.0)
        session = st.Session(graph=graph)
        assert session.run(a) == 1.0
        assert session.run(st.add(a, 1.0)) == 2.0
        session.close()
