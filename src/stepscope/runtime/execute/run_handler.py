"""The run-handler pool: one process-wide pool that serves concurrent runs by priority.

A run that asks for it (`experimental.use_run_handler_pool`) gets a handler; all its work is
submitted at the handler's rank, so that a free worker always takes the work of the run with the
highest priority, and among equals of the run that came first.
"""

from __future__ import annotations

import itertools
import os
import threading

from stepscope.runtime.execute.pools import Rank, Task, WorkerPool, default_size

_arrivals = itertools.count()
_pool: WorkerPool | None = None
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def hold_run_handler_pool(size: int = 0) -> WorkerPool:
    """The process-wide pool, held for one session; the first user's size stands."""
    global _pool
    with _lock:
        if _pool is None or _pool._users == 0:
            _pool = WorkerPool("run_handler", size or default_size())
        _pool.hold()
        return _pool


class RunHandler:
    """One run's access to the pool."""

    __slots__ = ("pool", "rank")

    def __init__(self, pool: WorkerPool, priority: int) -> None:
        self.pool = pool
        self.rank: Rank = (-priority, next(_arrivals))

    def submit(self, task: Task) -> None:
        self.pool.submit(task, self.rank)
