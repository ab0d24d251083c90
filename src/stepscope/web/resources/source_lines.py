"""Lines of the program's source, as far as they are still there."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.metadata import readable
from stepscope.web.resources.asked import WrongParameterError

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["lines_around", "source"]

_AROUND: Final = 2
_LONGEST: Final = 400


def source(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """A line of a file that a run names, with those around it. No other file is read."""
    wanted = asked.text("line")
    for line in sorted(recordings.survey.lines):
        if wanted in (line, readable.place(line)):
            return lines_around(line)
    raise WrongParameterError(f"no op of these runs was made at {wanted!r}")


def lines_around(line: str) -> dict[str, Any]:
    """A line with two before and after it, or why it cannot be shown."""
    path, _, number = line.rpartition(":")
    shown = {"file": readable.file(path), "line": 0, "lines": [], "available": False, "why": ""}
    if not number.isdecimal() or len(number) > 9:
        return {**shown, "why": "the line is not known"}
    at = int(number)
    shown["line"] = at
    if Path(path).suffix != ".py":
        # Whoever made the recording says which files these are; a report may go to others.
        return {**shown, "why": "only lines of Python files are shown"}
    try:
        there = Path(path).is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        return {**shown, "why": "the file is not on this machine"}
    linecache.checkcache(path)
    every = linecache.getlines(path)
    if not 1 <= at <= len(every):
        return {**shown, "why": "the file has changed since: it has no such line"}
    first, last = max(1, at - _AROUND), min(len(every), at + _AROUND)
    lines = [[n, every[n - 1].rstrip("\n")[:_LONGEST]] for n in range(first, last + 1)]
    return {**shown, "lines": lines, "available": True}
