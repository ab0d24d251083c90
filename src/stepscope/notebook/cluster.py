"""How the analyses of a cluster show themselves in a notebook."""

from __future__ import annotations

from stepscope.analysis.cluster.clock import Clocks
from stepscope.analysis.cluster.network import Network
from stepscope.metadata.readable import size, time
from stepscope.notebook import markup
from stepscope.notebook.results import view

__all__: list[str] = []


@view.register
def _(found: Clocks) -> str:
    rows = [
        (
            row.task,
            time(row.offset_ns),
            f"{row.drift_ppm:+.1f} µs/s",
            "unknown" if row.error_ns is None else f"± {time(row.error_ns)}",
            f"{row.constraints:,}",
            row.found,
        )
        for row in found.rows
    ]
    heads = ("task", "ahead by", "gains", "error", "messages", "found")
    title = f"clocks against {found.reference}" if found.rows else "no clocks"
    return markup.section(title, markup.table(heads, rows, (1, 2, 3, 4), "clocks"))


@view.register
def _(found: Network) -> str:
    title = (
        f"{len(found.tasks):,} tasks, {found.steps:,} steps: {found.transfers:,} transfers of "
        f"{size(found.bytes)}, {found.collectives:,} collectives"
    )
    top = max((row.idle_ns for row in found.rows), default=0) or 1
    rows = [
        (
            row.key,
            f"{row.calls:,}",
            size(row.bytes),
            time(row.waiting_ns),
            time(row.moving_ns),
            time(row.idle_ns),
            markup.bar(row.idle_ns / top),
        )
        for row in found.rows
    ]
    heads = (found.by, "calls", "moved", "waiting", "moving", "idle", "")
    late = [
        (entry.run, entry.name, entry.kind, time(entry.cost_ns), f"{entry.share:.1%}")
        for entry in found.stragglers
    ]
    return markup.section(
        title,
        markup.table(heads, rows, (1, 2, 3, 4, 5), "rows"),
        markup.table(("step", "late", "kind", "cost", "of step"), late, (3, 4), "steps"),
    )
