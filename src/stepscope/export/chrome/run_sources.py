"""Runs for a trace, from memory or from files, without holding more of them than need be.

Guarantees:

- what is given as a path, or as a function that returns runs, is read one run at a time: once to
  see when it was, unless that is known, and again when its turn comes, unless all runs together
  have no more than `KEPT_ROWS` ops. Of runs that overlapped so many ops are kept until `forget`;
- runs given as objects are used as they are, and an iterator of objects is used up at once: only
  paths and functions keep memory bounded;
- runs come out in the order in which they started, and those that overlapped come together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from stepscope.analysis.runs import NamedRun, named_runs
from stepscope.errors import TimesTooFarApartError
from stepscope.metadata import RunMetadata, is_run_metadata, iter_runs
from stepscope.metadata.readable import writable
from stepscope.metadata.wire.together import decoded_ahead

KEPT_ROWS = 500_000
LONGEST_NS = 1 << 62
"""Longer than any op, and no shorter than any trace."""
_YEAR_NS = 365.25 * 86_400e9
_OPEN_SOURCES = 8
_Change: TypeAlias = Callable[[RunMetadata], RunMetadata]


@dataclass(frozen=True, slots=True)
class RunSpan:
    """Where a run is found, what it is called, and when it was; `rows` is the number of its ops."""

    source: int
    index: int
    name: str
    worker: str
    start: int
    end: int
    rows: int


class RunTime(NamedTuple):
    """When a run was; `rows` is the number of its ops."""

    name: str
    start: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class Source:
    """Runs that can be read from the beginning again and again; `held` if they are in memory.

    `times` says when they were where that is known without a look at them; `read` gives a run by
    its number where that takes no reading of those before it, as it is before `changed`.
    """

    open: Callable[[], Iterable[NamedRun]]
    worker: str
    held: list[NamedRun] | None = None
    times: list[RunTime] | None = None
    read: Callable[[int], RunMetadata] | None = None
    changed: _Change | None = None


def sources_of(runs: Any, worker: str = "") -> list[Source]:
    """What was given for "runs" as sources.

    Runs are a `RunMetadata`, a path to a file or a directory, a function that returns runs, or an
    iterable or mapping of these, named or not.
    """
    if isinstance(runs, str | os.PathLike) or _is_function(runs):
        return [_source(None, runs, worker)]
    if is_run_metadata(runs):
        return [_in_memory(named_runs(runs), worker)]
    if isinstance(runs, Mapping):
        runs = runs.items()
    if not isinstance(runs, Iterable) or isinstance(runs, bytes):
        raise _wrong(runs)
    sources: list[Source] = []
    objects: list[Any] = []
    for number, item in enumerate(runs):
        match item:
            case (str(name), (str() | os.PathLike()) as inner):
                sources.append(_source(name, inner, worker))
            case (str(name), inner) if _is_function(inner):
                sources.append(_source(name, inner, worker))
            case str() | os.PathLike():
                sources.append(_source(None, item, worker))
            case _ if _is_function(item):
                sources.append(_source(f"run {number}", item, worker))
            case (str(name), inner) if is_run_metadata(inner):
                objects.append((name, inner))
            case _ if is_run_metadata(item):
                objects.append((f"run {number}", item))
            case _:
                raise _wrong(item)
    if objects:
        sources.append(_in_memory(named_runs(objects), worker))
    return sources


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type)


def _in_memory(runs: list[NamedRun], worker: str) -> Source:
    return Source(lambda: runs, worker, runs)


def _source(name: str | None, place: Any, worker: str) -> Source:
    if _is_function(place):
        return Source(lambda: _called(name or "run", place), worker)
    return Source(lambda: _read(name, place), worker)


def _read(name: str | None, path: str | os.PathLike[str]) -> Iterator[NamedRun]:
    """The runs at a path, under the given name; with their own behind it if there are several."""
    if name is None:
        yield from (NamedRun(run.name, run.metadata) for run in iter_runs(path))
        return
    runs = iter_runs(path)
    first = next(runs, None)
    second = None if first is None else next(runs, None)
    if first is not None:
        yield NamedRun(name if second is None else f"{name} {first.name}", first.metadata)
    del first
    if second is not None:
        yield NamedRun(f"{name} {second.name}", second.metadata)
    del second
    yield from (NamedRun(f"{name} {run.name}", run.metadata) for run in runs)


def _called(name: str, function: Callable[[], Any]) -> Iterator[NamedRun]:
    found = function()
    runs = named_runs(found)
    alone = is_run_metadata(found)
    for run in runs:
        yield NamedRun(name if alone else f"{name} {run.name}", run.metadata)


def _wrong(value: object) -> TypeError:
    return TypeError(
        "runs must be a RunMetadata, a path to a file or directory, a function that returns runs, "
        "or a sequence or mapping of these, as (name, run) pairs or without names; found "
        f"{type(value).__module__}.{type(value).__qualname__}"
    )


def _same(metadata: RunMetadata) -> RunMetadata:
    return metadata


class RunStore:
    """All runs of a trace: when each was, known after one look at each, and the runs themselves."""

    def __init__(self, sources: list[Source]) -> None:
        """Look once at every run of which it is not known when it was."""
        self._sources = sources
        self._kept: dict[tuple[int, int], RunMetadata] = {}
        self._kept_rows = 0
        self._all_rows = 0
        self._all_fit = True
        self._open: dict[int, tuple[int, Iterator[NamedRun]]] = {}
        found = [span for number in range(len(sources)) for span in self._spans(number)]
        self.base_ns = min((span.start for span in found if span.rows), default=0)
        last = max(found, key=lambda span: span.end, default=None)
        if last is not None and last.end - self.base_ns > LONGEST_NS:
            raise TimesTooFarApartError(
                f"the ops of these runs are {(last.end - self.base_ns) / _YEAR_NS:,.0f} years "
                f"apart or more, which no trace can show (up to {LONGEST_NS / _YEAR_NS:,.0f}); the "
                f"times of {last.name!r} or of a run before it are damaged: leave it out, or "
                "select those of its ops that are in order"
            )
        self.spans = sorted(found, key=lambda span: span.start if span.rows else self.base_ns)

    def _spans(self, number: int) -> Iterator[RunSpan]:
        source = self._sources[number]
        worker = writable(source.worker)
        if source.times is not None:
            self._count(sum(run.rows for run in source.times))
            for index, (name, start, end, rows) in enumerate(source.times):
                yield RunSpan(number, index, writable(name), worker, start, end, rows)
            return
        for index, (name, metadata) in enumerate(source.open()):
            ops = metadata.ops
            rows = len(ops)
            if source.held is None:
                self._count(rows)
                if self._all_fit:
                    self._keep((number, index), metadata, rows)
            start = int(ops.start_ns.min()) if rows else 0
            end = max(start, int(ops.end_ns.max())) if rows else 0
            yield RunSpan(number, index, writable(name), worker, start, end, rows)

    def _count(self, rows: int) -> None:
        """Note that there are so many more ops to be read; one run fits, however large it is."""
        self._all_rows += rows
        if self._all_rows > max(rows, KEPT_ROWS):
            self._all_fit = False
            self.forget()

    def overlapping(self) -> Iterator[list[RunSpan]]:
        """The runs in order of their start; runs that overlap, even through others, together."""
        group: list[RunSpan] = []
        until = 0
        for span in self.spans:
            if group and span.start >= until and span.rows:
                yield group
                group = []
            group.append(span)
            until = max(until, span.end) if len(group) > 1 else span.end
        if group:
            yield group

    def load(self, spans: list[RunSpan]) -> Iterator[RunMetadata]:
        """The runs of spans, one after the other."""
        found = ((span, *self._found(span)) for span in spans)
        for span, metadata, changed in decoded_ahead(found, lambda each: each[1]):
            if changed is not None:
                metadata = changed(metadata)
                self._keep((span.source, span.index), metadata, span.rows)
            yield metadata

    def _found(self, span: RunSpan) -> tuple[RunMetadata, _Change | None]:
        """The run of a span, and what is to be done to it if it was just read."""
        source, key = self._sources[span.source], (span.source, span.index)
        if source.held is not None:
            return source.held[span.index].metadata, None
        known = self._kept.get(key)
        if known is not None:
            return known, None
        if source.read is not None:
            return source.read(span.index), source.changed or _same
        return self._read(*key), _same

    def forget(self) -> None:
        """Drop what is kept: the runs wanted next are others."""
        if not self._all_fit:
            self._kept.clear()
            self._kept_rows = 0

    def _read(self, source: int, index: int) -> RunMetadata:
        at, runs = self._open.pop(source, (0, iter(())))
        if at > index or at == 0:
            at, runs = 0, iter(self._sources[source].open())
        for run in runs:
            at += 1
            if at > index:
                self._open[source] = (at, runs)
                # An open source may hold on to what it read.
                while len(self._open) > _OPEN_SOURCES:
                    del self._open[next(iter(self._open))]
                return run.metadata
        raise RuntimeError(
            f"run {index} of source {source} was there at the first look and is gone; "
            "files must not change while a trace of them is written"
        )

    def _keep(self, key: tuple[int, int], metadata: RunMetadata, rows: int) -> None:
        # Those that came first stay: of more than fit, always the same are read again.
        if not self._kept or self._kept_rows + rows <= KEPT_ROWS:
            self._kept[key] = metadata
            self._kept_rows += rows
