"""XSpace, the profiler's own format, as message classes: with them tests and tools build profiles.

TensorBoard has no copy of these messages, so they are described here: only the fields we read,
under TensorFlow's names and numbers. Profiles are read without them (see `space`): their events
are too many to be an object each.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2

from stepscope._messages import message_classes

_Field = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
_MESSAGES: Final[dict[str, tuple[str, ...]]] = {
    "XStatMetadata": ("id 1 int64", "name 2 string"),
    "XStat": (
        "metadata_id 1 int64", "double_value 2 double value", "uint64_value 3 uint64 value",
        "int64_value 4 int64 value", "str_value 5 string value", "bytes_value 6 bytes value",
        "ref_value 7 uint64 value",
    ),
    "XEventMetadata": ("id 1 int64", "name 2 string", "display_name 4 string"),
    "XEvent": (
        "metadata_id 1 int64", "offset_ps 2 int64 data", "num_occurrences 5 int64 data",
        "duration_ps 3 int64", "stats 4 *XStat",
    ),
    "XLine": (
        "id 1 int64", "display_id 10 int64", "name 2 string", "display_name 11 string",
        "timestamp_ns 3 int64", "duration_ps 9 int64", "events 4 *XEvent",
    ),
    "XPlane": (
        "id 1 int64", "name 2 string", "lines 3 *XLine", "event_metadata 4 %XEventMetadata",
        "stat_metadata 5 %XStatMetadata", "stats 6 *XStat",
    ),
    "XSpace": ("planes 1 *XPlane", "errors 2 *string", "warnings 3 *string", "hostnames 4 *string"),
}  # fmt: skip


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="stepscope/xplane.proto", package="stepscope.profiler", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _add_field(message, *text.split())
    return file


def _add_field(message: Any, name: str, number: str, kind: str, oneof: str = "") -> None:
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind.startswith("%"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", "1", "int64")
        _add_field(entry, "value", "2", kind[1:])
        field.label = _Field.LABEL_REPEATED
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".stepscope.profiler.{message.name}.{entry.name}"
        return
    if kind.startswith("*"):
        field.label = _Field.LABEL_REPEATED
        kind = kind[1:]
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".stepscope.profiler.{kind}"
    if oneof:
        if not any(o.name == oneof for o in message.oneof_decl):
            message.oneof_decl.add(name=oneof)
        field.oneof_index = 0


_CLASSES = message_classes(_describe())
XSpace: Any = _CLASSES["stepscope.profiler.XSpace"]
