"""The record framing of TensorFlow's event files (TFRecord).

A record is its length (8 bytes, little-endian), a checksum of those 8 bytes, the payload, and a
checksum of the payload. Checksums are CRC-32C, rotated and offset so that a checksum of data that
itself holds checksums stays useful.
"""

from __future__ import annotations

import struct

import google_crc32c

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


def masked_crc(data: bytes) -> int:
    """The CRC-32C of `data`, masked as record framing wants it."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
