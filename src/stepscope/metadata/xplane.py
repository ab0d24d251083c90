"""XSpace, the profiler's own format: message classes and times, with no TensorFlow needed.

TensorBoard has no copy of these messages, so they are described here: only the fields we read,
under TensorFlow's names and numbers. Of a space that is read, only the outline goes through them:
events and names are many, so those of a plane are taken apart together, into columns.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf import descriptor_pb2

from stepscope._messages import message_classes
from stepscope.metadata.wire_scan import BYTES, NUMBER, REPEATED, Field, Wire

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

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
    "LineOutline": (
        "id 1 int64", "name 2 string", "display_name 11 string", "timestamp_ns 3 int64",
        "events 4 *bytes",
    ),
    "PlaneOutline": (
        "name 2 string", "lines 3 *LineOutline", "event_metadata 4 *bytes",
        "stat_metadata 5 *bytes", "stats 6 *XStat",
    ),
    "SpaceOutline": ("planes 1 *PlaneOutline",),
}  # fmt: skip
_ENTRY: Final = (Field("key", 1, NUMBER), Field("value", 2, BYTES))
_NAMED: Final = (
    Field("id", 1, NUMBER), Field("name", 2, BYTES), Field("metadata", 3, BYTES),
    Field("display_name", 4, BYTES), Field("stats", 5, REPEATED),
)  # fmt: skip
_EVENT: Final = (
    Field("metadata_id", 1, NUMBER), Field("offset_ps", 2, NUMBER),
    Field("duration_ps", 3, NUMBER), Field("stats", 4, REPEATED),
    Field("num_occurrences", 5, NUMBER),
)  # fmt: skip
_STAT: Final = (
    Field("metadata_id", 1, NUMBER), Field("uint64_value", 3, NUMBER),
    Field("int64_value", 4, NUMBER), Field("str_value", 5, BYTES), Field("ref_value", 7, NUMBER),
)  # fmt: skip


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
_Outline: Any = _CLASSES["stepscope.profiler.SpaceOutline"]
_EventMessage: Any = _CLASSES["stepscope.profiler.XEvent"]


class _Joined:
    """Many messages one behind the other, and where each begins and ends."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        self.ends = np.cumsum(sizes)
        self.begins = self.ends - sizes
        self.wire = Wire(b"".join(messages))

    def texts(self, begins: Ints, ends: Ints) -> list[str]:
        """What stands between these places, as text."""
        return [text.decode() for text in self.wire.slices(begins, ends)]


class _Events:
    """The events of all lines of a plane as columns, and of their stats those asked for."""

    def __init__(self, events: Sequence[bytes], texts: Mapping[int, str]) -> None:
        self._texts = texts
        self._joined = joined = _Joined(events)
        found = joined.wire.scan(joined.begins, joined.ends, _EVENT)
        self.numbers = found.numbers
        self._rows, first, last = found.entries["stats"]
        self._stats = joined.wire.scan(first, last, _STAT)
        self._stat_numbers: dict[int, Ints] = {}
        self._stat_texts: dict[int, NDArray[np.object_]] = {}

    def stat_numbers(self, stat: int) -> Ints:
        if stat in self._stat_numbers:
            return self._stat_numbers[stat]
        values = self._stat_numbers[stat] = np.zeros(len(self._joined.ends), np.int64)
        found = self._stats.numbers
        at = np.flatnonzero(found["metadata_id"] == stat)
        values[self._rows[at]] = found["int64_value"][at] | found["uint64_value"][at]
        return values

    def stat_texts(self, stat: int) -> NDArray[np.object_]:
        if stat in self._stat_texts:
            return self._stat_texts[stat]
        values = self._stat_texts[stat] = np.full(len(self._joined.ends), "", object)
        at = np.flatnonzero(self._stats.numbers["metadata_id"] == stat)
        rows, references = self._rows[at], self._stats.numbers["ref_value"][at]
        values[rows] = [self._texts.get(reference, "") for reference in references.tolist()]
        written = references == 0
        if written.any():
            begins, ends = (places[at][written] for places in self._stats.spans["str_value"])
            values[rows[written]] = self._joined.texts(begins, ends)
        return values


class Line:
    """One line of a plane: its events as columns, in the order in which they were written."""

    def __init__(self, message: Any, events: _Events, rows: slice) -> None:
        self._message = message
        self._events = events
        self._rows = rows
        self.id: int = message.id
        self.timestamp_ns: int = message.timestamp_ns
        self.name: str = message.display_name or message.name
        self.metadata_id: Ints = events.numbers["metadata_id"][rows]
        self.offset_ps: Ints = events.numbers["offset_ps"][rows]
        self.duration_ps: Ints = events.numbers["duration_ps"][rows]

    def __len__(self) -> int:
        return len(self.metadata_id)

    @property
    def events(self) -> Iterator[Any]:
        """The events as messages, for who wants few of them, or all that they say."""
        return (_EventMessage.FromString(event) for event in self._message.events)

    def stat_numbers(self, stat: int) -> Ints:
        """The number that each event has under a stat; 0 where it has none."""
        return self._events.stat_numbers(stat)[self._rows]

    def stat_texts(self, stat: int) -> NDArray[np.object_]:
        """The text that each event has under a stat; "" where it has none."""
        return self._events.stat_texts(stat)[self._rows]


class Plane:
    """One plane of a space, with its tables turned into plain dictionaries."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.name: str = message.name
        self.names = _names(list(message.event_metadata))
        self.stat_names = _names(list(message.stat_metadata))

    @functools.cached_property
    def lines(self) -> list[Line]:
        events: list[bytes] = []
        rows = []
        for line in self.message.lines:
            first = len(events)
            events += line.events
            rows.append(slice(first, len(events)))
        found = _Events(events, self.stat_names)
        lines = zip(self.message.lines, rows, strict=True)
        return [Line(line, found, place) for line, place in lines]

    def stat_number(self, name: str) -> int:
        """The number that a stat of this name has in this plane; -1 where there is none."""
        return next((number for number, known in self.stat_names.items() if known == name), -1)

    def stats(self, owner: Any) -> dict[str, Any]:
        """The stats of an event or of the plane, by name."""
        found: dict[str, Any] = {}
        for stat in owner.stats:
            which = stat.WhichOneof("value")
            if which is None:
                continue
            value = getattr(stat, which)
            if which == "ref_value":
                value = self.stat_names.get(value, "")
            found[self.stat_names.get(stat.metadata_id, "")] = value
        return found


def _names(entries: Sequence[bytes]) -> dict[int, str]:
    """A map from numbers to messages that have a name, from the bytes of its entries."""
    joined = _Joined(entries)
    found = joined.wire.scan(joined.begins, joined.ends, _ENTRY)
    named = joined.wire.scan(*found.spans["value"], _NAMED)
    texts = joined.texts(*named.spans["name"])
    return dict(zip(found.numbers["key"].tolist(), texts, strict=True))


class Space:
    """An XSpace, decoded as far as its planes."""

    def __init__(self, data: bytes) -> None:
        message = _Outline.FromString(data)
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

    def line_base_ns(self, line: Line) -> int:
        """The wall-clock time of a line's origin; some writers have it absolute already."""
        stamp = line.timestamp_ns
        return stamp if stamp > 10**17 else stamp + self.base_ns

    def devices(self) -> Iterator[Plane]:
        """The planes of accelerators."""
        return (p for p in self.planes if p.name.startswith("/device:"))
