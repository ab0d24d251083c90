"""Numbers and names as people read them."""

from __future__ import annotations

_TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_BYTE_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def time(ns: float) -> str:
    """`1.23 ms`: three significant digits, in the unit that fits."""
    # 999.5 of a unit would round to 1000 of it.
    for size, unit in _TIME_UNITS:
        if abs(ns) >= size * 0.9995:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def size(count: int) -> str:
    """`3.81 MiB`; `-` for none."""
    if count == 0:
        return "-"
    for unit_size, unit in _BYTE_UNITS:
        if abs(count) >= unit_size:
            return f"{_three_digits(count / unit_size)} {unit}"
    return f"{count} B"


def share(fraction: float) -> str:
    """`12.3%`."""
    return f"{fraction:.1%}"


def number(count: int, what: str, plural: str | None = None) -> str:
    """`1 run`, `2 runs`, `12,000 runs`."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def device(name: str) -> str:
    """`CPU:0` for the full name of a device of this process; other names as they are."""
    local = name.removeprefix("/job:localhost/replica:0/task:0")
    return local.removeprefix("/device:")


def _three_digits(value: float) -> str:
    whole = len(f"{abs(value):.0f}")
    return f"{value:,.{max(0, 3 - whole)}f}"
