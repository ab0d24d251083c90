"""The memory of one session: limits by device, what runs hold of it, and buffers kept for reuse.

Guarantees. Live bytes of a device are what variables and queues hold, plus what each run under way
holds: a run that counts its ops with what they hold right now, a run that was admitted as a whole
with its peak, from its beginning to its end. No request that would take the live bytes of a device
above its limit is granted. Buffers kept for reuse are not live; they are given back before a
request is refused, and when the machine has no more. Thread-safe.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.ops.resources import Holding, ResourceStore
from stepscope.runtime.memory.buffers import MAX_IDLE_BUFFERS, BufferCache

_MAX_CACHED: Final = 2 * MAX_IDLE_BUFFERS
"""More than a session ever keeps for reuse."""


class KeepsBuffers(Protocol):
    """A program with buffers of its own."""

    last_used: int

    def idle_bytes(self) -> int: ...

    def give_back(self) -> int:
        """Let go of the idle buffers; how many bytes that were."""
        ...


class RunAccount:
    """What one run holds, as far as limits are concerned."""

    def __init__(self, allocator: Allocator, rows: Callable[[], AllocationColumns]) -> None:
        self._allocator = allocator
        self.held: dict[str, int] = {}
        self.rows = rows
        """The allocations that make up `held`, for a report."""

    def charge(self, device: str, size: int) -> bool:
        """Take so many bytes; False if the device's limit has no room for them."""
        return self._allocator._charge(self, device, size)

    def release(self, device: str, size: int) -> None:
        self._allocator._release(self, device, size)

    def close(self) -> None:
        """Give everything back."""
        self._allocator._close(self)
        self.rows = AllocationColumns.empty


class Allocator:
    """A session's limits, the accounts of its runs, and its buffers for reuse."""

    def __init__(
        self, resources: ResourceStore, limits: Mapping[str, int], cache: BufferCache
    ) -> None:
        self.limits = dict(limits)
        self.cache = cache
        self._resources = resources
        self._held = resources.held
        self._held.fits = self.has_room
        self._lock = threading.Lock()
        self._used: dict[str, int] = dict.fromkeys(limits, 0)
        self._accounts: set[RunAccount] = set()
        self._keepers: weakref.WeakSet[KeepsBuffers] = weakref.WeakSet()

    # -- what is live --------------------------------------------------------------------------

    def holdings(self) -> list[Holding]:
        """What variables and queues hold."""
        return self._resources.holdings()

    def holdings_by_op(self) -> dict[str, int]:
        """Bytes that variables and queues hold, by the op that made them."""
        found: dict[str, int] = {}
        for h in self.holdings():
            found[h.op] = found.get(h.op, 0) + h.bytes
        return found

    @property
    def changes(self) -> int:
        """Moves on whenever variables or queues hold more or less."""
        return self._held.changes

    def live(self, device: str) -> int:
        """Bytes live on a device that has a limit."""
        with self._lock:
            return self._held.on(device) + self._used.get(device, 0)

    def has_room(self, device: str, size: int) -> bool:
        """Whether the device's limit, if it has one, has room for so many bytes more."""
        limit = self.limits.get(device)
        return limit is None or self.live(device) + size <= limit

    def others(self, mine: RunAccount | None) -> list[RunAccount]:
        """The accounts of the other runs under way."""
        with self._lock:
            return [a for a in self._accounts if a is not mine]

    # -- runs ----------------------------------------------------------------------------------

    def open(self, rows: Callable[[], AllocationColumns]) -> RunAccount:
        """An account for a run that is charged op by op."""
        account = RunAccount(self, rows)
        with self._lock:
            self._accounts.add(account)
        return account

    def admit(
        self, bound: Mapping[str, int], rows: Callable[[], AllocationColumns]
    ) -> RunAccount | None:
        """An account that holds `bound` (by device) until it is closed; None if it may not fit."""
        account = RunAccount(self, rows)
        with self._lock:
            room = _MAX_CACHED
            for device, limit in self.limits.items():
                wanted = bound.get(device, 0)
                left = limit - self._held.on(device) - self._used[device] - wanted
                if left < 0:
                    return None
                room = min(room, left)
            for device in self.limits:
                account.held[device] = bound.get(device, 0)
                self._used[device] += account.held[device]
            self._accounts.add(account)
        if room < _MAX_CACHED:
            self._make_room()
        return account

    def _charge(self, account: RunAccount, device: str, size: int) -> bool:
        limit = self.limits.get(device)
        if limit is None:
            return True
        with self._lock:
            used = self._held.on(device) + self._used[device]
            if used + size > limit:
                return False
            self._used[device] += size
            account.held[device] = account.held.get(device, 0) + size
        return True

    def _release(self, account: RunAccount, device: str, size: int) -> None:
        if device not in self.limits:
            return
        with self._lock:
            self._used[device] -= size
            account.held[device] -= size

    def _close(self, account: RunAccount) -> None:
        with self._lock:
            if account not in self._accounts:
                return
            self._accounts.discard(account)
            for device, size in account.held.items():
                self._used[device] -= size
            account.held = {}

    # -- buffers kept for reuse ----------------------------------------------------------------

    def keeps_buffers(self, keeper: KeepsBuffers, size: int) -> None:
        """A program is about to allocate buffers: make room among the idle ones of others."""
        with self._lock:
            self._keepers.add(keeper)
            keepers = list(self._keepers)
        self._shrink(keepers, keeper, max(0, MAX_IDLE_BUFFERS - size))

    def _shrink(
        self, keepers: Iterable[KeepsBuffers], user: KeepsBuffers | None, most: int
    ) -> None:
        sizes = [(k, k.idle_bytes()) for k in keepers]
        total = sum(size for _, size in sizes)
        for keeper, size in sorted(sizes, key=lambda pair: pair[0].last_used):
            if total <= most:
                return
            if keeper is not user:
                keeper.give_back()
                total -= size

    def _make_room(self) -> None:
        """Under a limit, live and cached bytes together stay below it where they can."""
        room = sum(max(0, limit - self.live(device)) for device, limit in self.limits.items())
        if self.cached_bytes > room:
            self.cache.shrink(room)
            with self._lock:
                keepers = list(self._keepers)
            self._shrink(keepers, None, room)

    @property
    def cached_bytes(self) -> int:
        """Bytes kept for reuse and used by nothing."""
        with self._lock:
            keepers = list(self._keepers)
        return self.cache.cached_bytes + sum(k.idle_bytes() for k in keepers)

    def give_back(self) -> int:
        """Let go of every buffer that is kept for reuse; how many bytes that were."""
        with self._lock:
            keepers = list(self._keepers)
        return self.cache.shrink(0) + sum(k.give_back() for k in keepers)


def allocating(allocator: Allocator, make: Callable[[], Any]) -> Any:
    """What `make` makes; if the machine has no memory, once more with everything given back."""
    try:
        return make()
    except MemoryError:
        if not allocator.give_back():
            raise
        return make()
