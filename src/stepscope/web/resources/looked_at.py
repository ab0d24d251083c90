"""The run that a page looks at, and what is made of it once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from stepscope.analysis import critical_path
from stepscope.analysis.execution.edges import Edges
from stepscope.analysis.execution.timeline import TimelineRows
from stepscope.web.resources.clusters import cluster_of, is_cluster, longest_step
from stepscope.web.resources.session import typical

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from stepscope.analysis import CriticalPath
    from stepscope.metadata import RunMetadata
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

_T = TypeVar("_T")

__all__ = ["MOST_FOR_PATH", "LookedAt", "looked_at"]

MOST_FOR_PATH: Final = 200_000
"""Of runs with more executions no critical path is found: it would take minutes."""
_MOST_IN_ALL: Final = 10_000_000


class LookedAt(NamedTuple):
    """A run, or all of them; `numbers` are those of the runs of the timeline, -1 of a step."""

    recordings: Recordings
    key: Hashable
    name: str
    runs: tuple[RunMetadata, ...]
    numbers: tuple[int, ...]
    left_out: int

    @property
    def run(self) -> RunMetadata:
        """The run; the first of several."""
        return self.runs[0]

    def timeline(self) -> TimelineRows:
        """All executions as they are drawn."""
        return self.kept("timeline", lambda: TimelineRows.of(self.runs))

    def path(self) -> CriticalPath | None:
        """The critical path; None of several runs, and where the run is too large."""
        if len(self.runs) > 1 or not 0 < len(self.run.ops) <= MOST_FOR_PATH:
            return None
        return self.kept("path", lambda: critical_path(self.run))

    def edges(self) -> Edges | None:
        """What executions waited for; None where the run is too large."""
        if len(self.runs) > 1 or len(self.run.ops) > MOST_FOR_PATH:
            return None
        return self.kept("edges", lambda: Edges.of(self.run.ops))

    def kept(self, what: Hashable, make: Callable[[], _T]) -> _T:
        """Something made of this run, made once."""
        key = (what, *self.key) if isinstance(self.key, tuple) else (what, self.key)
        return self.recordings.kept(key, make)


def looked_at(recordings: Recordings, asked: Asked) -> LookedAt:
    """The run that was asked for: a number, `all`, `step`, or a typical one."""
    run = asked.run()
    if run == "step":
        found = longest_step(recordings)
        return LookedAt(recordings, "step", found.name, (found.metadata,), (-1,), 0)
    if run == "all" and len(recordings.survey.rows) > 1:
        return _all(recordings)
    if run == "all":
        # All runs are one: what is made of it is there already, or serves for both.
        run = recordings.survey.rows[0].number
    number = typical(recordings) if run is None else run
    one = recordings.run(number)
    metadata = recordings.kept(
        ("by one clock", number), lambda: _by_one_clock(recordings, one.metadata)
    )
    return LookedAt(recordings, number, one.name, (metadata,), (number,), 0)


def _by_one_clock(recordings: Recordings, run: RunMetadata) -> RunMetadata:
    """The run; one of several tasks with all times by the first task's clock."""
    if not is_cluster(recordings):
        return run
    return cluster_of(recordings).network.clocks.correct(run)


def _all(recordings: Recordings) -> LookedAt:
    """All runs, as many as can be drawn at once, from the first."""

    def read() -> tuple[tuple[RunMetadata, ...], tuple[int, ...]]:
        runs: list[RunMetadata] = []
        numbers: list[int] = []
        ops = 0
        rows = recordings.survey.rows
        for row, run in zip(rows, recordings.each(), strict=False):
            ops += row.ops
            if runs and ops > _MOST_IN_ALL:
                break
            runs.append(_by_one_clock(recordings, run.metadata))
            numbers.append(row.number)
        return tuple(runs), tuple(numbers)

    runs, numbers = recordings.kept("all runs", read)
    left_out = len(recordings.survey.rows) - len(runs)
    return LookedAt(recordings, "all", "all runs", runs, numbers, left_out)
