"""Options, metadata and configuration: TensorFlow's and TensorBoard's messages work as ours do."""

import numpy as np
import pytest

from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions


def build(ops):
    x = ops.placeholder(ops.float32, [2], name="x")
    with ops.device("/cpu:1"):
        y = ops.add(x, 1.0, name="y")
    return {"x": x, "y": y}


FED = {"x": np.array([1.0, 2.0], np.float32)}


@pytest.fixture(params=["tensorflow", "tensorboard"])
def messages(request):
    if request.param == "tensorflow":
        return request.getfixturevalue("tf").compat.v1
    from tensorboard.compat.proto import config_pb2

    return config_pb2


def test_run_options(engine, messages):
    program = engine.start(build, engine.devices(2))
    metadata = RunMetadata()
    options = messages.RunOptions(trace_level=3, output_partition_graphs=True)
    program.run("y", FED, options, metadata)
    assert "y" in program.ran(metadata)
    assert len(metadata.partition_graphs) == engine.partitions(2)
    assert metadata.run_options == RunOptions(trace_level=3, output_partition_graphs=True)


@pytest.mark.parametrize(
    "set_field",
    [
        lambda options: setattr(options, "report_tensor_allocations_upon_oom", True),
        lambda options: setattr(options.experimental, "collective_graph_key", 4),
        lambda options: setattr(options, "inter_op_thread_pool", -1),
    ],
    ids=["oom", "collective", "pool"],
)
def test_run_options_that_are_refused(engine, messages, set_field):
    program = engine.start(build, engine.devices(2))
    options = messages.RunOptions()
    set_field(options)
    if not engine.refusal(program, "y", FED, options):
        np.testing.assert_array_equal(program.run("y", FED, options), [2.0, 3.0])


def test_config(session_engine, messages):
    engine = session_engine
    config = messages.ConfigProto(device_count={"CPU": 2})
    config.session_inter_op_thread_pool.add(num_threads=1)
    program = engine.start(build, config)
    assert program.traced("y", FED).placements[0].assigned
    with pytest.raises(engine.errors.InvalidArgumentError, match="inter_op_thread_pool: 1"):
        program.run("y", FED, RunOptions(inter_op_thread_pool=1))


def test_run_metadata(engine, messages):
    program = engine.start(build, engine.devices(2))
    metadata = messages.RunMetadata()
    metadata.step_stats.dev_stats.add(device="left over")
    options = RunOptions(trace_level=3, output_partition_graphs=True)
    program.run("y", FED, options, metadata)
    by_device = {d.device[-1]: [n.node_name for n in d.node_stats]
                 for d in metadata.step_stats.dev_stats}  # fmt: skip
    if engine.partitions(2) == 2:
        assert set(by_device) == {"0", "1"}
        assert "y" in by_device["1"]
    else:
        assert set(by_device) == {"0"}
    assert len(metadata.partition_graphs) == engine.partitions(2)
    ours = RunMetadata.FromString(metadata.SerializeToString())
    assert ours.status.code == "OK"
    assert ours.engine == engine.name
    assert "y" in program.ran(ours)


def test_run_metadata_of_a_failed_run(engine, messages):
    def failing(ops):
        i = ops.placeholder(ops.int32, [], name="i")
        return {"i": i, "y": ops.gather([1.0], ops.add(i, i, name="twice"))}

    program = engine.start(failing)
    metadata = messages.RunMetadata()
    with pytest.raises(engine.errors.InvalidArgumentError) as caught:
        program.run("y", {"i": 5}, messages.RunOptions(trace_level=3), metadata)
    ours = RunMetadata.FromString(metadata.SerializeToString())
    assert "twice" in program.ran(ours)
    assert caught.value.run_metadata.status.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("wrong", [{"trace_level": 3}, "FULL_TRACE", 3, RunOptions])
def test_anything_else_as_options_is_a_type_error_that_says_what_to_pass(engine, wrong):
    program = engine.start(build, engine.devices(2))
    with pytest.raises(TypeError, match=r"RunOptions.*pass stepscope\.RunOptions\("):
        program.run("y", FED, wrong)


@pytest.mark.parametrize("wrong", [{}, "metadata", [], RunMetadata, RunOptions()])
def test_anything_else_as_metadata_is_a_type_error_that_says_what_to_pass(engine, wrong):
    program = engine.start(build, engine.devices(2))
    with pytest.raises(TypeError, match=r"RunMetadata.*pass stepscope\.RunMetadata\(\)"):
        program.run("y", FED, RunOptions(), wrong)


@pytest.mark.parametrize("wrong", [{"device_count": {"CPU": 2}}, "config", RunOptions()])
def test_anything_else_as_config_is_a_type_error_that_says_what_to_pass(session_engine, wrong):
    engine = session_engine
    with pytest.raises(TypeError, match=r"ConfigProto.*pass stepscope\.ConfigProto\("):
        engine.start(build, wrong)


def test_metadata_and_options_are_taken_whether_or_not_the_other_is_given(engine):
    program = engine.start(build, engine.devices(2))
    metadata = RunMetadata()
    program.run("y", FED, None, metadata)
    assert metadata.status.code == "OK"
    program.run("y", FED, RunOptions(trace_level=3), None)
