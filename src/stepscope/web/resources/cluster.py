"""The page Cluster: workers, their clocks, who waited for whom."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis.cluster.tasks import natural_order
from stepscope.metadata.strings import StringColumn
from stepscope.web.resources.clusters import cluster_of
from stepscope.web.resources.columns import columns_of

if TYPE_CHECKING:
    from stepscope.analysis import TaskClock
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["cluster"]

_MOST_STEPS: Final = 1_000
_MOST_CELLS: Final = 200_000
_MOST_LINKS: Final = 1_000
_MOST_STRAGGLERS: Final = 200


def cluster(recordings: Recordings, _asked: Asked) -> dict[str, Any]:
    """All tasks, the links that waited longest, and who was late."""
    found = cluster_of(recordings)
    network, times = found.network, found.times
    ended = {worker.task or worker.name: worker.ended for worker in found.workers}
    tasks = sorted({*network.tasks, *times.ops}, key=natural_order)
    idle: Counter[str] = Counter()
    cost: Counter[str] = Counter()
    late: Counter[str] = Counter()
    for row in network.rows:
        idle[row.target] += row.idle_ns
    for straggler in network.stragglers:
        if straggler.kind == "task":
            cost[straggler.name] += straggler.cost_ns
            late[straggler.name] += 1
    columns = min(_MOST_STEPS, max(1, _MOST_CELLS // max(1, len(tasks))), len(times.steps))
    shown = _even(len(times.steps), columns)
    cells = np.array(
        [[times.steps[i].tasks.get(task, np.nan) for i in shown] for task in tasks], np.float32
    )
    value: dict[str, Any] = {
        "tasks": {
            "name": tasks,
            "ops": np.array([times.ops.get(task, 0) for task in tasks], np.int64),
            "busy_ns": np.array([times.busy_ns.get(task, 0) for task in tasks], np.int64),
            "idle_ns": np.array([idle[task] for task in tasks], np.int64),
            "cost_ns": np.array([cost[task] for task in tasks], np.int64),
            "steps_late": np.array([late[task] for task in tasks], np.int64),
            **_clock_columns([network.clocks.of(task) for task in tasks]),
            "ended": StringColumn.of(
                [{True: "yes", False: "no"}.get(ended.get(t), "unknown") for t in tasks]  # type: ignore[arg-type]
            ),
        },
        "reference": network.clocks.reference,
        "slowest": (slowest := times.slowest()) and slowest._asdict(),
        "steps": len(times.steps),
        "step": np.array(shown, np.int64),
        "step_name": [times.steps[i].name for i in shown],
        "step_ns": np.array([times.steps[i].ns for i in shown], np.int64),
        "task_step_ns": cells,
        "links": columns_of(network.rows[:_MOST_LINKS]),
        "stragglers": list(network.stragglers[:_MOST_STRAGGLERS]),
        "absent": list(found.absent),
        "collectives": network.collectives,
        "transfers": network.transfers,
        "unmatched": network.unmatched,
        "bytes": network.bytes,
        "waiting_ns": network.waiting_ns,
        "moving_ns": network.moving_ns,
        "idle_ns": network.idle_ns,
        "folded": [],
    }
    if len(network.rows) > _MOST_LINKS:
        value["folded"].append(
            f"{len(network.rows):,} links, of which those {_MOST_LINKS:,} are here that waited "
            "longest"
        )
    if len(shown) < len(times.steps):
        value["folded"].append(f"{len(times.steps):,} steps, of which {len(shown):,} are drawn")
    return value


def _clock_columns(clocks: list[TaskClock | None]) -> dict[str, Any]:
    errors = [np.nan if c is None or c.error_ns is None else c.error_ns for c in clocks]
    return {
        "offset_ns": np.array([c.offset_ns if c else np.nan for c in clocks], np.float64),
        "drift_ppm": np.array([c.drift_ppm if c else np.nan for c in clocks], np.float64),
        "error_ns": np.array(errors, np.float64),
        "found": StringColumn.of([c.found if c else "unconstrained" for c in clocks]),
    }


def _even(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / max(1, most - 1)) for i in range(most)})
