"""How the causes of ops, runs and bytes show themselves in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.why import ByteCauses, OpCauses, RunCauses
from stepscope.metadata.readable import device, size, time
from stepscope.notebook import markup
from stepscope.notebook.results import view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.why import Link

__all__: list[str] = []


def _chain(rows: Sequence[Link]) -> str:
    heads = ("op", "type", "from", "to", "took", "because it", "made at")
    links = [
        (row.op, row.type, time(row.from_ns), time(row.to_ns), time(row.ns), row.reason, row.line)
        for row in rows
    ]
    return markup.table(heads, links, (2, 3, 4), "links")


@view.register
def _(found: OpCauses) -> str:
    title = f"{found.op} in run {found.run}: waited {time(found.waited_ns)}, took {time(found.ns)}"
    return markup.section(
        title, _chain(found.rows), markup.facts([("the chain ends", found.origin)])
    )


@view.register
def _(found: RunCauses) -> str:
    usual = f", {time(found.median_ns)} is the median" if found.compared else ""
    title = f"run {found.run} ({found.what}) took {time(found.ns)}{usual}"
    more = [
        (cause.op or "outside of all ops", cause.kind, time(cause.more_ns), cause.line)
        for cause in found.causes
    ]
    return markup.section(
        title,
        markup.table(("op", "what", "longer by", "made at"), more, (2,), "differences"),
        _chain(found.rows),
        markup.facts([("the chain ends", found.origin)]),
    )


@view.register
def _(found: ByteCauses) -> str:
    title = f"{device(found.device)}: {size(found.bytes)} after {time(found.at_ns)}"
    rows = [
        (
            row.op,
            row.kind,
            size(row.bytes),
            f"{row.share:.1%}",
            time(row.from_ns),
            time(row.to_ns) if row.to_ns >= 0 else "-",
            row.reason,
            row.line,
        )
        for row in found.rows
    ]
    heads = ("made by", "kind", "bytes", "share", "from", "until", "it", "made at")
    return markup.section(title, markup.table(heads, rows, (2, 3, 4, 5), "tensors"))
