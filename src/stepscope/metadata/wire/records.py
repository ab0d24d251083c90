"""The record framing of TensorFlow's event files and of its TFRecord files.

A record is its length (8 bytes, little-endian), a checksum of those 8 bytes, the payload, and a
checksum of the payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from stepscope.errors import DataLossError
from stepscope.metadata.wire.checksums import masked_crc

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


def frame(payload: bytes) -> bytes:
    """The bytes of one record that holds `payload`."""
    length = _LENGTH.pack(len(payload))
    return b"".join(
        (
            length,
            _CHECKSUM.pack(masked_crc(length)),
            payload,
            _CHECKSUM.pack(masked_crc(payload)),
        )
    )


def records(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The payloads of a stream of records, one after the other.

    DataLossError, which says where, at the first one that is damaged or cut.

    >>> import io
    >>> list(records(io.BytesIO(frame(b"one") + frame(b"two")), "a file"))
    [b'one', b'two']
    """
    at = 0
    while head := stream.read(12):
        if len(head) < 12:
            raise DataLossError.without_op(f"truncated record at {at} of {name}")
        if masked_crc(head[:8]) != _CHECKSUM.unpack_from(head, 8)[0]:
            raise DataLossError.without_op(f"corrupted record at {at} of {name}")
        (length,) = _LENGTH.unpack_from(head)
        body = stream.read(length + 4)
        if len(body) < length + 4:
            raise DataLossError.without_op(f"truncated record at {at} of {name}")
        payload = body[:length]
        if masked_crc(payload) != _CHECKSUM.unpack_from(body, length)[0]:
            raise DataLossError.without_op(f"corrupted record at {at} of {name}")
        yield payload
        at += length + 16
