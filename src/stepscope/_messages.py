"""The protobuf message classes that everything else is built on.

TensorFlow's messages come from the copies that `tensorboard` ships, which need no TensorFlow.
Three messages carry fields of our own, so they are built here: `RunOptionsMessage`,
`RunMetadataMessage` and `ConfigProtoMessage` have every field of TensorFlow's message of that
name, under the same number, and ours from `OWN_FIELDS_START` on. A reader that does not know our
numbers (TensorFlow, TensorBoard) skips them.

Numbers already given to our fields are never reused: files in the field hold them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from tensorboard.compat.proto import config_pb2
from tensorboard.compat.proto.allocation_description_pb2 import AllocationDescription
from tensorboard.compat.proto.attr_value_pb2 import AttrValue, NameAttrList
from tensorboard.compat.proto.cluster_pb2 import ClusterDef, JobDef
from tensorboard.compat.proto.config_pb2 import (
    CallableOptions,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    SessionMetadata,
    ThreadPoolOptionProto,
)
from tensorboard.compat.proto.cost_graph_pb2 import CostGraphDef
from tensorboard.compat.proto.debug_pb2 import (
    DebuggedSourceFile,
    DebuggedSourceFiles,
    DebugOptions,
    DebugTensorWatch,
)
from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.compat.proto.function_pb2 import FunctionDef, FunctionDefLibrary
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.meta_graph_pb2 import CollectionDef, MetaGraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.op_def_pb2 import OpDef, OpList
from tensorboard.compat.proto.rewriter_config_pb2 import RewriterConfig
from tensorboard.compat.proto.rpc_options_pb2 import RPCOptions
from tensorboard.compat.proto.saver_pb2 import SaverDef
from tensorboard.compat.proto.step_stats_pb2 import (
    AllocationRecord,
    AllocatorMemoryUsed,
    DeviceStepStats,
    MemoryStats,
    NodeExecStats,
    NodeOutput,
    StepStats,
)
from tensorboard.compat.proto.summary_pb2 import (
    DataClass,
    HistogramProto,
    Summary,
    SummaryMetadata,
)
from tensorboard.compat.proto.tensor_description_pb2 import TensorDescription
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DataType
from tensorboard.compat.proto.variable_pb2 import VariableDef
from tensorboard.compat.proto.versions_pb2 import VersionDef

__all__ = [
    "OWN_FIELDS_START",
    "AllocationDescription",
    "AllocationLogProto",
    "AllocationRecord",
    "AllocatorMemoryUsed",
    "AttrValue",
    "BundleEntry",
    "BundleHeader",
    "CallableOptions",
    "CheckpointState",
    "ClusterDef",
    "CollectionDef",
    "CompletenessProto",
    "ConfigProtoMessage",
    "CostGraphDef",
    "DataClass",
    "DataType",
    "DebugOptions",
    "DebugTensorWatch",
    "DebuggedSourceFile",
    "DebuggedSourceFiles",
    "DecodeError",
    "DevicePeakProto",
    "DeviceStepStats",
    "Event",
    "FunctionDef",
    "FunctionDefLibrary",
    "GPUOptions",
    "GraphDef",
    "GraphOptions",
    "HistogramProto",
    "InFlightProto",
    "JobDef",
    "LossProto",
    "MemoryStats",
    "Message",
    "MetaGraphDef",
    "NameAttrList",
    "NodeDef",
    "NodeExecStats",
    "NodeOpProto",
    "NodeOutput",
    "OpDef",
    "OpList",
    "OptimizerOptions",
    "OverheadProto",
    "PlacementProto",
    "QueueRunnerDef",
    "RPCOptions",
    "RewriterConfig",
    "RunMetadataMessage",
    "RunOptionsMessage",
    "SaverDef",
    "SessionLog",
    "SessionMetadata",
    "SourceProto",
    "StatusProto",
    "StepStats",
    "Summary",
    "SummaryMetadata",
    "TaggedRunMetadata",
    "TensorDescription",
    "TensorProto",
    "TensorShapeProto",
    "ThreadIdentProto",
    "ThreadPoolOptionProto",
    "VariableDef",
    "VersionDef",
]

OWN_FIELDS_START = 15000
"""The first field number that is ours, in `RunOptions`, `RunMetadata` and `ConfigProto`."""

_Field = descriptor_pb2.FieldDescriptorProto
_FILE_NAME = "stepscope/run.proto"
_PACKAGE = "stepscope"

_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "sint32": _Field.TYPE_SINT32,
    "sint64": _Field.TYPE_SINT64,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
    "fixed32": _Field.TYPE_FIXED32,
    "fixed64": _Field.TYPE_FIXED64,
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING,
}

# Written as in a .proto file: name, type, number. "repeated" and "optional" prefix the type;
# "map K V" is a map of scalars; a type that is no scalar is a message of ours.
_OWN_MESSAGES: dict[str, list[tuple[str, str, int]]] = {
    "InFlight": [("name", "string", 1), ("outcome", "string", 2), ("waited_ns", "int64", 3)],
    "Status": [
        ("code", "int32", 1),
        ("message", "string", 2),
        ("in_flight", "repeated InFlight", 3),
        ("not_known", "bool", 4),
    ],
    "Loss": [("what", "string", 1), ("count", "int64", 2), ("reason", "string", 3)],
    "Completeness": [("losses", "repeated Loss", 1)],
    "Overhead": [("ns", "int64", 1), ("fraction", "double", 2)],
    "Placement": [
        ("node", "string", 1),
        ("op", "string", 2),
        ("requested", "string", 3),
        ("assigned", "string", 4),
        ("reason", "string", 5),
    ],
    "Source": [("node", "string", 1), ("file", "string", 2), ("line", "int32", 3)],
    "NodeOp": [("node", "string", 1), ("op", "string", 2)],
    "ThreadIdent": [("thread_id", "uint32", 1), ("ident", "int64", 2)],
    "DevicePeak": [("device", "string", 1), ("bytes", "int64", 2)],
    "MemoryRequest": [
        ("op", "string", 1),
        ("slot", "int32", 2),
        ("shape", "repeated int64", 3),
        ("has_shape", "bool", 4),
        ("dtype", "int32", 5),
        ("bytes", "int64", 6),
        ("device", "string", 7),
        ("source", "string", 8),
        ("time_ns", "int64", 9),
    ],
    "HeldMemory": [
        ("op", "string", 1),
        ("source", "string", 2),
        ("kind", "string", 3),
        ("device", "string", 4),
        ("tensors", "int64", 5),
        ("bytes", "int64", 6),
        ("shapes", "string", 7),
    ],
    "Growth": [
        ("op", "string", 1),
        ("source", "string", 2),
        ("before", "int64", 3),
        ("now", "int64", 4),
    ],
    "OutOfMemory": [
        ("request", "MemoryRequest", 1),
        ("limit", "optional int64", 2),
        ("live", "int64", 3),
        ("cached", "int64", 4),
        ("rows", "repeated HeldMemory", 5),
        # Whether there was an earlier run to compare with: then `grown` may still be empty.
        ("compared", "bool", 6),
        ("grown", "repeated Growth", 7),
        ("advice", "string", 8),
    ],
    # TensorFlow's, which the copies lack; the last field is an enum there, the same on the wire.
    "QueueRunnerDef": [
        ("queue_name", "string", 1),
        ("enqueue_op_name", "repeated string", 2),
        ("close_op_name", "string", 3),
        ("cancel_op_name", "string", 4),
        ("queue_closed_exception_types", "repeated int32", 5),
    ],
    # TensorFlow's, of checkpoints; messages inside them are bytes here, the same on the wire.
    "BundleHeader": [
        ("num_shards", "int32", 1),
        ("endianness", "int32", 2),
        ("version", "bytes", 3),
    ],
    "BundleEntry": [
        ("dtype", "int32", 1),
        ("shape", "optional bytes", 2),
        ("shard_id", "int32", 3),
        ("offset", "int64", 4),
        ("size", "int64", 5),
        ("crc32c", "fixed32", 6),
        ("slices", "repeated bytes", 7),
    ],
    "CheckpointState": [
        ("model_checkpoint_path", "string", 1),
        ("all_model_checkpoint_paths", "repeated string", 2),
        ("all_model_checkpoint_timestamps", "repeated double", 3),
        ("last_preserved_timestamp", "double", 4),
    ],
    "AllocationLog": [
        ("strings", "repeated string", 1),
        ("node", "repeated int32", 2),
        ("device", "repeated int32", 3),
        ("time_ns", "repeated int64", 4),
        ("bytes", "repeated sint64", 5),
        ("address", "repeated uint64", 6),
        ("event", "repeated int32", 7),
        ("kind", "repeated int32", 8),
        ("slot", "repeated sint32", 9),
        ("dtype", "repeated int32", 10),
        ("step", "repeated int64", 11),
        # The shapes, one after the other: each one's rank (-1: not known), then all dimensions.
        ("rank", "repeated sint32", 12),
        ("dims", "repeated int64", 13),
    ],
}

_OWN_RUN_OPTIONS = [
    ("allocation_log_buffer_size", "int64", OWN_FIELDS_START + 1),
    ("allocation_log_sampling_rate", "optional double", OWN_FIELDS_START + 2),
    ("allocation_log_address", "string", OWN_FIELDS_START + 3),
]

_OWN_RUN_METADATA = [
    # How many bytes follow this field in a saved file: tells a file cut between two fields.
    ("bytes_following", "optional fixed64", OWN_FIELDS_START),
    ("status", "Status", OWN_FIELDS_START + 1),
    ("completeness", "Completeness", OWN_FIELDS_START + 2),
    ("overhead", "Overhead", OWN_FIELDS_START + 3),
    ("allocation_log", "AllocationLog", OWN_FIELDS_START + 4),
    ("engine", "string", OWN_FIELDS_START + 5),
    ("step_id", "int64", OWN_FIELDS_START + 6),
    ("run_options", "RunOptions", OWN_FIELDS_START + 7),
    ("placements", "repeated Placement", OWN_FIELDS_START + 8),
    ("sources", "repeated Source", OWN_FIELDS_START + 9),
    # Op types that timeline labels do not tell.
    ("node_ops", "repeated NodeOp", OWN_FIELDS_START + 10),
    # Threads whose identifier does not fit `NodeExecStats.thread_id`.
    ("thread_idents", "repeated ThreadIdent", OWN_FIELDS_START + 11),
    # The step of each row of step_stats, in order, where it differs from step_id.
    ("row_steps", "repeated int64", OWN_FIELDS_START + 12),
    ("peaks", "repeated DevicePeak", OWN_FIELDS_START + 13),
    ("out_of_memory", "OutOfMemory", OWN_FIELDS_START + 14),
    ("allocations", "AllocationLog", OWN_FIELDS_START + 15),
    # Where an event file holds the run.
    ("tag", "string", OWN_FIELDS_START + 16),
    ("global_step", "int64", OWN_FIELDS_START + 17),
    ("recorder", "string", OWN_FIELDS_START + 18),
]

_OWN_CONFIG = [
    # Bytes by device; "" stands for every device that is not named.
    ("memory_limit_bytes", "map string int64", OWN_FIELDS_START + 1),
]


def _add_field(message: Any, name: str, kind: str, number: int) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind.startswith("map "):
        field.label = _Field.LABEL_REPEATED
        entry = message.nested_type.add(name="".join(w.title() for w in name.split("_")) + "Entry")
        entry.options.map_entry = True
        for place, (part, of) in enumerate(zip(("key", "value"), kind.split()[1:], strict=True), 1):
            entry.field.add(name=part, number=place, type=_SCALARS[of], label=_Field.LABEL_OPTIONAL)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
        return
    if kind.startswith("repeated "):
        kind = kind.removeprefix("repeated ")
        field.label = _Field.LABEL_REPEATED
    if kind.startswith("optional "):
        kind = kind.removeprefix("optional ")
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"


def _adopt_nested_types(message: Any, original: str) -> None:
    """Point the copy's fields at its own nested types instead of the original's."""
    prefix = f".{original}."
    for field in message.field:
        if field.type_name.startswith(prefix):
            rest = field.type_name.removeprefix(prefix)
            field.type_name = f".{_PACKAGE}.{original.rpartition('.')[2]}.{rest}"
    for nested in message.nested_type:
        _adopt_nested_types(nested, original)


def _copy_with(file: Any, original: Any, own: list[tuple[str, str, int]]) -> None:
    message = file.message_type.add()
    original.DESCRIPTOR.CopyToProto(message)
    _adopt_nested_types(message, original.DESCRIPTOR.full_name)
    for field in own:
        _add_field(message, *field)


def _build_file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE_NAME, package=_PACKAGE, syntax="proto3")
    source = config_pb2.DESCRIPTOR
    file.dependency.append(source.name)
    file.dependency.extend(dependency.name for dependency in source.dependencies)
    for name, fields in _OWN_MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, *field)
    _copy_with(file, config_pb2.RunOptions, _OWN_RUN_OPTIONS)
    _copy_with(file, config_pb2.RunMetadata, _OWN_RUN_METADATA)
    _copy_with(file, config_pb2.ConfigProto, _OWN_CONFIG)
    return file


def message_classes(file: Any) -> dict[str, Any]:
    """The class of every message that `file`, a descriptor's message, describes, by full name.

    Whoever calls this keeps the result as long as any of the classes may be used, nested ones
    included. Before 4.25, protobuf holds the class of a field's message by a weak reference only:
    a message inside another one whose class was collected ends the process
    (protocolbuffers/protobuf#12047). Code that protobuf generates keeps its classes by itself.
    """
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    found = {}
    to_do = list(pool.FindFileByName(file.name).message_types_by_name.values())
    while to_do:
        descriptor = to_do.pop()
        found[descriptor.full_name] = message_factory.GetMessageClass(descriptor)
        to_do += descriptor.nested_types
    return found


_CLASSES = message_classes(_build_file())


def _message_class(name: str) -> Any:
    return _CLASSES[f"{_PACKAGE}.{name}"]


RunOptionsMessage: Any = _message_class("RunOptions")
RunMetadataMessage: Any = _message_class("RunMetadata")
ConfigProtoMessage: Any = _message_class("ConfigProto")
StatusProto: Any = _message_class("Status")
InFlightProto: Any = _message_class("InFlight")
CompletenessProto: Any = _message_class("Completeness")
LossProto: Any = _message_class("Loss")
OverheadProto: Any = _message_class("Overhead")
PlacementProto: Any = _message_class("Placement")
SourceProto: Any = _message_class("Source")
NodeOpProto: Any = _message_class("NodeOp")
QueueRunnerDef: Any = _message_class("QueueRunnerDef")
BundleHeader: Any = _message_class("BundleHeader")
BundleEntry: Any = _message_class("BundleEntry")
CheckpointState: Any = _message_class("CheckpointState")
ThreadIdentProto: Any = _message_class("ThreadIdent")
DevicePeakProto: Any = _message_class("DevicePeak")
AllocationLogProto: Any = _message_class("AllocationLog")
