"""`*.stepscope`: a store of runs, an SQLite database that `stepscope.store` writes.

Tables (versions 1 to 5):

    parts   id, digest, size, content: what runs share, each once. `content` is compressed with
            zlib where it is shorter than `size`.
    runs    number (from 1; a recorder that keeps some of all leaves gaps), what, engine, status,
            step_id, started_ns, ended_ns, ops, overhead_ns, overhead_fraction;
            parts: JSON, the ids of its parts by what they are;
            columns: JSON, the lengths of the packed columns in `content` by what they are;
            checksum: CRC-32 of all of them (`checksum_of`).
    notes   (from version 3 on) number, kind, started_ns, ended_ns, thread, what, place;
            details: JSON; checksum, as above: what the program did beside its runs
            (`stepscope.metadata.program_notes`).

Guarantees:

- a store is read as it is at the moment, while another process writes it as well: every run that
  was committed, whole, and none in part. Reading changes nothing in the file;
- in memory is one run at a time, and the parts that runs share once; nothing is held open between
  two runs;
- of a process that died, the runs that it had ended and not yet stored, and those under way, come
  last (`live_file`, `node_log_file`);
- what is damaged is left out and declared: content is compared with its checksum, and of a store
  that SQLite cannot follow, runs are read from both ends up to the damage. Of one that was cut
  short it is said how much of it is there. A store of a later version is refused, with its version.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
import zlib
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from weakref import WeakValueDictionary

import orjson

from stepscope.errors import UnreadableFileError
from stepscope.metadata.outcome import Loss, Overhead
from stepscope.metadata.program_notes import Note
from stepscope.metadata.readable import number as counted
from stepscope.metadata.readers import live_file, node_log_file
from stepscope.metadata.readers.event_file import NoRunError
from stepscope.metadata.stored.stored_run import (
    RunEncoder,
    SharedPart,
    StoredRun,
    decoded_run,
    digest_of,
)
from stepscope.note_rows import checksum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepscope.metadata.run_metadata import RunMetadata

__all__ = [
    "APPLICATION_ID",
    "NAME",
    "SUFFIX",
    "VERSION",
    "is_store",
    "notes",
    "numbered_runs",
    "opened",
    "stored_runs",
    "user_graph",
]

NAME = "a store of Stepscope's"
SUFFIX: Final = ".stepscope"
APPLICATION_ID: Final = 0x53537470
"""SQLite's field for whose database a file is: "SStp"."""
VERSION: Final = 5
"""From 2 on runs may be stored as an executor logged them, from 3 on there are notes, from 4 on
runs may be stored as readings over a pattern. What reads it reads those before as well."""
_WITH_NOTES: Final = 3

_SQLITE: Final = b"SQLite format 3\x00"
_AT_ONCE: Final = 64
_KEPT_PARTS: Final = 64
_RUN: Final = (
    "SELECT number, what, engine, status, step_id, started_ns, ended_ns, ops, overhead_ns,"
    " overhead_fraction, parts, columns, content, checksum FROM runs"
)
_TYPES: Final = (int, str, str, str, int, int, int, int, int, float, str, str, bytes)
_OF_ALL_OPS: Final = frozenset(
    {"facts", "times", "graphs", "descriptions", "logged", "pattern", "standing"}
)
"""Parts without which there are no ops."""
_BESIDE: Final = ("-wal", "-journal")


def is_store(path: Path) -> bool:
    """Whether a file is a store: by its name, or else by its first bytes."""
    try:
        if path.suffix == SUFFIX or not path.is_file():
            # Not opened: to close a file lets go of all locks that this process has on it, also
            # those of a store that is being written.
            return path.is_file()
        with path.open("rb") as file:
            head = file.read(100)
    except OSError:
        return False
    return head.startswith(_SQLITE) and head[68:72] == APPLICATION_ID.to_bytes(4, "big")


def runs(path: Path) -> Iterator[tuple[str, RunMetadata]]:
    """The runs in the store in the order in which they ended, each with its name."""
    empty = True
    for run in stored_runs(path):
        empty = False
        yield run.name, decoded_run(run)
    if empty:
        raise NoRunError(f"{path}: a store that holds no run, or none yet")


def stored_runs(path: Path) -> Iterator[StoredRun]:
    """The runs in the store as it keeps them.

    `UnreadableFileError` for one of which nothing can be read.
    """
    reader = _Reader(path)
    last = 0
    held: StoredRun | None = None  # of a damaged store: the last one tells of it
    try:
        while found := reader.after(last):
            if held is not None:
                yield held
                held = None
            last = found[-1].number
            if reader.is_damaged:
                held = found.pop()
            yield from found
        if held is not None:
            reason = f"{damage_of(path)}; all of its runs could be read"
            held.losses = (*held.losses, Loss("part of the file", 0, reason))
            yield held
            held = None
        yield from _not_stored(path, reader, last)
    except sqlite3.DatabaseError as error:
        if held is not None:
            yield held
        yield from _around_damage(path, reader, last, error)


def numbered_runs(path: Path, numbers: Iterable[int]) -> Iterator[tuple[int, RunMetadata]]:
    """The runs in the store that have these numbers, read one by one; no other is looked at."""
    reader = _Reader(path)
    with contextlib.suppress(sqlite3.DatabaseError):
        for number in numbers:
            for run in reader.after(number - 1, 1):
                if run.number == number:
                    yield number, decoded_run(run)


def _not_stored(path: Path, reader: _Reader, last: int) -> Iterator[StoredRun]:
    """The runs that the process had not stored when it died."""
    found: list[tuple[str, RunMetadata]] = []
    if Path(f"{path}{live_file.SUFFIX}").exists():
        known = reader.step_ids(live_file.ENGINES)
        found += [("", run) for run in live_file.left_behind(path, known)]
    if Path(f"{path}{node_log_file.SUFFIX}").exists():
        found += node_log_file.left_behind(path, reader.step_ids(node_log_file.ENGINES))
    encoder = RunEncoder()
    for number, (what, run) in enumerate(found, last + 1):
        stored = encoder.encode(run, what)
        stored.number = number
        yield stored


def notes(path: Path) -> list[Note] | None:
    """The notes in the store, in the order in which they were written; damaged ones are left out.

    None where it was written by a Stepscope that made none.
    """
    if _Reader(path).version < _WITH_NOTES:
        return None
    with contextlib.suppress(sqlite3.DatabaseError), opened(path) as database:
        rows = database.execute(
            "SELECT kind, started_ns, ended_ns, thread, what, place, details, checksum FROM notes"
            " ORDER BY number"
        ).fetchall()
        return [
            Note(kind, started, ended, thread, what, where, json.loads(details))
            for kind, started, ended, thread, what, where, details, checksum in rows
            if checksum_of((kind, started, ended, thread, what, where, details)) == checksum
        ]
    return []


def user_graph(path: Path, number: int) -> bytes | None:
    """The graph, a GraphDef's bytes, that the run of a number was a run of; None without one."""
    found = _Reader(path).after(number - 1, 1)
    graphs = found[0].parts.get("graph") if found and found[0].number == number else None
    return None if graphs is None else graphs[0].content


def _around_damage(
    path: Path, reader: _Reader, last: int, error: sqlite3.DatabaseError
) -> Iterator[StoredRun]:
    """What can be read one by one after a run, and then from the end back to where it fails."""
    reason = f"{damage_of(path, error)}; what could be read of it was"
    ahead: list[StoredRun] = []
    with contextlib.suppress(sqlite3.DatabaseError):
        while found := reader.after(ahead[-1].number if ahead else last, 1):
            ahead += found
    behind: list[StoredRun] = []
    first_known = ahead[-1].number if ahead else last
    with contextlib.suppress(sqlite3.DatabaseError):
        while found := reader.before(behind[-1].number if behind else None):
            if found[0].number <= first_known:
                break
            behind += found
    behind.reverse()
    missing = behind[0].number - first_known - 1 if behind else 0
    loss = Loss("runs of the file", missing, reason)
    if not (last or ahead or behind):
        raise UnreadableFileError(f"{path}: no run in it can be read: {_damaged(path, error)}")
    if not ahead and not behind:
        # The runs before were given out without knowing: one that holds the loss alone.
        behind = [StoredRun(number=last + 1, status="DATA_LOSS", what="and later")]
    ahead += behind
    ahead[-1].losses = (*ahead[-1].losses, loss)
    yield from ahead


def damage_of(path: Path, error: Exception | None = None) -> str:
    """What is wrong with a store that SQLite cannot follow, with its name and what to do."""
    return f"{path.name}: {_damaged(path, error)}"


def _damaged(path: Path, error: Exception | None = None) -> str:
    """What was found in place of a whole store, and what to do.

    How long it was is in its head: the size of its pages, and how many there were.
    """
    todo = "copy it again from where it was recorded, or record again"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as problem:
        return f"it cannot be read: {problem.strerror}"
    if not head.startswith(_SQLITE[: len(head)]):
        return f"it does not begin as a store of runs does: it is another file, or damaged; {todo}"
    if len(head) < 100:
        return f"it is cut short: {counted(size, 'byte')} left, not even its head; {todo}"
    page = int.from_bytes(head[16:18], "big")
    whole = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if size < whole:
        return f"it is cut short: {size:,} of its {whole:,} bytes are there; {todo}"
    found = f" (SQLite: {error})" if error is not None else ""
    return f"its content is damaged{found}; {todo}"


class _Reader:
    """Reads runs; each call opens the store and closes it again."""

    def __init__(self, path: Path) -> None:
        """`UnreadableFileError` where the file is no store, or one of a later version."""
        self._path = path
        self._parts: WeakValueDictionary[int, SharedPart] = WeakValueDictionary()
        self._latest: deque[SharedPart] = deque(maxlen=_KEPT_PARTS)
        self._check_version()

    def _check_version(self) -> None:
        path = self._path
        try:
            with opened(path) as database:
                (owner,) = database.execute("PRAGMA application_id").fetchone()
                (version,) = database.execute("PRAGMA user_version").fetchone()
                (repairing,) = database.execute("PRAGMA writable_schema").fetchone()
                (pages,) = database.execute("PRAGMA page_count").fetchone()
                (page,) = database.execute("PRAGMA page_size").fetchone()
        except sqlite3.OperationalError as error:
            raise UnreadableFileError(
                f"{path}: cannot be read as a store of runs: {error}"
            ) from error
        except sqlite3.DatabaseError as error:
            raise UnreadableFileError(
                f"{path}: cannot be read as a store of runs: {_damaged(path, error)}"
            ) from error
        size = path.stat().st_size
        # What it has beside it may be the rest of it.
        alone = not any(_has_content(Path(f"{path}{name}")) for name in _BESIDE)
        self.is_damaged = bool(repairing) or (alone and 0 < size < pages * page)
        """SQLite reads it as one that is to be repaired, or takes what is missing for zeros."""
        if owner != APPLICATION_ID and 0 < size < 100:
            raise UnreadableFileError(
                f"{path}: cannot be read as a store of runs: {_damaged(path)}"
            )
        if owner != APPLICATION_ID:
            raise UnreadableFileError(
                f"{path}: is an SQLite database, and no store of Stepscope's"
                if version or owner
                else f"{path}: a store in which nothing was written; its recording did not begin"
            )
        self.version: int = version
        if not 1 <= version <= VERSION:
            raise UnreadableFileError(
                f"{path}: is a store of version {version}, of a later Stepscope; this one reads "
                f"version {VERSION}: pip install --upgrade stepscope"
            )

    def after(self, number: int, most: int = _AT_ONCE) -> list[StoredRun]:
        """The next runs after the one of a number."""
        with opened(self._path) as database:
            order = "WHERE number > ? ORDER BY number LIMIT ?"
            rows = database.execute(f"{_RUN} {order}", (number, most)).fetchall()
            for before, (after, *_) in zip([number, *(row[0] for row in rows)], rows, strict=False):
                if type(after) is not int or after <= before:
                    raise sqlite3.DatabaseError("its runs are out of order")
            return [self._run(database, row) for row in rows]

    def before(self, number: int | None) -> list[StoredRun]:
        """The run before the one of a number, or the last of all."""
        with opened(self._path) as database:
            order = "WHERE number < ? ORDER BY number DESC LIMIT 1"
            rows = database.execute(f"{_RUN} {order}", (number or 1 << 62,)).fetchall()
            if rows and (type(rows[0][0]) is not int or not 0 < rows[0][0] < (number or 1 << 62)):
                raise sqlite3.DatabaseError("its runs are out of order")
            return [self._run(database, row) for row in rows]

    def step_ids(self, engines: Sequence[str]) -> set[int]:
        """The steps of all runs of these engines, which number them by process."""
        with opened(self._path) as database:
            which = ", ".join("?" * len(engines))
            rows = database.execute(f"SELECT step_id FROM runs WHERE engine IN ({which})", engines)
            return {step_id for (step_id,) in rows}

    def _run(self, database: sqlite3.Connection, row: tuple[Any, ...]) -> StoredRun:
        *values, checksum = row
        # SQLite keeps values of any type in any column, so damaged ones may have another.
        if tuple(map(type, values)) != _TYPES or checksum_of(values) != checksum:
            lost = StoredRun(number=row[0], status="DATA_LOSS")
            self._lose(lost, "runs", 1, "a run is damaged")
            return lost
        number, what, engine, status, step_id, started, ended, ops, *rest = values
        overhead_ns, fraction, part_ids, lengths, content = rest
        run = StoredRun(
            number=number,
            what=what,
            engine=engine,
            status=status,
            step_id=step_id,
            started_ns=started,
            ended_ns=ended,
            ops=ops,
            overhead=Overhead(overhead_ns, fraction),
        )
        place = 0
        for name, length in orjson.loads(lengths).items():
            run.columns[name] = content[place : place + length]
            place += length
        for name, ids in orjson.loads(part_ids).items():
            found = [part for one in ids if (part := self._part(database, one)) is not None]
            if len(found) == len(ids):
                run.parts[name] = tuple(found)
            else:
                count = ops if name in _OF_ALL_OPS else len(ids) - len(found)
                self._lose(run, name.replace("_", " "), count, f"a part of it ({name}) is damaged")
        return run

    def _lose(self, run: StoredRun, what: str, count: int, why: str) -> None:
        reason = f"{self._path.name}: {why}; the rest of the run was read"
        run.losses = (*run.losses, Loss(f"{what} of the file", count, reason))

    def _part(self, database: sqlite3.Connection, number: int) -> SharedPart | None:
        part = self._parts.get(number)
        if part is None:
            part = _read_part(database, number)
            if part is None:
                return None
            self._parts[number] = part
        self._latest.append(part)
        return part


def _read_part(database: sqlite3.Connection, number: int) -> SharedPart | None:
    """A part, None where it is damaged."""
    try:
        row = database.execute(
            "SELECT digest, size, content FROM parts WHERE id = ?", (number,)
        ).fetchone()
        if row is None:
            return None
        digest, size, content = row
        if len(content) != size:
            unpacker = zlib.decompressobj()
            content = unpacker.decompress(content, size + 1)
    except (sqlite3.DatabaseError, zlib.error, TypeError):
        return None
    return SharedPart(content, digest) if digest_of(content) == digest else None


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The store to read, in whatever state and directory it is."""
    try:
        database = _connected(path)
    except sqlite3.OperationalError:
        # SQLite would write beside the file: where it may not, in a copy.
        beside = [name for name in _BESIDE if _has_content(Path(f"{path}{name}"))]
        if not beside:
            with contextlib.closing(_connected(path, "immutable=1")) as database:
                yield database
            return
        with (
            _copied(path, beside) as copy,
            contextlib.closing(_connected(copy, "mode=rw")) as database,
        ):
            yield database
        return
    with contextlib.closing(database):
        yield database


@contextlib.contextmanager
def _copied(path: Path, beside: Sequence[str]) -> Iterator[Path]:
    """The store and what lies beside it, where one may write."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepscope-"))
            copy = Path(folder, path.name)
            for name in ("", *beside):
                shutil.copyfile(f"{path}{name}", f"{copy}{name}")
        except OSError as error:
            files = ", ".join(f"{path.name}{name}" for name in ("", *beside))
            raise UnreadableFileError(
                f"{path}: its writer did not close it, so it is read with what lies beside it, in "
                f"a copy where its directory may not be written to; none could be made ({error}). "
                f"Copy {files} to a directory of yours, or set TMPDIR to one with room for them"
            ) from error
        yield copy


def _connected(path: Path, how: str = "mode=ro") -> sqlite3.Connection:
    place = quote(str(path.absolute()).encode(errors="surrogateescape"))
    database = sqlite3.connect(f"file:{place}?{how}", uri=True, isolation_level=None)
    database.text_factory = lambda text: text.decode(errors="surrogateescape")
    try:
        try:
            _look_at_tables(database)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            # Of a file that is cut SQLite reads nothing, unless it is told that it is for repair.
            database.execute("PRAGMA writable_schema = ON")
            _look_at_tables(database)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _look_at_tables(database: sqlite3.Connection) -> None:
    try:
        database.execute("SELECT 1 FROM sqlite_master").fetchone()
    except UnicodeDecodeError as error:
        # SQLite quotes what it does not understand, which need not be text.
        raise sqlite3.DatabaseError("what its tables are called is damaged") from error


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
