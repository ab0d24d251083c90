"""Watching the runs of this engine under a budget: who is asked before each of them, and told
after.

`choosing` makes the `choose` of an observer (`observers.recording`) of something that decides how
much is recorded of a run, and is told what came of it: `stepscope.recorder.KeptRuns`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stepscope.errors import OpError, code_name
from stepscope.metadata.stored.step_summaries import Level
from stepscope.runtime import observers
from stepscope.runtime.execute.recording_costs import recording_costs
from stepscope.runtime.observers import Choose, Fed, LiveLog, Observer, Sees, at_fault
from stepscope.runtime.report import ENGINE

if TYPE_CHECKING:
    from stepscope.graph.graph import Graph
    from stepscope.metadata import Loss, RunMetadata
    from stepscope.runtime.pipeline_notes import PipelineNotes

__all__ = ["DecidesOnRuns", "LaneInLull", "Lulled", "choosing", "lull_of"]

_TRACE_LEVELS = {Level.COUNT: 0, Level.LENGTH: 0, Level.TIMES: 1, Level.DETAIL: 3}
_LOOKED_AT = 64
_clock = time.thread_time_ns
_now = time.perf_counter_ns


class DecidesOnRuns(Protocol):
    """How much is recorded of each run, and what becomes of it."""

    def lane(self, kind: str) -> Any:
        """What notes lengths of runs of a kind while nothing has to be decided."""

    def begins(self, kind: str) -> Any:
        """What is about to run; has a `level`."""

    @property
    def ended(self) -> Callable[..., None]:
        """Told what came of it."""


def choosing(
    runs: DecidesOnRuns,
    given_up: Callable[[Level], tuple[Loss, ...]],
    live: LiveLog | None = None,
    kept: Callable[[RunMetadata], float] = lambda _metadata: 0.0,
    graph_part: Callable[[Graph], Any] = lambda _graph: None,
    *,
    wants_peaks: bool = False,
    trace_level: int = 3,
    fed: Fed | None = None,
    pipelines: PipelineNotes | None = None,
) -> Choose:
    """Who sees a run, by what `runs` decides on it.

    `given_up` says what a run lacks that is recorded at a level; `kept` which share a run that
    ended takes of the place where it outlives the process, `graph_part` its user's graph as stores
    have it. With `wants_peaks` it is told what memory runs took that were recorded in detail. None
    is traced further than `trace_level`. `fed` is told what noted runs were fed, `pipelines` what
    they took of datasets.
    """
    losses = {level: given_up(level) for level in Level}
    inside_ns = _InsideRuns()
    # What one event costs is measured once in a process: now, not in the first run.
    recording_costs()

    def choose(what: str) -> Observer | Lulled | None:
        entered = _now()
        lane = runs.lane(what)
        began = lane.begins()
        if began:
            # Where nobody else watches, further runs do not come here: `LaneInLull` times them.
            timed = lane.to_time and len(observers.current) > 1
            return TimedLulled(lane, began, entered) if timed else Lulled(lane, began)
        begun = runs.begins(what)
        level: Level = begun.level
        if level <= Level.LENGTH:

            def ended(error: BaseException | None) -> None:
                if error is not None or level is Level.LENGTH:
                    runs.ended(begun, engine=ENGINE, failed=code_of(error))

            return Observer(None, 0, ended=ended)

        noted: list[tuple[RunMetadata, Graph]] = []

        def ended_noted(error: BaseException | None) -> None:
            seen = _clock()
            metadata, graph = noted[0]
            share, part = kept(metadata), graph_part(graph)
            inside = inside_ns.of(what, level, metadata)
            peak = metadata.peak_bytes() if wants_peaks and level is Level.DETAIL else 0
            runs.ended(
                begun, engine=ENGINE, metadata=metadata, graph=part, kept=share,
                peak_bytes=peak,
                failed=code_of(error), cost_ns=inside + _clock() - seen,
            )  # fmt: skip

        return Observer(
            lambda *run: noted.append(run), min(trace_level, _TRACE_LEVELS[level]), live, fed=fed,
            ended=ended_noted, losses=losses[level], pipelines=pipelines,
        )  # fmt: skip

    return choose


class Lulled:
    """Sees of a run how long it took, in the least time: as an `Observer` that wants no more."""

    __slots__ = ("_began", "lane")
    callback = None
    trace_level = 0
    live = planned = fed = choose = pipelines = None
    losses: tuple[Loss, ...] = ()

    def __init__(self, lane: Any, began: int) -> None:
        self.lane = lane
        self._began = began

    def ended(self, error: BaseException | None) -> None:
        """The run is over."""
        if error is None:
            self.lane.ended(self._began, ENGINE)
        else:
            self.lane.failed(self._began, code_of(error), ENGINE)


class TimedLulled(Lulled):
    """The same, which says what it took."""

    __slots__ = ("_before",)

    def __init__(self, lane: Any, began: int, entered: int) -> None:
        super().__init__(lane, began)
        self._before = _now() - entered

    def ended(self, error: BaseException | None) -> None:
        """The run is over."""
        entered = _now()
        super().ended(error)
        if error is None:
            self.lane.timed(self._before + _now() - entered)


class LaneInLull(NamedTuple):
    """Where runs are noted of which the one who sees them wants to know the length alone."""

    asked: tuple[Observer, ...]
    """Those who were asked, and said so: it holds as long as they are the same."""
    lane: Any

    def ended(self, began: int, before_ns: int) -> None:
        """A run is over that began so on the lane. `before_ns` is 0, or what was done before it
        took, where all around it is to be timed.
        """
        ended = _now() if before_ns else 0
        try:
            self.lane.ended(began, ENGINE)
        except Exception as error:  # noqa: BLE001 - as in `watching`
            at_fault(self.asked[0], error)
        if before_ns:
            self.lane.timed(before_ns + _now() - ended)


def lull_of(watching: Sequence[Sees], asked: tuple[Observer, ...]) -> LaneInLull | None:
    """Where further runs of that kind are noted; None where they are to be asked about each."""
    if len(watching) != 1 or len(asked) != 1 or watching[0].lane is None:
        return None
    return LaneInLull(asked, watching[0].lane)


class _InsideRuns:
    """By how much runs are slowed down inside: worked out of some, and so for others like them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Level], tuple[int, int]] = {}

    def of(self, what: str, level: Level, metadata: RunMetadata) -> int:
        """Of this run, for the program's processor."""
        seen, ns = self._known.get((what, level), (0, 0))
        if seen < 3 or seen % _LOOKED_AT == 0:
            found = metadata.overhead.ns
            # Readings of the clock that fell into a pause of the program say nothing of us.
            ns = min(found, ns) if seen and found > 2 * ns else found
        self._known[what, level] = (seen + 1, ns)
        return ns


def code_of(error: BaseException | None) -> str:
    if error is None:
        return ""
    return code_name(error.error_code) if isinstance(error, OpError) else "CANCELLED"
