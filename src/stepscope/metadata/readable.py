"""Times, sizes, devices and names as people read them."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = [
    "cost",
    "device",
    "file",
    "first_lines",
    "number",
    "place",
    "plain",
    "plain_lines",
    "size",
    "telling_lines",
    "three_digits",
    "time",
    "writable",
]

_LOCAL = "/job:localhost/replica:0/task:0"
_TASK = re.compile(r"/job:(?P<job>[^/]+)(?:/replica:0)?/task:(?P<task>\d+)(?=/|\Z)")
_TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def time(ns: float) -> str:
    """`1.23 ms`: three significant digits, in the unit that fits."""
    # 999.5 of a unit would round to 1000 of it.
    for unit_size, unit in _TIME_UNITS:
        if abs(ns) >= unit_size * 0.9995:
            return f"{three_digits(ns / unit_size)} {unit}"
    return f"{ns:.0f} ns"


def cost(ns: int, fraction: float) -> str:
    """`40 µs (3.1%)`; of a run shorter than what recording it cost, how long that was itself."""
    if fraction < 1:
        return f"{time(ns)} ({fraction:.1%})"
    return f"{time(ns)} (the run itself took {time(ns / fraction)})"


def size(count: int) -> str:
    """`3.81 MiB`: three significant digits, in the unit that fits."""
    # 1023.9 of a unit would round to 1024 of it.
    for unit_size, unit in _UNITS:
        if abs(count) >= unit_size * 0.9995:
            return f"{three_digits(count / unit_size)} {unit}"
    return f"{count} B"


def number(count: int, what: str, plural: str | None = None) -> str:
    """`1 run`, `2 runs`, `12,000 runs`."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def writable(text: str) -> str:
    r"""The text with escapes for what UTF-8 cannot hold: the bytes of a path that are no text.

    >>> print(writable("run_\udcff"))
    run_\xff
    """
    if text.isascii():
        return text
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:
        # Halves of surrogate pairs that stand for no byte.
        return text.encode(errors="backslashreplace").decode()


def plain(text: str) -> str:
    r"""The text on one line, with all that does something else than be seen made visible.

    Names and paths come from files that anybody may have written. Control characters (those of
    C0, C1, escape sequences of a terminal), overrides of the direction of writing, line and
    paragraph separators and whatever else does not print stand as escapes; so do the bytes of a
    path that are no text.

    >>> print(plain("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in writable(text)
    )


def plain_lines(text: str) -> str:
    """As `plain`, for a text of several lines: they stay lines."""
    return "\n".join(map(plain, text.split("\n")))


def first_lines(text: str, most: int = 4) -> list[str]:
    """The first lines of a message, and in one more how many there are beyond them."""
    lines = [line.strip() for line in text.strip().splitlines()]
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], f"({number(rest, 'more line')})"]


def telling_lines(message: str) -> list[str]:
    r"""The lines of an error's message that say what happened, without where the op was made.

    TensorFlow begins with that: a heading, and the lines of a traceback; and it ends with the node.

    >>> where = "Detected at node rows defined at:\n  File 'train.py', line 17"
    >>> telling_lines(f"Graph execution error:\n\n{where}\nindices[6] = 4 is not in [0, 4)")
    ['indices[6] = 4 is not in [0, 4)']
    """
    lines = message.strip().splitlines()
    if not lines or not lines[0].startswith("Graph execution error"):
        return [line.strip() for line in lines]
    for number, line in enumerate(lines[1:], start=1):
        if line.strip() and not line.startswith((" ", "\t", "Detected at node", "Node: ")):
            rest = [line.strip() for line in lines[number:]]
            return [line for line in rest if line and not line.startswith("[[{{node")]
    return lines[:1]


def three_digits(value: float) -> str:
    """`1.23`, `12.3`, `123`, `1,234`."""
    # What rounds to 10.0 or 100 has a digit more before the point.
    places = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{places}f}"


def device(name: str) -> str:
    """`CPU:0` for a device of this process, `ps:0/CPU:0` for another task's; others as they are."""
    local = name.removeprefix(_LOCAL)
    return _TASK.sub(r"\g<job>:\g<task>", local).replace("/device:", "/").removeprefix("/")


def place(source: str) -> str:
    """A source line, its path relative to here where it lies below."""
    path, colon, line = source.rpartition(":")
    return f"{file(path)}:{plain(line)}" if colon else plain(source)


def file(path: str) -> str:
    """A file, relative to here where it lies below."""
    if not Path(path).is_absolute():
        return plain(path)
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        # The directory that we are in was removed, or this is no path.
        near = ".."
    return plain(path if near.startswith("..") else near)
