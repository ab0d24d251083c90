"""RunOptions, ConfigProto and their parts, against TensorFlow's messages."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from tensorboard.compat.proto import config_pb2

import stepscope.options as so
from stepscope import errors

WATCH = {
    "node_name": "a",
    "output_slot": 1,
    "debug_ops": ["DebugIdentity"],
    "debug_urls": ["file:///x"],
}


def full_options():
    return so.RunOptions(
        trace_level=so.RunOptions.FULL_TRACE,
        timeout_in_ms=-1,
        inter_op_thread_pool=-1,
        output_partition_graphs=True,
        debug_options=so.DebugOptions(
            debug_tensor_watch_opts=[so.DebugTensorWatch(**WATCH)], global_step=3
        ),
        report_allocations_on_oom=True,
        experimental=so.RunOptions.Experimental(
            collective_graph_key=5,
            use_run_handler_pool=True,
            run_handler_pool_options=so.RunOptions.Experimental.RunHandlerPoolOptions(priority=2),
        ),
        allocation_log_buffer_size=100,
        allocation_log_sampling_rate=0.5,
        allocation_log_address="raw",
    )


def test_bytes_parse_in_tensorflow_and_back(tf):
    ours = full_options()
    theirs = tf.RunOptions.FromString(ours.SerializeToString())
    assert theirs.trace_level == tf.RunOptions.FULL_TRACE
    assert theirs.timeout_in_ms == -1
    assert theirs.report_tensor_allocations_upon_oom
    assert theirs.debug_options.debug_tensor_watch_opts[0].debug_urls == ["file:///x"]
    assert theirs.experimental.run_handler_pool_options.priority == 2
    # Our fields ride along as unknown ones and come back.
    assert so.as_run_options(theirs).allocation_log_buffer_size == 100
    assert ours == theirs


def test_tensorflows_defaults(tf):
    assert so.RunOptions() == tf.RunOptions()
    assert so.ConfigProto() == tf.ConfigProto()
    for field in tf.RunOptions.DESCRIPTOR.fields:
        if field.message_type is None:
            assert getattr(so.RunOptions(), field.name) == getattr(tf.RunOptions(), field.name)


@pytest.mark.parametrize("name", ["RunOptions", "OptimizerOptions", "RewriterConfig"])
def test_constants_are_tensorflows(tf, tensorflow, name):
    from tensorflow.core.protobuf import rewriter_config_pb2

    theirs = getattr(tf, name, None) or getattr(rewriter_config_pb2, name)
    ours = getattr(so, name)
    for enum in theirs.DESCRIPTOR.enum_types:
        for value in enum.values:
            assert getattr(ours, value.name) == value.number
        first = enum.values[0]
        assert getattr(ours, enum.name).Name(first.number) == first.name
        assert getattr(ours, enum.name).Value(first.name) == first.number


def test_resolve_gives_plain_values():
    resolved = full_options().resolve()
    assert resolved.trace_level == 3
    assert resolved.timeout_in_ms == -1
    assert resolved.inter_op_thread_pool == -1
    assert resolved.output_partition_graphs is True
    assert resolved.debug_options.debug_tensor_watch_opts[0].node_name == "a"
    assert resolved.report_tensor_allocations_upon_oom is True
    assert resolved.collective_graph_key == 5
    assert resolved.use_run_handler_pool is True
    assert resolved.run_handler_priority == 2
    assert resolved.allocation_log_buffer_size == 100
    assert resolved.allocation_log_sampling_rate == 0.5
    assert resolved.allocation_log_address == "raw"
    assert so.RunOptions().resolve() == so.DEFAULT_RESOLVED
    assert so.DEFAULT_RESOLVED.allocation_log_sampling_rate is None
    assert so.DEFAULT_RESOLVED.allocation_log_address == "anonymous"


def test_resolve_sees_later_changes():
    options = so.RunOptions()
    assert options.resolve().use_run_handler_pool is False
    options.experimental.use_run_handler_pool = True
    options.trace_level = so.RunOptions.SOFTWARE_TRACE
    assert options.resolve().use_run_handler_pool is True
    assert options.resolve().trace_level == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda o: setattr(o, "trace_level", 3),
        lambda o: o.CopyFrom(so.RunOptions(trace_level=3)),
        lambda o: o.MergeFrom(so.RunOptions(trace_level=3)),
        lambda o: o.ParseFromString(so.RunOptions(trace_level=3).SerializeToString()),
        lambda o: o.MergeFromString(so.RunOptions(trace_level=3).SerializeToString()),
    ],
)
def test_resolve_looks_again_only_after_a_change(change):
    options = so.RunOptions(trace_level=so.RunOptions.SOFTWARE_TRACE)
    first = options.resolve()
    assert options.resolve() is first
    change(options)
    assert options.resolve().trace_level == 3
    options.ClearField("trace_level")
    assert options.resolve().trace_level == 0
    options.trace_level = 1
    assert options.resolve() == first
    options.Clear()
    assert options.resolve().trace_level == 0


def test_resolve_sees_changes_of_parts_that_were_given_out_before():
    options = so.RunOptions()
    experimental, debug = options.experimental, options.debug_options
    assert options.resolve().run_handler_priority == 0
    experimental.run_handler_pool_options.priority = 4
    assert options.resolve().run_handler_priority == 4
    assert options.resolve().debug_options is None
    debug.global_step = 7
    assert options.resolve().debug_options.global_step == 7


def test_resolve_sees_changes_of_listed_parts():
    options = so.RunOptions(debug_options=so.DebugOptions(global_step=1))
    assert options.resolve().debug_options.global_step == 1
    ((_, listed),) = options.ListFields()
    assert options.resolve().debug_options.global_step == 1
    listed.global_step = 2
    assert options.resolve().debug_options.global_step == 2


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        (
            "trace_level",
            7,
            "RunOptions.trace_level is 7; allowed are NO_TRACE (0), SOFTWARE_TRACE (1), "
            "HARDWARE_TRACE (2), FULL_TRACE (3)",
        ),
        ("trace_level", "LOUD", "RunOptions.trace_level is 'LOUD'; allowed are NO_TRACE (0)"),
        ("timeout_in_ms", 2**63, f"RunOptions.timeout_in_ms is {2**63}"),
        ("inter_op_thread_pool", 2**31, f"RunOptions.inter_op_thread_pool is {2**31}"),
        ("allocation_log_sampling_rate", 0.0, "is 0.0; allowed is above 0, up to 1"),
        ("allocation_log_sampling_rate", 1.5, "is 1.5; allowed is above 0, up to 1"),
        ("allocation_log_sampling_rate", float("nan"), "is nan; allowed is above 0, up to 1"),
        ("allocation_log_buffer_size", -1, "is -1; allowed is 0 to 10000000"),
        ("allocation_log_buffer_size", 10_000_001, "is 10000001; allowed is 0 to 10000000"),
        ("allocation_log_address", "hex", "is 'hex'; allowed are 'anonymous', 'raw', 'none'"),
    ],
)
def test_values_that_are_not_allowed(field, value, says):
    with pytest.raises(errors.InvalidArgumentError) as made:
        so.RunOptions(**{field: value})
    options = so.RunOptions()
    with pytest.raises(errors.InvalidArgumentError) as assigned:
        setattr(options, field, value)
    assert says in str(made.value)
    assert says in str(assigned.value)
    assert options == so.RunOptions()


def test_a_wrong_value_in_tensorflows_message_is_found(tf):
    theirs = tf.RunOptions(trace_level=7)
    with pytest.raises(errors.InvalidArgumentError, match=r"RunOptions.trace_level is 7; allowed"):
        so.as_run_options(theirs)
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = 55
    with pytest.raises(errors.InvalidArgumentError, match=r"OptimizerOptions.opt_level is 55"):
        so.as_config(config)
    ours = so.ConfigProto()
    with pytest.raises(errors.InvalidArgumentError, match=r"OptimizerOptions.opt_level is 55"):
        ours.graph_options.optimizer_options.opt_level = 55


def test_unknown_names_list_what_there_is():
    with pytest.raises(
        ValueError, match="RunOptions has no field 'trace_levle'; did you mean 'tra"
    ):
        so.RunOptions(trace_levle=1)
    options = so.RunOptions()
    with pytest.raises(AttributeError, match="its fields are allocation_log_address, "):
        options.colour = "red"
    with pytest.raises(errors.InvalidArgumentError, match="no field 'timeout'; did you mean"):
        _ = options.timeout
    with pytest.raises(ValueError, match="DebugTensorWatch has no field 'node'; did you mean 'nod"):
        so.DebugOptions(debug_tensor_watch_opts=[{"node": "a"}])
    assert not hasattr(options, "colour")
    assert "trace_level" in dir(options)


@pytest.mark.parametrize("value", ["10", 1.5, [1], so.DebugOptions()])
def test_wrong_types_are_type_errors(value):
    with pytest.raises(TypeError):
        so.RunOptions(timeout_in_ms=value)
    with pytest.raises(TypeError):
        so.RunOptions().timeout_in_ms = value
    with pytest.raises(TypeError, match=r"RunOptions.debug_options takes a DebugOptions"):
        so.RunOptions(debug_options=3)
    with pytest.raises(TypeError, match="takes a DebugTensorWatch"):
        so.DebugOptions(debug_tensor_watch_opts=[so.RunOptions()])
    with pytest.raises(TypeError, match="takes a list, not str"):
        so.DebugTensorWatch(debug_ops="DebugIdentity")


@pytest.mark.parametrize("value", [{}, "FULL_TRACE", 3, so.ConfigProto(), so.RunOptions, object()])
def test_what_is_no_options_says_what_to_pass(value):
    with pytest.raises(TypeError, match=r"found .*; pass stepscope.RunOptions\("):
        so.as_run_options(value)


def test_config_and_debug_options_say_what_to_pass():
    with pytest.raises(TypeError, match=r"found dict \{'a': 1\}; pass stepscope.ConfigProto"):
        so.as_config({"a": 1})
    with pytest.raises(TypeError, match="found RunOptions"):
        so.as_debug_options(so.RunOptions())
    with pytest.raises(TypeError, match="found the class RunOptions itself"):
        so.as_run_options(so.RunOptions)


def test_messages_of_all_three_families_are_taken(tf):
    assert so.as_run_options(None) is None
    ours = so.RunOptions(trace_level=1)
    assert so.as_run_options(ours) is ours
    for theirs in (tf.RunOptions, config_pb2.RunOptions):
        taken = so.as_run_options(theirs(trace_level=1, timeout_in_ms=9))
        assert type(taken) is so.RunOptions
        assert (taken.trace_level, taken.timeout_in_ms) == (1, 9)
    assert so.as_config(None) == so.ConfigProto()
    assert so.as_config(tf.ConfigProto(device_count={"CPU": 2})).device_count["CPU"] == 2


def test_nested_messages_of_any_family_go_into_a_constructor(tf):
    config = so.ConfigProto(
        device_count={"CPU": 3},
        session_inter_op_thread_pool=[
            so.ThreadPoolOptionProto(num_threads=2, global_name="g"),
            tf.ConfigProto(
                session_inter_op_thread_pool=[{"num_threads": 4}]
            ).session_inter_op_thread_pool[0],
        ],
        graph_options=tf.GraphOptions(build_cost_model=1),
        gpu_options={"allow_growth": True},
        device_filters=["/job:a"],
    )
    theirs = tf.ConfigProto.FromString(config.SerializeToString())
    assert dict(theirs.device_count) == {"CPU": 3}
    assert [pool.num_threads for pool in theirs.session_inter_op_thread_pool] == [2, 4]
    assert theirs.graph_options.build_cost_model == 1
    assert theirs.gpu_options.allow_growth
    assert config == theirs
    assert theirs == tf.ConfigProto.FromString(so.as_config(theirs).SerializeToString())


def test_it_behaves_like_a_message():
    options = full_options()
    assert options.HasField("debug_options")
    assert options.HasField("allocation_log_sampling_rate")
    options.ClearField("debug_options")
    options.ClearField("report_allocations_on_oom")
    assert not options.HasField("debug_options")
    assert options.report_tensor_allocations_upon_oom is False
    assert options.ByteSize() == len(options.SerializeToString())
    assert [field.name for field, _ in options.ListFields()][:2] == ["trace_level", "timeout_in_ms"]
    assert options.IsInitialized()
    copied = so.RunOptions()
    copied.CopyFrom(options)
    assert copied == options
    copied.MergeFrom(config_pb2.RunOptions(timeout_in_ms=77))
    assert (copied.timeout_in_ms, copied.trace_level) == (77, 3)
    assert copied != options
    assert copied.MergeFromString(config_pb2.RunOptions(trace_level=1).SerializeToString()) > 0
    assert copied.trace_level == 1
    copied.Clear()
    assert copied == so.RunOptions()
    assert "trace_level: FULL_TRACE" in repr(options)
    assert str(options) == repr(options)
    with pytest.raises(TypeError, match="CopyFrom takes a RunOptions"):
        copied.CopyFrom(so.ConfigProto())
    with pytest.raises(TypeError):
        hash(options)


def test_fields_take_messages_lists_and_numpy_numbers():
    options = so.RunOptions(timeout_in_ms=np.int64(5))
    options.timeout_in_ms = np.int32(6)
    assert options.timeout_in_ms == 6
    options.trace_level = "FULL_TRACE"
    assert options.trace_level == 3
    options.debug_options = {"debug_tensor_watch_opts": [WATCH]}
    assert options.debug_options.debug_tensor_watch_opts[0].output_slot == 1
    options.debug_options = so.DebugOptions(global_step=4)
    assert len(options.debug_options.debug_tensor_watch_opts) == 0
    config = so.ConfigProto(device_count={"CPU": 1, "GPU": 1})
    config.device_count = {"CPU": 2}
    assert dict(config.device_count) == {"CPU": 2}


@pytest.mark.parametrize(
    "value",
    [
        full_options(),
        so.RunOptions.Experimental(use_run_handler_pool=True),
        so.ConfigProto(device_count={"CPU": 3}),
        so.RewriterConfig(constant_folding=so.RewriterConfig.OFF),
    ],
    ids=lambda value: type(value).__qualname__,
)
def test_copies_and_pickles(value):
    for back in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)):
        assert type(back) is type(value)
        assert back == value
        assert back is not value


def test_list_of_all_options():
    names = so.run_option_fields()
    assert "experimental.run_handler_pool_options.priority" in names
    assert "debug_options.debug_tensor_watch_opts.debug_urls" in names
    assert "allocation_log_sampling_rate" in names
    assert "debug_options" not in names
    assert len(names) == len(set(names)) == 18
    config = so.config_fields()
    assert {"device_count", "graph_options.build_cost_model", "experimental.executor_type"} <= set(
        config
    )


def test_messages_are_appended_as_legacy_code_does():
    config = so.ConfigProto()
    config.session_inter_op_thread_pool.append(so.ThreadPoolOptionProto(num_threads=3))
    config.session_inter_op_thread_pool.add(num_threads=5, global_name="shared")
    assert [pool.num_threads for pool in config.session_inter_op_thread_pool] == [3, 5]
    options = so.RunOptions()
    options.debug_options.debug_tensor_watch_opts.append(so.DebugTensorWatch(node_name="x"))
    options.debug_options.debug_tensor_watch_opts[0].debug_ops.append("DebugIdentity")
    restored = so.RunOptions.FromString(options.SerializeToString())
    watch = restored.debug_options.debug_tensor_watch_opts[0]
    assert (watch.node_name, list(watch.debug_ops)) == ("x", ["DebugIdentity"])
    with pytest.raises(TypeError, match="takes a DebugTensorWatch"):
        options.debug_options.debug_tensor_watch_opts.append("x")
    assert len(options.debug_options.debug_tensor_watch_opts) == 1


def test_a_nested_message_is_a_live_part():
    options = so.RunOptions()
    part = options.experimental
    part.use_run_handler_pool = True
    part.run_handler_pool_options.priority = 4
    assert options.resolve().run_handler_priority == 4
    part.CopyFrom(so.RunOptions.Experimental(collective_graph_key=9))
    assert options.resolve().collective_graph_key == 9
    assert isinstance(options.debug_options, so.DebugOptions)
