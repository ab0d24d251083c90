"""What can be saved of damaged protobuf bytes: everything whole before the damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory

from stepscope._messages import DecodeError

__all__ = ["Salvage", "salvage"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT = 10


@dataclass(frozen=True, slots=True)
class Salvage:
    """`data` parses; it is what stood before `offset`, where `where` (a field's path) broke."""

    data: bytes
    offset: int
    where: str


class _DamageError(Exception):
    """The bytes end, or make no sense, at this place."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT):
        if at + index >= len(data):
            raise _DamageError
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise _DamageError


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _end_of(data: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """Where the content of a field starts and ends; it may end beyond the data."""
    if wire_type == _VARINT:
        return at, _varint(data, at)[1]
    if wire_type == _FIXED64:
        return at, at + 8
    if wire_type == _FIXED32:
        return at, at + 4
    if wire_type == _BYTES:
        length, start = _varint(data, at)
        return start, start + length
    raise _DamageError


def _parses(descriptor: Any, data: bytes) -> bool:
    try:
        message_factory.GetMessageClass(descriptor)().ParseFromString(data)
    except DecodeError:
        return False
    return True


def salvage(data: bytes, descriptor: Any, containers: frozenset[str]) -> Salvage:
    """Keep every field that stands whole before the damage, and nothing after it.

    Of a broken field whose message is one of `containers`, its whole parts are kept; any other
    message is kept whole or not at all, because half of a row would be a wrong row. Call it on
    bytes that do not parse as the message that `descriptor` describes.
    """
    kept = bytearray()
    at = 0
    where = str(descriptor.name)
    while at < len(data):
        begin = at
        try:
            tag, content_at = _varint(data, begin)
            content, end = _end_of(data, content_at, tag & 7)
        except _DamageError:
            return Salvage(bytes(kept), begin, where)
        field = descriptor.fields_by_number.get(tag >> 3)
        inner = None
        if field is not None and tag & 7 == _BYTES:
            where = f"{descriptor.name}.{field.name}"
            inner = field.message_type
        whole = end <= len(data)
        piece = data[begin:end]
        if whole and _parses(descriptor, piece):
            kept += piece
            at = end
            continue
        if inner is None or inner.name not in containers:
            return Salvage(bytes(kept), begin, where)
        part = salvage(data[content : min(end, len(data))], inner, containers)
        if part.data:
            kept += data[begin:content_at] + _encode_varint(len(part.data)) + part.data
        return Salvage(bytes(kept), content + part.offset, part.where)
    return Salvage(bytes(kept), at, where)
