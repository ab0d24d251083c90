"""Hashes of bytes, the same numbers as TensorFlow's: FarmHash, SipHash and its own older one.

>>> farm_fingerprint(b"hello"), sip_hash(b"hello", (1, 2)), old_hash(b"hello")
(13009744463427800296, 2957200328589801622, 5943547241907780938)
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["farm_fingerprint", "old_hash", "sip_hash"]

_MASK: Final = (1 << 64) - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
Pair = tuple[int, int]


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _half(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _right(value: int, by: int) -> int:
    """The 64 bits turned round to the right; what is above them is dropped before."""
    value &= _MASK
    return (value >> by | value << (64 - by)) & _MASK


def _mixed(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _two(u: int, v: int, factor: int) -> int:
    """Two words as one."""
    first = _mixed((u ^ v) * factor)
    return _mixed((v ^ first) * factor) * factor & _MASK


def farm_fingerprint(data: bytes) -> int:
    """FarmHash's `Fingerprint64`, which is the same on all machines and for good."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data, size)
    if size <= 32:
        return _up_to_32(data, size)
    return _up_to_64(data, size) if size <= 64 else _longer(data, size)


def _up_to_16(data: bytes, size: int) -> int:
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _word(data, 0) + _K2, _word(data, size - 8)
        c = (_right(b, 37) * factor + a) & _MASK
        return _two(c, (_right(a, 25) + b) * factor & _MASK, factor)
    if size >= 4:
        return _two(size + (_half(data, 0) << 3), _half(data, size - 4), factor)
    if size > 0:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return _mixed(y * _K2 ^ z * _K0) * _K2 & _MASK
    return _K2


def _ends(data: bytes, size: int, factor: int, scale: int) -> Pair:
    """What strings of 17 to 64 bytes have in common: two words of their first and last 16."""
    a, b = _word(data, 0) * scale, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    return (_right(a + b, 43) + _right(c, 30) + d) & _MASK, (a + _right(b + _K2, 18) + c) & _MASK


def _up_to_32(data: bytes, size: int) -> int:
    factor = _K2 + size * 2
    return _two(*_ends(data, size, factor, _K1), factor)


def _up_to_64(data: bytes, size: int) -> int:
    factor = _K2 + size * 2
    y, second = _ends(data, size, factor, _K2)
    z = _two(y, second, factor)
    a = _word(data, 0) * _K2
    e, f = _word(data, 16) * factor, _word(data, 24)
    g, h = (y + _word(data, size - 32)) * factor, (z + _word(data, size - 24)) * factor
    first = (_right(e + f, 43) + _right(g, 30) + h) & _MASK
    return _two(first, (e + _right(f + a, 18) + g) & _MASK, factor)


def _weak(data: bytes, at: int, a: int, b: int) -> Pair:
    """32 bytes and two seeds as two words."""
    w, x, y, z = struct.unpack_from("<4Q", data, at)
    a += w
    b = _right(b + a + z, 21)
    first = a
    a += x + y
    return (a + z) & _MASK, (b + _right(a, 44) + first) & _MASK


def _longer(data: bytes, size: int) -> int:
    x, y = 81, (81 * _K1 + 113) & _MASK
    z = _mixed(y * _K2 + 113) * _K2 & _MASK
    v: Pair = (0, 0)
    w: Pair = (0, 0)
    x = (x * _K2 + _word(data, 0)) & _MASK
    for at in range(0, (size - 1) // 64 * 64, 64):
        x = _right(x + y + v[0] + _word(data, at + 8), 37) * _K1 ^ w[1]
        y = _right(y + v[1] + _word(data, at + 48), 42) * _K1 + v[0] + _word(data, at + 40)
        z = _right(z + w[0], 33) * _K1
        v = _weak(data, at, v[1] * _K1, x + w[0])
        w = _weak(data, at + 32, z + w[1], y + _word(data, at + 16))
        x, y, z = z & _MASK, y & _MASK, x & _MASK
    factor, at = _K1 + ((z & 0xFF) << 1), size - 64
    w = (w[0] + (size - 1 & 63), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x = _right(x + y + v[0] + _word(data, at + 8), 37) * factor ^ w[1] * 9
    y = _right(y + v[1] + _word(data, at + 48), 42) * factor + v[0] * 9 + _word(data, at + 40)
    z = _right(z + w[0], 33) * factor
    v = _weak(data, at, v[1] * factor, x + w[0])
    w = _weak(data, at + 32, z + w[1], y + _word(data, at + 16))
    first = _two(v[0], w[0], factor) + _mixed(y) * _K0 + x
    return _two(first & _MASK, (_two(v[1], w[1], factor) + z) & _MASK, factor)


# -- SipHash -----------------------------------------------------------------------------------


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0, v2 = (v0 + v1) & _MASK, (v2 + v3) & _MASK
    v1, v3 = _right(v1, 51) ^ v0, _right(v3, 48) ^ v2
    v0 = _right(v0, 32)
    v2, v0 = (v2 + v1) & _MASK, (v0 + v3) & _MASK
    v1, v3 = _right(v1, 47) ^ v2, _right(v3, 43) ^ v0
    return v0, v1, _right(v2, 32), v3


def sip_hash(data: bytes, key: Pair) -> int:
    """SipHash-2-4 with a key of two words."""
    a, b = key[0] & _MASK, key[1] & _MASK
    state = (
        a ^ 0x736F6D6570736575,
        b ^ 0x646F72616E646F6D,
        a ^ 0x6C7967656E657261,
        b ^ 0x7465646279746573,
    )
    whole = len(data) // 8 * 8
    last = data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", data[:whole] + last):
        v0, v1, v2, v3 = _round(*_round(*state[:3], state[3] ^ word))
        state = (v0 ^ word, v1, v2, v3)
    v0, v1, v2, v3 = state
    v2 ^= 0xFF
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


# -- TensorFlow's own --------------------------------------------------------------------------


def old_hash(data: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """MurmurHash64A, which `tf.string_to_hash_bucket` has of old."""
    factor = 0xC6A4A7935BD1E995
    found = seed ^ (len(data) * factor & _MASK)
    whole = len(data) // 8 * 8
    for (word,) in struct.iter_unpack("<Q", data[:whole]):
        word = word * factor & _MASK
        found = (found ^ (word ^ word >> 47) * factor & _MASK) * factor & _MASK
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * factor & _MASK
    return _mixed(_mixed(found) * factor)
