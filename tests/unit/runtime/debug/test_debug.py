"""Tensor watches: what is dumped, read back by TensorFlow's own reader, and what is refused."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as st
from patience import patient
from stepscope import errors
from stepscope._messages import Event
from stepscope.runtime.debug import dump_files
from stepscope.runtime.debug.debugger import debug_callback
from stepscope.runtime.debug.dump_files import disk_usage

ALL_OPS = ["DebugIdentity", "DebugNanCount", "DebugNumericSummary"]


@pytest.fixture(scope="module")
def debug_data(tf):
    from tensorflow.python.debug.lib import debug_data as module

    return module


@pytest.fixture(autouse=True)
def _fresh_allowance(monkeypatch):
    monkeypatch.delenv("TFDBG_DISK_BYTES_LIMIT", raising=False)
    disk_usage.reset()


def watch(url: str, *watches: tuple[str, int, list[str]], **more: Any) -> stepscope.RunOptions:
    options = stepscope.RunOptions()
    for node, slot, ops in watches:
        options.debug_options.debug_tensor_watch_opts.add(
            node_name=node, output_slot=slot, debug_ops=ops, debug_urls=[url], **more
        )
    return options


def build() -> stepscope.Graph:
    graph = stepscope.Graph()
    with graph.as_default():
        x = st.placeholder(st.float32, [None, 2], name="x")
        c = st.constant([[1.0, 2.0], [3.0, np.nan]], name="c")
        v = st.Variable([1.0, 2.0], name="v")
        r = st.Variable([3.0, 4.0], name="r", use_resource=True)
        mm = st.matmul(x, c, name="mm")
        with st.name_scope("scope"):
            y = st.add(mm, v, name="y")
        st.add(y, r, name="z")
        st.split(y, 2, axis=1, name="sp")
        st.constant(5, name="five")
        st.add(graph.get_tensor_by_name("five:0"), 1, name="six")
        st.greater(graph.get_tensor_by_name("six:0"), 1, name="big")
        st.identity(st.constant(["a", "b"], name="words"), name="said")
        st.identity(st.zeros([0, 3], name="none"), name="empty")
        st.Variable([1.0, 2.0], name="fresh")
        st.add(c, 1.0, name="unused")
    return graph


FETCHES = ["z:0", "sp:0", "sp:1", "big:0", "said:0", "empty:0"]
FEED = {"x:0": [[1.0, 2.0], [3.0, 4.0]]}
INITIALIZERS = ["v/Assign", "r/Assign"]


@pytest.fixture
def session():
    with stepscope.Session(graph=build()) as session:
        session.run(INITIALIZERS)
        yield session


def files(root: Path) -> list[str]:
    """What was dumped, without times and hashes."""
    found = []
    for path in root.rglob("*"):
        if path.is_file():
            stem = str(path.relative_to(root)).rpartition("_")[0]
            head, is_graph, _ = stem.partition("_tfdbg_graph_hash")
            found.append(head + is_graph if is_graph else stem)
    return sorted(found)


def dumped(module: Any, root: Path) -> dict[tuple[str, str], list[Any]]:
    values: dict[tuple[str, str], list[Any]] = {}
    for datum in module.DebugDumpDir(str(root)).dumped_tensor_data:
        values.setdefault((datum.tensor_name, datum.debug_op), []).append(datum.get_tensor())
    return values


# -- against TensorFlow --------------------------------------------------------------------------

WATCHES = [
    ("c", 0, ALL_OPS),
    ("mm", 0, ALL_OPS),
    ("v", 0, ALL_OPS),
    ("v/read", 0, ALL_OPS),
    ("scope/y", 0, ALL_OPS),
    ("sp", 0, ["DebugIdentity"]),
    ("sp", 1, ["DebugIdentity"]),
    ("five", 0, ALL_OPS),
    ("six", 0, ALL_OPS),
    ("big", 0, ["DebugIdentity", "DebugNumericSummary"]),
    ("said", 0, ["DebugIdentity"]),
    ("empty", 0, ALL_OPS),
    ("z", 0, ["DebugNumericSummary(lower_bound=12;upper_bound=20.5)", "DebugNanCount"]),
]


def run_on_tensorflow(tf, options: Any, fetches: list[str], feed: Any, config: Any = None) -> None:
    tf1 = tf.compat.v1
    config = tf1.ConfigProto() if config is None else config
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    graph = tf.Graph()
    with graph.as_default():
        definition = tf1.GraphDef.FromString(build().as_graph_def().SerializeToString())
        tf1.import_graph_def(definition, name="")
    with tf1.Session(graph=graph, config=config) as session:
        session.run([graph.get_operation_by_name(n) for n in INITIALIZERS])
        session.run(
            [graph.as_graph_element(f) for f in fetches],
            feed,
            options=tf1.RunOptions.FromString(options.SerializeToString()),
        )


@pytest.mark.parametrize("pool", [-1, 0])
def test_dumps_are_those_of_tensorflow(tf, debug_data, tmp_path, pool):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run_on_tensorflow(tf, watch(f"file://{theirs}", *WATCHES), FETCHES, FEED)
    options = watch(f"file://{ours}", *WATCHES)
    options.inter_op_thread_pool = pool
    with stepscope.Session(graph=build()) as session:
        session.run(INITIALIZERS)
        session.run(FETCHES, FEED, options=options)
    expected, found = dumped(debug_data, theirs), dumped(debug_data, ours)
    assert found.keys() == expected.keys()
    for key, (value,) in expected.items():
        np.testing.assert_array_equal(found[key][0], value, err_msg=str(key))
        assert (found[key][0].dtype, found[key][0].shape) == (value.dtype, value.shape), key
    without_run = [f for f in files(theirs) if "core_metadata" not in f]
    assert [f for f in files(ours) if "core_metadata" not in f] == without_run


def test_events_have_the_fields_of_tensorflows(tf, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run_on_tensorflow(tf, watch(f"file://{theirs}", *WATCHES[4:5]), FETCHES, FEED)
    with stepscope.Session(graph=build()) as session:
        session.run(INITIALIZERS)
        session.run(FETCHES, FEED, options=watch(f"file://{ours}", *WATCHES[4:5]))

    def events(root):
        for path in sorted(root.rglob("y_0_*")):
            event = Event.FromString(path.read_bytes())
            assert path.name.endswith(f"_{int(event.wall_time)}")
            event.wall_time = 0
            yield event

    assert list(events(ours)) == list(events(theirs))


def test_the_run_is_described_as_tensorflow_describes_it(tf, debug_data, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    fetches = ["z:0", "sp:1", "mm"]
    for root in (theirs, ours):
        options = watch(f"file://{root}", ("mm", 0, ["DebugIdentity"]))
        options.debug_options.global_step = 7
        if root is theirs:
            run_on_tensorflow(tf, options, fetches, FEED)
            continue
        with stepscope.Session(graph=build()) as session:
            session.run(INITIALIZERS)
            session.run(fetches, FEED, options=options)
            session.run(fetches, FEED, options=options)
    expected = debug_data.DebugDumpDir(str(theirs)).core_metadata
    first, second = sorted(debug_data.DebugDumpDir(str(ours)).core_metadata)
    assert first._replace(session_run_index=0) == expected._replace(session_run_index=0)
    assert second.executor_step_index == 1
    assert second.session_run_index == first.session_run_index + 1
    (name,) = (p.name for p in ours.glob(f"*sessionrun{first.session_run_index:014d}_*"))
    assert name.startswith("_tfdbg_core_metadata_sessionrun")


def test_the_dumped_graph_has_tensorflows_debug_nodes(tf, debug_data, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    watches = [("c", 0, ALL_OPS[:2]), ("v", 0, ALL_OPS[:1]), ("sp", 1, ALL_OPS[2:])]
    run_on_tensorflow(tf, watch(f"file://{theirs}", *watches), FETCHES, FEED)
    with stepscope.Session(graph=build()) as session:
        session.run(INITIALIZERS)
        session.run(FETCHES, FEED, options=watch(f"file://{ours}", *watches))

    def nodes(root):
        (graph,) = debug_data.DebugDumpDir(str(root)).partition_graphs()
        return {n.name: n for n in graph.node}

    expected, found = nodes(theirs), nodes(ours)
    added = [n for n in expected if n.startswith("__")]
    assert len(added) == 7
    for name in added:
        ours_def, theirs_def = found[name], expected[name]
        assert (ours_def.op, list(ours_def.input)) == (theirs_def.op, list(theirs_def.input))
        for key in theirs_def.attr.keys() - {"debug_urls", "debug_ops_spec"}:
            assert ours_def.attr[key] == theirs_def.attr[key], (name, key)
    for name in ("mm", "v/read", "_retval_sp_1_4"):
        assert sorted(found[name].input) == sorted(expected[name].input), name


def test_an_uninitialised_variable(tf, debug_data, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run_on_tensorflow(tf, watch(f"file://{theirs}", ("fresh", 0, ALL_OPS)), ["fresh"], {})
    with stepscope.Session(graph=build()) as session:
        session.run("fresh", options=watch(f"file://{ours}", ("fresh", 0, ALL_OPS)))
    expected, found = dumped(debug_data, theirs), dumped(debug_data, ours)
    assert found.keys() == expected.keys()
    assert not found["fresh:0", "DebugIdentity"][0].initialized
    assert str(found["fresh:0", "DebugIdentity"][0]) == str(expected["fresh:0", "DebugIdentity"][0])
    for op in ALL_OPS[1:]:
        np.testing.assert_array_equal(found["fresh:0", op], expected["fresh:0", op])


def test_handles_are_dumped_as_such(session, debug_data, tmp_path):
    session.run("z:0", FEED, options=watch(f"file://{tmp_path}", ("r", 0, ["DebugIdentity"])))
    (value,) = dumped(debug_data, tmp_path)["r:0", "DebugIdentity"]
    assert value.initialized
    assert "DT_RESOURCE" in str(value)


CASES = [
    np.float32(5.0),
    np.array([np.inf, -np.inf, np.nan, 0.0, 1.0, -1.0], np.float32),
    np.array([1e300, -1e300, 3.0]),
    np.zeros((0, 3), np.float64),
    np.array([[1, -2], [0, 7]], np.int8),
    np.array([2**63, 1, 0], np.uint64),
    np.array([[True], [False], [True]]),
]
SPECS = [
    "DebugNumericSummary",
    "DebugNumericSummary()",
    "DebugNumericSummary(lower_bound=0.1;upper_bound=2)",
    "DebugNumericSummary( upper_bound=1 ; gated_grpc=T)",
    "DebugNumericSummary(mute_if_healthy=true)",
    "DebugNumericSummary(mute_if_healthy=1;lower_bound=-1)",
    "DebugNanCount",
    "DebugNanCount(gated_grpc=false)",
    "DebugIdentity",
]


@pytest.mark.parametrize("value", CASES, ids=lambda v: f"{v.dtype}{list(v.shape)}")
def test_debug_ops_compute_what_tensorflows_compute(tf, debug_data, tmp_path, value):
    specs = [s for s in SPECS if value.dtype.kind != "b" or "NanCount" not in s]
    tf1 = tf.compat.v1
    for k, spec in enumerate(specs):
        theirs, ours = tmp_path / f"theirs{k}", tmp_path / f"ours{k}"
        with tf.Graph().as_default(), tf1.Session() as session:
            x = tf1.placeholder(value.dtype, None, name="x")
            options = tf1.RunOptions.FromString(
                watch(f"file://{theirs}", ("y", 0, [spec])).SerializeToString()
            )
            session.run(tf.identity(x, name="y"), {x: value}, options=options)
        with stepscope.Graph().as_default(), stepscope.Session() as session:
            x = st.placeholder(value.dtype, None, name="x")
            y = st.identity(x, name="y")
            session.run(y, {x: value}, options=watch(f"file://{ours}", ("y", 0, [spec])))
        expected, found = dumped(debug_data, theirs), dumped(debug_data, ours)
        assert found.keys() == expected.keys(), spec
        for key in expected:
            np.testing.assert_allclose(found[key][0], expected[key][0], rtol=1e-12, err_msg=spec)
            assert found[key][0].dtype == expected[key][0].dtype


# -- what can be watched, and from where ---------------------------------------------------------


@pytest.mark.parametrize("pool", [-1, 0])
def test_fed_tensors_by_both_of_their_names(session, debug_data, tmp_path, pool):
    options = watch(
        f"file://{tmp_path}", ("x", 0, ["DebugIdentity"]), ("_arg_x_0_0", 0, ["DebugIdentity"])
    )
    options.inter_op_thread_pool = pool
    session.run("z:0", FEED, options=options)
    found = dumped(debug_data, tmp_path)
    for name in ("x:0", "_arg_x_0_0:0"):
        np.testing.assert_array_equal(found[name, "DebugIdentity"][0], FEED["x:0"])


def test_a_fed_tensor_that_no_placeholder_made(session, debug_data, tmp_path):
    options = watch(f"file://{tmp_path}", ("mm", 0, ["DebugIdentity"]))
    session.run("z:0", {"mm:0": [[1.0, 2.0]]}, options=options)
    np.testing.assert_array_equal(
        dumped(debug_data, tmp_path)["mm:0", "DebugIdentity"][0], [[1.0, 2.0]]
    )


def test_the_wildcard_watches_all_that_is_not_named(session, debug_data, tmp_path):
    options = watch(
        f"file://{tmp_path}", ("*", -1, ["DebugIdentity"]), ("mm", 0, ["DebugNanCount"])
    )
    session.run("z:0", FEED, options=options)
    found = dumped(debug_data, tmp_path)
    assert {name for name, _ in found} == {
        "_arg_x_0_0:0", "c:0", "mm:0", "v:0", "v/read:0", "scope/y:0", "r:0",
        "z/ReadVariableOp:0", "z:0",
    }  # fmt: skip
    assert [op for name, op in found if name == "mm:0"] == ["DebugNanCount"]


def test_both_executors_and_several_devices(debug_data, tmp_path):
    config = stepscope.ConfigProto(device_count={"CPU": 2}, inter_op_parallelism_threads=2)
    with stepscope.Graph().as_default(), stepscope.Session(config=config) as session:
        x = st.placeholder(st.float32, [600, 600], name="x")
        branches = []
        for k in range(2):
            with st.device(f"/cpu:{k}"):
                product = st.matmul(x, x, name=f"m{k}")
                branches.append(st.reduce_sum(product, name=f"s{k}"))
        total = st.add_n(branches, name="total")
        value = np.ones((600, 600), np.float32)
        watches = [(n, 0, ["DebugIdentity"]) for n in ("x", "m0", "m1", "s0", "s1", "total")]
        metadata = stepscope.RunMetadata()
        options = watch(f"file://{tmp_path}", *watches)
        options.output_partition_graphs = True
        result = session.run(total, {x: value}, options=options, run_metadata=metadata)
    directory = debug_data.DebugDumpDir(
        str(tmp_path), partition_graphs=list(metadata.partition_graphs)
    )
    assert len(directory.devices()) == 2
    found = dumped(debug_data, tmp_path)
    assert len(found) == 6
    np.testing.assert_array_equal(found["x:0", "DebugIdentity"][0], value)
    np.testing.assert_array_equal(found["m1:0", "DebugIdentity"][0], value @ value)
    assert found["total:0", "DebugIdentity"][0] == result == 2 * 600**3
    assert metadata.completeness.complete


def test_two_watches_of_one_tensor_both_count(session, debug_data, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    options = watch(f"file://{first}", ("mm", 0, ["DebugIdentity"]))
    options.debug_options.debug_tensor_watch_opts.add(
        node_name="mm", debug_ops=["DebugIdentity", "DebugNanCount"],
        debug_urls=[f"file://{second}", f"FILE://{first}"],
    )  # fmt: skip
    session.run("z:0", FEED, options=options)
    for root in (first, second):
        found = dumped(debug_data, root)
        assert {key: len(values) for key, values in found.items()} == {
            ("mm:0", "DebugIdentity"): 1,
            ("mm:0", "DebugNanCount"): 1,
        }


def test_values_are_right_while_buffers_are_reused(debug_data, tmp_path):
    with stepscope.Graph().as_default(), stepscope.Session() as session:
        tensor = st.placeholder(st.float32, [4], name="x")
        for k in range(1, 9):
            tensor = st.add(tensor, 1.0, name=f"a{k}")
        watches = [(f"a{k}", 0, ["DebugIdentity"]) for k in range(1, 9)]
        seen: dict[str, np.ndarray] = {}
        stop = debug_callback("chain", lambda name, _slot, _op, a: seen.update({name: a}))
        try:
            session.run(tensor, {"x:0": np.zeros(4)}, options=watch("memcbk://chain", *watches))
        finally:
            stop()
    assert {name: a.tolist() for name, a in seen.items()} == {
        f"a{k}": [float(k)] * 4 for k in range(1, 9)
    }


# -- functions of this process -------------------------------------------------------------------


def test_a_callback_gets_copies(session):
    calls = []
    stop = debug_callback("mine", lambda *args: calls.append(args))
    fed = np.array([[1.0, 2.0]], np.float32)
    try:
        options = watch(
            "memcbk://mine", ("x", 0, ALL_OPS[:1]), ("c", 0, ALL_OPS), ("v", 0, ALL_OPS[:1])
        )
        first = session.run(["z:0", "v:0"], {"x:0": fed}, options=options)
        by_key = {(n, s, op): a for n, s, op, a in calls}
        assert by_key["c", 0, "DebugNanCount"].tolist() == [1]
        for array in by_key.values():
            array[...] = -77
        second = session.run(["z:0", "v:0"], {"x:0": fed}, options=options)
    finally:
        stop()
    np.testing.assert_array_equal(first[0], second[0])
    assert fed.tolist() == [[1.0, 2.0]]
    assert second[1].tolist() == [1.0, 2.0]
    assert len(calls) == 10


def test_a_callback_gets_none_for_an_uninitialised_variable_and_the_name_of_a_handle(session):
    seen = {}
    stop = debug_callback("un", lambda name, _slot, _op, a: seen.update({name: a}))
    try:
        session.run("fresh", options=watch("memcbk://un", ("fresh", 0, ["DebugIdentity"])))
        session.run("z:0", FEED, options=watch("memcbk://un", ("r", 0, ["DebugIdentity"])))
    finally:
        stop()
    assert seen["fresh"] is None
    assert seen["r"][()] == b"r"


def test_a_callback_that_raises_is_a_loss_not_a_failure(session, caplog):
    calls = []

    def fail(name, _slot, _op, _array):
        calls.append(name)
        raise KeyError("no such column")

    stop = debug_callback("bad", fail)
    metadata = stepscope.RunMetadata()
    try:
        options = watch("memcbk://bad", *[(n, 0, ["DebugIdentity"]) for n in ("c", "mm", "z")])
        result = session.run("z:0", FEED, options=options, run_metadata=metadata)
    finally:
        stop()
    assert result.shape == (2, 2)
    assert calls == ["c"]
    (loss,) = metadata.completeness.losses
    assert (loss.what, loss.count) == ("debug values for memcbk://bad", 3)
    assert "KeyError: 'no such column' at c:0:DebugIdentity" in loss.reason
    assert "no such column" in caplog.text


def test_registering():
    stop = debug_callback("key", print)
    with pytest.raises(ValueError, match="memcbk://key already"):
        debug_callback("key", print)
    stop()
    stop()
    debug_callback("key", print)()
    with pytest.raises(ValueError, match="non-empty"):
        debug_callback("", print)
    with pytest.raises(TypeError, match="function"):
        debug_callback("key", "no function")


def test_nothing_is_published_after_the_run_ended():
    release, entered, ended = threading.Event(), threading.Event(), threading.Event()
    seen = []
    before = set(threading.enumerate())

    def slow(a):
        entered.set()
        release.wait(patient(20))
        ended.set()
        return a

    stop = debug_callback("late", lambda *args: seen.append(args[0]))
    try:
        with stepscope.Graph().as_default(), stepscope.Session() as session:
            x = st.constant([1.0], name="x")
            y = st.py_func(slow, [x], st.float32, name="y")
            options = watch("memcbk://late", ("x", 0, ALL_OPS[:1]), ("y", 0, ALL_OPS[:1]))
            options.timeout_in_ms = 50
            while not entered.is_set():  # a busy machine may need longer to come so far
                seen.clear()
                with pytest.raises(errors.DeadlineExceededError) as caught:
                    session.run(y, options=options)
                options.timeout_in_ms *= 2
            assert caught.value.run_metadata.status.in_flight == ["y"]
            workers = set(threading.enumerate()) - before
            release.set()
            assert ended.wait(patient(20))
        for thread in workers:
            thread.join(patient(20))
    finally:
        stop()
    assert seen == ["x"]


# -- refusals ------------------------------------------------------------------------------------

REFUSED = [
    (("nope", 0, ALL_OPS), errors.InvalidArgumentError, ["'nope'", "not in the graph"]),
    (("scope/yy", 0, ALL_OPS), errors.InvalidArgumentError, ["'scope/yy'", "'scope/y'"]),
    (("mm:0", 0, ALL_OPS), errors.InvalidArgumentError, ["'mm:0'", "node_name='mm'"]),
    (("mm", 3, ALL_OPS), errors.InvalidArgumentError, ["slot 3", "'mm'", "slot 0 only"]),
    (("sp", 2, ALL_OPS), errors.InvalidArgumentError, ["slot 2", "'sp'", "slots 0 to 1"]),
    (("mm", -1, ALL_OPS), errors.InvalidArgumentError, ["slot -1", "'mm'", "'*'"]),
    (("*", 0, ALL_OPS), errors.InvalidArgumentError, ["must be -1", "not 0"]),
    (("unused", 0, ALL_OPS), errors.InvalidArgumentError, ["unused:0", "no part of this run"]),
    (("mm", 0, []), errors.InvalidArgumentError, ["mm:0", "no debug_ops"]),
    (("mm", 0, ["Foo"]), errors.FailedPreconditionError, ["'Foo'", "mm:0", "DebugNanCount"]),
    (("big", 0, ["DebugNanCount"]), errors.FailedPreconditionError, ["big:0", "bool", "float32"]),
    (
        ("mm", 0, ["DebugNumericSummary(foo=1)"]),
        errors.FailedPreconditionError,
        ["'foo'", "lower_bound"],
    ),
    (
        ("mm", 0, ["DebugNumericSummary(lower_bound=xx)"]),
        errors.FailedPreconditionError,
        ["lower_bound='xx'", "not a number"],
    ),
    (
        ("mm", 0, ["DebugNumericSummary(mute_if_healthy=2)"]),
        errors.FailedPreconditionError,
        ["mute_if_healthy='2'"],
    ),
    (
        ("mm", 0, ["DebugNumericSummary(lower_bound=1"]),
        errors.FailedPreconditionError,
        ["malformed"],
    ),
    (
        ("mm", 0, ["DebugNumericSummary(lower_bound=1;lower_bound=2)"]),
        errors.FailedPreconditionError,
        ["'lower_bound' twice"],
    ),
]


@pytest.mark.parametrize(("spec", "kind", "words"), REFUSED)
def test_refused_before_anything_runs(session, tmp_path, spec, kind, words):
    with session.graph.as_default():
        counted = st.assign_add(st.trainable_variables()[0], [1.0, 1.0])
    metadata = stepscope.RunMetadata()
    with pytest.raises(kind) as caught:
        session.run([*FETCHES, counted], FEED, watch(f"file://{tmp_path}/d", spec), metadata)
    for word in words:
        assert word in caught.value.message
    assert type(caught.value) is kind
    assert metadata.status.message == caught.value.message
    assert caught.value.run_metadata is metadata
    assert not (tmp_path / "d").exists()
    assert session.run("v:0").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("url", "kind", "words"),
    [
        ("bogus://x", errors.InvalidArgumentError, ["'bogus://x'", "file://", "memcbk://"]),
        ("/tmp/x", errors.InvalidArgumentError, ["'/tmp/x'", "file://"]),
        ("file://", errors.InvalidArgumentError, ["'file://'", "nothing after"]),
        ("memcbk://gone", errors.InvalidArgumentError, ["'memcbk://gone'", "'here'"]),
        ("grpc://localhost:1", errors.UnimplementedError, ["'grpc://localhost:1'", "embedded"]),
    ],
)
def test_urls_that_nobody_serves(session, url, kind, words):
    stop = debug_callback("here", print)
    try:
        with pytest.raises(kind) as caught:
            session.run("z:0", FEED, options=watch(url, ("mm", 0, ALL_OPS)))
    finally:
        stop()
    for word in words:
        assert word in caught.value.message


def test_a_watch_without_urls(session):
    options = stepscope.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(node_name="mm", debug_ops=["DebugIdentity"])
    metadata = stepscope.RunMetadata()
    plain = session.run("z:0", FEED)
    watched = session.run("z:0", FEED, options=options, run_metadata=metadata)
    np.testing.assert_array_equal(watched, plain)
    (loss,) = metadata.completeness.losses
    assert (loss.what, loss.count) == ("debug watches", 1)
    assert "debug_urls" in loss.reason


def test_tolerated_failures_are_declared(session, debug_data, tmp_path):
    options = watch(
        f"file://{tmp_path}",
        ("big", 0, [*ALL_OPS, "Foo"]),
        tolerate_debug_op_creation_failures=True,
    )
    metadata = stepscope.RunMetadata()
    session.run("big:0", options=options, run_metadata=metadata)
    assert {op for _, op in dumped(debug_data, tmp_path)} == {
        "DebugIdentity",
        "DebugNumericSummary",
    }
    (loss,) = metadata.completeness.losses
    assert (loss.what, loss.count) == ("debug ops", 2)


def test_debug_options_without_watches_change_nothing(session):
    options = stepscope.RunOptions()
    options.debug_options.global_step = 3
    assert session.run("big:0", options=options)


# -- disks ---------------------------------------------------------------------------------------


def test_a_root_that_cannot_be_written(session, tmp_path):
    (tmp_path / "file").write_text("in the way")
    root = tmp_path / "file" / "dumps"
    with pytest.raises(errors.FailedPreconditionError) as caught:
        session.run("z:0", FEED, options=watch(f"file://{root}", ("mm", 0, ALL_OPS)))
    assert str(root) in caught.value.message


def test_a_full_disk_fails_the_run_and_keeps_its_metadata(session, tmp_path, monkeypatch):
    write = dump_files.DumpDirectory._write

    def full(self, path, micros, content):
        if path.name.startswith("y_0"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, path, micros, content)

    monkeypatch.setattr(dump_files.DumpDirectory, "_write", full)
    options = watch(f"file://{tmp_path}", ("mm", 0, ALL_OPS[:1]), ("scope/y", 0, ALL_OPS[:1]))
    options.trace_level = stepscope.RunOptions.FULL_TRACE
    with pytest.raises(errors.ResourceExhaustedError) as caught:
        session.run("z:0", FEED, options=options)
    assert "scope/y_0_DebugIdentity" in caught.value.message
    assert "No space left on device" in caught.value.message
    metadata = caught.value.run_metadata
    assert metadata.status.code == "RESOURCE_EXHAUSTED"
    assert metadata.status.in_flight == ["scope/y"]
    assert "mm" in list(metadata.ops.name)
    assert session.run("big:0")


def test_the_allowance_for_dumps(session, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDBG_DISK_BYTES_LIMIT", "40")
    options = watch(f"file://{tmp_path}", ("mm", 0, ["DebugIdentity"]))
    session.run("z:0", FEED, options=options)
    session.run("z:0", FEED, options=options)
    with pytest.raises(errors.ResourceExhaustedError, match="mm:0 needs 16 bytes, 32 of 40"):
        session.run("z:0", FEED, options=options)
    options.debug_options.reset_disk_byte_usage = True
    session.run("z:0", FEED, options=options)
    monkeypatch.setenv("TFDBG_DISK_BYTES_LIMIT", "lots")
    with pytest.raises(errors.FailedPreconditionError, match="'lots'"):
        session.run("z:0", FEED, options=options)


def test_only_whole_files_are_left(session, tmp_path, monkeypatch):
    def broken(self, target):
        raise OSError(errno.EIO, "Input/output error")

    session.run("z:0", FEED, options=watch(f"file://{tmp_path}", ("mm", 0, ALL_OPS)))
    before = sorted(tmp_path.rglob("*"))
    assert not [p for p in before if p.name.endswith(".tmp")]
    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(errors.FailedPreconditionError, match="Input/output error"):
        session.run("z:0", FEED, options=watch(f"file://{tmp_path}", ("mm", 0, ALL_OPS)))
    assert sorted(tmp_path.rglob("*")) == before


def test_runs_that_share_a_directory(session, debug_data, tmp_path):
    options = watch(f"file://{tmp_path}", ("mm", 0, ["DebugIdentity"]), ("z", 0, ["DebugIdentity"]))

    def run() -> None:
        for _ in range(10):
            session.run("z:0", FEED, options=options)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = dumped(debug_data, tmp_path)
    assert {key: len(values) for key, values in found.items()} == {
        ("mm:0", "DebugIdentity"): 40,
        ("z:0", "DebugIdentity"): 40,
    }
    graphs = list(tmp_path.rglob("_tfdbg_graph_*"))
    steps = [
        json.loads(Event.FromString(p.read_bytes()).log_message.message)["executor_step_index"]
        for p in tmp_path.glob("_tfdbg_core_metadata_*")
    ]
    assert sorted(steps) == list(range(40))
    assert 1 <= len(graphs) <= 4
