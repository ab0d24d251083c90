"""Wire compatibility: the messages we rely on are the installed TensorFlow's.

When this fails after an upgrade, the failure says which field differs. If TensorFlow is ahead of
`tensorboard`, raise the lower bound of `tensorboard` in pyproject.toml; a field that only
TensorFlow has is carried along as an unknown field until then. If a number of ours collides with
a new one of TensorFlow's, move `OWN_FIELDS_START` in `stepscope/_messages.py` and keep reading the
old numbers.
"""

from __future__ import annotations

import importlib

import pytest

from stepscope import _messages as pb
from stepscope._messages import OWN_FIELDS_START

pytestmark = pytest.mark.tensorflow

WHERE = {
    "tensorflow.core.protobuf.config_pb2": [
        *("RunOptions", "RunMetadata", "ConfigProto", "GraphOptions", "OptimizerOptions"),
        *("ThreadPoolOptionProto", "GPUOptions", "SessionMetadata", "CallableOptions"),
    ],
    "tensorflow.core.protobuf.debug_pb2": ["DebugOptions", "DebugTensorWatch"],
    "tensorflow.core.protobuf.rewriter_config_pb2": ["RewriterConfig"],
    "tensorflow.core.protobuf.cluster_pb2": ["ClusterDef", "JobDef"],
    "tensorflow.core.protobuf.meta_graph_pb2": ["MetaGraphDef", "CollectionDef"],
    "tensorflow.core.framework.step_stats_pb2": [
        *("StepStats", "DeviceStepStats", "NodeExecStats", "NodeOutput", "AllocatorMemoryUsed"),
        *("AllocationRecord", "MemoryStats"),
    ],
    "tensorflow.core.framework.tensor_description_pb2": ["TensorDescription"],
    "tensorflow.core.framework.allocation_description_pb2": ["AllocationDescription"],
    "tensorflow.core.framework.cost_graph_pb2": ["CostGraphDef"],
    "tensorflow.core.framework.graph_pb2": ["GraphDef"],
    "tensorflow.core.framework.node_def_pb2": ["NodeDef"],
    "tensorflow.core.framework.attr_value_pb2": ["AttrValue"],
    "tensorflow.core.framework.tensor_pb2": ["TensorProto"],
    "tensorflow.core.framework.tensor_shape_pb2": ["TensorShapeProto"],
    "tensorflow.core.framework.op_def_pb2": ["OpDef"],
    "tensorflow.core.framework.function_pb2": ["FunctionDef", "FunctionDefLibrary"],
    "tensorflow.core.framework.variable_pb2": ["VariableDef"],
    "tensorflow.core.util.event_pb2": ["Event", "TaggedRunMetadata", "SessionLog"],
    "tensorflow.core.framework.summary_pb2": ["Summary", "HistogramProto"],
}
CASES = [(module, name) for module, names in WHERE.items() for name in names]
OURS = {
    name: getattr(pb, f"{name}Message") for name in ("RunOptions", "RunMetadata", "ConfigProto")
}


def bare(full_name):
    return full_name.partition(".")[2]


def facts(descriptor, seen):
    """Every field and enum value of a message and the messages inside it, as comparable facts."""
    if bare(descriptor.full_name) in seen:
        return set()
    seen.add(bare(descriptor.full_name))
    found = set()
    for field in descriptor.fields:
        if field.number >= OWN_FIELDS_START:
            continue
        inner = field.message_type or field.enum_type
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
        kind = bare(inner.full_name) if inner is not None else ""
        found.add(
            (bare(descriptor.full_name), field.name, field.number, field.type, repeated, kind)
        )
        if field.enum_type is not None:
            found |= {
                (bare(field.enum_type.full_name), value.name, value.number)
                for value in field.enum_type.values
            }
        if field.message_type is not None and not inner.full_name.startswith("google."):
            found |= facts(field.message_type, seen)
    return found


@pytest.mark.parametrize(("module", "name"), CASES, ids=[name for _, name in CASES])
def test_message_is_tensorflows(tensorflow, module, name):
    theirs = getattr(importlib.import_module(module), name).DESCRIPTOR
    ours = OURS.get(name, getattr(pb, name, None)).DESCRIPTOR
    wanted, have = facts(theirs, set()), facts(ours, set())
    missing, extra = sorted(wanted - have, key=repr), sorted(have - wanted, key=repr)
    assert not missing, f"only TensorFlow {tensorflow.__version__} has {missing}; {__doc__}"
    assert not extra, f"TensorFlow {tensorflow.__version__} lacks {extra}; {__doc__}"


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_numbers_are_far_from_tensorflows(tensorflow, name):
    from tensorflow.core.protobuf import config_pb2

    theirs = getattr(config_pb2, name).DESCRIPTOR
    assert max(field.number for field in theirs.fields) < OWN_FIELDS_START
    own = [field.number for field in OURS[name].DESCRIPTOR.fields if field.number > 1000]
    assert all(OWN_FIELDS_START <= number < 19000 for number in own)


def test_numbers_in_files_out_there_stay():
    numbers = {
        field.name: field.number - OWN_FIELDS_START
        for message in OURS.values()
        for field in message.DESCRIPTOR.fields
        if field.number >= OWN_FIELDS_START
    }
    assert numbers == {
        "allocation_log_buffer_size": 1,
        "allocation_log_sampling_rate": 2,
        "allocation_log_address": 3,
        "bytes_following": 0,
        "status": 1,
        "completeness": 2,
        "overhead": 3,
        "allocation_log": 4,
        "engine": 5,
        "step_id": 6,
        "run_options": 7,
        "placements": 8,
        "sources": 9,
        "node_ops": 10,
        "thread_idents": 11,
        "row_steps": 12,
        "peaks": 13,
        "out_of_memory": 14,
        "allocations": 15,
        "tag": 16,
        "global_step": 17,
        "recorder": 18,
        "memory_limit_bytes": 1,
    }
    assert OWN_FIELDS_START == 15000
