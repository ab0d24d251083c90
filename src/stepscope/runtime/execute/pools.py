"""Worker threads: the inter-op pools of sessions.

Guarantees.
- A pool of size N has at most N threads that compute. A worker that waits inside an op (a blocked
  dequeue), or whose run gave up on it (a deadline passed while a Python op was running), does not
  count: another thread takes its place, so that no run starves behind a stuck one. When such a
  worker comes back and there are too many, one of them ends.
- Threads start on demand, are daemons, and end when the last session that uses the pool lets go.
- Tasks are taken in the order of their rank (first in, first out at equal rank).
- A task never raises; a pool that is let go still runs what was submitted before.
- After a fork the child has the same pools with no threads and no tasks in them, whatever the
  parent's were doing: its runs start threads of their own. A run that another thread of the parent
  had under way does not go on in the child.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Task = Callable[[], None]
Rank = tuple[int, int]
FIRST_COME: Rank = (0, 0)


class WorkerPool:
    """A pool of threads that run tasks by rank."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = max(1, size)
        self._order = itertools.count()
        self._names = itertools.count()
        self._closed = False
        self._users = 0
        self._empty()
        _all.add(self)

    def _empty(self) -> None:
        """No threads and no tasks: a new pool, or one in the child of a fork."""
        self._changed = threading.Condition(threading.Lock())
        self._tasks: list[tuple[Rank, int, Task]] = []
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._away: set[threading.Thread] = set()
        """Workers whose place may be taken; `_stuck` are those of them that nobody waits for."""
        self._stuck: set[threading.Thread] = set()

    def submit(self, task: Task, rank: Rank = FIRST_COME) -> None:
        """Run the task on a worker as soon as one is free."""
        with self._changed:
            heapq.heappush(self._tasks, (rank, next(self._order), task))
            self._wake_or_start()

    def _wake_or_start(self) -> None:
        if self._idle:
            self._changed.notify()
        # A worker that was woken counts as idle until it runs, so tasks are compared, too.
        if len(self._tasks) > self._idle and len(self._threads) - len(self._away) < self.size:
            number = next(self._names)
            thread = threading.Thread(
                target=self._work, name=f"stepscope/{self.name}/{number}", daemon=True
            )
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._away.discard(me)
                self._stuck.discard(me)
                while True:
                    too_many = len(self._threads) - len(self._away) > self.size
                    if too_many or (self._closed and not self._tasks):
                        self._threads.discard(me)
                        self._changed.notify_all()
                        return
                    if self._tasks:
                        break
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                _, _, task = heapq.heappop(self._tasks)
            task()
            del task

    @contextmanager
    def away(self) -> Iterator[None]:
        """Around a wait inside an op: this worker's place may be taken meanwhile."""
        me = threading.current_thread()
        with self._changed:
            self._leave(me)
        try:
            yield
        finally:
            with self._changed:
                self._away.discard(me)

    def give_up_on(self, thread: threading.Thread) -> None:
        """The worker is stuck in an op: let another take its place until it comes back."""
        with self._changed:
            if thread in self._threads:
                self._stuck.add(thread)
                self._leave(thread)
                if self._closed:
                    self._changed.notify_all()

    def _leave(self, thread: threading.Thread) -> None:
        self._away.add(thread)
        if self._tasks:
            self._wake_or_start()

    def hold(self) -> None:
        """One more user."""
        with self._changed:
            self._users += 1
            self._closed = False

    def release(self, timeout: float = 5.0) -> None:
        """One user less; after the last one the threads end, but for those stuck in an op."""
        with self._changed:
            self._users -= 1
            if self._users > 0:
                return
            self._closed = True
            self._changed.notify_all()
            me = threading.current_thread()
            before = set(self._threads)
            self._changed.wait_for(lambda: self._threads <= self._stuck | {me}, timeout)
            ending = before - self._threads
        for thread in ending:
            thread.join(timeout)

    @property
    def thread_count(self) -> int:
        with self._changed:
            return len(self._threads)

    def __repr__(self) -> str:
        return f"<WorkerPool {self.name!r} of {self.size}>"


_all: weakref.WeakSet[WorkerPool] = weakref.WeakSet()
_shared: dict[str, WorkerPool] = {}
_shared_lock = threading.Lock()


def _after_fork() -> None:
    """Only the thread that forked is here: the workers are gone, and locks they held stay held."""
    global _shared_lock
    _shared_lock = threading.Lock()
    for pool in list(_all):
        pool._empty()


os.register_at_fork(after_in_child=_after_fork)


def default_size() -> int:
    return max(2, os.cpu_count() or 2)


def shared_pool(name: str, size: int) -> WorkerPool:
    """The process-wide pool of that name, held for the caller; the first user's size stands."""
    with _shared_lock:
        pool = _shared.get(name)
        if pool is None or pool._users == 0:
            pool = _shared[name] = WorkerPool(name, size)
        pool.hold()
        return pool


def own_pool(name: str, size: int) -> WorkerPool:
    """A pool of one session, held for the caller."""
    pool = WorkerPool(name, size)
    pool.hold()
    return pool


class PoolSet:
    """The pools of one session, by the index that `inter_op_thread_pool` names."""

    def __init__(self, config: Any) -> None:
        default = config.inter_op_parallelism_threads
        self.runs_in_caller = default < 0
        self.has_own_pools = bool(config.session_inter_op_thread_pool)
        size = default if default > 0 else default_size()
        if self.has_own_pools:
            self.pools = [
                shared_pool(option.global_name, option.num_threads or size)
                if option.global_name
                else own_pool(f"pool{i}", option.num_threads or size)
                for i, option in enumerate(config.session_inter_op_thread_pool)
            ]
        elif config.use_per_session_threads:
            self.has_own_pools = True
            self.pools = [own_pool("session", size)]
        else:
            self.pools = [shared_pool("inter_op", size)]

    def release(self) -> None:
        for pool in self.pools:
            pool.release()
