"""What outlives a run in a session: variables, queues, random streams, and what custom ops keep.

A `ResourceStore` belongs to one session. Objects are found by kind and name and made on first
use, under one lock, so that two runs that start together share one object.

What variables and queues hold is counted by device in `HeldBytes`, at the moment it changes, and
each of them lists it as `Holding`s: the two agree whenever no update is under way.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

import numpy as np

from stepscope.graph.dtypes import Array, DType

T = TypeVar("T")


class Cancellation(Protocol):
    """How a run is told to stop; see `stepscope.ops.cancellation`."""

    @property
    def cancelled(self) -> bool: ...

    def raise_if_cancelled(self) -> None:
        """Raise the error the run ends with (CancelledError, DeadlineExceededError)."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the run is cancelled (at once if it is already).

        Returns what unregisters it.
        """
        ...


class RunContext(Protocol):
    """What a kernel with `context=True` gets as its first argument."""

    @property
    def step_id(self) -> int: ...

    @property
    def cancellation(self) -> Cancellation: ...

    @property
    def rendezvous(self) -> Any: ...

    @property
    def memory(self) -> MemoryWatcher | None:
        """Who wants to know what queues take in and give out during this run."""
        ...

    @property
    def stages(self) -> StageWatcher | None:
        """Who wants to know what the stages of input pipelines do during this run."""
        ...


class StageWatcher(Protocol):
    """Is told what stages of an input pipeline did while a run took elements of it."""

    def took(self, pipeline: Any, iterator: Any, waited_ns: int) -> None:
        """An element was taken of this `Pipeline`, in that time, or its end was found."""
        ...


class FunctionCall(Protocol):
    """A function that is ready to be called, by any number of threads at once."""

    def __call__(
        self, cancellation: Cancellation, step_id: int, inputs: Sequence[Any]
    ) -> tuple[Any, ...]:
        """What it returns; raises what stopped it, an OpError that names the op inside."""
        ...


class Functions(Protocol):
    """Makes functions of graphs ready to be called; the engine has one for each session."""

    def instantiate(self, function: Any, captured: Sequence[Any]) -> FunctionCall:
        """The `FunctionGraph`, with the values of what it captured.

        Its random ops begin anew with each instantiation.
        """
        ...


class MemoryWatcher(Protocol):
    """Is told about memory that outlives runs."""

    def put(self, holdings: Sequence[Holding]) -> None: ...

    def taken(self, holdings: Sequence[Holding], copied: bool) -> None:
        """These left a queue: handed on, or (`copied`) held until the op that took them ends."""
        ...


@dataclass(frozen=True, slots=True)
class Holding:
    """One tensor that outlives runs: whose it is, and what made it."""

    op: str
    slot: int
    device: str
    kind: str
    bytes: int
    dtype: DType
    shape: tuple[int, ...]
    address: int
    step: int
    time_ns: int
    """When it was made, since the epoch."""


def _by_interface(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


_at = ctypes.c_void_p.from_address
_HEAD: Final = object.__basicsize__


def _by_layout(array: Array) -> int:
    """The first field of an array object, which NumPy's C interface has fixed for good.

    The interface that Python sees makes a dictionary with a description of the type, which between
    two large ops costs twenty microseconds instead of two.
    """
    return _at(id(array) + _HEAD).value or 0


def _fastest_address() -> Callable[[Array], int]:
    if sys.implementation.name != "cpython":
        return _by_interface
    samples: list[Array] = [np.zeros(3), np.arange(8)[2:5], np.ones((4, 4), np.int8).T]
    right = all(_by_layout(a) == _by_interface(a) for a in samples)
    return _by_layout if right else _by_interface


_address = _fastest_address()


def address_of(value: Any) -> int:
    """Where an array's data lies; 0 for what has no place of its own."""
    return _address(value) if isinstance(value, np.ndarray) else 0


_HANDLE: Final = np.dtype([("resource", np.uint8, (1,))])
_VALUES: Final = (np.ndarray, np.generic, bytes, str, bool, int, float, complex)


def as_seen_outside(value: Any) -> Any:
    """A tensor's value as a user's code may see it.

    A resource (a variable, a queue, a TensorArray, a stack) is an object of the session, which
    nobody outside may touch: they see eight bytes that tell it from others, of the type that
    TensorFlow gives them.
    """
    if isinstance(value, _VALUES):
        return value
    return np.frombuffer(id(value).to_bytes(8, "little"), _HANDLE)


class _Running(threading.local):
    step_id = 0
    cores = 1
    """How many threads its ops may use by themselves, where BLAS has one."""


running = _Running()
"""The run this thread executes ops of: who made a variable's memory is noted with it."""


class HeldBytes:
    """Bytes that outlive runs, by device; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: dict[str, int] = {}
        self.changes = 0
        """Counts every change: the same number means the same holdings."""
        self.fits: Callable[[str, int], bool] = lambda _device, _size: True
        """Whether so many more bytes may be held on a device."""

    def add(self, device: str, difference: int) -> None:
        """So many bytes more, or fewer, are held on a device."""
        with self._lock:
            self._bytes[device] = self._bytes.get(device, 0) + difference
            self.changes += 1

    def on(self, device: str) -> int:
        return self._bytes.get(device, 0)


def made_now() -> tuple[int, int]:
    """(run, nanoseconds since the epoch): what a holding says of its making."""
    return running.step_id, time.time_ns()


def holding(
    array: Array, dtype: DType, op: str, slot: int, device: str, kind: str, made: tuple[int, int]
) -> Holding:
    """What an array is that somebody holds."""
    return Holding(
        op, slot, device, kind, array.nbytes, dtype, array.shape, address_of(array), *made
    )


class TensorHolder(Protocol):
    """An object of a session that holds tensors between runs."""

    def holdings(self) -> list[Holding]: ...


class ResourceStore:
    """The named objects of one session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], Any] = {}
        self._holders: list[TensorHolder] = []
        self.held = HeldBytes()
        self.functions: Functions | None = None
        """Calls functions of graphs; the session's engine sets it."""

    def get_or_create(self, kind: str, name: str, make: Callable[[], T]) -> T:
        """The object of that kind and name, made by `make` if there is none yet."""
        key = (kind, name)
        with self._lock:
            if key not in self._objects:
                made = self._objects[key] = make()
                if hasattr(made, "holdings"):
                    self._holders.append(made)
            return cast("T", self._objects[key])

    def holdings(self) -> list[Holding]:
        """Every tensor that variables and queues hold right now."""
        return [found for holder in self._holders.copy() for found in holder.holdings()]

    def close(self) -> None:
        """The session ends: stop what works on threads of its own."""
        with self._lock:
            objects = list(self._objects.values())
        for found in objects:
            stop = getattr(found, "close_for_good", None)
            if stop is not None:
                stop()

    def of_kind(self, kind: str) -> dict[str, Any]:
        """All objects of a kind, by name."""
        with self._lock:
            return {name: obj for (k, name), obj in self._objects.items() if k == kind}


class InstanceResources:
    """A session's objects as one instance of a function sees them: random streams are its own."""

    def __init__(self, outer: ResourceStore) -> None:
        self._outer = outer
        self._own = ResourceStore()

    def get_or_create(self, kind: str, name: str, make: Callable[[], T]) -> T:
        """As of `ResourceStore`."""
        store = self._own if kind == "random" else self._outer
        return store.get_or_create(kind, name, make)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outer, name)
