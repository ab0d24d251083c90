"""Numbers and names as people read them; every name is `plain`."""

from __future__ import annotations

from stepscope.metadata import readable

file = readable.file
number = readable.number
place = readable.place
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
