"""Where the memory went: live bytes over time, the peak and who held it, and the failed request."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.errors import StepscopeError
from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.memory.allocations import FAILED, HELD, PERSISTENT_KINDS, AllocationColumns
from stepscope.metadata.memory.out_of_memory import Growth, HeldMemory, MemoryRequest, held_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

__all__ = [
    "DeviceMemory",
    "MemoryProfile",
    "MemoryRow",
    "OutOfMemoryProfile",
    "event_times",
    "memory_profile",
    "oom",
]

By: TypeAlias = Literal["op", "scope", "source"]
GROUPINGS: tuple[str, ...] = get_args(By)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """What shared a key and was live at the same moment.

    `source` and `shapes` are those of an op; "" where a row has several. `share` is the part of
    what was live, 0 to 1.
    """

    key: str
    device: str
    kind: str
    persistent: bool
    tensors: int
    bytes: int
    share: float
    source: str = ""
    shapes: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceMemory:
    """Live bytes of one device over time, and its peak.

    `live_bytes[i]`, of which `persistent_bytes[i]` in variables, queues and feeds, were live from
    `time_ns[i]` on; what was there before a run counts from its beginning. `run` is the run that
    had the peak. Without a record of single allocations the curve is empty and the peak is what
    the engine counted. `estimated` says that nobody counted: the figures follow from what ops put
    out, and may be too high or too low.
    """

    device: str
    run: str
    peak_bytes: int
    peak_ns: int
    persistent_at_peak: int
    time_ns: Ints
    live_bytes: Ints
    persistent_bytes: Ints
    estimated: bool = False

    @property
    def temporary_at_peak(self) -> int:
        """The bytes of the peak that were in tensors which ops made and free again."""
        return self.peak_bytes - self.persistent_at_peak


@dataclass(frozen=True, slots=True)
class MemoryProfile(Result):
    """The memory of one run or of several, per device; those with the highest peak first.

    `rows` tell who held each device's peak, the largest first; those of a device sum to it where
    single allocations were recorded.
    """

    by: By
    runs: int
    devices: tuple[DeviceMemory, ...]
    rows: tuple[MemoryRow, ...]

    def __iter__(self) -> Iterator[MemoryRow]:
        """Over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class OutOfMemoryProfile(Result):
    """A request that was refused: the report, and live bytes on its device until then.

    `rows` tell who held the live bytes, the largest first, and sum to them.

    `curve` says where the curve comes from: "allocations" (all of them were recorded), "log" (the
    last ones, counted back from the live bytes), "sampled log" (some of the last ones: an
    estimate), or "" where nothing was recorded over time.
    """

    run: str
    request: MemoryRequest
    dtype: str
    limit: int | None
    live: int
    cached: int | None
    rows: tuple[MemoryRow, ...]
    grown: tuple[Growth, ...] | None
    advice: str
    curve: str
    time_ns: Ints
    live_bytes: Ints


def memory_profile(runs: Runs, by: By = "op") -> MemoryProfile:
    """Live bytes over time per device, the peak, and who held it.

    `by` groups the holders: "op", "scope" (the name without its last part) or "source" (the line
    that made the op); temporary and persistent memory are never in one row. Several runs stand
    one after the other in time, and the peak is that of the run with the highest.
    """
    _check(by)
    named = [_Run(run) for run in named_runs(runs)]
    names = dict.fromkeys(device for run in named for device, peak in run.peaks.items() if peak)
    found = [_of_device(device, named, by) for device in names]
    found.sort(key=lambda pair: -pair[0].peak_bytes)
    return made_of(
        MemoryProfile(
            by=by,
            runs=len(named),
            devices=tuple(device for device, _ in found),
            rows=tuple(row for _, rows in found for row in rows),
        ),
        runs,
    )


def _check(by: str) -> None:
    if by not in GROUPINGS:
        raise ValueError(f"by must be one of {', '.join(GROUPINGS)}; it was {by!r}")


class _Run:
    """A run's allocations, taken apart by device once for all of them."""

    def __init__(self, run: NamedRun) -> None:
        self.name = run.name
        self.metadata = run.metadata
        self.peaks = run.metadata.device_peaks()
        self.sources = run.metadata.sources
        self._all = run.metadata.allocations
        self._times = event_times(run.metadata, self._all)
        codes, table = self._all.devices.codes, self._all.devices.table
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(1, len(table)))
        self._rows = dict(zip(table, np.split(order, bounds), strict=True)) if table else {}

    def on(self, device: str) -> tuple[AllocationColumns, Ints]:
        """The events of a device, and when they count."""
        rows = self._rows.get(device, np.empty(0, np.intp))
        return self._all.select(rows), self._times[rows]


def _of_device(device: str, runs: list[_Run], by: By) -> tuple[DeviceMemory, list[MemoryRow]]:
    peaks = [run.peaks.get(device, 0) for run in runs]
    highest = int(np.argmax(peaks))
    run = runs[highest]
    curves = [_curve(*run.on(device)) for run in runs]
    times, live, persistent = (np.concatenate(part) for part in zip(*curves, strict=True))
    order = np.argsort(times, kind="stable")
    allocations, moments = run.on(device)
    row = allocations.peak_row()
    alive = allocations.alive_at(row)
    rows = _grouped(held_memory(alive, run.sources), by, peaks[highest])
    memory = DeviceMemory(
        device=device,
        run=run.name,
        peak_bytes=peaks[highest],
        peak_ns=int(moments[row]) if row >= 0 else 0,
        persistent_at_peak=sum(row.bytes for row in rows if row.persistent),
        time_ns=times[order],
        live_bytes=live[order],
        persistent_bytes=persistent[order],
        estimated=any(run.metadata.completeness.memory_is_estimated for run in runs),
    )
    return memory, rows


def _curve(allocations: AllocationColumns, moments: Ints) -> tuple[Ints, Ints, Ints]:
    """Live and lasting bytes over time, from the events of one device."""
    mine = allocations.event != FAILED
    times, changes = moments[mine], allocations.bytes[mine]
    lasting = np.isin(allocations.kind[mine].astype(str), tuple(PERSISTENT_KINDS))
    return times, np.cumsum(changes), np.cumsum(np.where(lasting, changes, 0))


def event_times(metadata: Any, events: AllocationColumns) -> Ints:
    """When each event counts in its run: what it held from before, from its beginning."""
    held = events.event == HELD
    began = [part.min() for part in (metadata.ops.start_ns, events.time_ns[~held]) if len(part)]
    return np.maximum(events.time_ns, min(began)) if began and held.any() else events.time_ns


def _grouped(held: Sequence[HeldMemory], by: By, live: int) -> list[MemoryRow]:
    groups: dict[tuple[str, str, str], list[HeldMemory]] = defaultdict(list)
    for row in held:
        key = {"op": row.op, "scope": _scope(row.op), "source": row.source or "(unknown)"}[by]
        groups[key, row.kind, row.device].append(row)
    rows = [
        MemoryRow(
            key=key,
            device=device,
            kind=kind,
            persistent=members[0].persistent,
            tensors=sum(row.tensors for row in members),
            bytes=(total := sum(row.bytes for row in members)),
            share=total / live if live else 0.0,
            source=_shared([row.source for row in members]),
            shapes=_shared([row.shapes for row in members]),
        )
        for (key, kind, device), members in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.bytes, row.key, row.kind, row.device))


def _scope(name: str) -> str:
    return name.rpartition("/")[0] or "(top)"


def _shared(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else ""


def oom(metadata: Any, by: By = "op") -> OutOfMemoryProfile:
    """Why a run ran out of memory: what was asked for, who held what, live bytes until then.

    `by` groups the holders, as in `memory_profile`.
    `StepscopeError` where the run has no such report, saying what would have made one.
    """
    _check(by)
    (run,) = named_runs(metadata)
    report = run.metadata.out_of_memory
    if report is None:
        raise StepscopeError(_why_no_report(run))
    curve, times, live = _until_failure(run, report.request, report.live, report.limit)
    return made_of(
        OutOfMemoryProfile(
            run=run.name,
            request=report.request,
            dtype=dtype_name(report.request.dtype),
            limit=report.limit,
            live=report.live,
            cached=report.cached,
            rows=tuple(_grouped(report.rows, by, report.live)),
            grown=report.grown,
            advice=report.advice,
            curve=curve,
            time_ns=times,
            live_bytes=live,
        ),
        metadata,
    )


def _why_no_report(run: NamedRun) -> str:
    status = run.metadata.status
    if not status.known:
        return (
            f"{run.name} holds no report on its memory, and how it ended is {status.in_words}: "
            "copy the file again, or record the run anew"
        )
    how = (
        "ended in RESOURCE_EXHAUSTED, but without a report on its memory"
        if status.code == "RESOURCE_EXHAUSTED"
        else f"did not run out of memory: it ended with status {status.code}"
    )
    return (
        f"{run.name} {how}; a report is made where a run that runs out of memory asks for one "
        "(RunOptions(report_tensor_allocations_upon_oom=True)) or is traced (stepscope run "
        "--trace full)"
    )


def _until_failure(
    run: NamedRun, request: MemoryRequest, live: int, limit: int | None
) -> tuple[str, Ints, Ints]:
    for source, columns in (
        ("allocations", run.metadata.allocations),
        ("log", run.metadata.allocation_log),
    ):
        counted = columns.event != FAILED
        if limit is not None:
            counted &= columns.device == request.device
        if request.time_ns:
            counted &= columns.time_ns <= request.time_ns
        mine = columns.select(counted)
        if not len(mine):
            continue
        # The end is known: counting back from it needs no knowledge of the beginning.
        running = np.cumsum(mine.bytes)
        return _named(source, run), event_times(run.metadata, mine), running - running[-1] + live
    empty = np.empty(0, np.int64)
    return "", empty, empty


def _named(source: str, run: NamedRun) -> str:
    options = run.metadata.run_options
    if source != "log" or options is None:
        return source
    rate = options.resolve().allocation_log_sampling_rate
    return source if rate is None or rate >= 1.0 else "sampled log"
