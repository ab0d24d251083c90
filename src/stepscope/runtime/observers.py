"""Watching every run of the process, for `stepscope run`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from stepscope import engine_loading
from stepscope.graph.graph import Graph
from stepscope.metadata import RunMetadata

if TYPE_CHECKING:
    from stepscope.metadata import GraphFacts, Loss
    from stepscope.runtime.pipeline_notes import PipelineNotes

Callback: TypeAlias = Callable[[RunMetadata, Graph], None]
Planned: TypeAlias = Callable[[int, int], None]
"""Told, on the thread of a run that had to be planned first, for how many nodes and how long."""
Fed: TypeAlias = Callable[[Iterable[tuple[str, Any]]], None]
"""Told, on the thread of a run that ended well, the names of what was fed and the arrays."""
Choose: TypeAlias = "Callable[[str], Sees | None]"
"""Given what is about to run, on its thread: who sees it, None for nobody."""


class LiveRunMemory(Protocol):
    """Memory that outlives the process, for one run: which ops began and ended, and when.

    Times are clock readings. A step is in flight that began and did not end.
    """

    def fresh_marks(self) -> Any:
        """An array of 0 for the end of each position, which come one after the other."""

    def fresh_rows(self) -> tuple[Any, Any, Any]:
        """Arrays of 0 for thread, start and end of each position, which come in any order."""

    def began(self, clock: int) -> None:
        """The first op begins."""


class LiveLog(Protocol):
    """Gives runs such memory (`stepscope.store.LiveRuns`)."""

    def begin(
        self,
        facts: GraphFacts,
        nodes: Any,
        *,
        in_order: bool,
        step_id: int,
        thread: int,
        offset: int,
    ) -> Any:
        """A `LiveRunMemory` whose positions are these nodes, None where there can be none."""

    def end(self, run: Any, clock: int, code: int, *, abandoned: bool) -> None:
        """The run is over, with this code, and is about to be handed to the callback."""


class Sees(Protocol):
    """Who sees one run: an `Observer`, or what is cheaper to make and wants less."""

    @property
    def callback(self) -> Callback | None: ...
    @property
    def trace_level(self) -> int: ...
    @property
    def live(self) -> LiveLog | None: ...
    @property
    def fed(self) -> Fed | None: ...
    @property
    def ended(self) -> Callable[[BaseException | None], None] | None: ...
    @property
    def losses(self) -> tuple[Loss, ...]: ...
    @property
    def pipelines(self) -> PipelineNotes | None: ...
    @property
    def lane(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Observer:
    """Who wants each run's metadata and graph, and at what trace level at least.

    `live`, if given, is told what a run is executing while it does, `planned` of each plan made,
    `fed` of what each run was fed.
    `choose`, if given, is asked before each run, by what ran, who is to see that one; `ended` is
    told that a run is over, and by what error if any, in the place of `callback` and its metadata.
    `losses` is what is given up of a run by being traced no further.
    """

    callback: Callback | None
    trace_level: int
    live: LiveLog | None = None
    planned: Planned | None = None
    fed: Fed | None = None
    choose: Choose | None = None
    ended: Callable[[BaseException | None], None] | None = None
    losses: tuple[Loss, ...] = ()
    pipelines: PipelineNotes | None = None
    """Is told of input pipelines that runs take elements of."""
    lane: Any = None
    """Of one that wants no more than a run's length: where further ones like it are noted, for as
    long as that has a place for them (`stepscope.recorder.lanes`), without asking anybody."""


_lock = threading.Lock()
current: tuple[Observer, ...] = ()
"""The observers in force. Replaced whole, so that a run reads it once without a lock."""


@contextmanager
def recording(
    callback: Callback | None,
    trace_level: int,
    live: LiveLog | None = None,
    planned: Planned | None = None,
    fed: Fed | None = None,
    choose: Choose | None = None,
    pipelines: PipelineNotes | None = None,
) -> Iterator[None]:
    """While active, every run is traced at least at this level and handed over: its metadata
    and its session's graph.

    Failed runs too. The callback runs on the thread of the run, after the run. What runs are
    executing is written to `live`, `planned` is told of each plan, `fed` of feeds and `pipelines`
    of what they take of datasets, if given.
    With `choose` it is asked of each run who is to see it, in the place of all that.
    """
    global current
    observer = Observer(callback, trace_level, live, planned, fed, choose, pipelines=pipelines)
    with _lock:
        current = (*current, observer)
    try:
        yield
    finally:
        _drop(observer)


def watching(what: str) -> Sequence[Sees]:
    """Who sees a run of that which is about to begin."""
    found = current
    chosen: list[Sees] = []
    for observer in found:
        if observer.choose is None:
            chosen.append(observer)
            continue
        try:
            seen = observer.choose(what)
        except Exception as error:  # noqa: BLE001 - whatever an observer does is not the run's fault
            at_fault(observer, error)
        else:
            if seen is not None:
                chosen.append(seen)
    return chosen


def want_runs(watching: Sequence[Sees]) -> bool:
    """Whether any of them wants the run itself, and not only to know that it is over."""
    for observer in watching:  # noqa: SIM110 - a third of the time, at every run
        if observer.callback is not None:
            return True
    return False


def show(observer: Sees, metadata: RunMetadata, graph: Graph) -> None:
    """Hand a run to an observer; one that raises is dropped with a warning, the run goes on."""
    if observer.callback is not None:
        try:
            observer.callback(metadata, graph)
        except Exception as error:  # noqa: BLE001 - as above
            at_fault(observer, error)


def tell_ended(observers: Sequence[Sees], error: BaseException | None) -> None:
    """A run is over: tell those who want to know no more than that."""
    for observer in observers:
        if observer.ended is not None:
            try:
                observer.ended(error)
            except Exception as fault:  # noqa: BLE001 - as above
                at_fault(observer, fault)


def at_fault(observer: Sees, error: Exception) -> None:
    """An observer raised: it is dropped with a warning, the run goes on."""
    _drop(observer)
    warnings.warn(
        f"An observer of runs raised {type(error).__name__}: {error}; it sees no more runs.",
        RuntimeWarning,
        stacklevel=3,
    )


def planned(nodes: int, ns: int) -> None:
    """A plan was made just now, which took so long."""
    for observer in current:
        if observer.planned is not None:
            observer.planned(nodes, ns)


def fed(watching: Iterable[Sees], names: Iterable[str], arrays: Iterable[Any]) -> None:
    """A run was fed these arrays."""
    for observer in watching:
        if observer.fed is not None:
            observer.fed(zip(names, arrays, strict=True))


def _drop(observer: Sees) -> None:
    global current
    with _lock:
        current = tuple(o for o in current if o is not observer)


engine_loading.engine_is_there()
