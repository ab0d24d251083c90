"""Images as PNG files: eight bits a channel, one filter, zlib."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from stepscope.graph.dtypes import Array

_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode_png(pixels: Array) -> bytes:
    """Bytes of shape (height, width, 1 or 3 or 4 channels) as the contents of a PNG file."""
    height, width, channels = pixels.shape
    # Each line begins with the number of its filter: 0, the bytes themselves.
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
