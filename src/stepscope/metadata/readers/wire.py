"""What can be saved of damaged protobuf bytes: everything whole before the damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory

from stepscope._messages import DecodeError
from stepscope.metadata.wire.wire_scan import WireDamageError, fields_of

__all__ = ["Salvage", "parses_in_parts", "salvage"]

_LENGTH = 2
_BATCH = 1 << 20


@dataclass(frozen=True, slots=True)
class Salvage:
    """`data` parses; it is what stood before `offset`, where `where` (a field's path) broke."""

    data: bytes
    offset: int
    where: str


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _parses(descriptor: Any, data: bytes) -> bool:
    try:
        message_factory.GetMessageClass(descriptor)().ParseFromString(data)
    except DecodeError:
        return False
    return True


def _batches(data: bytes, at: int, end: int) -> tuple[list[tuple[int, int]], int]:
    """Whole fields in stretches of about a megabyte each, and where they end.

    Fields one after the other are a message again, so a stretch can be parsed by itself.
    """
    stretches = []
    begin = at
    try:
        while at < end:
            stop = _end_of(data, at, end)
            if stop > end:
                break
            at = stop
            if at - begin >= _BATCH:
                stretches.append((begin, at))
                begin = at
    except (WireDamageError, IndexError):
        pass
    if at > begin:
        stretches.append((begin, at))
    return stretches, at


def _end_of(data: bytes, at: int, end: int) -> int:
    """Where the field that begins here ends; quick for entries of fewer than 16 KiB."""
    if data[at] & 0x87 == _LENGTH and data[at] > _LENGTH:
        length = data[at + 1]
        if length < 0x80:
            return at + 2 + length
        if data[at + 2] < 0x80:
            return at + 3 + length - 0x80 + (data[at + 2] << 7)
    found = next(fields_of(data, at, end), None)
    return end if found is None else found[4]


def parses_in_parts(data: bytes, descriptor: Any, containers: frozenset[str]) -> bool:
    """Whether protobuf reads the bytes, found out with a small part of them parsed at a time."""
    try:
        fields = list(fields_of(data, 0, len(data)))
    except WireDamageError:
        return False
    begin = 0
    for number, wire_type, _, content, stop in fields:
        field = descriptor.fields_by_number.get(number)
        inner = field.message_type if field is not None and wire_type == _LENGTH else None
        if inner is not None and inner.name in containers and stop - content > _BATCH:
            stretches, whole = _batches(data, content, stop)
            if whole != stop or not all(_parses(inner, data[a:b]) for a, b in stretches):
                return False
        elif not _parses(descriptor, data[begin:stop]):
            return False
        begin = stop
    return True


def salvage(data: bytes, descriptor: Any, containers: frozenset[str]) -> Salvage:
    """Keep every field that stands whole before the damage, and nothing after it.

    Of a broken field whose message is one of `containers`, its whole parts are kept; any other
    message is kept whole or not at all, because half of a row would be a wrong row. Call it on
    bytes that do not parse as the message that `descriptor` describes.
    """
    kept = bytearray()
    stretches, _ = _batches(data, 0, len(data))
    at = 0
    for begin, stop in stretches:
        if not _parses(descriptor, data[begin:stop]):
            break
        kept += data[begin:stop]
        at = stop
    where = str(descriptor.name)
    while at < len(data):
        begin = at
        head = _head(data, begin)
        if head is None:
            return Salvage(bytes(kept), begin, where)
        number, wire_type, content, end = head
        field = descriptor.fields_by_number.get(number)
        inner = None
        if field is not None and wire_type == _LENGTH:
            where = f"{descriptor.name}.{field.name}"
            inner = field.message_type
        if end <= len(data) and _parses(descriptor, data[begin:end]):
            kept += data[begin:end]
            at = end
            continue
        if inner is None or inner.name not in containers:
            return Salvage(bytes(kept), begin, where)
        part = salvage(data[content : min(end, len(data))], inner, containers)
        if part.data:
            kept += _encode_varint(number << 3 | _LENGTH)
            kept += _encode_varint(len(part.data)) + part.data
        return Salvage(bytes(kept), content + part.offset, part.where)
    return Salvage(bytes(kept), at, where)


def _head(data: bytes, at: int) -> tuple[int, int, int, int] | None:
    """Number, wire type, content and end of a field, which may end beyond the data."""
    try:
        number, wire_type, _, start, stop = next(fields_of(data, at, len(data)))
    except StopIteration:
        return None
    except WireDamageError:
        return _cut_head(data, at)
    return number, wire_type, start, stop


def _cut_head(data: bytes, at: int) -> tuple[int, int, int, int] | None:
    """The head of a field with a length whose content is cut."""
    place, values = at, []
    for _ in range(2):
        value = shift = 0
        for byte in data[place : place + 10]:
            value |= (byte & 0x7F) << shift
            shift += 7
            place += 1
            if byte < 0x80:
                break
        else:
            return None
        values.append((value, place))
    (tag, _), (length, content) = values
    if tag & 7 != _LENGTH or not tag >> 3:
        return None
    return tag >> 3, _LENGTH, content, content + length
