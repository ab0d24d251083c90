"""A run, or all of them, as it is drawn over time: lanes, boxes, densities where boxes are thin.

A timeline is looked at in tiles. Level 0 is one tile of the whole, each level after that has twice
as many of half the length. A tile holds the boxes that are as wide as one of its columns, and for
the others how much of each column they fill and which type of op takes the most of it. A tile with
few executions is *whole*: it has them all, and nothing is gained by looking at deeper ones.

    >>> from stepscope.metadata import OpColumns, Recording, RunMetadata
    >>> ops = OpColumns.build(
    ...     name=["a", "b"], op=["MatMul", "Relu"], device=["/cpu:0"] * 2, thread=[1, 1],
    ...     scheduled_ns=[0, 0], start_ns=[1000, 1500], end_ns=[1400, 1600],
    ... )
    >>> run = RunMetadata()
    >>> run.record(Recording(engine="", ops=lambda: ops))
    >>> tile = Timeline.of([run]).tile(0, 0)
    >>> tile.whole, tile.boxes.start.tolist(), [str(name) for name in tile.boxes.name.values]
    (True, [0, 500], ['a', 'b'])

Runs of ten million executions are looked at, too. What is kept of each is some 30 bytes, and what
is worked out on the way is done for `_CHUNK` of them at a time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.cluster.messages import COLLECTIVE
from stepscope.analysis.cluster.tasks import natural_order
from stepscope.analysis.execution.lanes import lanes_in_order
from stepscope.analysis.intervals import Covered, merged, self_times
from stepscope.analysis.profile.layers import layers_of
from stepscope.analysis.program.run_parts import category_of
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.xplane.steps import ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.metadata import RunMetadata

    Ints: TypeAlias = NDArray[np.int64]
    Codes: TypeAlias = NDArray[np.int32]
    Numbers: TypeAlias = NDArray[np.integer[Any]]

__all__ = [
    "ANNOTATION",
    "CATEGORIES",
    "Boxes",
    "Density",
    "Strip",
    "Tile",
    "TimelineLane",
    "TimelineRows",
    "TypeSum",
]

CATEGORIES: Final = ("computing", "waiting", "transfer", "input", "python", "overhead", "failure")
"""What a box is, by number."""
_OF_PARTS: Final = {"computing": 0, "transfers": 2, "input": 3, "python_ops": 4, "": 5}
_FAILURE: Final = 6
_WHOLE: Final = 3_000
"""A tile with no more executions has them all."""
_BOXES: Final = 2_000
_DENSE: Final = 8_000
COLUMNS: Final = 1024
_FEWEST_COLUMNS: Final = 16
_DEEPEST: Final = 24
_MOST_ROWS: Final = 255
_CHUNK: Final = 500_000
_BLOCK: Final = 1_000
_FEW_LANES: Final = 64


class TimelineLane(NamedTuple):
    """A thread of a device, or all ops of a device whose thread is not known (`thread` 0).

    `kind` is "ops" or "annotations"; `rows` is how many boxes lie above each other at most.
    """

    device: str
    thread: int
    name: str
    kind: str
    rows: int
    busy_ns: int


class Boxes(NamedTuple):
    """Executions. `start` counts from the beginning of the tile, and boxes that reach beyond it are
    cut there: bit 1 of `cut` at its beginning, bit 2 at its end. `row` is the execution's row among
    those of its run, `run` the place of that run among those of the timeline.
    """

    lane: Numbers
    depth: Numbers
    start: Numbers
    ns: Numbers
    type: Numbers
    category: Numbers
    layer: Numbers
    name: StringColumn
    row: Numbers
    run: Numbers
    cut: Numbers


class Density(NamedTuple):
    """What the executions without a box of their own take of a column of a lane.

    `busy` is the part of the column's time, 0 to 255; `type` and `category` are those that take the
    most of it.
    """

    lane: Numbers
    column: Numbers
    busy: Numbers
    type: Numbers
    category: Numbers
    calls: Numbers


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile; `columns` is into how many its time is divided for the densities."""

    level: int
    index: int
    from_ns: int
    to_ns: int
    whole: bool
    columns: int
    boxes: Boxes
    density: Density


class Strip(NamedTuple):
    """The whole in a few columns: how many ops ran at once on average, and the busiest type."""

    busy: NDArray[np.float64]
    type: Numbers


class TypeSum(NamedTuple):
    """What ran of a type of op in a stretch of time."""

    key: str
    calls: int
    total_ns: int
    self_ns: int
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class TimelineRows:
    """Executions in order of their starts. Times count from `base_ns`, where the first begins.

    Nothing in it changes, so several threads may ask it for tiles.
    """

    base_ns: int
    to_ns: int
    lanes: tuple[TimelineLane, ...]
    types: tuple[str, ...]
    layers: tuple[str, ...]
    names: StringColumn
    start: Ints
    end: Ints
    lane: NDArray[np.uint16]
    depth: NDArray[np.uint8]
    type: Numbers
    category: NDArray[np.uint8]
    layer: Numbers
    row: NDArray[np.int32]
    run: NDArray[np.int32]
    _reach: Ints
    """The latest end of all executions up to the last of each `_BLOCK`."""
    _of_type: tuple[int, ...]
    """The category of each type."""

    @classmethod
    def of(cls, runs: Sequence[RunMetadata]) -> TimelineRows:
        """The timeline of runs; they stand where they were by the clock."""
        columns = [run.ops for run in runs]
        start = _joined([ops.start_ns for ops in columns])
        end = np.maximum(_joined([ops.end_ns for ops in columns]), start)
        base = int(start.min()) if len(start) else 0
        start -= base
        end -= base
        order: Any = slice(None)
        if not (
            (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))
        ).all():
            order = np.lexsort((~end, start))
            start, end = start[order], end[order]
        types = StringColumn.joined([ops.ops for ops in columns])
        found = _Lanes()
        keys = np.concatenate([found.keys_of(run) for run in runs] or [np.zeros(0, np.int32)])
        lanes, lane, depth = found.placed(keys[order], start, end)
        del keys
        layers = StringColumn.joined([_layers(run) for run in runs])
        of_type = tuple(
            _OF_PARTS[category_of(op)] if not COLLECTIVE.match(op) else 2 for op in types.table
        )
        category = np.array(of_type, np.uint8)[types.codes] if len(start) else np.zeros(0, np.uint8)
        failed = np.concatenate([_failed(run) for run in runs] or [np.zeros(0, bool)])
        category[failed] = _FAILURE
        sizes = [len(ops) for ops in columns]
        rows = [np.arange(size, dtype=np.int32) for size in sizes]
        whole = sum(sizes)
        of_run = np.broadcast_to(np.int32(0), (whole,))
        if len(runs) > 1:
            of_run = np.repeat(np.arange(len(runs), dtype=np.int32), sizes)[order]
        return cls(
            base_ns=base,
            # One more than the last end: what takes no time there is in the last tile.
            to_ns=int(end.max()) + 1 if len(end) else 1,
            lanes=lanes,
            types=types.table,
            layers=layers.table,
            names=StringColumn.joined([ops.names for ops in columns])[order],
            start=start,
            end=end,
            lane=lane,
            depth=depth,
            type=_narrow(types)[order],
            category=category[order],
            layer=_narrow(layers)[order],
            row=np.concatenate([*rows, np.zeros(0, np.int32)])[order],
            run=of_run,
            _reach=_latest(end),
            _of_type=of_type,
        )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def max_level(self) -> int:
        """Levels beyond it would divide microseconds."""
        return min(_DEEPEST, max(0, (self.to_ns // COLUMNS).bit_length()))

    def span_of(self, level: int, index: int) -> tuple[int, int]:
        """From when until when a tile is; `ValueError` for one that is not there."""
        if not (0 <= level <= self.max_level and 0 <= index < 1 << level):
            raise ValueError(
                f"there is no tile {index} of level {level}: levels are 0 to {self.max_level}, "
                f"and level {level} has {1 << max(0, min(level, _DEEPEST))}"
            )
        return self.to_ns * index >> level, self.to_ns * (index + 1) >> level

    def between(self, start: int, end: int) -> NDArray[np.intp]:
        """The executions that were going on at any time from `start` until before `end`."""
        return np.concatenate([np.zeros(0, np.intp), *self._between(start, end)])

    def _between(self, start: int, end: int) -> Iterator[NDArray[np.intp]]:
        """As `between`, some at a time."""
        least = int(np.searchsorted(self._reach, start, "left")) * _BLOCK
        most = int(np.searchsorted(self.start, end, "left"))
        for first in range(least, most, _CHUNK):
            last = min(most, first + _CHUNK)
            inside = (self.end[first:last] > start) | (self.start[first:last] >= start)
            yield first + np.flatnonzero(inside)

    def place_of(self, row: int) -> int:
        """Where the execution of that row of the run is; of several runs, that of the first."""
        return int(np.argmax(self.row == row))

    def tile(self, level: int, index: int, most: int = _WHOLE) -> Tile:
        """One tile, see the module's text; with no more than `most` executions it is whole."""
        begin, until = self.span_of(level, index)
        found = 0
        lanes = np.zeros(len(self.lanes), bool)
        rows = np.zeros(0, np.intp)
        for some in self._between(begin, until):
            found += len(some)
            lanes[self.lane[some]] = True
            rows = np.concatenate([rows, some]) if found <= most else rows[:0]
        columns = COLUMNS
        if found > most:
            while columns > _FEWEST_COLUMNS and columns * int(lanes.sum()) > _DENSE:
                columns //= 2
            rows = self._wide(begin, until, columns)
        thin = (
            (_without(some, rows) for some in self._between(begin, until)) if found > most else ()
        )
        return Tile(
            level, index, begin, until, found <= most, columns,
            self._boxes(rows, begin, until), self._density(thin, begin, until, columns),
        )  # fmt: skip

    def _wide(self, begin: int, until: int, columns: int) -> NDArray[np.intp]:
        """The executions as wide as a column, the longest of them where they are too many."""
        wide = np.zeros(0, np.intp)
        for some in self._between(begin, until):
            ns = self.end[some] - self.start[some]
            wide = np.concatenate([wide, some[ns * columns >= until - begin]])
            if len(wide) > _BOXES:
                ns = self.end[wide] - self.start[wide]
                wide = wide[ns > np.partition(ns, len(ns) - _BOXES)[len(ns) - _BOXES]]
        return wide

    def _boxes(self, rows: NDArray[np.intp], begin: int, until: int) -> Boxes:
        start, end = self.start[rows], self.end[rows]
        shown = np.maximum(start, begin)
        return Boxes(
            lane=self.lane[rows],
            depth=self.depth[rows],
            start=shown - begin,
            ns=np.minimum(end, until) - shown,
            type=self.type[rows],
            category=self.category[rows],
            layer=self.layer[rows],
            name=self.names[rows],
            row=self.row[rows],
            run=self.run[rows],
            cut=(start < begin).astype(np.uint8) + 2 * (end > until).astype(np.uint8),
        )

    def _density(
        self, thin: Iterable[NDArray[np.intp]], begin: int, until: int, columns: int
    ) -> Density:
        types = len(self.types)
        keys: Ints = np.zeros(0, np.int64)
        taken: NDArray[np.float64] = np.zeros(0)
        calls: NDArray[np.float64] = np.zeros(0)
        for rows in thin:
            column, row, ns = _in_columns(self.start[rows], self.end[rows], begin, until, columns)
            lane, kind = self.lane[rows][row], self.type[rows][row]
            places = lane.astype(np.int64) * columns + column
            of = np.concatenate([keys, places * types + kind])
            keys, which = np.unique(of, return_inverse=True)
            spent = np.concatenate([taken, np.maximum(ns, 1e-3)])
            taken = np.bincount(which, spent, len(keys)).astype(np.float64)
            counted = np.concatenate([calls, np.ones(len(row))])
            calls = np.bincount(which, counted, len(keys)).astype(np.float64)
        place = keys // types if types else keys
        firsts = np.flatnonzero(np.diff(place, prepend=-1))
        in_all = np.add.reduceat(taken, firsts) if len(firsts) else taken
        count = np.add.reduceat(calls, firsts) if len(firsts) else calls
        # Of each column the type that takes the most: the last of its keys by time.
        order = np.lexsort((taken, place))
        lasts = order[np.append(firsts[1:], len(place)) - 1] if len(place) else order
        busiest = keys[lasts] % types if len(keys) else keys
        width = (until - begin) / columns
        return Density(
            lane=place[firsts] // columns,
            column=place[firsts] % columns,
            busy=np.clip(np.ceil(255 * in_all / width), 1, 255).astype(np.uint8),
            type=busiest,
            category=np.array(self._of_type, np.uint8)[busiest] if len(keys) else busiest,
            calls=count.astype(np.int64),
        )

    def strip(self, columns: int) -> Strip:
        """The whole, thin."""
        types = max(1, len(self.types))
        taken = np.zeros(columns * types)
        for rows in self._between(0, self.to_ns):
            column, row, ns = _in_columns(self.start[rows], self.end[rows], 0, self.to_ns, columns)
            taken += np.bincount(column * types + self.type[rows][row], ns, columns * types)
        by_column = taken.reshape(columns, -1)
        return Strip(by_column.sum(axis=1) / (self.to_ns / columns), by_column.argmax(axis=1))

    def sums(self, start: int, end: int) -> tuple[TypeSum, ...]:
        """What ran between two moments, by type of op, the largest first; cut at both ends."""
        rows = self.between(start, end)
        first, last = (np.clip(times[rows], start, end) for times in (self.start, self.end))
        known = np.array([lane.thread != 0 for lane in self.lanes], bool)[self.lane[rows]]
        own = self_times(first, last, np.where(known, self.lane[rows].astype(np.int64) + 1, 0))
        kind = self.type[rows]
        count = len(self.types)
        calls = np.bincount(kind, minlength=count)
        total, inner = np.zeros(count, np.int64), np.zeros(count, np.int64)
        np.add.at(total, kind, last - first)
        np.add.at(inner, kind, own)
        whole = int(inner.sum()) or 1
        found = [
            TypeSum(self.types[i], int(calls[i]), int(total[i]), int(inner[i]), inner[i] / whole)
            for i in np.flatnonzero(calls).tolist()
        ]
        return tuple(sorted(found, key=lambda row: (-row.self_ns, row.key)))

    def busy_ns(self) -> int:
        """How long anything ran."""
        firsts, lasts = merged(self.start, self.end)
        return int((lasts - firsts).sum())


class _Lanes:
    """Gives out numbers for lanes: a device and a thread of it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, bool], int] = {}
        self._names: dict[int, str] = {}

    def keys_of(self, run: RunMetadata) -> Codes:
        """A number for each row of a run, the same for rows of one lane."""
        ops = run.ops
        self._names.update(ops.thread_names)
        threads = np.unique(ops.thread)
        marks = np.array([op == ANNOTATION for op in ops.ops.table], bool)
        found = np.empty(len(ops), np.int32)
        for first in range(0, len(ops), _CHUNK):
            rows = slice(first, first + _CHUNK)
            thread = np.searchsorted(threads, ops.thread[rows])
            is_mark = marks[ops.ops.codes[rows]] & (ops.thread[rows] == 0)
            lane = ops.devices.codes[rows].astype(np.int64) * len(threads) + thread
            keys, which = np.unique(lane * 2 + is_mark, return_inverse=True)
            numbers = np.empty(len(keys), np.int32)
            for place, key in enumerate(keys.tolist()):
                device, number = divmod(key // 2, len(threads))
                known = (ops.devices.table[device], int(threads[number]), bool(key % 2))
                numbers[place] = self._known.setdefault(known, len(self._known))
            found[rows] = numbers[which]
        return found

    def placed(
        self, keys: Codes, start: Ints, end: Ints
    ) -> tuple[tuple[TimelineLane, ...], NDArray[np.uint16], NDArray[np.uint8]]:
        """The lanes in order of devices, and of each row its lane and how far down in it it is."""
        first = np.full(len(self._known), np.iinfo(np.int64).max)
        np.minimum.at(first, keys, start)
        known = list(self._known)
        order = sorted(
            range(len(known)), key=lambda i: (natural_order(known[i][0]), not known[i][2], first[i])
        )
        place = np.empty(len(known), np.int64)
        place[order] = np.arange(len(known))
        lane = place.astype(np.uint16)[keys] if len(known) else keys.astype(np.uint16)
        depth = np.zeros(len(keys), np.uint8)
        busy = _busy(lane, start, end, len(known))
        lanes = []
        by_lane = _rows_by_lane(lane, len(known))
        names = self._distinct_names([known[which] for which in order])
        for number, which in enumerate(order):
            rows = by_lane(number)
            within = np.minimum(lanes_in_order(start[rows], end[rows]), _MOST_ROWS)
            depth[rows] = within
            device, thread, is_mark = known[which]
            name = names[device, thread]
            kind = "annotations" if is_mark else "ops"
            lanes.append(
                TimelineLane(
                    device,
                    thread,
                    kind if is_mark else name,
                    kind,
                    int(within.max(initial=0)) + 1,
                    int(busy[number]),
                )
            )
        return tuple(lanes), lane, depth

    def _distinct_names(self, known: Iterable[tuple[str, int, bool]]) -> dict[tuple[str, int], str]:
        """What threads are called; those of a device that have one name are numbered."""
        threads = list(dict.fromkeys((device, thread) for device, thread, _ in known))
        names = {
            (device, thread): self._names.get(thread, "")
            or (f"thread {thread}" if thread else "ops")
            for device, thread in threads
        }
        often = Counter((device, names[device, thread]) for device, thread in threads)
        given: Counter[tuple[str, str]] = Counter()
        for device, thread in threads:
            same = (device, names[device, thread])
            if often[same] > 1:
                given[same] += 1
                names[device, thread] = f"{same[1]} {given[same]}"
        return names


def _rows_by_lane(lane: NDArray[np.uint16], count: int) -> Callable[[int], NDArray[np.intp]]:
    """Gives the rows of a lane; of few lanes they are looked for when they are asked for."""
    if count <= _FEW_LANES:
        return lambda number: np.flatnonzero(lane == number)
    by_lane = np.argsort(lane, kind="stable")
    bounds = np.searchsorted(lane[by_lane], np.arange(count + 1))
    return lambda number: by_lane[bounds[number] : bounds[number + 1]]


def _busy(lane: NDArray[np.uint16], start: Ints, end: Ints, count: int) -> Ints:
    covered = Covered(count)
    for first in range(0, len(lane), _CHUNK):
        rows = slice(first, first + _CHUNK)
        covered.add(lane[rows], start[rows], end[rows])
    return covered.ns


def _latest(end: Ints) -> Ints:
    """The latest of all ends up to the last of each block."""
    latest = [int(end[first : first + _BLOCK].max()) for first in range(0, len(end), _BLOCK)]
    return np.maximum.accumulate(np.array(latest, np.int64)) if latest else end


def _narrow(column: StringColumn) -> Numbers:
    """The codes in as few bytes as they need."""
    return column.codes.astype(np.uint16) if len(column.table) <= 1 << 16 else column.codes


def _without(rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.intp]:
    """Rows, in order, without those others, in order as well."""
    first, last = np.searchsorted(others, (rows[0], rows[-1] + 1)) if len(rows) else (0, 0)
    if first == last:
        return rows
    keep = np.ones(len(rows), bool)
    keep[np.searchsorted(rows, others[first:last])] = False
    return rows[keep]


def _in_columns(
    start: Ints, end: Ints, begin: int, until: int, columns: int
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Spans cut at the edges of columns: of each piece its column, the span, and its length."""
    width = (until - begin) / columns
    left, right = np.maximum(start, begin) - begin, np.minimum(end, until) - begin
    first = np.minimum((left / width).astype(np.int64), columns - 1)
    last = np.clip(np.ceil(right / width).astype(np.int64) - 1, first, columns - 1)
    pieces = last - first + 1
    row = np.repeat(np.arange(len(start)), pieces)
    within = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    column = first[row] + within
    ns = np.minimum(right[row], (column + 1) * width) - np.maximum(left[row], column * width)
    return column, row, np.maximum(ns, 0.0)


def _layers(run: RunMetadata) -> StringColumn:
    keys = StringColumn.of([place.layer for place in layers_of(run)])
    node = run.ops.node
    return StringColumn(keys.codes[node] if len(node) else node, keys.table)


def _failed(run: RunMetadata) -> NDArray[np.bool_]:
    names = {op.name for op in run.status.outcomes if op.outcome == "failed"}
    column = run.ops.names
    if not names:
        return np.zeros(len(column), bool)
    found: NDArray[np.bool_] = np.array([name in names for name in column.table])[column.codes]
    return found


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])
