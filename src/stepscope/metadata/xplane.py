"""XSpace, the profiler's own format: message classes and times, with no TensorFlow needed.

TensorBoard has no copy of these messages, so they are described here: only the fields we read,
under TensorFlow's names and numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    "int64": _Field.TYPE_INT64, "uint64": _Field.TYPE_UINT64, "double": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES,
}  # fmt: skip
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


def _make_class() -> Any:
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(_describe().SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("stepscope.profiler.XSpace"))


XSpace: Any = _make_class()


class Plane:
    """One plane of a space, with its tables turned into plain dictionaries."""

    __slots__ = ("_stat_names", "lines", "message", "name", "names")

    def __init__(self, message: Any) -> None:
        self.message = message
        self.name: str = message.name
        self.lines = message.lines
        self.names: dict[int, str] = {
            key: value.name for key, value in message.event_metadata.items()
        }
        self._stat_names = {key: value.name for key, value in message.stat_metadata.items()}

    def stats(self, owner: Any) -> dict[str, Any]:
        """The stats of an event or of the plane, by name."""
        found: dict[str, Any] = {}
        for stat in owner.stats:
            which = stat.WhichOneof("value")
            if which is None:
                continue
            value = getattr(stat, which)
            if which == "ref_value":
                value = self._stat_names.get(value, "")
            found[self._stat_names.get(stat.metadata_id, "")] = value
        return found


class Space:
    """An XSpace, decoded as far as its planes."""

    def __init__(self, data: bytes) -> None:
        message = XSpace.FromString(data)
        self.planes = [Plane(p) for p in message.planes]
        self.fallback_base_ns = 0
        """The base where the space itself does not say it, as older profilers do not."""

    def plane(self, name: str) -> Plane | None:
        return next((p for p in self.planes if p.name == name), None)

    @property
    def base_ns(self) -> int:
        """What to add to a line's timestamps for nanoseconds since the epoch."""
        environment = self.plane("Task Environment")
        if environment is None:
            return self.fallback_base_ns
        stats = environment.stats(environment.message)
        return int(stats.get("profile_start_time", self.fallback_base_ns))

    def line_base_ns(self, line: Any) -> int:
        """The wall-clock time of a line's origin; some writers have it absolute already."""
        stamp = int(line.timestamp_ns)
        return stamp if stamp > 10**17 else stamp + self.base_ns

    def devices(self) -> Iterator[Plane]:
        """The planes of accelerators."""
        return (p for p in self.planes if p.name.startswith("/device:"))
