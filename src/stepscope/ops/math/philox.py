"""TensorFlow's random numbers: Philox 4x32-10, a generator that is a function of a counter.

A 128-bit counter and a 64-bit key make a block of four 32-bit numbers; the next block is that of
the next counter. The key is an op's first seed, the upper half of the first counter its second one,
so that every place of every stream can be computed by itself:

    >>> Philox(87654321, 3).blocks(0, 2)
    array([[3534849767,  279844183,  888998500, 1099633400],
           [2034269327, 2125325156, 3357199136,  193165672]], dtype=uint32)
    >>> Philox(87654321, 3).skipped(1).blocks(0, 1)
    array([[2034269327, 2125325156, 3357199136,  193165672]], dtype=uint32)

What an op makes of the blocks is in `stepscope.ops.math.random`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_ROUNDS: Final = 10
_MULTIPLIERS: Final = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS: Final = 0x9E3779B9, 0xBB67AE85
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_AT_ONCE: Final = 8192
"""So many blocks at a time stay in the processor's cache."""


class Philox:
    """A place in one stream. It never changes: reading on is another one, `skipped`."""

    __slots__ = ("_counter", "_key")

    def __init__(self, seed: int, seed2: int) -> None:
        self._key = seed % 2**64
        self._counter = (seed2 % 2**64) << 64

    def skipped(self, blocks: int) -> Philox:
        """The stream from so many blocks further on."""
        other = Philox(self._key, 0)
        other._counter = (self._counter + blocks) % 2**128
        return other

    def blocks(self, first: int, count: int) -> Words:
        """Blocks as rows, from number `first` on."""
        return self.blocks_at(np.arange(first, first + count, dtype=np.uint64))

    def blocks_at(self, numbers: npt.NDArray[np.uint64]) -> Words:
        """The blocks of these numbers, as rows."""
        out = np.empty((len(numbers), 4), np.uint32)
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            self._fill(part, out[start : start + _AT_ONCE])
        return out

    def _fill(self, numbers: npt.NDArray[np.uint64], out: Words) -> None:
        low, high = self._counter & (2**64 - 1), self._counter >> 64
        lower = numbers + np.uint64(low)
        upper = np.full(len(numbers), high, np.uint64)
        upper += lower < np.uint64(low)  # what the lower half carried
        c0, c1 = lower & _LOW, lower >> _HALF
        c2, c3 = upper & _LOW, upper >> _HALF
        first, second, carried = np.empty_like(c0), np.empty_like(c0), np.empty_like(c0)
        key0, key1 = self._key & 0xFFFFFFFF, self._key >> 32
        for _ in range(_ROUNDS):
            np.multiply(c0, _MULTIPLIERS[0], out=first)
            np.multiply(c2, _MULTIPLIERS[1], out=second)
            c1 ^= np.right_shift(second, _HALF, out=carried)
            c1 ^= np.uint64(key0)
            c3 ^= np.right_shift(first, _HALF, out=carried)
            c3 ^= np.uint64(key1)
            first &= _LOW
            second &= _LOW
            c0, c1, c2, c3, first, second = c1, second, c3, first, c0, c2
            key0, key1 = (key0 + _KEY_STEPS[0]) % 2**32, (key1 + _KEY_STEPS[1]) % 2**32
        out[:, 0], out[:, 1], out[:, 2], out[:, 3] = c0, c1, c2, c3


class Samples:
    """One number after the other of a stream, as 32 bits."""

    __slots__ = ("_ahead", "_next", "_stream", "_words")

    def __init__(self, stream: Philox) -> None:
        self._stream = stream
        self._next = 0
        self._ahead = 16
        self._words: list[int] = []

    def __call__(self) -> int:
        """The next number.

        >>> take = Samples(Philox(87654321, 3))
        >>> [take() for _ in range(5)]
        [3534849767, 279844183, 888998500, 1099633400, 2034269327]
        """
        if not self._words:
            found: Any = self._stream.blocks(self._next, self._ahead)
            self._next += self._ahead
            self._ahead = min(4 * self._ahead, _AT_ONCE)
            self._words = found.reshape(-1)[::-1].tolist()
        return self._words.pop()
