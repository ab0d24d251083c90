"""The record framing of TensorFlow's event files (TFRecord).

A record is its length (8 bytes, little-endian), a checksum of those 8 bytes, the payload, and a
checksum of the payload.
"""

from __future__ import annotations

import struct

from stepscope.metadata.checksums import masked_crc

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
