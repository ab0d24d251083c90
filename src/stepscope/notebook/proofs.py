"""How proofs show themselves in a notebook."""

from __future__ import annotations

from stepscope.metadata.readable import number
from stepscope.notebook import markup
from stepscope.notebook.results import view
from stepscope.proofs.proof import Proof, Proofs

__all__: list[str] = []


@view.register
def _(found: Proofs) -> str:
    heads = ("finding", "before", "after", "predicted", "achieved", "inside", "why not")
    rows = [_cells(row) for row in found.rows]
    proved = sum(row.check is not None for row in found.rows)
    title = f"{number(proved, 'finding')} of {len(rows):,} proved on the recorded graph"
    return markup.section(title, markup.table(heads, rows, (1, 2, 3, 4), "findings"))


@view.register
def _(found: Proof) -> str:
    return view(Proofs((found,)))


def _cells(row: Proof) -> tuple[str, ...]:
    check = row.check
    if check is None:
        return (row.finding.id, "", "", "", "", "", row.lacking)
    said = row.finding.said
    least, most = said(check.finding.low), said(check.finding.high)
    inside = "yes" if check.inside else "no"
    return (
        row.finding.id,
        said(check.before),
        said(check.after),
        f"{least} to {most}",
        said(check.achieved),
        inside,
        "",
    )
