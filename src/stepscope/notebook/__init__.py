"""What a notebook shows: the tables of runs and of analyses, and the viewer's pages.

`results`, `causes`, `cluster`, `memory`, `program`, `proofs` and `runs` draw what is the value of a
cell, out of the parts in `markup`. `stepscope.show`, and `.show()` of runs and analyses, give the
viewer's pages.

A page is the report of `stepscope report`, in a frame of its own that may ask nobody for
anything: it stays in the notebook's file, and draws wherever that is opened.

This room lies above the model and the analyses, beside `cli`: it needs `web`, which needs both. A
`RunMetadata` or a result that is asked to show itself therefore looks this room up by name at that
moment, as engines look up their adapters; neither imports it.
"""

from __future__ import annotations

import os
import sys
from html import escape
from typing import TYPE_CHECKING, Final, Literal

from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.metadata import iter_runs

if TYPE_CHECKING:
    from stepscope.analysis.result import Result

__all__ = ["Page", "Pages", "result_html", "show", "show_result"]

Page = Literal["overview", "timeline", "ops", "graph", "memory", "compare", "cluster"]
_PAGES: Final = ("overview", "timeline", "ops", "graph", "memory", "compare", "cluster")
_MAX_SIZE: Final = 5_000_000
_PAGE_OF: Final[dict[str, Page]] = {
    "CriticalPath": "timeline",
    "Diff": "compare",
    "MemoryProfile": "memory",
    "OpProfile": "ops",
    "OutOfMemoryProfile": "memory",
    "Parallelism": "timeline",
}
"""Where the viewer shows what an analysis found; of others the overview is shown."""


class Pages:
    """The pages as a notebook draws them: as the value of a cell, or given to `display`."""

    def __init__(self, content: bytes, height: int) -> None:
        self.content = content
        """The HTML file."""
        self._height = height

    def _repr_html_(self) -> str:
        text = escape(self.content.decode())
        return (
            f'<iframe title="stepscope" sandbox="allow-scripts allow-downloads" '
            f'style="width:100%;height:{self._height}px;border:0" srcdoc="{text}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<the viewer's pages in {len(self.content):,} bytes of HTML: a notebook shows them>"


def show(
    *runs: Runs, page: Page = "overview", height: int = 720, max_size: int = _MAX_SIZE
) -> Pages:
    """The viewer's pages for runs, for a notebook.

    Args:
        runs: What every analysis takes, or the path of what was recorded; of two, the page
            Compare compares them.
        page: Which page is shown first.
        height: Of the frame, in pixels.
        max_size: At most so many bytes of HTML: above that detail is folded, and the page says so.

    Returns:
        What a notebook draws if it is the last value of a cell.

    >>> from stepscope import RunMetadata, show
    >>> show(page="sums")
    Traceback (most recent call last):
        ...
    ValueError: show() takes the runs to show
    """
    from stepscope.web.recordings import Recordings
    from stepscope.web.report import make_report
    from stepscope.web.run_sources import HeldSource

    if not runs:
        raise ValueError("show() takes the runs to show")
    if page not in _PAGES:
        raise ValueError(f"there is no page {page!r}; there are {', '.join(_PAGES)}")
    source = HeldSource([_held(of_set) for of_set in runs])
    report = make_report(Recordings(source, follow=False), max_size, start=f"page={page}")
    return Pages(report.content, height)


def _held(runs: Runs) -> list[NamedRun]:
    if isinstance(runs, str | os.PathLike):
        return [NamedRun(run.name, run.metadata) for run in iter_runs(runs)]
    return named_runs(runs)


def show_result(result: Result, runs: tuple[Runs, ...], height: int) -> Pages:
    """The pages for the runs that an analysis was made of, the one that shows it first."""
    if not runs:
        raise ValueError(
            f"this {type(result).__name__} does not have its runs: they were read one after the "
            "other, or it is a copy; give them, as in result.show(runs)"
        )
    return show(*runs, page=_PAGE_OF.get(type(result).__name__, "overview"), height=height)


def result_html(result: Result) -> str:
    """A result of an analysis as HTML: a table, and a plot where a look says more."""
    from stepscope.notebook import causes, cluster, memory, program  # noqa: F401 - their views
    from stepscope.notebook.results import view

    if "stepscope.proofs" in sys.modules:  # else it is no proof, and they need an engine
        from stepscope.notebook import proofs  # noqa: F401

    return view(result)
