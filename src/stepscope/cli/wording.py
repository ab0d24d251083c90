"""Numbers and names as people read them; every name is `plain`."""

from __future__ import annotations

import os
from pathlib import Path

from stepscope.metadata import readable

number = readable.number
plain = readable.plain
time = readable.time


def device(name: str) -> str:
    """The short name of a device; what a terminal would take for a command is made visible."""
    return readable.plain(readable.device(name))


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
    path, colon, line = source.rpartition(":")
    return f"{file(path)}:{readable.plain(line)}" if colon else readable.plain(source)


def file(path: str) -> str:
    """A file, relative to here where it lies below."""
    if not Path(path).is_absolute():
        return readable.plain(path)
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        # The directory that we are in was removed, or this is no path.
        near = ".."
    return readable.plain(path if near.startswith("..") else near)
