"""Runs as one Chrome trace that Perfetto and chrome://tracing open.

What the trace shows:

- a process per device, the same one for every run on it, and in it a lane per thread, under the
  thread's name. Where a run does not say which thread an op ran on, ops that overlapped are laid
  out side by side on as many lanes as that takes;
- a process "runs" with one slice per run (how it ended, on which engine, whether all of it was
  measured), and one per step where a run has several;
- per op its type, the types and shapes and bytes of its outputs, the source line that made it, its
  run and step, and how long it waited after it was scheduled;
- the spans of `stepscope.annotate` around the ops within them;
- an arrow for every edge between lanes, where labels or graphs tell the edges;
- per device the live bytes over time, where allocations were recorded.

Times are nanoseconds. The format counts in microseconds, and a JSON number cannot hold the time of
day to the nanosecond, so times are relative to the first op of the trace; `otherData` says when
that was (`base_epoch_ns`, a string for the same reason).

The trace is written as it is made. At no time is more in memory than the runs that overlapped in
time, 30 bytes per op of them, and one block of text.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import orjson

from stepscope.export.chrome.edges import edges_of
from stepscope.export.chrome.events import (
    BLOCK,
    OpTexts,
    counters,
    flows,
    mark,
    run_mark,
    step_marks,
)
from stepscope.export.chrome.fold import Detail, bytes_of, fold, folded_slices
from stepscope.export.chrome.layout import Layout
from stepscope.export.chrome.run_sources import LONGEST_NS, RunSpan, RunStore, Source, sources_of
from stepscope.whole_files import write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, RunMetadata, StringColumn

    Ints: TypeAlias = NDArray[np.int64]

_RUNS = "runs"
_FLOW_BYTES = 260
_COUNTER_BYTES = 110
_SAMPLE = 256


@overload
def chrome(
    runs: Any,
    path: None = None,
    *,
    max_bytes: int | None = None,
    show_memory: bool = True,
    show_dataflow: bool = True,
) -> str: ...
@overload
def chrome(
    runs: Any,
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    show_memory: bool = True,
    show_dataflow: bool = True,
) -> Path: ...
def chrome(
    runs: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    max_bytes: int | None = None,
    show_memory: bool = True,
    show_dataflow: bool = True,
) -> str | Path:
    """Write runs as a Chrome trace to `path` and return the path; without one, return the JSON.

    `runs` is a `RunMetadata`, a path to a file or directory of runs, a function that returns runs,
    or a sequence or mapping of these, as (name, run) pairs or without names. Paths and functions
    are read one run at a time, so that any number of runs fits into memory. A `path` that ends in
    `.gz` is compressed. The file is complete or not there.

    `max_bytes` keeps the JSON text, before compression, below a size (viewers have their limits):
    first the arrows go, then most points of the memory curves, then ops below a duration are folded
    into slices that say how many calls of which op type they stand for. Calls, time and bytes per
    op type stay what they were, and `otherData["folded"]` and the marks of runs say what was done.
    """
    return write_trace(
        sources_of(runs),
        path,
        max_bytes=max_bytes,
        show_memory=show_memory,
        show_dataflow=show_dataflow,
    )


def write_trace(
    sources: list[Source],
    path: str | os.PathLike[str] | None,
    *,
    max_bytes: int | None,
    show_memory: bool,
    show_dataflow: bool,
    told: dict[str, Any] | None = None,
) -> str | Path:
    """As `chrome`, of runs from sources; `told` stands in `otherData` too."""
    if max_bytes is not None and max_bytes <= 0:
        raise ValueError(f"max_bytes must be a number of bytes above 0; it was {max_bytes!r}")
    trace = _Trace(RunStore(sources), max_bytes, told or {}, show_memory=show_memory)
    detail = Detail(flows=show_dataflow)
    if max_bytes is not None:
        detail = trace.fitting(detail)
    while True:
        try:
            chunks = trace.chunks(detail)
            return b"".join(chunks).decode() if path is None else write_whole(path, chunks)
        except _TooLongError:
            # The estimate was too low: the next threshold up.
            detail = trace.less(detail)


class _TooLongError(Exception):
    """More text was made than `max_bytes`."""


class _Trace:
    """One trace in the making: which runs, and what to show of them."""

    def __init__(
        self, store: RunStore, max_bytes: int | None, told: dict[str, Any], *, show_memory: bool
    ) -> None:
        self._store = store
        self._told = told
        self._max_bytes = max_bytes
        self._show_memory = show_memory

    # -- the text --------------------------------------------------------------------------

    def chunks(self, detail: Detail) -> Iterator[bytes]:
        """The trace in pieces; `_TooLongError` as soon as it is longer than it may be."""
        written = 0
        for chunk in self._chunks(detail):
            written += len(chunk)
            if self._max_bytes is not None and written > self._max_bytes:
                raise _TooLongError
            yield chunk

    def _chunks(self, detail: Detail) -> Iterator[bytes]:
        yield b'{"displayTimeUnit":"ns","traceEvents":[\n'
        layout = Layout()
        layout.pid(_RUNS)
        told = _Told()
        # The last event has no comma behind it, so one piece is always held back.
        held = b",\n"
        for group in self._store.overlapping():
            for chunk in self._group(group, layout, detail, told):
                if chunk:
                    yield held if held != b",\n" else b""
                    held = chunk
        yield held[:-2]
        other: dict[str, Any] = {
            "producer": "stepscope",
            "base_epoch_ns": str(self._store.base_ns),
            "runs": len(self._store.spans),
            "ops": sum(span.rows for span in self._store.spans),
            **self._told,
        }
        if (said := told.text(detail, self._max_bytes)) is not None:
            other["folded"] = said
        yield b'],"otherData":' + orjson.dumps(other) + b"}\n"

    def _group(
        self, group: list[RunSpan], layout: Layout, detail: Detail, told: _Told
    ) -> Iterator[bytes]:
        """The runs of a stretch of time."""
        base_ns = self._store.base_ns
        loaded = zip(group, self._store.load(group), strict=True)
        placed = [layout.prepare(metadata.ops, span.worker) for span, metadata in loaded]
        lanes = layout.place(placed)
        ends = [run.end for run in placed]
        del placed
        times = [
            (span.start - base_ns, span.end - base_ns) if span.rows else (0, 0) for span in group
        ]
        marks = layout.spans(
            _RUNS,
            _RUNS,
            np.array([start for start, _ in times], np.int64),
            np.array([end for _, end in times], np.int64),
        )
        # Runs at the same time have memory curves of their own, numbered as their marks' lanes.
        _, beside = np.unique(marks, return_inverse=True)
        places = layout.place_table()
        for number, metadata in enumerate(self._store.load(group)):
            span = group[number]
            name = _title(span)
            texts = OpTexts(name, metadata, ends[number], lanes[number], places, base_ns)
            said, slices = self._ops(texts, detail, span, layout, told)
            first = run_mark(name, metadata, times[number], layout.places[marks[number]], said)
            steps = self._steps(metadata.ops, ends[number], layout)
            yield "".join([*layout.take_news(), first, *steps]).encode()
            yield from slices
            if detail.flows:
                for edges in edges_of(metadata, lanes[number], ends[number]):
                    yield from flows(edges, texts, told.flows)
                    told.flows += len(edges.producer)
            if self._show_memory:
                yield from self._counters(metadata, span, int(beside[number]), layout, detail)
        self._store.forget()

    def _ops(
        self, texts: OpTexts, detail: Detail, span: RunSpan, layout: Layout, told: _Told
    ) -> tuple[str | None, Iterator[bytes]]:
        if not detail.fold_below_ns:
            return None, texts.slices()
        folded = fold(texts.ops, texts.end, texts.lanes, detail, self._store.base_ns)
        ops = span.rows - len(folded.kept)
        told.ops += ops
        told.slices += len(folded.first)
        said = f"{ops:,} ops in {len(folded.first):,} slices" if ops else None
        places, base_ns = layout.places, self._store.base_ns

        def slices() -> Iterator[bytes]:
            yield from texts.slices(folded.kept)
            yield from folded_slices(folded, texts.ops, places, _title(span), base_ns, BLOCK)

        return said, slices()

    def _steps(self, ops: OpColumns, end: Ints, layout: Layout) -> list[str]:
        if not len(ops) or (ops.step == ops.step[0]).all():
            return []
        steps, start, until, count = step_marks(ops, end)
        lanes = layout.spans(_RUNS, "steps", start, until)
        base_ns = self._store.base_ns
        return [
            mark(
                "step",
                f"step {step}",
                (int(start[i]) - base_ns, int(until[i]) - base_ns),
                layout.places[lanes[i]],
                {"step": step, "ops": int(count[i])},
            )
            for i, step in enumerate(steps.tolist())
        ]

    def _counters(
        self, metadata: RunMetadata, span: RunSpan, beside: int, layout: Layout, detail: Detail
    ) -> Iterator[bytes]:
        allocations = metadata.allocations
        if not len(allocations):
            return
        prefix = f"{span.worker} " if span.worker else ""
        pids = {device: layout.pid(prefix + device) for device in _used(allocations.devices)}
        news = layout.take_news()
        if news:
            yield "".join(news).encode()
        name = f"live bytes ({beside + 1})" if beside else "live bytes"
        yield from counters(allocations, pids, name, self._store.base_ns, detail.counter_points)

    # -- fitting into a size ---------------------------------------------------------------

    def fitting(self, detail: Detail) -> Detail:
        """As much detail as is likely to fit."""
        full, flow_bytes, counter_bytes, points = self._sizes(detail)
        limit = float(self._max_bytes or 0)
        if full + flow_bytes + counter_bytes <= limit:
            return detail
        detail = detail._replace(flows=False)
        if counter_bytes > limit / 10 and full + counter_bytes > limit:
            each = int(limit / 10 / _COUNTER_BYTES / max(points, 1))
            detail = detail._replace(counter_points=max(each, 2))
            counter_bytes = limit / 10
        if full + counter_bytes <= limit:
            return detail
        return self._folding(detail, limit - counter_bytes)

    def _folding(self, detail: Detail, limit: float) -> Detail:
        """The lowest threshold, and then the shortest stretches, that are likely to fit."""

        def fits(tried: Detail) -> bool:
            return self._folded_size(tried) <= limit

        coarse = detail._replace(same_type_only=False)
        power = _lowest(63, lambda n: fits(coarse._replace(fold_below_ns=1 << n)))
        below = 1 << min(power, 62)
        parts = _lowest(8, lambda n: fits(coarse._replace(fold_below_ns=below * (n + 8) // 16)))
        below = below * (parts + 8) // 16
        fine = detail._replace(fold_below_ns=below)
        if fits(fine):
            return fine
        coarse = coarse._replace(fold_below_ns=below)
        whole = max((span.end for span in self._store.spans), default=0) - self._store.base_ns
        halvings = 14
        cut = _lowest(
            halvings, lambda n: fits(coarse._replace(stretch_ns=(whole >> (halvings - n)) + 1))
        )
        if cut == halvings:
            return coarse
        return coarse._replace(stretch_ns=(whole >> (halvings - cut)) + 1)

    def less(self, detail: Detail) -> Detail:
        """The next step down."""
        if detail.flows:
            return detail._replace(flows=False)
        if detail.fold_below_ns and (detail.same_type_only or detail.stretch_ns < LONGEST_NS):
            return detail._replace(same_type_only=False, stretch_ns=LONGEST_NS)
        below = max(2 * detail.fold_below_ns, 1)
        if below > LONGEST_NS:
            raise ValueError(
                f"max_bytes={self._max_bytes:,} is too little for {len(self._store.spans):,} runs "
                "even if the ops of each lane are one slice; allow more, or export fewer runs"
            )
        return detail._replace(fold_below_ns=below, same_type_only=False)

    def _sizes(self, detail: Detail) -> tuple[float, float, float, int]:
        """About the bytes of slices, of arrows and of counters, and the number of curves."""
        full = flow_bytes = counter_bytes = 0.0
        curves = 0
        for span, metadata in zip(
            self._store.spans, self._store.load(self._store.spans), strict=True
        ):
            full += self._slice_bytes(span, metadata) * span.rows + 600
            if detail.flows and metadata.ops.labels is not None:
                flow_bytes += span.rows * _FLOW_BYTES
            if self._show_memory:
                counter_bytes += len(metadata.allocations) * _COUNTER_BYTES
                curves += len(_used(metadata.allocations.devices))
            self._store.forget()
        return full, flow_bytes, counter_bytes, curves

    def _slice_bytes(self, span: RunSpan, metadata: RunMetadata) -> float:
        """The bytes of a slice of the run, on average, from some of them."""
        if not span.rows:
            return 0.0
        ops = metadata.ops
        rows = np.linspace(0, span.rows - 1, min(span.rows, _SAMPLE)).astype(np.int64)
        lanes = np.zeros(span.rows, np.int64)
        end = np.maximum(ops.end_ns, ops.start_ns)
        places = np.array(['","pid":1000,"tid":10000,"ts":'], object)
        texts = OpTexts(_title(span), metadata, end, lanes, places, self._store.base_ns)
        return len(texts.block(rows).encode()) / len(rows)

    def _folded_size(self, detail: Detail) -> float:
        total = 0.0
        layout = Layout()
        for group in self._store.overlapping():
            loaded = zip(group, self._store.load(group), strict=True)
            placed = [layout.prepare(metadata.ops, span.worker) for span, metadata in loaded]
            lanes = layout.place(placed)
            again = self._store.load(group)
            for span, metadata, run, on in zip(group, again, placed, lanes, strict=True):
                folded = fold(run.ops, run.end, on, detail, self._store.base_ns)
                each = self._slice_bytes(span, metadata)
                total += bytes_of(folded, run.ops, each) + 600
                total += len(_title(span)) * len(folded.first)
            self._store.forget()
        return total


def _title(span: RunSpan) -> str:
    """What a run is called in the trace: runs of different workers may have the same name."""
    return f"{span.worker} {span.name}" if span.worker else span.name


def _used(column: StringColumn) -> list[str]:
    """The strings that are in a column; its table may have more."""
    return [column.table[code] for code in np.unique(column.codes).tolist()]


def _lowest(count: int, holds: Callable[[int], bool]) -> int:
    """The lowest number below `count` for which something holds that then holds for all above."""
    return bisect_left(range(count), True, key=holds)


class _Told:
    """What was left out of a trace, counted while it is written."""

    def __init__(self) -> None:
        self.flows = 0
        self.ops = 0
        self.slices = 0

    def text(self, detail: Detail, max_bytes: int | None) -> str | None:
        """What was left out, in words; None where nothing was."""
        parts = []
        if self.ops:
            parts.append(
                f"{self.ops:,} ops shorter than {detail.fold_below_ns / 1000:,g} us are drawn as "
                f"{self.slices:,} slices that say what they stand for"
            )
        if detail.counter_points is not None:
            parts.append(f"memory curves have at most {detail.counter_points:,} points per run")
        if max_bytes is not None and not detail.flows:
            parts.append("edges between ops are not drawn")
        return f"to stay below {max_bytes:,} bytes: {'; '.join(parts)}" if parts else None
