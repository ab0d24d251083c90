"""How the analyses of a whole program show themselves in a notebook."""

from __future__ import annotations

from stepscope.analysis.account import Account
from stepscope.analysis.notebook import view
from stepscope.analysis.retraces import Retraces
from stepscope.metadata import html
from stepscope.metadata.readable import number, size, time

__all__: list[str] = []


@view.register
def _(found: Account) -> str:
    top = max((row.share for row in found.rows), default=0.0) or 1.0
    rows = [
        (
            row.part,
            time(row.ns),
            f"{row.share:.1%}",
            html.bar(row.share / top),
            f"{row.count:,}" if row.count else "",
            row.mostly,
            row.where,
        )
        for row in found.rows
    ]
    title = f"{found.program}: {time(found.whole_ns)}"
    heads = ("part", "time", "share", "", "how many", "mostly", "at")
    return html.section(title, html.table(heads, rows, (1, 2, 4), "rows"))


@view.register
def _(found: Retraces) -> str:
    rows = [
        (
            row.function,
            f"{row.times:,}",
            time(row.lost_ns),
            row.cause,
            row.argument,
            " → ".join(row.values),
            row.where,
            f"{row.nodes:,}",
            size(row.grew_bytes),
            row.advice,
        )
        for row in found.rows
    ]
    title = (
        f"{found.program}: {number(found.traces, 'graph')} of functions traced in "
        f"{time(found.trace_ns)}, {time(found.lost_ns)} of it again"
    )
    heads = (
        "function", "again", "lost", "because of", "argument", "from, to", "called at", "nodes",
        "memory", "what to do",
    )  # fmt: skip
    return html.section(title, html.table(heads, rows, (1, 2, 7, 8), "rows"))
