"""Sessions from birth to close: defaults, callables, devices, interactive ones."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import stepscope.tf1 as st
from patience import patient
from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions


@pytest.fixture
def graph():
    graph = st.Graph()
    with graph.as_default():
        x = st.placeholder(st.float32, [], name="x")
        st.add(x, 1.0, name="y")
        st.constant(3.0, name="c")
    return graph


def test_a_closed_session_says_so(graph):
    session = st.Session(graph=graph)
    session.close()
    for use in (
        lambda: session.run("c:0"),
        lambda: session.make_callable("c:0"),
        session.__enter__,
    ):
        with pytest.raises(RuntimeError, match=r"^Attempted to use a closed Session\.$"):
            use()


def test_a_session_as_context_manager_is_the_default_and_closed_after(graph):
    with st.Session(graph=graph) as session:
        assert st.get_default_session() is session
        assert st.get_default_graph() is graph
        assert graph.get_tensor_by_name("c:0").eval() == 3.0
    assert st.get_default_session() is None
    with pytest.raises(RuntimeError, match="closed"):
        session.run("c:0")


def test_as_default_leaves_the_session_open(graph):
    session = st.Session(graph=graph)
    with session.as_default():
        assert st.get_default_session() is session
    assert st.get_default_session() is None
    assert session.run("c:0") == 3.0
    session.close()


def test_sessions_nest(graph):
    with st.Session(graph=graph) as outer:
        with st.Session(graph=graph) as inner:
            assert st.get_default_session() is inner
        assert st.get_default_session() is outer


def test_the_default_session_is_the_thread_s_own(graph):
    found = []
    with st.Session(graph=graph):
        thread = threading.Thread(target=lambda: found.append(st.get_default_session()))
        thread.start()
        thread.join()
    assert found == [None]


def test_a_session_cannot_be_entered_twice(graph):
    with (
        st.Session(graph=graph) as session,
        pytest.raises(RuntimeError, match="not re-entrant"),
    ):
        session.__enter__()


def test_eval_and_run_without_a_session_say_what_is_missing(graph):
    with pytest.raises(ValueError, match="default session"):
        graph.get_tensor_by_name("c:0").eval()


def test_without_a_graph_it_is_the_default_graph_s():
    with st.Graph().as_default() as graph:
        c = st.constant(4.0)
        with st.Session() as session:
            assert session.graph is graph
            assert session.run(c) == 4.0


def test_an_interactive_session_is_the_default_until_closed(graph):
    session = st.InteractiveSession(graph=graph)
    try:
        assert st.get_default_session() is session
        assert graph.get_tensor_by_name("c:0").eval() == 3.0
        assert st.constant(5.0).eval() == 5.0
    finally:
        session.close()
    assert st.get_default_session() is None


def test_a_second_interactive_session_warns(graph):
    first = st.InteractiveSession(graph=graph)
    with pytest.warns(UserWarning, match="An interactive session is already active"):
        second = st.InteractiveSession(graph=graph)
    second.close()
    first.close()


def test_a_callable_runs_the_same_fetches_again(graph):
    with st.Session(graph=graph) as session:
        call = session.make_callable("y:0", feed_list=["x:0"])
        assert [call(1.0), call(5.0)] == [2.0, 6.0]
        nested = session.make_callable({"a": ["y:0", "c:0"]}, ["x:0"])
        assert nested(0.0) == {"a": [1.0, 3.0]}
        assert session.make_callable("c:0")() == 3.0
        with pytest.raises(TypeError, match="takes 1 feeds, not 2"):
            call(1.0, 2.0)


def test_a_callable_takes_options_where_it_was_made_for_them(graph):
    with st.Session(graph=graph) as session:
        call = session.make_callable("y:0", ["x:0"], accept_options=True)
        metadata = RunMetadata()
        assert call(1.0, options=RunOptions(trace_level=3), run_metadata=metadata) == 2.0
        assert "y" in metadata.ops.name
        with pytest.raises(TypeError, match="accept_options=True"):
            session.make_callable("y:0", ["x:0"])(1.0, run_metadata=metadata)


def test_devices_are_listed(graph, tf):
    with st.Session(graph=graph, config=ConfigProto(device_count={"CPU": 3})) as session:
        ours = session.list_devices()
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 3})
    with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session:
        theirs = session.list_devices()
    assert [(d.name, d.device_type, d.memory_limit_bytes) for d in ours] == [
        (d.name, d.device_type, d.memory_limit_bytes) for d in theirs
    ]


def test_an_unknown_target_is_named(graph):
    with pytest.raises(UnimplementedError, match=r"nobody://nowhere:1"):
        st.Session("nobody://nowhere:1", graph=graph)


def test_the_graph_has_to_be_a_graph():
    with pytest.raises(TypeError, match=r"stepscope\.Graph, not dict"):
        st.Session(graph={})


def test_variables_belong_to_their_session():
    with st.Graph().as_default() as graph:
        v = st.Variable(0, name="v")
        init, grow = st.global_variables_initializer(), st.assign_add(v, 1)
    with st.Session(graph=graph) as one, st.Session(graph=graph) as two:
        for session in (one, two):
            session.run(init)
        one.run(grow)
        one.run(grow)
        two.run(grow)
        assert (one.run(v), two.run(v)) == (2, 1)


def test_a_session_that_is_dropped_is_collected_and_its_threads_end(graph):
    session = st.Session(graph=graph, config=ConfigProto(use_per_session_threads=True))
    before = threading.active_count()
    assert session.run("y:0", {"x:0": 1.0}, options=RunOptions(timeout_in_ms=20_000)) == 2.0
    assert threading.active_count() > before
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    assert threading.active_count() == before


def test_runs_of_one_session_on_many_threads_do_not_disturb_each_other(graph):
    results = {}
    with st.Session(graph=graph) as session:

        def work(n):
            results[n] = [float(session.run("y:0", {"x:0": n + k / 64})) for k in range(50)]

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n, values in results.items():
        np.testing.assert_allclose(values, n + 1 + np.arange(50) / 64)


@pytest.mark.parametrize("level", [RunOptions.NO_TRACE, RunOptions.FULL_TRACE])
def test_what_was_fed_to_a_run_that_failed_goes_with_its_error(level):
    def refuse(value):
        raise ValueError("no such value")

    with st.Graph().as_default():
        x = st.placeholder(st.float32, [None], name="x")
        y = st.py_func(refuse, [x], st.float32)
        with st.Session() as session:
            gc.collect()
            gc.disable()
            try:
                fed = np.ones(4, np.float32)
                is_alive = weakref.ref(fed)
                options = RunOptions(trace_level=level, inter_op_thread_pool=-1)
                with pytest.raises(InvalidArgumentError, match="no such value") as caught:
                    session.run(y, {x: fed}, options=options, run_metadata=RunMetadata())
                assert list(caught.value.run_metadata.status.in_flight) == [y.op.name]
                del fed, caught
                assert is_alive() is None
            finally:
                gc.enable()


def test_close_does_not_wait_for_an_op_beside_one_that_failed():
    gate, raising = threading.Event(), threading.Event()

    def slow(value):
        gate.wait(patient(30))
        return value

    def bad(_value):
        raising.set()
        raise ValueError("broken")

    graph = st.Graph()
    with graph.as_default():
        x = st.placeholder(st.float32, [2], name="x")
        stuck = st.py_func(slow, [x], st.float32, name="stuck")
        broken = st.py_func(bad, [x], st.float32, name="broken")
        both = st.group(stuck, broken)
    session = st.Session(graph=graph)

    def close_later():
        assert raising.wait(patient(20))
        time.sleep(0.3)
        session.close()

    threading.Thread(target=close_later, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(InvalidArgumentError) as caught:
        session.run(both, {x: [1.0, 2.0]})
    assert time.monotonic() - began < 5
    outcomes = {o.name: o.outcome for o in caught.value.run_metadata.status.outcomes}
    assert outcomes["stuck"] == "abandoned"
    gate.set()
