"""The file of a store while it is written.

Guarantees:

- a committed run survives the death of the process, whatever kills it; the death of the machine
  as well once the store is closed, and before that up to the last checkpoint. The file is never
  unreadable for it;
- while it is written there are files beside it (`-wal`, `-shm`), which belong to it; `close` folds
  them into the one file, which can then be copied;
- a file system without shared memory gets SQLite's other journal (`-journal`), with the same
  guarantees; commits take longer there.

A `Database` belongs to the thread that made it. It must not be used, nor closed, nor forgotten in a
fork of its process: SQLite would take the fork's end for the end of all users of the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from stepscope.metadata.readable import writable
from stepscope.metadata.readers.store_file import APPLICATION_ID, SUFFIX, VERSION
from stepscope.note_rows import TABLE, add_row, checksum_of, insert_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.metadata.program_notes import Note
    from stepscope.metadata.stored.stored_run import SharedPart, StoredRun

__all__ = ["Database", "add_note_to"]

_TABLES: Final = """
CREATE TABLE parts (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL, size INTEGER NOT NULL, content BLOB NOT NULL
);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, what TEXT NOT NULL, engine TEXT NOT NULL, status TEXT NOT NULL,
    step_id INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL,
    ops INTEGER NOT NULL, overhead_ns INTEGER NOT NULL, overhead_fraction REAL NOT NULL,
    parts TEXT NOT NULL, columns TEXT NOT NULL, content BLOB NOT NULL, checksum INTEGER NOT NULL
);
"""
_PAGE: Final = 8192
_CHECKPOINT_PAGES: Final = 8192
"""A checkpoint waits for the disk: below 64 MiB there is none before the end."""
_WORTH_PACKING: Final = 200
_LOCKED_MS: Final = 5000


class Database:
    """A store's file, new, to which runs are added."""

    def __init__(self, directory: Path) -> None:
        """Make a file of a name that no other has; `OSError` or `sqlite3.Error` where it fails."""
        self.path = _new_file(directory)
        self.runs = 0
        """How many were added."""
        self._known: dict[bytes, int] = {}
        self._uses: Counter[int] = Counter()
        """By part, in how many runs it is."""
        self._uncommitted: list[bytes] = []
        try:
            self._file = _set_up(self.path, "WAL")
        except sqlite3.OperationalError:
            Path(f"{self.path}-wal").unlink(missing_ok=True)
            self.path.write_bytes(b"")
            self._file = _set_up(self.path, "TRUNCATE")

    def begin(self) -> None:
        """Begin to add runs that are committed together."""
        self._file.execute("BEGIN IMMEDIATE")

    def add(self, run: StoredRun) -> None:
        """Add a run, with the parts that are not there yet; without a number it gets the next."""
        ids = {name: [self._id(part) for part in found] for name, found in run.parts.items()}
        self._uses.update(one for found in ids.values() for one in found)
        parts = orjson.dumps(ids)
        columns = orjson.dumps({name: len(content) for name, content in run.columns.items()})
        content = b"".join(run.columns.values())
        values = (
            run.number or self.runs + 1,
            writable(run.what),
            writable(run.engine),
            run.status,
            run.step_id,
            run.started_ns,
            run.ended_ns,
            run.ops,
            int(run.overhead.ns),
            float(run.overhead.fraction),
            parts.decode(),
            columns.decode(),
            content,
        )
        self._file.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, checksum_of(values)),
        )
        self.runs += 1

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove runs, with the parts that no other has; those that are not there are none."""
        for number in numbers:
            row = self._file.execute("SELECT parts FROM runs WHERE number = ?", (number,))
            for (parts,) in row.fetchall():
                for found in orjson.loads(parts).values():
                    self._uses.subtract(found)
                    self._remove_parts([one for one in found if self._uses[one] <= 0])
            self._file.execute("DELETE FROM runs WHERE number = ?", (number,))

    def _remove_parts(self, ids: Iterable[int]) -> None:
        for one in ids:
            del self._uses[one]
            row = self._file.execute("SELECT digest FROM parts WHERE id = ?", (one,))
            for (digest,) in row.fetchall():
                self._known.pop(digest, None)
            self._file.execute("DELETE FROM parts WHERE id = ?", (one,))

    @property
    def used_bytes(self) -> int:
        """What the content of the file takes; what was removed makes room for more."""
        (pages,) = self._file.execute("PRAGMA page_count").fetchone()
        (free,) = self._file.execute("PRAGMA freelist_count").fetchone()
        return int(pages - free) * _PAGE

    def bound_log(self, size: int) -> None:
        """Fold what lies beside the file into it whenever that is some such size."""
        self._file.execute(f"PRAGMA wal_autocheckpoint = {max(16, size // _PAGE)}")
        self._file.execute(f"PRAGMA journal_size_limit = {size}")

    def write(self, statement: str, rows: Iterable[tuple[Any, ...]] = ((),)) -> None:
        """Have a statement carried out with each row of values, for tables beside the runs."""
        for row in rows:
            self._file.execute(statement, row)

    def add_note(self, note: Note) -> None:
        """Add a note of what the program did beside its runs."""
        insert_row(self._file, *_note_row(note))

    def _id(self, part: SharedPart) -> int:
        known = self._known.get(part.digest)
        if known is not None:
            return known
        content = part.content
        if len(content) >= _WORTH_PACKING:
            packed = zlib.compress(content, 3)
            content = packed if len(packed) < len(content) else content
        added: Any = self._file.execute(
            "INSERT INTO parts (digest, size, content) VALUES (?, ?, ?)",
            (part.digest, len(part.content), content),
        ).lastrowid
        self._known[part.digest] = added
        self._uncommitted.append(part.digest)
        return int(added)

    def commit(self) -> None:
        """Commit what was added; `OSError` where the file is gone by now."""
        self._file.execute("COMMIT")
        self._uncommitted.clear()
        # SQLite goes on writing to a file that was removed.
        self.path.stat()

    def undo(self, runs: int) -> None:
        """Take back what was not committed; `runs` is how many there were before."""
        with contextlib.suppress(sqlite3.Error):
            self._file.execute("ROLLBACK")
        for digest in self._uncommitted:
            self._known.pop(digest, None)
        self._uncommitted.clear()
        self.runs = runs

    def close(self) -> None:
        """Fold what lies beside the file into it. A store without a run is removed."""
        with contextlib.suppress(sqlite3.Error):
            self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            # Where somebody reads at this moment it stays as it is, and can be read as it is.
            self._file.execute("PRAGMA journal_mode = DELETE")
        self._file.close()
        if not self.runs:
            self.path.unlink(missing_ok=True)


def add_note_to(path: Path, note: Note) -> None:
    """Add a note to a store that is closed; nothing where that fails, or there is no store."""
    add_row(path, *_note_row(note))


def _note_row(note: Note) -> tuple[Any, ...]:
    what, where = writable(note.what), writable(note.where)
    return note.kind, note.started_ns, note.ended_ns, note.thread, what, where, note.details


def _new_file(directory: Path) -> Path:
    number = 0
    while True:
        number += 1
        path = directory / f"runs-{os.getpid()}-{number}{SUFFIX}"
        try:
            path.open("xb").close()
        except FileExistsError:
            continue
        return path


def _set_up(path: Path, journal: str) -> sqlite3.Connection:
    file = sqlite3.connect(path, isolation_level=None)
    try:
        file.execute(f"PRAGMA busy_timeout = {_LOCKED_MS}")
        file.execute(f"PRAGMA page_size = {_PAGE}")
        # Not yet a write-ahead log: what the file is must be told by its own first bytes.
        file.execute("PRAGMA synchronous = OFF")
        file.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
            f"{_TABLES} {TABLE} COMMIT;"
        )
        (found,) = file.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        if found.upper() != journal:
            raise sqlite3.OperationalError(f"journal_mode is {found}")
        file.execute("PRAGMA synchronous = NORMAL")
        file.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        # The first write shows whether there is shared memory.
        file.execute("BEGIN IMMEDIATE")
        file.execute("COMMIT")
    except BaseException:
        file.close()
        raise
    return file
