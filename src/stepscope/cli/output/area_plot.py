"""A text plot of bytes over time. Draws; computes nothing but where a value lands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from stepscope.cli.output import wording

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_PERSISTENT, _REFUSED, _LIMIT = "▒", "░", "╌"
_LABEL = 10
_REFUSED_COLUMNS = 2
# The curve is what there is to see: a limit or a request out of all proportion must not flatten it.
_OUT_OF_PROPORTION = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """`live[i]` bytes, of which `persistent[i]` stay between ops, from `time_ns[i]` on."""

    time_ns: Ints
    live: Ints
    persistent: Ints | None = None


def area_plot(
    curve: Curve,
    width: int,
    height: int = 12,
    *,
    limit: int | None = None,
    refused: int = 0,
) -> Text:
    """The curve as a filled area with scales; `limit` as a line, `refused` on top at its end."""
    inner = max(20, width - _LABEL - 1)
    columns = inner - (_REFUSED_COLUMNS if refused else 0)
    live, persistent = _columns(curve, columns)
    highest = max(1, int(live.max()))
    wanted = int(live[-1]) + refused
    limited = limit is not None and limit <= _OUT_OF_PROPORTION * highest
    seen = max(highest, limit if limited and limit is not None else 0)
    cut = wanted > _OUT_OF_PROPORTION * seen
    top = int(seen * 1.25) if cut else max(seen, wanted)
    levels = np.round(live / top * height * 8).astype(int)
    bases = np.round(persistent / top * height * 8).astype(int)
    line = min(height - 1, _row(limit, top, height)) if limited and limit is not None else None
    text = Text(no_wrap=True)
    for row in range(height - 1, -1, -1):
        text.append(_scale(row, line, limit, top, height))
        for level, base in zip(levels.tolist(), bases.tolist(), strict=True):
            _cell(text, row, level, base, row == line)
        if refused:
            end = height * 8 if cut else round(wanted / top * height * 8)
            for _ in range(_REFUSED_COLUMNS):
                _refusal(text, row, (int(levels[-1]), end), int(bases[-1]), cut, row == line)
        text.append("\n")
    text.append(f"{'0 B':>{_LABEL}}└{'─' * inner}\n", style="dim")
    span = wording.time(int(curve.time_ns[-1]) - int(curve.time_ns[0]))
    text.append(f"{'':{_LABEL}} 0{span:>{columns - 1}}\n", style="dim")
    text.append_text(_legend(bool((persistent > 0).any()), refused, line is not None))
    return text


def _columns(curve: Curve, count: int) -> tuple[Ints, Ints]:
    """Per column of the plot the most that was live in it, and how much of that stays."""
    times, live = curve.time_ns, curve.live
    lasting = np.zeros_like(live) if curve.persistent is None else curve.persistent
    first, last = int(times[0]), int(times[-1])
    starts = first + (np.arange(count) * (last - first)) // count
    begin = np.searchsorted(times, starts, side="left")
    end = np.append(begin[1:], len(times))
    # What was live when a column begins is live in it; of a later moment the highest counts.
    carried = np.maximum(begin - 1, 0)
    chosen = [
        max(range(low, high), key=live.__getitem__, default=low)
        for low, high in zip(carried.tolist(), np.maximum(end, carried + 1).tolist(), strict=True)
    ]
    return live[chosen], lasting[chosen]


def _row(value: int, top: int, height: int) -> int:
    return max(0, int(value / top * height - 1e-9))


def _scale(row: int, line: int | None, limit: int | None, top: int, height: int) -> Text:
    if row == line and limit is not None:
        return Text(f"{wording.size(limit):>{_LABEL}}┤", style="red")
    near_line = line is not None and abs(line - row) < 2
    if row in (height - 1, height // 2 - 1) and not near_line:
        return Text(f"{wording.size(round(top * (row + 1) / height)):>{_LABEL}}┤", style="dim")
    return Text(f"{'':{_LABEL}}│", style="dim")


def _cell(text: Text, row: int, level: int, base: int, on_line: bool) -> None:
    filled = min(8, max(0, level - row * 8))
    if not filled:
        text.append(_LIMIT if on_line else " ", style="red" if on_line else "")
    elif base >= row * 8 + 4 or base >= level:
        text.append(_PERSISTENT if filled == 8 else _EIGHTHS[filled], style="blue")
    else:
        text.append(_EIGHTHS[filled], style="cyan")


def _refusal(
    text: Text, row: int, part: tuple[int, int], base: int, cut: bool, on_line: bool
) -> None:
    """A cell of what was live in the end, with what was asked for on top of it."""
    start, end = part
    if cut and (row + 1) * 8 == end:
        text.append("▲", style="bold red")
    elif start <= row * 8 + 4 < max(end, start + 8):
        text.append(_REFUSED, style="red")
    else:
        _cell(text, row, start, base, on_line)


def _legend(persistent: bool, refused: int, limited: bool) -> Text:
    parts = [Text.assemble(("█", "cyan"), " temporary" if persistent else " live")]
    if persistent:
        parts.append(Text.assemble((_PERSISTENT, "blue"), " variables, queues, feeds"))
    if refused:
        parts.append(Text.assemble((_REFUSED, "red"), f" refused: {wording.size(refused)}"))
    if limited:
        parts.append(Text.assemble((_LIMIT, "red"), " limit"))
    return Text.assemble(" " * (_LABEL + 1), Text("   ").join(parts))
