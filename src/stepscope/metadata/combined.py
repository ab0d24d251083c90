"""Several runs as one: what `RunMetadata.combine` records.

What each part becomes is said in that method's text. Everything is made when it is asked for, of
what the runs hold then; a part that no run has is left out, as an engine leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.columns import OpColumns
from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.metadata.outcome import Completeness, Loss, Overhead, Status
from stepscope.metadata.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stepscope.metadata.run_metadata import RunMetadata

__all__ = ["added_losses", "combined", "worst_status"]


def combined(runs: Sequence[RunMetadata]) -> Recording:
    """The recording of several runs together."""
    options = {run.SerializeToString() for run in (one.run_options for one in runs) if run}
    return Recording(
        engine=", ".join(_distinct(run.engine for run in runs)),
        recorder=", ".join(_distinct(run.recorder for run in runs)),
        step_id=runs[0].step_id if runs else 0,
        status=worst_status(run.status for run in runs),
        completeness=lambda: Completeness(
            added_losses(loss for run in runs for loss in run.completeness.losses)
        ),
        overhead=lambda: _overhead(runs),
        ops=lambda: _ops(runs),
        peak_bytes=lambda: _peaks(runs),
        allocations=lambda: _allocations(runs, [run.allocations for run in runs]),
        allocation_log=lambda: _allocations(runs, [run.allocation_log for run in runs]),
        out_of_memory=next((r.out_of_memory for r in runs if r.out_of_memory is not None), None),
        partition_graphs=_graphs(runs, "partition_graphs"),
        function_graphs=_graphs(runs, "function_graphs"),
        placements=lambda: list(dict.fromkeys(p for run in runs for p in run.placements)),
        sources=lambda: _sources(runs),
        run_options=runs[0].run_options if len(options) == 1 else None,
    )


def worst_status(statuses: Iterable[Status]) -> Status:
    """How the first run ended that did not end as it should; else that all went well.

    >>> worst_status([Status(), Status("ABORTED", "a"), Status("CANCELLED", "b")]).message
    'a'
    >>> worst_status([]).ok
    True
    """
    return next((status for status in statuses if not status.ok), Status())


def added_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Losses of one kind and reason as one; their number is not known (0) where one's is not.

    >>> added_losses([Loss("spans", 2, "full"), Loss("runs", 0, "cut"), Loss("spans", 3, "full")])
    (Loss(what='spans', count=5, reason='full'), Loss(what='runs', count=0, reason='cut'))
    """
    counts: dict[tuple[str, str], list[int]] = {}
    for loss in losses:
        counts.setdefault((loss.what, loss.reason), []).append(loss.count)
    return tuple(
        Loss(what, sum(found) if all(found) else 0, reason)
        for (what, reason), found in counts.items()
    )


def _distinct(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def _overhead(runs: Sequence[RunMetadata]) -> Overhead:
    """What recording cost in all, and as a fraction of what the runs would have taken without."""
    costs = [run.overhead for run in runs]
    spent = sum(cost.ns for cost in costs)
    bare = sum(cost.ns / cost.fraction for cost in costs if cost.fraction > 0)
    return Overhead(spent, spent / bare if bare else 0.0)


def _steps(runs: Sequence[RunMetadata]) -> list[int] | None:
    """By run the step that its rows are given; None where their own tell the runs apart."""
    own = [{run.step_id, *np.unique(run.ops.step).tolist()} for run in runs]
    together: set[int] = set().union(*own)
    return None if len(together) == sum(map(len, own)) else list(range(len(runs)))


def _ops(runs: Sequence[RunMetadata]) -> OpColumns:
    steps, parts = _steps(runs), [run.ops for run in runs]
    if steps is not None:
        parts = [part.replace(step=step) for part, step in zip(parts, steps, strict=True)]
    return OpColumns.concat(parts)


def _allocations(
    runs: Sequence[RunMetadata], parts: Sequence[AllocationColumns]
) -> AllocationColumns:
    steps = _steps(runs)
    if steps is not None:
        parts = [part.at_step(step) for part, step in zip(parts, steps, strict=True)]
    return AllocationColumns.concat(parts)


def _peaks(runs: Sequence[RunMetadata]) -> dict[str, int]:
    """The highest peaks of the runs: what was live in one of them is not added to another's."""
    highest: dict[str, int] = {}
    for run in runs:
        for device, peak in {"": run.peak_bytes(), **run.device_peaks()}.items():
            highest[device] = max(peak, highest.get(device, 0))
    return highest if any(highest.values()) else {}


def _sources(runs: Sequence[RunMetadata]) -> dict[str, str]:
    """The line of each node; where runs have different ones, that of the first."""
    found: dict[str, str] = {}
    for run in runs:
        found = run.sources | found
    return found


def _graphs(runs: Sequence[RunMetadata], field: str) -> Callable[[], list[Any]]:
    """The graphs of all runs in order, the same one once."""

    def made() -> list[Any]:
        found = {
            graph.SerializeToString(deterministic=True): graph
            for run in runs
            for graph in getattr(run, field)
        }
        return list(found.values())

    return made
