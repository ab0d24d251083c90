"""Kernels that spread their work over the cores by themselves.

A kernel that is much work, but not one large product (a convolution goes over the images in pieces
that stay in the cache), gains little from BLAS's own threads: they meet after each piece, and wait
for each other actively, which takes the core from whoever else could use it. Such a kernel has its
pieces taken by as many threads as `cores_here()` says, each with one BLAS thread.

Guarantees.
- `spread` returns when every piece is done, or the first error is there and no piece is under way.
- The threads that help end with the call. They begin anew each time, which takes some 50
  microseconds: it is for work of a millisecond and more.
- How many threads an op may use is decided by whoever executes it (`running.cores`); where nobody
  says anything, the answer is one.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np

from stepscope.graph.dtypes import Array
from stepscope.ops.resources import running

_T = TypeVar("_T")
SCRATCH_BYTES: Final = 2 << 20
"""How much of what is laid out for a product is there at a time: it fits into a core's cache."""
_STRETCH_BYTES: Final = 4 << 20
_WORTH_A_THREAD: Final = 8 << 20


def cores_here() -> int:
    """How many threads the op that this thread executes may use by itself."""
    return running.cores


def spread(pieces: Iterable[_T], work: Callable[[_T], object], threads: int | None = None) -> None:
    """Call `work` with each piece; several at a time where this thread's op may use more cores.

    Example:
        >>> done = []
        >>> spread(range(3), done.append)
        >>> done
        [0, 1, 2]
    """
    count = cores_here() if threads is None else threads
    if count <= 1:
        for piece in pieces:
            work(piece)
        return
    _Spread(iter(pieces), work).run(count)


def spread_over_first_axis(arrays: Sequence[Array], work: Callable[..., object]) -> None:
    """Call `work` with the same stretch of each array, a few megabytes long.

    Example:
        >>> a = np.arange(4.0)
        >>> spread_over_first_axis([a, a], lambda x, y: np.add(x, 1, y))
        >>> a
        array([1., 2., 3., 4.])
    """
    length, total = len(arrays[0]), sum(a.nbytes for a in arrays)
    threads = cores_here() if total >= _WORTH_A_THREAD else 1
    # Few stretches: between calls of NumPy threads take turns, which costs more than it gains.
    count = max(threads, total // _STRETCH_BYTES)
    each = max(1, -(-length // count))
    spread(range(0, length, each), lambda at: work(*[a[at : at + each] for a in arrays]), threads)


class _Spread:
    """Pieces that several threads take, one by one."""

    def __init__(self, pieces: Iterator[Any], work: Callable[[Any], object]) -> None:
        self._pieces = pieces
        self._work = work
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def run(self, count: int) -> None:
        others = [
            threading.Thread(target=self._help, name="stepscope spread", daemon=True)
            for _ in range(count - 1)
        ]
        for other in others:
            other.start()
        try:
            self._take()
        except BaseException as error:  # noqa: BLE001 - raised below, when nobody works any more
            self._failed(error)
        for other in others:
            self._wait_for(other)
        failure, self._error = self._error, None
        if failure is not None:
            raise failure

    def _wait_for(self, other: threading.Thread) -> None:
        while other.is_alive():
            try:
                other.join()
            except BaseException as error:  # noqa: BLE001 - a KeyboardInterrupt: buffers are in use
                self._failed(error)

    def _help(self) -> None:
        try:
            with np.errstate(all="ignore"):
                self._take()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._failed(error)

    def _take(self) -> None:
        while True:
            with self._lock:
                piece = None if self._error is not None else next(self._pieces, None)
            if piece is None:
                return
            self._work(piece)

    def _failed(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None:
                self._error = error


_idle: deque[Any] = deque()
"""Scratch memory that nobody uses."""
_MOST_IDLE: Final = 4


@contextmanager
def scratch(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Array]:
    """Memory for something that ends with this block, up to `SCRATCH_BYTES`; it is kept then.

    Example:
        >>> with scratch((2, 3), np.dtype(np.float32)) as matrix:
        ...     matrix.shape
        (2, 3)
    """
    size = math.prod(shape) * dtype.itemsize
    if size > SCRATCH_BYTES:
        yield np.empty(shape, dtype)
        return
    try:
        memory = _idle.pop()
    except IndexError:
        memory = np.empty(SCRATCH_BYTES, np.uint8)
    try:
        yield memory[:size].view(dtype).reshape(shape)
    finally:
        if len(_idle) < _MOST_IDLE:
            _idle.append(memory)
