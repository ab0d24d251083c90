"""Tables and small plots as HTML and SVG, for notebooks. Every name is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["html_table", "svg_area"]

_ROWS_SHOWN = 50
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def html_table(title: str, rows: Sequence[Mapping[str, Any]], plot: str = "") -> str:
    """A table of rows that all have the same keys; the first fifty of them."""
    shown = rows[:_ROWS_SHOWN]
    columns = list(shown[0]) if shown else []
    head = "".join(f"<th style='text-align:left'>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(_cell(column, row[column]) for column in columns) + "</tr>"
        for row in shown
    )
    rest = len(rows) - len(shown)
    note = f"<p>and {rest:,} more</p>" if rest > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if shown else ""
    nothing = "" if shown else "<p>nothing recorded</p>"
    return f"<div><h4>{escape(title)}</h4>{plot}{table}{nothing}{note}</div>"


def _cell(column: str, value: Any) -> str:
    text = _text(column, value)
    align = "right" if isinstance(value, int | float) else "left"
    return f"<td style='text-align:{align}'>{escape(text)}</td>"


def _text(column: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return "" if value is None else str(value)
    if column.endswith("_ns"):
        return f"{value / 1e6:,.3f} ms"
    if column == "bytes" or column.endswith("_bytes"):
        return _size(value)
    if column in ("share", "fraction"):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _size(value: float) -> str:
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def svg_area(times: Sequence[float], values: Sequence[float], label: str) -> str:
    """Values over time as a stepped area, as wide as a notebook's cell."""
    width, height = 600, 80
    if len(times) < 2 or max(values) <= 0:
        return ""
    first, span, top = times[0], (times[-1] - times[0]) or 1, max(values)
    points = [f"0,{height}"]
    level = float(height)
    for time, value in zip(times, values, strict=True):
        x = (time - first) / span * width
        points.append(f"{x:.1f},{level:.1f}")
        level = height - value / top * height
        points.append(f"{x:.1f},{level:.1f}")
    points.append(f"{width},{level:.1f} {width},{height}")
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
        f"aria-label='{escape(label, quote=True)}'><title>{escape(label)}</title>"
        f"<polygon points='{' '.join(points)}' fill='#4c78a8' fill-opacity='0.6'/></svg>"
    )
