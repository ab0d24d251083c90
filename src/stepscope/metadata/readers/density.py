"""Bytes that are small on disk and large in memory.

An entry without content takes two bytes of a protobuf message and a hundred of memory. Recordings
have hardly any; a file that consists of them was made to do harm, and is refused before it is read.
"""

from __future__ import annotations

import numpy as np

__all__ = ["is_hollow"]

_ENTRIES = 100_000
_SHARE = 4
_WIRE_TYPE, _LENGTH = 7, 2
_STRETCH = 1 << 22


def is_hollow(data: bytes) -> bool:
    """Whether more than half of the bytes are entries without content, and many of them."""
    if len(data) < 2 * _ENTRIES:
        return False
    hollow = 0
    everything = np.frombuffer(data, np.uint8)
    for at in range(0, len(data), _STRETCH):
        part = everything[at : at + _STRETCH + 1]
        empty = (part[:-1] & _WIRE_TYPE == _LENGTH) & (part[1:] == 0)
        hollow += int(np.count_nonzero(empty))
    return hollow > _ENTRIES and hollow * _SHARE > len(data)
