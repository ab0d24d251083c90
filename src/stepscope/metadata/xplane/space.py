"""The bytes of a profile (XSpace) as planes, lines, and columns of events. No TensorFlow needed.

A space has planes (the host, each accelerator), a plane has lines (threads, streams), and a line
has events: a name, when it began, how long it took, and stats. Names stand in tables of the plane.

Guarantees.
- Any bytes can be read. What is damaged is left out, with what cannot be told apart from it: a
  plane whose outline is damaged, in a line the events from the damage on, of a table or of stats
  the entries from the damage on. `Space.damage` is the place of the first damage met so far.
- Nothing is made of an event but its numbers in columns: a small file may hold millions. Stats are
  taken apart for the events they are asked of.
- Times never overflow: those that no clock gives are cut to the next that one could give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.cached_property import cached_property
from stepscope.metadata.wire.wire_scan import (
    BYTES,
    NUMBER,
    REPEATED,
    Field,
    Scanned,
    Wire,
    WireDamageError,
    entries_by_number,
    fields_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Places = tuple[Ints, Ints]
    """Where messages begin and end."""

HOST: Final = "/host:CPU"
CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
"""The device of the ops that a host's threads executed, where nothing says another."""
DEVICE_STAT: Final = "stepscope_device"
"""The device, in a profile that Stepscope exported."""
CLOCK: Final = "stepscope:clock"
CLOCK_STAT: Final = "epoch_ns"
"""The first event of a profile that Stepscope takes says when it was made: some versions of
TensorFlow do not say it.
"""
_ACCELERATOR: Final = "/device:"
ENVIRONMENT: Final = "Task Environment"
START_TIME: Final = "profile_start_time"

_LENGTH: Final = 2
_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES, _OWN_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_STAMP, _LINE_EVENTS, _LINE_DISPLAY_NAME = 1, 3, 4, 11
_ENTRY: Final = (Field("key", 1, NUMBER), Field("value", 2, BYTES))
_NAMED: Final = (
    Field("id", 1, NUMBER),
    Field("name", 2, BYTES),
    Field("metadata", 3, BYTES),
    Field("display_name", 4, BYTES),
    Field("stats", 5, REPEATED),
)
_EVENT: Final = (
    Field("metadata_id", 1, NUMBER),
    Field("offset_ps", 2, NUMBER),
    Field("duration_ps", 3, NUMBER),
    Field("stats", 4, REPEATED),
)
_STAT: Final = (
    Field("metadata_id", 1, NUMBER),
    Field("uint64_value", 3, NUMBER),
    Field("int64_value", 4, NUMBER),
    Field("str_value", 5, BYTES),
    Field("ref_value", 7, NUMBER),
)
_TRIES: Final = 3
_EPOCH_NS: Final = 10**17
"""A time beyond this is one of the day; others count from the profile's start."""
_LATEST: Final = (1 << 63) - 1


class _Bytes:
    """The bytes of a space, and where the first damage is of all that was met."""

    def __init__(self, data: bytes) -> None:
        self.wire = Wire(data)
        self.data = self.wire.data
        self.damage: int | None = None

    def damaged(self, offset: int) -> None:
        self.damage = offset if self.damage is None else min(self.damage, offset)

    def text(self, begin: int, end: int) -> str:
        return self.data[begin:end].decode("utf-8", "replace")

    def texts(self, begins: Ints, ends: Ints) -> list[str]:
        found = self.wire.slices(begins, ends)
        return [text.decode("utf-8", "replace") for text in found]

    def scan(self, begins: Ints, ends: Ints, layout: Sequence[Field]) -> tuple[int, Scanned]:
        """Messages taken apart, up to the first that is damaged: how many, and what they hold."""
        count = len(begins)
        for _ in range(_TRIES):
            try:
                return count, self.wire.scan(begins[:count], ends[:count], layout)
            except WireDamageError as error:
                self.damaged(error.offset)
                beyond = ends[:count] > error.offset
                count = int(np.argmax(beyond)) if beyond.any() else 0
        return 0, self.wire.scan(begins[:0], ends[:0], layout)

    def names(self, entries: Places) -> dict[int, str]:
        """A map from numbers to messages that have a name, from where its entries are."""
        _, found = self.scan(*entries, _ENTRY)
        count, named = self.scan(*found.spans["value"], _NAMED)
        keys = found.numbers["key"][:count].tolist()
        return dict(zip(keys, self.texts(*named.spans["name"]), strict=True))


class Stats:
    """The stats of some events of a plane, by name."""

    def __init__(
        self, source: _Bytes, names: dict[int, str], count: int, owners: Ints, places: Places
    ) -> None:
        """Of so many events; `owners` says of which of them each stat is, `places` where it is."""
        self._source = source
        self._names = names
        self._count = count
        whole, self._found = source.scan(*places, _STAT)
        self._owners = owners[:whole]

    def _of(self, name: str) -> Ints:
        """Where the stats of this name are."""
        wanted = [key for key, known in self._names.items() if known == name]
        if not wanted:
            return np.empty(0, np.int64)
        keys = self._found.numbers["metadata_id"]
        return np.flatnonzero(keys == wanted[0] if len(wanted) == 1 else np.isin(keys, wanted))

    def numbers(self, name: str) -> Ints:
        """The number that each event has under a stat; 0 where it has none."""
        values = np.zeros(self._count, np.int64)
        at = self._of(name)
        found = self._found.numbers
        values[self._owners[at]] = found["int64_value"][at] | found["uint64_value"][at]
        return values

    def texts(self, name: str) -> NDArray[np.object_]:
        """The text that each event has under a stat; "" where it has none."""
        values = np.full(self._count, "", object)
        at = self._of(name)
        owners, references = self._owners[at], self._found.numbers["ref_value"][at]
        values[owners] = [self._names.get(number, "") for number in references.tolist()]
        written = references == 0
        if written.any():
            begins, ends = (places[at][written] for places in self._found.spans["str_value"])
            values[owners[written]] = self._source.texts(begins, ends)
        return values

    def given(self, name: str) -> NDArray[np.bool_]:
        """Whether each event has a stat, with a number but 0 or with a text."""
        at = self._of(name)
        found = self._found.numbers
        begins, ends = (places[at] for places in self._found.spans["str_value"])
        said = (found["int64_value"][at] | found["uint64_value"][at] | found["ref_value"][at]) != 0
        given = np.zeros(self._count, bool)
        given[self._owners[at]] = said | (ends > begins)
        return given


class _Columns:
    """The events of all lines of a plane, one line after the other."""

    def __init__(self, source: _Bytes, lines: Sequence[Places]) -> None:
        self._source = source
        self.counts = np.array([len(begins) for begins, _ in lines], np.int64)
        """How many events each line has."""
        try:
            found = source.wire.scan(*_joined(lines), _EVENT)
        except WireDamageError:
            found = self._line_by_line(lines)
        self.ends = np.cumsum(self.counts)
        """Where the events of each line end."""
        numbers = found.numbers
        self.metadata_id = numbers["metadata_id"]
        self.offset_ps = np.clip(numbers["offset_ps"], 0, _LATEST // 2)
        self.duration_ps = np.clip(numbers["duration_ps"], 0, _LATEST // 2)
        self.stat_rows, *self.stat_places = found.entries["stats"]

    def _line_by_line(self, lines: Sequence[Places]) -> Scanned:
        """The same where some are damaged: of each line those before its first damage."""
        whole = []
        for number, (begins, ends) in enumerate(lines):
            count, _ = self._source.scan(begins, ends, _EVENT)
            whole.append((begins[:count], ends[:count]))
            self.counts[number] = count
        return self._source.wire.scan(*_joined(whole), _EVENT)


def _joined(lines: Sequence[Places]) -> Places:
    if len(lines) == 1:
        return lines[0]
    begins, ends = zip(*lines, strict=True) if lines else ((), ())
    none = np.empty(0, np.int64)
    return np.concatenate((none, *begins)), np.concatenate((none, *ends))


class _Outline:
    """What a line says of itself, and where its events are."""

    __slots__ = ("id", "name", "places", "timestamp_ns")

    def __init__(self, place: tuple[int, int], source: _Bytes) -> None:
        found, others = entries_by_number(source.data, *place, (_LINE_EVENTS,))
        self.places: Places = found[_LINE_EVENTS]
        self.id = self.timestamp_ns = 0
        name = display = ""
        for field, kind, value, begin, end in others:
            if field == _LINE_ID and kind == 0:
                self.id = _signed(value)
            elif field == _LINE_STAMP and kind == 0:
                self.timestamp_ns = _signed(value)
            elif field == _NAME and kind == _LENGTH:
                name = source.text(begin, end)
            elif field == _LINE_DISPLAY_NAME and kind == _LENGTH:
                display = source.text(begin, end)
        self.name = display or name


class EventLine:
    """One line of a plane: its events as columns, in the order in which they were written.

    A view: the plane does not hold its lines, so that a profile goes when nobody has it any more.
    """

    __slots__ = ("_plane", "id", "name", "number", "timestamp_ns")

    def __init__(self, plane: Plane, number: int, outline: _Outline) -> None:
        self._plane = plane
        self.number = number
        """Which line of its plane it is."""
        self.id = outline.id
        self.name = outline.name
        self.timestamp_ns = outline.timestamp_ns

    def __len__(self) -> int:
        return int(self._plane.columns.counts[self.number])

    @property
    def rows(self) -> slice:
        """Where its events are among those of the plane."""
        columns = self._plane.columns
        last = int(columns.ends[self.number])
        return slice(last - int(columns.counts[self.number]), last)

    @property
    def metadata_id(self) -> Ints:
        """The number of each event's name."""
        return self._plane.columns.metadata_id[self.rows]

    @property
    def offset_ps(self) -> Ints:
        """When each event began, from the line's origin on."""
        return self._plane.columns.offset_ps[self.rows]

    @property
    def duration_ps(self) -> Ints:
        """How long each event took."""
        return self._plane.columns.duration_ps[self.rows]

    def stats(self, places: Ints) -> Stats:
        """The stats of some of its events."""
        return self._plane.stats_of(self.rows.start + places)


class Plane:
    """One plane of a space, with the tables of its names."""

    def __init__(self, source: _Bytes, begin: int, end: int) -> None:
        self._source = source
        repeated = (_LINES, _EVENT_NAMES, _STAT_NAMES, _OWN_STATS)
        found, others = entries_by_number(source.data, begin, end, repeated)
        self.name = ""
        for field, kind, _, first, last in others:
            if field == _NAME and kind == _LENGTH:
                self.name = source.text(first, last)
        self._lines = found[_LINES]
        self._event_names = found[_EVENT_NAMES]
        self._stat_names = found[_STAT_NAMES]
        self._own_stats = found[_OWN_STATS]

    @cached_property
    def names(self) -> dict[int, str]:
        """The names of events by their numbers."""
        return self._source.names(self._event_names)

    @cached_property
    def stat_names(self) -> dict[int, str]:
        """The names of stats, and texts that stats refer to, by their numbers."""
        return self._source.names(self._stat_names)

    @property
    def lines(self) -> list[EventLine]:
        """The lines whose outline is whole."""
        return [EventLine(self, number, line) for number, line in enumerate(self._outlines)]

    @cached_property
    def _outlines(self) -> list[_Outline]:
        found: list[_Outline] = []
        begins, ends = (places.tolist() for places in self._lines)
        for place in zip(begins, ends, strict=True):
            try:
                found.append(_Outline(place, self._source))
            except WireDamageError as error:
                self._source.damaged(error.offset)
        return found

    @cached_property
    def columns(self) -> _Columns:
        """The events of all lines."""
        return _Columns(self._source, [line.places for line in self._outlines])

    def stats_of(self, rows: Ints) -> Stats:
        """The stats of some of the plane's events. Those of others are not looked at."""
        columns = self.columns
        places = np.full(len(columns.metadata_id), -1, np.int64)
        places[rows] = np.arange(len(rows))
        owners = places[columns.stat_rows]
        wanted = owners >= 0
        begins, ends = (column[wanted] for column in columns.stat_places)
        return Stats(self._source, self.stat_names, len(rows), owners[wanted], (begins, ends))

    def own_stats(self) -> dict[str, int]:
        """The numbers among the stats of the plane itself, by name."""
        begins, ends = self._own_stats
        count, found = self._source.scan(begins, ends, _STAT)
        numbers = found.numbers
        values = (numbers["int64_value"] | numbers["uint64_value"]).tolist()[:count]
        keys = numbers["metadata_id"].tolist()
        return {self.stat_names.get(key, ""): v for key, v in zip(keys, values, strict=True)}


class Space:
    """A profile.

    >>> from stepscope.metadata.xplane.messages import XSpace
    >>> message = XSpace()
    >>> host = message.planes.add(name="/host:CPU")
    >>> host.event_metadata[1].name = "mm:MatMul"
    >>> line = host.lines.add(id=42, name="worker", timestamp_ns=5_000)
    >>> _ = line.events.add(metadata_id=1, offset_ps=1_000_000, duration_ps=2_000_000)
    >>> (plane,) = Space(message.SerializeToString()).planes
    >>> plane.name, plane.names, plane.lines[0].name, plane.lines[0].offset_ps.tolist()
    ('/host:CPU', {1: 'mm:MatMul'}, 'worker', [1000000])
    """

    def __init__(self, data: bytes) -> None:
        self._source = source = _Bytes(data)
        self.size = len(data)
        self.planes: list[Plane] = []
        try:
            for number, kind, _, begin, end in fields_of(source.data, 0, self.size):
                if number == 1 and kind == _LENGTH:
                    try:
                        self.planes.append(Plane(source, begin, end))
                    except WireDamageError as error:
                        source.damaged(error.offset)
        except WireDamageError as error:
            source.damaged(error.offset)

    @property
    def damage(self) -> int | None:
        """Where the first damage is, of what was looked at by now; None for none."""
        return self._source.damage

    def plane(self, name: str) -> Plane | None:
        """The first plane of that name."""
        return next((p for p in self.planes if p.name == name), None)

    def hosts(self) -> Iterator[Plane]:
        """The planes of the host's threads; one, unless profiles were merged."""
        return (p for p in self.planes if p.name == HOST)

    def accelerators(self) -> Iterator[Plane]:
        """The planes of accelerators."""
        return (p for p in self.planes if p.name.startswith(_ACCELERATOR))

    @cached_property
    def base_ns(self) -> int:
        """What to add to a line's timestamps for nanoseconds since the epoch."""
        for plane in self.planes:
            if plane.name == ENVIRONMENT:
                start = plane.own_stats().get(START_TIME, 0)
                if start:
                    return start if start > 0 else _LATEST
        return self._base_from_clock()

    def _base_from_clock(self) -> int:
        """The same from the event that says the time; 0 where there is none."""
        for host in self.hosts():
            keys = [key for key, name in host.names.items() if name == CLOCK]
            for row in np.flatnonzero(np.isin(host.columns.metadata_id, keys))[:1].tolist():
                made = int(host.stats_of(np.array([row])).numbers(CLOCK_STAT)[0])
                line = host.lines[int(np.searchsorted(host.columns.ends, row, side="right"))]
                return made - line.timestamp_ns - int(host.columns.offset_ps[row]) // 1000
        return 0

    def origin_ns(self, line: EventLine) -> int:
        """The time of day from which a line's events count; some writers say it as it is."""
        stamp = line.timestamp_ns
        return min(max(stamp if stamp > _EPOCH_NS else stamp + self.base_ns, 0), _LATEST // 2)


def _signed(number: int) -> int:
    """A 64-bit number of the file as columns have it."""
    return number if number <= _LATEST else number - (1 << 64)
