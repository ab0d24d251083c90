"""What an engine hands over when a run ends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stepscope.metadata.outcome import Completeness, Overhead, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.memory.allocations import AllocationColumns
    from stepscope.metadata.memory.out_of_memory import OutOfMemory
    from stepscope.metadata.outcome import Placement
    from stepscope.metadata.program_notes import CallTime
    from stepscope.metadata.stored.stored_log import StorableLog
    from stepscope.metadata.stored.stored_pattern import StorablePattern
    from stepscope.options import RunOptions

__all__ = ["LoggedRecording", "Recording", "RunNumbers", "Shared"]

_T = TypeVar("_T")


class Shared(Generic[_T]):
    """What the recordings of several runs have in common: made once, when one of them is asked.

    A graph's source lines, for example. An engine gives the same object to every recording of the
    graph; whoever stores runs then knows, without a look at the content, that it has it already.

    >>> lines = Shared(lambda: {"a": "train.py:3"})
    >>> lines() is lines()
    True
    """

    __slots__ = ("__weakref__", "_lock", "_made", "_make")

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make: Callable[[], _T] | None = make
        self._lock = threading.Lock()

    def __call__(self) -> _T:
        with self._lock:
            if self._make is not None:
                self._made = self._make()
                self._make = None
            return self._made


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNumbers:
    """What a store needs of a run that is like others: the rest is as it was of those.

    `like` is equal for runs that differ in nothing else than in what stands here. `columns` are the
    run's own, packed: the log's rows (`stored_log.pack_log`) or the clock's readings
    (`stored_pattern.pack_readings`), by the names that a store has for them. `parts` is packed
    content that it shares with some of the others. `ops` is how many executions came to an end.
    """

    like: Hashable
    engine: str
    step_id: int
    ops: int
    started_ns: int
    ended_ns: int
    overhead: Overhead
    call: CallTime | None
    columns: Mapping[str, bytes]
    parts: Mapping[str, Shared[bytes]] = field(default_factory=dict)


class LoggedRecording(ABC):
    """A recording of a run that its log has all of, made when somebody looks."""

    __slots__ = ()

    @property
    @abstractmethod
    def step_id(self) -> int:
        """The number that the engine gave to the run."""

    @abstractmethod
    def __call__(self) -> Recording:
        """The recording."""

    @abstractmethod
    def numbers(self) -> RunNumbers | None:
        """What is its own, should it be like others that went well; None where it may not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run as its engine saw it, ready to be decoded when somebody looks.

    Every callable is called at most once, by whichever thread looks first, and never by the
    thread that records: handing a recording over costs the run nothing. None means that the
    engine has nothing of that kind; a `Shared` one may be given to several recordings. `sources`
    maps a node's name to the "file:line" that made it; `peak_bytes` a device to the most bytes that
    were live on it, and "" to the most on all.
    `recorder` says what saw the ops of an engine that has several means.
    `allocations` are all of them (a FULL_TRACE), `allocation_log` what the options asked to keep.
    `log` is what `ops` are made of, where an executor logged all of the run: to be stored as it is.
    `pattern` is what `ops` and `allocations` have in common with those of other runs: to be stored
    in place of them, once.
    `call` is when the program called the run, as far as its engine knows.
    """

    engine: str
    recorder: str = ""
    step_id: int = 0
    status: Status = field(default_factory=Status)
    completeness: Completeness | Callable[[], Completeness] = field(default_factory=Completeness)
    overhead: Overhead | Callable[[], Overhead] = field(default_factory=Overhead)
    ops: Callable[[], OpColumns] | None = None
    peak_bytes: Callable[[], Mapping[str, int]] | None = None
    allocations: Callable[[], AllocationColumns] | None = None
    allocation_log: Callable[[], AllocationColumns] | None = None
    out_of_memory: OutOfMemory | None = None
    partition_graphs: Callable[[], Sequence[Any]] | None = None
    function_graphs: Callable[[], Sequence[Any]] | None = None
    cost_graph: Callable[[], Any] | None = None
    session_metadata: Any = None
    placements: Callable[[], Sequence[Placement]] | None = None
    sources: Callable[[], Mapping[str, str]] | None = None
    run_options: RunOptions | None = None
    log: StorableLog | None = None
    pattern: Callable[[], StorablePattern] | None = None
    call: CallTime | None = None
