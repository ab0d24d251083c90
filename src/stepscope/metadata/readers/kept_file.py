"""What a recorder with a budget left in a store beside the runs that it kept.

Tables, in stores that such a recorder wrote:

    recording   name, value (JSON): the terms (`budget`, `memory`, `disk`, `keep`, `triggers`), what
                it cost (`spent_ns`, of `own_ns`), what had to go (`dropped`: kind, reason, count),
                what triggered (`triggered`: why, when), when the process did not run
                (`standstills`: from, to)
    kept        number (of the run), kind, level, reasons (JSON), why, wait_ns (since the run before
                it on its thread), took_ns (the whole call, without what recording
                it took)
    summaries   kind, content (`StepSummary.to_bytes`), checksum (CRC-32)

A summary that is damaged is left out. All of it is read without looking at any run.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from stepscope.metadata.readers.store_file import is_store, opened
from stepscope.metadata.stored.packing import PackedDamageError
from stepscope.metadata.stored.step_summaries import Level, StepSummary

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "TABLES",
    "KeptRun",
    "StepsRecording",
    "recording_of",
    "recordings_at",
    "steps_recordings",
]

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS recording (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
    " level INTEGER NOT NULL, reasons TEXT NOT NULL, why TEXT NOT NULL,"
    " wait_ns INTEGER NOT NULL, took_ns INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS summaries (kind TEXT PRIMARY KEY, content BLOB NOT NULL,"
    " checksum INTEGER NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class KeptRun:
    """That a run was kept, and why: `reasons` as the recorder calls them, `why` in words.

    What follows is what the store's list of runs says of it, without looking into it.
    """

    number: int
    kind: str
    level: Level
    reasons: tuple[str, ...]
    why: str = ""
    wait_ns: int = 0
    """What passed before it since the run before on its thread, where that is known."""
    what: str = ""
    engine: str = ""
    status: str = "OK"
    started_ns: int = 0
    ended_ns: int = 0
    ops: int = 0
    took_ns: int = 0
    """The whole call, without what recording it took. Its ops alone may be all that `started_ns`
    and `ended_ns` are of."""

    @property
    def length_ns(self) -> int:
        """What the program waited for.

        >>> run = KeptRun(1, "step", Level.DETAIL, (), started_ns=10, ended_ns=70, took_ns=90)
        >>> run.length_ns
        90
        """
        return self.took_ns or max(0, self.ended_ns - self.started_ns)

    @property
    def name(self) -> str:
        """What its file calls it."""
        return f"run_{self.number:06d} {self.what}".rstrip()


@dataclass(frozen=True, slots=True)
class StepsRecording:
    """What a recorder with a budget saw of a program's steps, and what of them it kept.

    `budget` is the share of the time that it might cost, None where it was not bound; `spent_ns`
    what it did cost, of `own_ns` of the program's own. `dropped` counts what had to go by kind and
    reason, `triggered` has what the user wanted to know of, and when.
    """

    budget: float | None = None
    memory: int = 0
    disk: int = 0
    spent_ns: int = 0
    own_ns: int = 0
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    triggered: tuple[tuple[str, int], ...] = ()
    standstills: tuple[tuple[int, int], ...] = ()
    """From when to when the process did not run, though it wanted to; the longest ones."""
    kept: tuple[KeptRun, ...] = ()
    summaries: tuple[StepSummary, ...] = ()
    """By kind, the one with the most steps first."""

    @property
    def overhead(self) -> float:
        """What recording cost, as a share of the program's own time."""
        return self.spent_ns / self.own_ns if self.own_ns else 0.0

    @property
    def steps(self) -> int:
        """How many there were, of all kinds."""
        return sum(summary.runs for summary in self.summaries)


def recording_of(path: Path) -> StepsRecording | None:
    """What a recorder left in a store; None where none with a budget wrote it."""
    try:
        with opened(path) as database:
            tables = {
                name for (name,) in database.execute("SELECT name FROM sqlite_master").fetchall()
            }
            if not {"recording", "kept", "summaries"} <= tables:
                return None
            terms = dict(database.execute("SELECT name, value FROM recording").fetchall())
            kept = database.execute(
                "SELECT kept.number, kind, level, reasons, why, wait_ns, what, engine, status,"
                " started_ns, ended_ns, ops, took_ns FROM kept"
                " JOIN runs ON runs.number = kept.number ORDER BY kept.number"
            ).fetchall()
            rows = database.execute("SELECT content, checksum FROM summaries").fetchall()
    except (sqlite3.DatabaseError, OSError):
        return None
    said: dict[str, Any] = {}
    with contextlib.suppress(orjson.JSONDecodeError):
        said = {name: orjson.loads(value) for name, value in terms.items()}
    summaries = []
    for content, checksum in rows:
        if zlib.crc32(content) == checksum:
            with contextlib.suppress(PackedDamageError):
                summaries.append(StepSummary.from_bytes(content))
    summaries.sort(key=lambda summary: (-summary.runs, summary.kind))
    return StepsRecording(
        budget=said.get("budget"),
        memory=said.get("memory", 0),
        disk=said.get("disk", 0),
        spent_ns=said.get("spent_ns", 0),
        own_ns=said.get("own_ns", 0),
        dropped={(kind, reason): count for kind, reason, count in said.get("dropped", ())},
        triggered=tuple((why, when) for why, when in said.get("triggered", ())),
        standstills=tuple((began, ended) for began, ended in said.get("standstills", ())),
        kept=tuple(
            KeptRun(number, kind, Level(level), tuple(orjson.loads(reasons)), *rest)
            for number, kind, level, reasons, *rest in kept
        ),
        summaries=tuple(summaries),
    )


def steps_recordings(path: Path) -> list[StepsRecording]:
    """Of a store, or of all stores in a directory, those that a recorder with a budget wrote."""
    return [found for _, found in recordings_at(path)]


def recordings_at(path: Path) -> list[tuple[Path, StepsRecording]]:
    """The same, each with its store."""
    files = sorted(path.glob("*.stepscope")) if path.is_dir() else [path]
    found = ((file, recording_of(file)) for file in files if is_store(file))
    return [(file, one) for file, one in found if one is not None]
