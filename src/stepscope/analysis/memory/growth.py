"""What grows from step to step: who holds more memory each time a kind of run begins.

A run whose memory was recorded says what was there when it began, by owner. Of runs of one kind,
what an owner holds more than the time before is what it grew by in a step. The mean of that has an
interval (Student's, 95%); an owner grows where all of it lies above 0:

    >>> steady(np.array([100, 100, 100, 100])).low > 0
    True
    >>> steady(np.array([0, 400, 0, 0])).low > 0  # it grew once
    False

How large the whole process was, where that was noted, tells of what no engine counts: Python's own
objects, libraries, and on TensorFlow all that runs did not allocate.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepscope.analysis.program.run_kinds import EAGER_CODE, RunKinds
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import NamedRun, Runs, iter_named_runs, notes_at
from stepscope.metadata import Note, Program, iter_runs
from stepscope.metadata.memory.allocations import HELD
from stepscope.metadata.program_notes import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from stepscope.metadata import RunMetadata

__all__ = ["NOT_RECORDED", "PROCESS", "GrowthRow", "GrowthSums", "MemoryGrowth", "memory_growth"]

PROCESS: Final = "process"
"""The kind of the row that is of the whole process."""
_LOOKED_AT, _THEN_EVERY = 40, 10
"""After so many runs of a kind each tenth is looked at."""
_FEWEST: Final = 4
_BLOCKS: Final = 8
"""How large the process is goes up and down: it is compared by means over so many pieces."""
_LEAST: Final = 1024
"""Fewer bytes a step are no leak that anybody has to care for."""
_LEAST_OF_PROCESS: Final = 16 * 2**20
"""By less in all a process grows without leaking: caches fill, and recording itself keeps runs."""
_STUDENT: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""By the degrees of freedom, from 1 on."""
NOT_RECORDED: Final = (
    "what is held from step to step is recorded by the embedded engine (`stepscope run`, or "
    "trace_level=RunOptions.FULL_TRACE) and on TensorFlow by `stepscope run --memory`"
)
_FEW: Final = "too few runs to tell: it takes 6 of a kind at least"


class Steady(NamedTuple):
    """A mean and its interval."""

    mean: float
    low: float
    high: float


def steady(changes: NDArray[Any], weights: NDArray[Any] | None = None) -> Steady:
    """The mean of changes with an interval of 95%; `weights` are over how many steps each is."""
    over = np.ones(len(changes)) if weights is None else weights.astype(float)
    each = changes / over
    mean = float(changes.sum() / over.sum())
    count = len(each)
    if count < 2:
        return Steady(mean, -math.inf, math.inf)
    spread = math.sqrt(float((over * (each - mean) ** 2).sum() / over.sum()) / (count - 1))
    reach = spread * (_STUDENT[count - 2] if count - 1 <= len(_STUDENT) else 2.0)
    return Steady(mean, mean - reach, mean + reach)


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """An owner of memory that grows in each step of a kind.

    `key` is the op that made it ("the process" for all of it), `source` its line, `kind` what the
    memory is for. `bytes` is what it grows by in a step, from `low` to `high`; it held `first` when
    the first of `steps` steps began that were compared, and `last` when the last did.
    """

    key: str
    source: str
    kind: str
    device: str
    step: str
    bytes: float
    low: float
    high: float
    first: int
    last: int
    steps: int


@dataclass(frozen=True, slots=True)
class MemoryGrowth(Result):
    """`rows` are what grows, the fastest first; the process, where it was noted, is the last.

    `steps` are the kinds of run in which it was looked for. `lacking` says what was not recorded,
    and how to record it.
    """

    rows: tuple[GrowthRow, ...]
    steps: tuple[str, ...]
    lacking: str

    @property
    def leaks(self) -> tuple[GrowthRow, ...]:
        """The rows of owners; where there are none, the row of a process that grows."""
        return self.owners or self.rows

    @property
    def owners(self) -> tuple[GrowthRow, ...]:
        """The rows but that of the process."""
        return tuple(row for row in self.rows if row.kind != PROCESS)


def memory_growth(source: str | os.PathLike[str] | Program | Runs) -> MemoryGrowth:
    """What grows from step to step in a recorded program: a path, a `Program`, or runs.

    >>> from stepscope.metadata import RunMetadata
    >>> memory_growth([RunMetadata()]).rows
    ()
    """
    notes: Iterable[Note] = ()
    runs: Any = source
    if isinstance(source, Program):
        notes = source.of(MEMORY)
        runs = ((run.name, run.metadata) for run in source.runs())
    elif isinstance(source, str | os.PathLike):
        notes = notes_at(source, MEMORY)
        runs = ((run.name, run.metadata) for run in iter_runs(source))
    kinds, sums = RunKinds(), GrowthSums()
    for run in iter_named_runs(runs):
        sums.add(kinds.of(run), run)
    return made_of(sums.growth(notes), source)


@dataclass(slots=True)
class _Kind:
    seen: int = 0
    numbers: list[int] = field(default_factory=list)
    held: list[dict[tuple[str, str, str], int]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    known: bool = False


class GrowthSums:
    """Growth from runs that are read for something else as well."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._runs = 0

    def add(self, what: str, run: NamedRun) -> None:
        """Take in the next run, of a kind of that name."""
        self._runs += 1
        if what == EAGER_CODE or not run.metadata.status.ok:
            return
        kind = self._kinds.setdefault(what, _Kind())
        number, kind.seen = kind.seen, kind.seen + 1
        # The first run of a kind makes what stays: it is compared with nothing.
        if not number or (number > _LOOKED_AT and number % _THEN_EVERY):
            return
        held = _held(run.metadata)
        kind.known |= bool(held) or _counted(run.metadata)
        kind.numbers.append(number)
        kind.held.append(held)
        sources = run.metadata.sources if held else {}
        kind.sources.update((name, sources.get(name, "")) for name, _, _ in held)

    def growth(self, notes: Iterable[Note] = ()) -> MemoryGrowth:
        """Of the runs so far, and these notes of their program."""
        rows = [row for what, kind in self._kinds.items() for row in _rows(what, kind)]
        rows.sort(key=lambda row: (-row.bytes, row.key, row.step))
        rows = _once(rows)
        process = [row for note in notes if note.kind == MEMORY for row in _process(note)]
        known = tuple(what for what, kind in self._kinds.items() if kind.known)
        looked = tuple(w for w, kind in self._kinds.items() if len(kind.numbers) > _FEWEST)
        lacking = ""
        if not known:
            lacking = NOT_RECORDED if looked or process else _FEW
        elif not set(known) & set(looked):
            lacking = _FEW
        return MemoryGrowth((*rows, *process), known, lacking)


def _held(run: RunMetadata) -> dict[tuple[str, str, str], int]:
    """What was there when a run began: bytes by op, kind and device."""
    events = run.allocations
    if not len(events) or HELD not in events.events.table:
        return {}
    there = np.flatnonzero(events.events.codes == events.events.table.index(HELD))
    found: dict[tuple[str, str, str], int] = {}
    for row in there.tolist():
        key = (
            events.names.table[events.names.codes[row]],
            events.kinds.table[events.kinds.codes[row]],
            events.devices.table[events.devices.codes[row]],
        )
        found[key] = found.get(key, 0) + int(events.bytes[row])
    return found


def _counted(run: RunMetadata) -> bool:
    """Whether all memory was followed: nothing was there when a run began that does not say so."""
    return bool(len(run.allocations)) and not run.completeness.memory_is_estimated


def _rows(what: str, kind: _Kind) -> Iterator[GrowthRow]:
    if len(kind.numbers) <= _FEWEST:
        return
    gaps = np.diff(np.array(kind.numbers, np.int64))
    for key in dict.fromkeys(key for held in kind.held for key in held):
        series = np.array([held.get(key, 0) for held in kind.held], np.int64)
        found = steady(np.diff(series), gaps)
        # A leak grows most of the time, not once or twice by much.
        often = float((np.diff(series) > 0).mean())
        if found.low <= 0 or found.mean < _LEAST or often < 0.5:
            continue
        name, use, device = key
        yield GrowthRow(
            name, kind.sources.get(name, ""), use, device, what, *found, int(series[0]),
            int(series[-1]), int(gaps.sum()) + 1,
        )  # fmt: skip


def _once(rows: list[GrowthRow]) -> list[GrowthRow]:
    """One row per owner: what grows between two runs of one kind grows between those of another.

    The kind that is run most often is the step; of others the same growth is seen again.
    """
    best: dict[tuple[str, str, str], GrowthRow] = {}
    for row in rows:
        key = row.key, row.kind, row.device
        if key not in best or row.steps > best[key].steps:
            best[key] = row
    return sorted(best.values(), key=lambda row: (-row.bytes, row.key))


def _process(note: Note) -> Iterator[GrowthRow]:
    """The row of the whole process, if it grows; what it did in the first third is starting."""
    runs = np.array(note.details.get("runs", ()), np.int64)
    resident = np.array(note.details.get("resident", ()), np.int64)
    later = slice(len(runs) // 3, None)
    runs, resident = runs[later], resident[later]
    if len(runs) < _BLOCKS or runs[-1] <= runs[0]:
        return
    pieces = np.array_split(np.arange(len(runs)), _BLOCKS)
    at = np.array([runs[piece].mean() for piece in pieces])
    size = np.array([resident[piece].mean() for piece in pieces])
    gaps = np.diff(at)
    found = steady(np.diff(size)[gaps > 0], gaps[gaps > 0])
    often = float((np.diff(size) > 0).mean())
    little = found.mean < _LEAST or resident[-1] - resident[0] < _LEAST_OF_PROCESS
    if found.low <= 0 or little or often < 0.75:
        return
    yield GrowthRow(
        "the process", "", PROCESS, "", "", *found, int(resident[0]), int(resident[-1]),
        int(runs[-1] - runs[0]),
    )  # fmt: skip
