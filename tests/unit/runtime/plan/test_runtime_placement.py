"""Where ops go: what was asked for, what is colocated, what soft placement does, and the log."""

import numpy as np
import pytest

import stepscope.tf1 as st
from stepscope.errors import InvalidArgumentError
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions


def placements(build, fetch, **config):
    with st.Graph().as_default() as graph:
        build()
    metadata = RunMetadata()
    with st.Session(graph=graph, config=ConfigProto(**config)) as session:
        session.run(fetch, options=RunOptions(trace_level=1), run_metadata=metadata)
    return {p.node: (p.assigned[-5:], p.reason) for p in metadata.placements}


def two_devices():
    with st.device("/cpu:1"):
        a = st.constant(1.0, name="a")
    st.add(a, a, name="b")


def test_asked_for_and_default():
    found = placements(two_devices, "b:0", device_count={"CPU": 2})
    assert found == {"a": ("CPU:1", "asked for"), "b": ("CPU:0", "default")}


@pytest.mark.parametrize(
    "spelling", ["/cpu:1", "/device:CPU:1", "/job:localhost/replica:0/task:0/device:CPU:1", "CPU:1"]
)
def test_spellings_of_a_device(spelling):
    def build():
        with st.device(spelling):
            st.constant(1.0, name="a")

    assert placements(build, "a:0", device_count={"CPU": 2})["a"] == ("CPU:1", "asked for")


def test_colocated():
    def build():
        with st.device("/cpu:1"):
            a = st.constant(1.0, name="a")
        with st.colocate_with(a):
            st.add(a, 1.0, name="b")

    found = placements(build, "b:0", device_count={"CPU": 2})
    assert found["b"][0] == "CPU:1"


@pytest.mark.parametrize("resource", [True, False])
def test_what_touches_a_variable_is_where_the_variable_is(resource):
    def build():
        with st.device("/cpu:1"):
            v = st.Variable(1.0, name="v", use_resource=resource)
        st.assign(v, 2.0, name="set")

    found = placements(build, "set", device_count={"CPU": 2})
    assert {device for node, (device, _) in found.items() if node in ("v", "set")} == {"CPU:1"}


def test_soft_placement():
    def build():
        with st.device("/gpu:0"):
            st.constant(1.0, name="a")

    assert placements(build, "a:0", allow_soft_placement=True)["a"] == ("CPU:0", "soft placement")


def test_a_device_that_is_not_there_is_an_error_that_lists_those_that_are():
    def build():
        with st.device("/gpu:0"):
            st.constant(1.0, name="a")

    with pytest.raises(InvalidArgumentError) as caught:
        placements(build, "a:0", device_count={"CPU": 2})
    message = caught.value.message
    assert message.startswith("Cannot assign a device for operation a: ")
    assert "explicitly assigned to /device:GPU:0" in message
    assert "CPU:0" in message
    assert "CPU:1" in message
    assert "allow_soft_placement" in message


def test_what_works_on_a_resource_goes_where_the_resource_is_whatever_it_asked_for():
    def build():
        with st.device("/cpu:0"):
            v = st.Variable(1.0, name="v", use_resource=True)
        with st.device("/cpu:1"):
            st.identity(st.assign(v, 2.0, name="set"), name="out")

    found = placements(build, "out:0", device_count={"CPU": 2})
    assert found["v"] == ("CPU:0", "asked for")
    assert found["set"] == ("CPU:0", "colocated with v")
    assert found["out"] == ("CPU:1", "asked for")


def test_conflicting_requests_of_colocated_ops_are_refused():
    def build():
        with st.device("/cpu:0"):
            a = st.constant(1.0, name="a")
        graph_def = st.GraphDef()
        node = graph_def.node.add(name="b", op="NoOp", device="/device:CPU:1")
        node.attr["_class"].list.s.append(b"loc:@b")
        st.import_graph_def(graph_def, name="")
        b = a.graph.get_operation_by_name("b")
        with st.colocate_with(a), st.colocate_with(b), st.control_dependencies([b]):
            st.identity(a, name="c")

    with pytest.raises(InvalidArgumentError, match="Cannot colocate nodes"):
        placements(build, "c:0", device_count={"CPU": 2})


@pytest.mark.parametrize("count", [0, 257])
def test_a_device_count_out_of_range_is_refused(count):
    with pytest.raises(InvalidArgumentError, match=rf"device_count\['CPU'\] is {count}"):
        st.Session(graph=st.Graph(), config=ConfigProto(device_count={"CPU": count}))


def test_an_unknown_kind_of_device_is_refused():
    with pytest.raises(InvalidArgumentError, match="'QPU'"):
        st.Session(graph=st.Graph(), config=ConfigProto(device_count={"QPU": 1}))


def test_the_placement_is_logged_on_stderr_once(capfd):
    with st.Graph().as_default() as graph:
        two_devices()
    config = ConfigProto(device_count={"CPU": 2}, log_device_placement=True)
    with st.Session(graph=graph, config=config) as session:
        session.run("b:0")
        first = capfd.readouterr()
        session.run("b:0")
        second = capfd.readouterr()
    assert "b: (AddV2): /job:localhost/replica:0/task:0/device:CPU:0" in first.err
    assert "a: (Const): /job:localhost/replica:0/task:0/device:CPU:1" in first.err
    assert "asked for" in first.err
    assert first.out == ""
    assert second.err == ""


def test_values_cross_devices_unchanged():
    def build(ops):
        value = ops.placeholder(ops.float32, [2], name="x")
        for i in range(6):
            with ops.device(f"/cpu:{i % 3}"):
                value = ops.add(value, float(i), name=f"step{i}")
        return value

    with st.Graph().as_default() as graph:
        y = build(st)
    with st.Session(graph=graph, config=ConfigProto(device_count={"CPU": 3})) as session:
        np.testing.assert_array_equal(session.run(y, {"x:0": [1, 2]}), [16.0, 17.0])
