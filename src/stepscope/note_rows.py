"""The rows of a store's notes: what they hold, and how they are written.

With the standard library alone: the process that stands outside of a script's, which loads nothing
else, writes the last one.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["TABLE", "add_row", "checksum_of", "insert_row"]

TABLE: Final = """
CREATE TABLE notes (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, started_ns INTEGER NOT NULL,
    ended_ns INTEGER NOT NULL, thread INTEGER NOT NULL, what TEXT NOT NULL, place TEXT NOT NULL,
    details TEXT NOT NULL, checksum INTEGER NOT NULL
);
"""


def checksum_of(values: Iterable[str | int | float | bytes]) -> int:
    """What the `checksum` of a row with these values is."""
    texts: list[bytes] = []
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
        texts += (b"%d:" % len(data), data)
    return zlib.crc32(b"".join(texts))


def insert_row(
    file: sqlite3.Connection, kind: str, started_ns: int, ended_ns: int, thread: int, what: str,
    where: str, details: Mapping[str, Any],
) -> None:  # fmt: skip
    """Write a note; its texts can be written as UTF-8."""
    # Python's own JSON takes any text, also what is no UTF-8.
    noted = json.dumps(details, default=str)
    values = (kind, started_ns, ended_ns, thread, what, where, noted)
    file.execute(
        "INSERT INTO notes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, checksum_of(values))
    )


def add_row(path: Path, kind: str, started_ns: int, *rest: Any) -> None:
    """Write a note, as `insert_row` does, into a store that is closed.

    Nothing where that fails, or there is no store.
    """
    if not path.is_file():
        return
    with contextlib.suppress(sqlite3.Error):
        file = sqlite3.connect(path, isolation_level=None)
        try:
            file.execute("PRAGMA synchronous = OFF")
            insert_row(file, kind, started_ns, *rest)
        finally:
            file.close()
