"""CRC-32C, and the masked form in which TensorFlow's files hold it.

Masked means rotated and offset, so that a checksum of data that itself holds checksums stays
useful.
"""

from __future__ import annotations

import google_crc32c


def extended(crc: int, data: bytes) -> int:
    """The CRC-32C of all data so far, whose checksum is `crc` (0 at the beginning), and `data`."""
    result: int = google_crc32c.extend(crc, data)
    return result


def masked(crc: int) -> int:
    """A CRC-32C as it stands in a file."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def masked_crc(data: bytes) -> int:
    """The masked CRC-32C of `data`."""
    return masked(extended(0, data))
