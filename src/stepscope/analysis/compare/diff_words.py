"""A comparison in words, as a terminal and a page say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.metadata import readable

if TYPE_CHECKING:
    from stepscope.analysis.compare.diff import DiffRow

__all__ = ["in_words", "percent", "short_name"]

_PEAK: Final = "peak of "


def in_words(row: DiffRow) -> str:
    """`time, all ops: 1.20 ms -> 1.80 ms, +50.0% (+45.0% to +55.0%), significant`."""
    told = readable.time if row.metric == "time" else _size
    sure = "significant" if row.significant else "not significant"
    what = "time, all ops" if row.name == "total" and not row.op else short_name(row.name)
    return (
        f"{what}: {told(row.base)} -> {told(row.new)}, {percent(row.change)} "
        f"({percent(row.low)} to {percent(row.high)}), {sure}"
    )


def _size(count: float) -> str:
    return readable.size(round(count)) if round(count) else "-"


def short_name(name: str) -> str:
    """An op's name; that of a peak with its device's short one."""
    peak, device = name[: len(_PEAK)], name[len(_PEAK) :]
    if peak == _PEAK:
        return f"{_PEAK}{readable.plain(readable.device(device))}"
    return readable.plain(name)


def percent(change: float) -> str:
    """`+12.3%`."""
    return f"{change:+.1%}" if change < 10 else "> +999%"
