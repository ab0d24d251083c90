"""Tables and small plots as HTML and SVG, for notebooks.

Everything given as text is escaped, and what would not be seen in it is made visible; only
`Markup`, which these functions make, is taken as it is.
What they make is well-formed XML, carries its own styles, and takes text and line colours from the
page, so that it reads on light and on dark.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from stepscope.metadata.readable import plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["COLOURS", "Markup", "area", "bar", "facts", "lanes", "section", "strip", "table"]

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#bab0ac")
ROWS_SHOWN = 30
_WIDTH = 640
_LABEL = 170
_LONG = 40
_CELL = "padding:2px 12px 2px 0;vertical-align:top;"
_NAMES = "min-width:14em;max-width:32em;overflow-wrap:anywhere"
"""Long names break anywhere, but never into a column of single letters."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def _text(value: str) -> str:
    return value if isinstance(value, Markup) else escape(plain_lines(value), quote=True)


def section(title: str, *parts: str) -> str:
    """A heading and what stands under it."""
    head = f"<div style='font-weight:bold;margin:4px 0'>{_text(title)}</div>"
    return Markup(f"<div>{head}{''.join(map(_text, parts))}</div>")


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, one below the other."""
    rows = "".join(
        f"<tr><th style='{_CELL}text-align:left;white-space:nowrap'>{_text(name)}</th>"
        f"<td style='{_CELL}text-align:left;white-space:pre-line'>{_text(value)}</td></tr>"
        for name, value in pairs
    )
    return Markup(f"<table style='border-collapse:collapse'><tbody>{rows}</tbody></table>")


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int] = (), what: str = ""
) -> str:
    """The first rows of a table; the columns numbered in `right` hold numbers.

    `what` is what to call the rows that are not shown.
    """
    numbers = set(right)
    sides = [
        "text-align:right;white-space:nowrap"
        if i in numbers
        else f"text-align:left;{_NAMES}"
        if i == 0 or any(len(row[i]) > _LONG for row in rows if not isinstance(row[i], Markup))
        else "text-align:left"
        for i in range(len(heads))
    ]

    def line(tag: str, cells: Sequence[str]) -> str:
        inside = "".join(
            f"<{tag} style='{_CELL}{side}'>{_text(cell)}</{tag}>"
            for side, cell in zip(sides, cells, strict=True)
        )
        return f"<tr>{inside}</tr>"

    body = "".join(line("td", row) for row in rows[:ROWS_SHOWN])
    rest = len(rows) - ROWS_SHOWN
    more = f"<div>and {rest:,} more {_text(what)}</div>" if rest > 0 else ""
    return Markup(
        "<table style='border-collapse:collapse'>"
        f"<thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>{more}"
    )


def bar(fraction: float, colour: str = COLOURS[0], width: int = 120) -> str:
    """A bar that fills its cell at 1."""
    long = round(max(0.0, min(1.0, fraction)) * width, 1)
    return Markup(
        f"<svg width='{width}' height='12' role='img' aria-label='{fraction:.1%}'>"
        f"<rect width='{long}' height='12' fill='{colour}'></rect></svg>"
    )


def strip(parts: Sequence[tuple[str, float]]) -> str:
    """What a whole is made of, side by side, with a legend below."""
    whole = sum(value for _, value in parts) or 1
    left, shapes, legend = 0.0, [], []
    for number, (name, value) in enumerate(parts):
        colour = COLOURS[number % len(COLOURS)]
        wide = value / whole * _WIDTH
        shapes.append(
            f"<rect x='{left:.1f}' width='{wide:.1f}' height='18' fill='{colour}'></rect>"
        )
        legend.append(
            f"<span style='margin-right:14px'><span style='color:{colour}'>■</span> "
            f"{_text(name)} {value / whole:.1%}</span>"
        )
        left += wide
    return Markup(_svg(18, "".join(shapes), ", ".join(name for name, _ in parts)) + _div(legend))


def area(
    times: Sequence[int],
    series: Sequence[tuple[str, Sequence[int]]],
    label: str,
    top: str,
    end: str,
) -> str:
    """Values over time as stepped areas, one behind the other; the first is the highest.

    `top` and `end` say what the highest value and the last time are.
    """
    height = 110
    if len(times) < 2 or max(series[0][1]) <= 0:
        return Markup("")
    edges, highest = np.asarray(times, np.int64), max(series[0][1])
    starts = edges[0] + (np.arange(_WIDTH // 2) * int(edges[-1] - edges[0])) // (_WIDTH // 2)
    first = np.maximum(np.searchsorted(edges, starts, side="right") - 1, 0)
    shapes, legend = [], []
    for number, (name, values) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        # Per column the highest value in it, so that no peak is lost.
        tallest = np.maximum.reduceat(np.asarray(values, np.int64), first)
        points = [f"0,{height}"]
        for column, value in enumerate(tallest.tolist()):
            y = f"{height - value / highest * height:.1f}"
            points.append(f"{2 * column},{y} {2 * column + 2},{y}")
        points.append(f"{_WIDTH},{height}")
        shapes.append(f"<polygon points='{' '.join(points)}' fill='{colour}'></polygon>")
        legend.append(
            f"<span style='margin-right:14px'><span style='color:{colour}'>■</span> "
            f"{_text(name)}</span>"
        )
    legend.append(f"<span>up to {_text(top)}, over {_text(end)}</span>")
    return Markup(_svg(height, "".join(shapes), label) + _div(legend))


def lanes(rows: Sequence[tuple[str, Sequence[float]]], label: str) -> str:
    """Per row how busy it was in equal parts of the time, 0 to 1: darker is busier."""
    step, shapes = 20, []
    for number, (name, busy) in enumerate(rows):
        top = number * step
        shown = name if len(name) <= 26 else f"…{name[-25:]}"
        shapes.append(
            f"<text x='{_LABEL - 8}' y='{top + 13}' text-anchor='end' font-size='11' "
            f"fill='currentColor'>{_text(shown)}</text>"
            f"<rect x='{_LABEL}' y='{top + 1}' width='{_WIDTH - _LABEL}' height='{step - 4}' "
            "fill='currentColor' fill-opacity='0.08'></rect>"
        )
        wide = (_WIDTH - _LABEL) / max(1, len(busy))
        shapes += [
            f"<rect x='{_LABEL + place * wide:.1f}' y='{top + 1}' width='{wide + 0.1:.1f}' "
            f"height='{step - 4}' fill='{COLOURS[0]}' fill-opacity='{part:.2f}'></rect>"
            for place, part in enumerate(busy)
            if part >= 0.005
        ]
    return Markup(_svg(max(1, len(rows)) * step, "".join(shapes), label))


def _svg(height: int, inside: str, label: str) -> str:
    return (
        f"<svg viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}' role='img' "
        f"aria-label='{_text(label)}' style='display:block;margin:4px 0'>{inside}</svg>"
    )


def _div(parts: Sequence[str]) -> str:
    return f"<div style='font-size:small;margin-bottom:6px'>{''.join(parts)}</div>"
