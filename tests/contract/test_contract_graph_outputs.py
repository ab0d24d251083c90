"""`output_partition_graphs`, `collective_graph_key`, `debug_options`."""

import numpy as np
import pytest
from contract_programs import FED, on_three_devices

import stepscope
from stepscope._messages import GraphDef
from stepscope.metadata import RunMetadata
from stepscope.options import DebugOptions, DebugTensorWatch, RunOptions


def nodes_by_device(metadata):
    return {
        graph.node[0].device[-1]: {n.name: n for n in graph.node}
        for graph in metadata.partition_graphs
    }


@pytest.mark.parametrize("level", [RunOptions.NO_TRACE, RunOptions.FULL_TRACE])
def test_partition_graphs_one_per_device_with_sends_and_receives(session_engine, level):
    engine = session_engine
    program = engine.start(on_three_devices, engine.config(device_count={"CPU": 3}))
    metadata = program.traced("z", FED, output_partition_graphs=True, trace_level=level)
    assert len(metadata.partition_graphs) == 3
    by_device = nodes_by_device(metadata)
    for device, graph in by_device.items():
        assert {n.device[-1] for n in graph.values()} == {device}
    assert "y" in by_device["1"]
    assert "z" in by_device["2"]
    everything = [n for graph in by_device.values() for n in graph.values()]
    sends = {n.attr["tensor_name"].s: n for n in everything if n.op == "_Send"}
    receives = {n.attr["tensor_name"].s: n for n in everything if n.op == "_Recv"}
    assert len(sends) == 3, "x to 1, y to 2, z back to the client"
    assert set(sends) == set(receives)
    for name, send in sends.items():
        receive = receives[name]
        assert send.attr["send_device"].s.decode() == send.device
        assert receive.attr["recv_device"].s.decode() == receive.device
        assert send.device != receive.device
        assert len(send.input) == 1
        assert not receive.input
    z = by_device["2"]["z"]
    assert {by_device["2"][name].op for name in z.input} == {"_Recv"}


def test_each_partition_graph_is_closed(session_engine):
    engine = session_engine
    program = engine.start(on_three_devices, engine.config(device_count={"CPU": 3}))
    metadata = program.traced("z", FED, output_partition_graphs=True)
    for graph in metadata.partition_graphs:
        names = {n.name for n in graph.node}
        for node in graph.node:
            for source in node.input:
                assert source.lstrip("^").split(":")[0] in names


def test_a_traced_node_is_a_node_of_the_partition_graphs(session_engine):
    engine = session_engine
    program = engine.start(on_three_devices, engine.config(device_count={"CPU": 3}))
    metadata = program.traced("z", FED, output_partition_graphs=True)
    listed = {(n.name, n.op, n.device) for graph in metadata.partition_graphs for n in graph.node}
    ops = metadata.ops
    ran = set(zip(ops.name, ops.op, ops.device, strict=True))
    assert {row for row in ran if row[0] != "_SOURCE"} <= listed
    assert listed <= ran


@pytest.mark.parametrize("level", [RunOptions.NO_TRACE, RunOptions.FULL_TRACE])
def test_one_device_is_one_partition_without_transfers(engine, level):
    program = engine.start(on_three_devices, engine.devices(1))
    metadata = program.traced("z", FED, output_partition_graphs=True, trace_level=level)
    assert len(metadata.partition_graphs) == engine.partitions(1)
    for graph in metadata.partition_graphs:
        assert isinstance(graph, GraphDef)
        assert {"AddV2", "Mul"} <= {n.op for n in graph.node}
        assert not [n for n in graph.node if n.op in ("_Send", "_Recv")]


def test_eager_code_gives_the_graphs_of_the_functions_it_calls(tensorflow):
    function = tensorflow.function(lambda x: tensorflow.atan2(x, 3.0))
    for level in (RunOptions.NO_TRACE, RunOptions.FULL_TRACE):
        metadata = RunMetadata()
        options = RunOptions(output_partition_graphs=True, trace_level=level)
        stepscope.run(lambda: function(tensorflow.ones([])), options=options, run_metadata=metadata)
        (graph,) = metadata.partition_graphs
        assert "Atan2" in {n.op for n in graph.node}
        assert bool(len(metadata.ops)) is (level != RunOptions.NO_TRACE)


def test_without_the_option_there_are_no_partition_graphs(engine):
    program = engine.start(on_three_devices, engine.devices(3))
    assert not program.traced("z", FED).partition_graphs


def test_partition_graphs_that_the_session_forbids_are_refused(session_engine):
    engine = session_engine
    config = engine.config(device_count={"CPU": 3})
    config.experimental.disable_output_partition_graphs = True
    program = engine.start(on_three_devices, config)
    with pytest.raises(engine.errors.InvalidArgumentError, match="output_partition_graphs"):
        program.run("z", FED, RunOptions(output_partition_graphs=True))


# -- collective_graph_key ----------------------------------------------------------------------


def test_the_collective_graph_key_is_in_the_metadata(engine):
    program = engine.start(on_three_devices, engine.devices(1))
    experimental = RunOptions.Experimental(collective_graph_key=77)
    if engine.refusal(program, "z", FED, RunOptions(experimental=experimental)):
        return
    metadata = program.traced("z", FED, experimental=experimental)
    assert metadata.run_options.experimental.collective_graph_key == 77
    again = RunMetadata.FromString(metadata.SerializeToString())
    assert again.run_options.experimental.collective_graph_key == 77


def test_the_embedded_engine_refuses_a_collective_op_by_name(embedded):
    engine = embedded
    graph_def = GraphDef()
    x = graph_def.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    node = graph_def.node.add(name="sum", op="CollectiveReduce", input=["x"])
    for key, value in {"group_size": 2, "group_key": 1, "instance_key": 1}.items():
        node.attr[key].i = value
    node.attr["T"].type = 1
    node.attr["merge_op"].s = b"Add"
    node.attr["final_op"].s = b"Id"
    node.attr["subdiv_offsets"].list.i.append(0)

    def build(ops):
        given, total = ops.import_graph_def(graph_def, return_elements=["x:0", "sum:0"], name="")
        return {"x": given, "total": total}

    program = engine.start(build)
    options = RunOptions(experimental=RunOptions.Experimental(collective_graph_key=1))
    with pytest.raises(engine.errors.UnimplementedError, match="CollectiveReduce"):
        program.run("total", FED, options)


# -- debug_options -----------------------------------------------------------------------------


def watch(node, slot, *ops, url):
    return DebugOptions(
        debug_tensor_watch_opts=[
            DebugTensorWatch(node_name=node, output_slot=slot, debug_ops=ops, debug_urls=[url])
        ]
    )


def test_a_watched_tensor_is_dumped_to_a_file(engine, tmp_path):
    program = engine.start(on_three_devices, engine.devices(1))
    options = RunOptions(debug_options=watch("y", 0, "DebugIdentity", url=f"file://{tmp_path}"))
    if engine.refusal(program, "z", FED, options):
        return
    program.run("z", FED, options)
    dumps = [p for p in tmp_path.rglob("*") if p.is_file() and p.name.startswith("y_0_Debug")]
    assert len(dumps) == 1


@pytest.mark.parametrize(
    ("node", "slot", "op", "url", "named"),
    [
        ("nowhere", 0, "DebugIdentity", "file://{}", "nowhere"),
        ("y", 3, "DebugIdentity", "file://{}", "3"),
        ("y", 0, "DebugTelepathy", "file://{}", "DebugTelepathy"),
        ("y", 0, "DebugIdentity", "pigeon://{}", "pigeon"),
    ],
    ids=["node", "slot", "debug op", "scheme"],
)
def test_a_watch_that_cannot_be_is_an_error_that_names_it(
    engine, tmp_path, node, slot, op, url, named
):
    program = engine.start(on_three_devices, engine.devices(1))
    options = RunOptions(debug_options=watch(node, slot, op, url=url.format(tmp_path)))
    if engine.refusal(program, "z", FED, options):
        return
    with pytest.raises(engine.errors.OpError, match=named):
        program.run("z", FED, options)
    np.testing.assert_array_equal(program.run("z", FED), [4.0, 16.0])
