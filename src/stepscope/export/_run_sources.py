"""Runs for a trace, from memory or from files, without holding more of them than need be.

Guarantees:

- what is given as a path, or as a function that returns runs, is read one run at a time and may be
  read more than once; of what was read, runs of up to `KEPT_ROWS` ops together are kept;
- runs given as objects are used as they are, and an iterator of objects is used up at once: only
  paths and functions keep memory bounded;
- runs come out in the order in which they started, and those that overlapped come together.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stepscope.analysis.runs import NamedRun, named_runs
from stepscope.export._accept import is_a
from stepscope.metadata import RunMetadata, iter_runs

KEPT_ROWS = 200_000
LONGEST_NS = 1 << 62
"""Longer than any op, and no shorter than any trace."""
_YEAR_NS = 365.25 * 86_400e9
_OPEN_SOURCES = 8
_RUN = "RunMetadata"


@dataclass(frozen=True, slots=True)
class Span:
    """Where a run is found, what it is called, and when it was; `rows` is the number of its ops."""

    source: int
    index: int
    name: str
    worker: str
    start: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class Source:
    """Runs that can be read from the beginning again and again; `held` if they are in memory."""

    open: Callable[[], Iterable[NamedRun]]
    worker: str
    held: list[NamedRun] | None = None


def sources_of(runs: Any, worker: str = "") -> list[Source]:
    """What was given for "runs" as sources.

    Runs are a `RunMetadata`, a path to a file or a directory, a function that returns runs, or an
    iterable or mapping of these, named or not.
    """
    if isinstance(runs, str | os.PathLike) or _is_function(runs):
        return [_source(None, runs, worker)]
    if is_a(runs, _RUN):
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
            case (str(name), inner) if is_a(inner, _RUN):
                objects.append((name, inner))
            case _ if is_a(item, _RUN):
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
    alone = is_a(found, _RUN)
    for run in runs:
        yield NamedRun(name if alone else f"{name} {run.name}", run.metadata)


def _wrong(value: object) -> TypeError:
    return TypeError(
        "runs must be a RunMetadata, a path to a file or directory, a function that returns runs, "
        "or a sequence or mapping of these, as (name, run) pairs or without names; found "
        f"{type(value).__module__}.{type(value).__qualname__}"
    )


class RunStore:
    """All runs of a trace: when each was, known after one look at each, and the runs themselves."""

    def __init__(self, sources: list[Source]) -> None:
        """Look at every run once."""
        self._sources = sources
        self._kept: OrderedDict[tuple[int, int], RunMetadata] = OrderedDict()
        self._kept_rows = 0
        self._open: dict[int, tuple[int, Iterator[NamedRun]]] = {}
        found = [
            self._look(number, index, source.worker, run)
            for number, source in enumerate(sources)
            for index, run in enumerate(source.open())
        ]
        self.base_ns = min((span.start for span in found if span.rows), default=0)
        last = max(found, key=lambda span: span.end, default=None)
        if last is not None and last.end - self.base_ns > LONGEST_NS:
            raise ValueError(
                f"the ops of these runs are {(last.end - self.base_ns) / _YEAR_NS:,.0f} years "
                f"apart, which no trace can show (up to {LONGEST_NS / _YEAR_NS:,.0f}); the times "
                f"of {last.name!r} or of a run before it are damaged: leave it out, or select "
                "those of its ops that are in order"
            )
        self.spans = sorted(found, key=lambda span: span.start if span.rows else self.base_ns)

    def _look(self, source: int, index: int, worker: str, run: NamedRun) -> Span:
        ops = run.metadata.ops
        rows = len(ops)
        if self._sources[source].held is None:
            self._keep((source, index), run.metadata, rows)
        if not rows:
            return Span(source, index, run.name, worker, 0, 0, 0)
        start = int(ops.start_ns.min())
        end = max(start, int(ops.end_ns.max()))
        return Span(source, index, run.name, worker, start, end, rows)

    def overlapping(self) -> Iterator[list[Span]]:
        """The runs in order of their start; runs that overlap, even through others, together."""
        group: list[Span] = []
        until = 0
        for span in self.spans:
            if group and span.start >= until and span.rows:
                yield group
                group = []
            group.append(span)
            until = max(until, span.end) if len(group) > 1 else span.end
        if group:
            yield group

    def load(self, span: Span) -> RunMetadata:
        """The run of a span."""
        held = self._sources[span.source].held
        if held is not None:
            return held[span.index].metadata
        key = (span.source, span.index)
        known = self._kept.get(key)
        if known is None:
            known = self._read(*key)
            self._keep(key, known, span.rows)
        return known

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
        self._kept[key] = metadata
        self._kept_rows += rows
        while self._kept_rows > KEPT_ROWS and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._kept_rows -= len(dropped.ops)
