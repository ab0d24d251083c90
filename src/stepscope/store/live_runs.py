"""`LiveRuns`: what a program is executing, and what is not in the store yet, outlives its process.

Each run of the embedded engine gets a piece of a file that is mapped into memory, beside the store.
Its executor writes there which ops began and ended, one store of a number each; whatever becomes of
the process, the kernel has it. When the run is over its piece is kept until the store has committed
the run, and serves another one then. The format is `stepscope.metadata.readers.live_file`'s.

Guarantees:

- disk space is reserved before it is written to, so that a full disk is no SIGBUS; where there is
  none, where the file cannot be made or has `MOST_BYTES`, and on systems other than Linux, runs are
  recorded without, and no error;
- nothing is ever unmapped: an op that was abandoned may write for as long as it likes. It writes to
  a piece that no other run gets;
- a fork of the process has memory of its own in place of the file, from its first moment on;
- the file is locked while the process lives (readers see by that whether it does), and removed by
  `close` unless it holds runs that nothing else has;
- no method waits for another thread, but for one that adds to the file.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from stepscope.metadata.readers import live_file as layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.metadata import GraphFacts

__all__ = ["MOST_BYTES", "LiveRun", "LiveRuns"]

MOST_BYTES: Final = 64 << 20
KEPT_RUNS: Final = 4096
KEPT_OPS: Final = 200_000
"""So many wait here to be stored, before the store is not to wait for more of them."""
_AT_ONCE: Final = 1 << 18
"""So many bytes are made ready at once at most: as many pieces as there are already, up to that.
A piece is made of them when a run needs it: until then they are zeros."""
_HIGH: Final = 200
"""Where our file descriptor is: those of the script have the numbers they have without us."""
_PROT_READ_WRITE: Final = 3
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS = 0x01, 0x02, 0x10, 0x20
_FAILED: Final = ctypes.c_void_p(-1).value


class LiveRun:
    """The piece of one run. An executor calls `fresh_marks` or `fresh_rows`, then `began`."""

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size
        self.step_id = 0
        words = self._words = _words(address, size // 8)
        words[1], words[2] = layout.RUN, size
        words[0] = layout.MARK
        self.count = 0
        self._marks: dict[int, Any] = {}

    def take(self, place: int, step_id: int, thread: int, offset: int, count: int) -> None:
        """Belong to a run from now on."""
        words = self._words
        self.step_id, self.count = step_id, count
        words[layout.PLACE], words[layout.STEP_ID] = place, step_id
        words[layout.THREAD], words[layout.OFFSET] = thread, offset
        words[layout.BEGAN] = words[layout.ENDED] = words[layout.CODE] = 0
        words[layout.COUNT] = count

    def fresh_marks(self) -> Any:
        """An array, all 0, for the clock at the end of each position."""
        marks = self._marks.get(self.count)
        if marks is None:
            first = self.address + 8 * layout.FIRST
            marks = self._marks[self.count] = _words(first, self.count)
        self._clear(1)
        return marks

    def fresh_rows(self) -> tuple[Any, Any, Any]:
        """Arrays, all 0, for thread, start and end of each position."""
        self._clear(3)
        first = self.address + 8 * layout.FIRST
        threads, starts, ends = (_words(first + 8 * n * self.count, self.count) for n in range(3))
        return threads, starts, ends

    def _clear(self, columns: int) -> None:
        self._words[layout.STATE] = layout.FREE
        ctypes.memset(self.address + 8 * layout.FIRST, 0, 8 * columns * self.count)
        self._words[layout.STATE] = layout.UNDER_WAY

    def began(self, clock: int) -> None:
        """The first op begins now."""
        self._words[layout.BEGAN] = clock

    def over(self, clock: int, code: int) -> None:
        """The run ended, with this code."""
        words = self._words
        words[layout.ENDED], words[layout.CODE] = clock, code
        words[layout.STATE] = layout.OVER

    def free(self) -> None:
        """The run is somewhere else, or nobody wants it."""
        self._words[layout.STATE] = layout.FREE


class LiveRuns:
    """The file beside one store; made when the first run begins. Methods are for any thread."""

    def __init__(self, store: Path) -> None:
        self.path = Path(f"{store.absolute()}{layout.SUFFIX}")
        self._lock = threading.RLock()
        self._file = -1
        self._identity = (0, 0)
        self._end = 0
        self._over = not sys.platform.startswith("linux")
        self._mapped: list[tuple[int, int]] = []
        """Where what is mapped lies, and its bytes."""
        self._made: Counter[int] = Counter()
        """How many pieces there are, by their bytes."""
        self._plans: WeakKeyDictionary[GraphFacts, dict[tuple[int, int], int]] = WeakKeyDictionary()
        # Changed without a lock, in single steps: a signal's handler may call `close` at any time,
        # and waits for the thread of the store, which calls `stored`.
        self._free: defaultdict[int, deque[LiveRun]] = defaultdict(deque)
        self._unused: defaultdict[int, deque[int]] = defaultdict(deque)
        """Where there is room for pieces that no run had yet, by their bytes."""
        self._under_way: set[LiveRun] = set()
        self._ended: dict[int, tuple[LiveRun, bool]] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def begin(
        self,
        facts: GraphFacts,
        nodes: NDArray[np.intp],
        *,
        in_order: bool,
        step_id: int,
        thread: int,
        offset: int,
    ) -> LiveRun | None:
        """A piece for a run whose positions are these nodes; None where there can be none.

        With `in_order` it is for `fresh_marks`, else for `fresh_rows`. `offset` makes wall-clock
        times of the clock's.
        """
        if self._over:
            return None
        kind = layout.MARKS if in_order else layout.ROWS
        try:
            plans = self._plans.get(facts)
            place = None if plans is None else plans.get((kind, len(nodes)))
            if place is None:
                place = self._add_plan(facts, nodes, kind)
            run = self._piece(8 * (layout.FIRST + len(nodes) * (1 if in_order else 3)))
        except (OSError, MemoryError):
            # No room: what is there stays, and nothing more is tried.
            self._over = True
            return None
        if run is not None:
            run.take(place, step_id, thread, offset, len(nodes))
            self._under_way.add(run)
        return run

    def end(self, run: LiveRun, clock: int, code: int, *, abandoned: bool) -> None:
        """The run is over, and will be stored or forgotten; something of it may still execute."""
        run.over(clock, code)
        self._ended[run.step_id] = (run, abandoned)
        self._under_way.discard(run)

    def kept(self, step_id: int) -> float:
        """Which share that run, which ended, has of what may wait here; 0 where it does not."""
        run, _ = self._ended.get(step_id, (None, False))
        return max(1 / KEPT_RUNS, run.count / KEPT_OPS) if run is not None else 0

    def stored(self, step_ids: Iterable[int]) -> None:
        """These runs are in the store, or nobody wants them there."""
        for step_id in step_ids:
            run, abandoned = self._ended.pop(step_id, (None, False))
            if run is not None:
                run.free()
                if not abandoned:
                    self._free[run.size].append(run)

    def close(self) -> None:
        """Remove the file, unless a run is under way, or ended and could not be stored."""
        self._over = True
        if self._file >= 0 and not self._under_way and not self._ended:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    # -- the file ------------------------------------------------------------------------------

    def _add_plan(self, facts: GraphFacts, nodes: NDArray[np.intp], kind: int) -> int:
        block = layout.plan_block(facts, nodes, kind)
        with self._lock:
            place = self._reserve(len(block))
            os.pwrite(self._file, block, place)
            self._plans.setdefault(facts, {})[kind, len(nodes)] = place
        return place

    def _piece(self, size: int) -> LiveRun | None:
        size = max(layout.UNIT, 1 << (size - 1).bit_length())
        free, unused = self._free[size], self._unused[size]
        # Another thread may take the last one between the two.
        try:
            return free.popleft() if free else LiveRun(unused.popleft(), size)
        except IndexError:
            pass
        with self._lock:
            least = max(1, layout.PAGE // size)
            if self._end + least * size > MOST_BYTES:
                return None
            room = min(_AT_ONCE, MOST_BYTES - self._end) // size
            count = max(least, min(self._made[size], room // least * least))
            place = self._reserve(count * size)
            address = _mapped(None, count * size, _MAP_SHARED, self._file, place)
            self._mapped.append((address, count * size))
            self._made[size] += count
            unused.extend(range(address + size, address + count * size, size))
            return LiveRun(address, size)

    def _reserve(self, size: int) -> int:
        """Add so many bytes to the file; where they begin."""
        if self._file < 0:
            self._open()
        found = os.fstat(self._file)
        if (found.st_dev, found.st_ino) != self._identity:
            raise OSError("the script closed the file, and its number is another one's")
        place = self._end
        os.posix_fallocate(self._file, place, size)
        self._end += size
        return place

    def _open(self) -> None:
        import fcntl

        low = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            file = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        finally:
            os.close(low)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(file)
        self._identity = (found.st_dev, found.st_ino)
        self._file = file

    def _forked(self) -> None:
        """This is a fork: what it writes is its own, and goes nowhere."""
        self._over = True
        for address, size in self._mapped:
            with suppress(OSError):
                _mapped(address, size, _MAP_PRIVATE | _MAP_FIXED | _MAP_ANONYMOUS, -1, 0)
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1


def _words(address: int, count: int) -> Any:
    return (ctypes.c_int64 * count).from_address(address)


@functools.cache
def _mmap() -> Any:
    mmap = ctypes.CDLL(None, use_errno=True).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    return mmap


def _mapped(address: int | None, size: int, how: int, file: int, place: int) -> int:
    found: int = _mmap()(address, size, _PROT_READ_WRITE, how, file, place)
    if found == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    return found
