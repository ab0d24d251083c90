"""Numbers and names as people read them."""

from __future__ import annotations

import os
from pathlib import Path

from stepscope.metadata import readable

device = readable.device
number = readable.number
time = readable.time


def spent(ns: float) -> str:
    """`1.23 ms`; `-` for none."""
    return readable.time(ns) if ns else "-"


def size(count: int) -> str:
    """`3.81 MiB`; `-` for none."""
    return readable.size(count) if count else "-"


def share(fraction: float) -> str:
    """`12.3%`."""
    return f"{fraction:.1%}"


def count(value: int) -> str:
    """`12,000`; `-` for none."""
    return f"{value:,}" if value else "-"


def place(source: str) -> str:
    """A source line, its path relative to here where it lies below."""
    file, colon, line = source.rpartition(":")
    if not colon or not Path(file).is_absolute():
        return source
    near = os.path.relpath(file)
    return source if near.startswith("..") else f"{near}:{line}"


def plain(text: str) -> str:
    """The text on one line, with what a terminal would take for a command made visible."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
