"""The threads of BLAS, which are the process's: how many there are, and who may set them.

Guarantees.
- `limit_blas_threads` (`intra_op_parallelism_threads`) sets them for the life of the process; the
  first caller's number stands.
- Runs whose ops multiply matrices side by side take a `share`: while any of them is under way, each
  product gets fewer threads, so that together they do not ask for more than the machine has. After
  the last one the number is what it was before, unless somebody else set another meanwhile: then
  theirs stands.
- Nothing is touched, nor looked for, before a run or a session needs it.
- The child of a fork has no runs under way: there the number is what it was before them.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class BlasThreads:
    """Who may use how many threads of BLAS right now. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] | None = None
        self._limit: int | None = None
        self._warned = False
        self._sharing: list[int] = []
        """The numbers that the runs under way asked for."""
        self._before: list[int] = []
        """What each library was set to before the first of them."""

    def count(self) -> int:
        """How many threads one matrix product may use when it is alone."""
        with self._lock:
            if self._sharing:
                return max(self._before, default=1)
            return self._now()

    def _now(self) -> int:
        found = [library.get_num_threads() for library in self._found()]
        # A BLAS that cannot be asked (Accelerate) takes what it likes.
        return max(found) if found else os.cpu_count() or 1

    def _found(self) -> list[Any]:
        if self._libraries is None:
            import threadpoolctl

            controller = threadpoolctl.ThreadpoolController()
            self._libraries = controller.select(user_api="blas").lib_controllers
        return self._libraries

    def limit(self, count: int) -> None:
        """Set BLAS to that many threads; the first caller's number stands."""
        with self._lock:
            if self._limit is None:
                self._limit = count
                self._before = [count] * len(self._before)
                for library in self._found():
                    library.set_num_threads(min([count, *self._sharing]))
            elif self._limit != count and not self._warned:
                self._warned = True
                warnings.warn(
                    f"intra_op_parallelism_threads={count} has no effect: BLAS threads are "
                    f"process-wide and an earlier session set {self._limit}.",
                    stacklevel=5,
                )

    @contextmanager
    def share(self, count: int) -> Iterator[None]:
        """While this lasts, products use at most that many threads each."""
        with self._lock:
            libraries = self._found()
            if not self._sharing:
                self._before = [library.get_num_threads() for library in libraries]
            self._sharing.append(count)
            self._set_shared(libraries)
        try:
            yield
        finally:
            with self._lock:
                mine = min(self._sharing)
                self._sharing.remove(count)
                for library, before in zip(libraries, self._before, strict=True):
                    if library.get_num_threads() != min(mine, before):
                        continue
                    library.set_num_threads(min([before, *self._sharing]))

    def after_fork(self) -> None:
        """Whoever shared was another thread of the parent, and is not here."""
        self._lock = threading.Lock()
        if self._sharing:
            self._sharing = []
            self._set_shared(self._found())

    def _set_shared(self, libraries: list[Any]) -> None:
        for library, before in zip(libraries, self._before, strict=True):
            wanted = min([before, *self._sharing])
            if library.get_num_threads() != wanted:
                library.set_num_threads(wanted)


BLAS = BlasThreads()
"""The process's."""
os.register_at_fork(after_in_child=BLAS.after_fork)
