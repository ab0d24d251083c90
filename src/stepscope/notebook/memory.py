"""How memory that grows, and who held it at an instant, show themselves in a notebook."""

from __future__ import annotations

from stepscope.analysis.memory.flame import MemoryFlame
from stepscope.analysis.memory.growth import MemoryGrowth
from stepscope.metadata.readable import device, number, size, time
from stepscope.notebook import markup
from stepscope.notebook.results import view

__all__: list[str] = []

_INDENT = "\u2003"


@view.register
def _(found: MemoryGrowth) -> str:
    rows = [
        (
            row.key, row.kind, size(round(row.bytes)), size(round(row.low)),
            size(round(row.high)), size(row.first), size(row.last), f"{row.steps:,}", row.step,
            row.source,
        )
        for row in found.rows
    ]  # fmt: skip
    kinds = ", ".join(found.steps)
    title = (
        f"{number(len(rows), 'owner grows', 'owners grow')} from step to step"
        if rows
        else f"nothing grows from step to step{f' in {kinds}' if kinds else ''}"
    )
    heads = (
        "held by", "kind", "a step", "least", "most", "at first", "at last", "steps", "of",
        "made at",
    )  # fmt: skip
    return markup.section(
        title,
        markup.table(heads, rows, (2, 3, 4, 5, 6, 7), "owners") if rows else "",
        markup.facts([("not known", found.lacking)]) if found.lacking else "",
    )


@view.register
def _(found: MemoryFlame) -> str:
    rows = [
        (
            _INDENT * row.depth + row.name,
            size(row.bytes),
            f"{row.share:.1%}",
            markup.bar(row.share),
            row.kind,
            row.shapes,
            row.source,
        )
        for row in found.rows
    ]
    estimated = ", an estimate" if found.estimated else ""
    title = (
        f"{device(found.device)}: {size(found.bytes)} at {time(found.at_ns)} of {found.run}, of a "
        f"peak of {size(found.peak_bytes)}{estimated}"
    )
    heads = ("scope", "bytes", "share", "", "kind", "shapes", "made at")
    return markup.section(title, markup.table(heads, rows, (1, 2), "scopes"))
