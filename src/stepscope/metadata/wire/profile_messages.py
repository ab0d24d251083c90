"""What `tf.profiler` returns and writes, as message classes with TensorFlow's names and numbers.

`OpLogProto` and `ProfileProto` are TensorBoard's copies. Those that it has no copy of are described
here: `GraphNodeProto` and `MultiGraphNodeProto`, the results of the views, `AdviceProto`, and the
options, `OptionsProto` and `AdvisorOptionsProto`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2
from tensorboard.compat.proto import tensor_shape_pb2, types_pb2
from tensorboard.compat.proto.tfprof_log_pb2 import (
    CodeDef,
    ExecMemory,
    ExecProfile,
    ExecTime,
    OpLogEntry,
    OpLogProto,
    ProfileNode,
    ProfileProto,
)

from stepscope._messages import message_classes

__all__ = [
    "AdviceProto",
    "AdvisorOptionsProto",
    "CodeDef",
    "ExecMemory",
    "ExecProfile",
    "ExecTime",
    "GraphNodeProto",
    "MultiGraphNodeProto",
    "OpLogEntry",
    "OpLogProto",
    "OptionsProto",
    "ProfileNode",
    "ProfileProto",
    "TFProfTensorProto",
]

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "stepscope.tfprof"
_TYPES: Final = {
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "double": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
}
_OTHERS: Final = {
    "TensorShapeProto": tensor_shape_pb2.TensorShapeProto.DESCRIPTOR.full_name,
    "DataType": types_pb2.DataType.DESCRIPTOR.full_name,
}

# A field is "name number type": "*" stands for repeated, "K>V" is a map. A message within another
# is named with it.
_MESSAGES: Final[dict[str, str]] = {
    "TFProfTensorProto": "dtype 1 DataType, value_double 2 *double, value_int64 3 *int64, "
    "value_str 4 *string",
    "GraphNodeProto": "name 1 string, tensor_value 15 TFProfTensorProto, run_count 21 int64, "
    "exec_micros 2 int64, accelerator_exec_micros 17 int64, cpu_exec_micros 18 int64, "
    "requested_bytes 3 int64, peak_bytes 24 int64, residual_bytes 25 int64, "
    "output_bytes 26 int64, parameters 4 int64, float_ops 13 int64, devices 10 *string, "
    "total_definition_count 23 int64, total_run_count 22 int64, total_exec_micros 6 int64, "
    "total_accelerator_exec_micros 19 int64, total_cpu_exec_micros 20 int64, "
    "total_requested_bytes 7 int64, total_peak_bytes 27 int64, total_residual_bytes 28 int64, "
    "total_output_bytes 29 int64, total_parameters 8 int64, total_float_ops 14 int64, "
    "shapes 11 *TensorShapeProto, input_shapes 16 int32>TensorShapeProto, "
    "children 12 *GraphNodeProto",
    "MultiGraphNodeProto": "name 1 string, exec_micros 2 int64, accelerator_exec_micros 12 int64, "
    "cpu_exec_micros 13 int64, requested_bytes 3 int64, peak_bytes 16 int64, "
    "residual_bytes 17 int64, output_bytes 18 int64, parameters 4 int64, float_ops 5 int64, "
    "total_exec_micros 6 int64, total_accelerator_exec_micros 14 int64, "
    "total_cpu_exec_micros 15 int64, total_requested_bytes 7 int64, total_peak_bytes 19 int64, "
    "total_residual_bytes 20 int64, total_output_bytes 21 int64, total_parameters 8 int64, "
    "total_float_ops 9 int64, graph_nodes 10 *GraphNodeProto, children 11 *MultiGraphNodeProto",
    "AdviceProto": "checkers 1 string>AdviceProto.Checker",
    "AdviceProto.Checker": "reports 2 *string",
    "OptionsProto": "max_depth 1 int64, min_bytes 2 int64, min_peak_bytes 19 int64, "
    "min_residual_bytes 20 int64, min_output_bytes 21 int64, min_micros 3 int64, "
    "min_accelerator_micros 22 int64, min_cpu_micros 23 int64, min_params 4 int64, "
    "min_float_ops 5 int64, min_occurrence 17 int64, step 18 int64, order_by 7 string, "
    "account_type_regexes 8 *string, start_name_regexes 9 *string, trim_name_regexes 10 *string, "
    "show_name_regexes 11 *string, hide_name_regexes 12 *string, "
    "account_displayed_op_only 13 bool, select 14 *string, output 15 string, "
    "dump_to_file 16 string",
    "AdvisorOptionsProto": "checkers 1 string>AdvisorOptionsProto.CheckerOption",
    "AdvisorOptionsProto.CheckerOption": "options 1 string>string",
}


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="stepscope/tfprof.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[tensor_shape_pb2.DESCRIPTOR.name, types_pb2.DESCRIPTOR.name],
    )
    made: dict[str, Any] = {}
    for name, fields in _MESSAGES.items():
        outer, _, own = name.rpartition(".")
        made[name] = (made[outer].nested_type if outer else file.message_type).add(name=own)
        for field in fields.split(", "):
            _add_field(made[name], name, *field.split())
    return file


def _add_field(message: Any, path: str, name: str, number: str, kind: str) -> None:
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if ">" in kind or kind.startswith("*"):
        field.label = _Field.LABEL_REPEATED
    if ">" in kind:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for place, (part, of) in enumerate(zip(("key", "value"), kind.split(">"), strict=True), 1):
            _add_field(entry, path, part, str(place), of)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{path}.{entry.name}"
        return
    kind = kind.removeprefix("*")
    if kind in _TYPES:
        field.type = _TYPES[kind]
        return
    field.type = _Field.TYPE_ENUM if kind == "DataType" else _Field.TYPE_MESSAGE
    field.type_name = f".{_OTHERS.get(kind, f'{_PACKAGE}.{kind}')}"


_CLASSES = message_classes(_describe())


def _message_class(name: str) -> Any:
    return _CLASSES[f"{_PACKAGE}.{name}"]


TFProfTensorProto: Any = _message_class("TFProfTensorProto")
GraphNodeProto: Any = _message_class("GraphNodeProto")
MultiGraphNodeProto: Any = _message_class("MultiGraphNodeProto")
AdviceProto: Any = _message_class("AdviceProto")
OptionsProto: Any = _message_class("OptionsProto")
AdvisorOptionsProto: Any = _message_class("AdvisorOptionsProto")
