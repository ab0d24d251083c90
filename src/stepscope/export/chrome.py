"""Runs as one Chrome trace that Perfetto and chrome://tracing open.

What the trace shows:

- a process per device, the same one for every run on it, and in it a lane per thread, under the
  thread's name. Where a run does not say which thread an op ran on, ops that overlapped are laid
  out side by side on as many lanes as that takes;
- a process "runs" with one slice per run: how it ended, on which engine, and whether all of it was
  measured;
- per op its type, output bytes, run and step, and how long it waited after it was scheduled.

Times are nanoseconds. The format counts in microseconds, and a JSON number cannot hold the time of
day to the nanosecond, so times are relative to the first op of the trace; `otherData` says when
that was (`base_epoch_ns`, a string for the same reason).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import orjson

from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.export._whole_file import write_whole
from stepscope.export.lanes import drawing_order, split_lanes
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from stepscope.metadata.columns import OpColumns

    Ints: TypeAlias = NDArray[np.int64]

Event: TypeAlias = dict[str, Any]

_RUNS_PID = 1
_EVENTS_PER_CHUNK = 4096


@overload
def chrome(runs: Runs, path: None = None) -> str: ...
@overload
def chrome(runs: Runs, path: str | os.PathLike[str]) -> Path: ...
def chrome(runs: Runs, path: str | os.PathLike[str] | None = None) -> str | Path:
    """Write runs as a Chrome trace to `path` and return the path; without one, return the JSON.

    `runs` is a `RunMetadata`, a sequence of them, `(name, RunMetadata)` pairs or a mapping. A name
    that ends in `.gz` is compressed. The file is complete or not there.
    """
    chunks = _json_chunks(named_runs(runs))
    if path is None:
        return b"".join(chunks).decode()
    return write_whole(path, chunks)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where everything goes: decided for all runs together, before the first event is written.

    `order` and `tids` are per run: the rows in drawing order, and for each row its lane.
    """

    base_ns: int
    pids: dict[str, int]
    order: list[Ints]
    tids: list[Ints]
    lane_names: dict[int, tuple[int, str]]
    run_spans: list[tuple[int, int]]
    run_tids: list[int]


def _json_chunks(runs: list[NamedRun]) -> Iterator[bytes]:
    layout = _lay_out(runs)
    events = chain(
        _process_events(layout),
        _run_events(runs, layout),
        *(_op_events(index, run, layout) for index, run in enumerate(runs)),
    )
    yield b'{"displayTimeUnit":"ns","otherData":'
    yield orjson.dumps({"base_epoch_ns": str(layout.base_ns), "producer": "stepscope"})
    yield b',"traceEvents":['
    separator = b"\n"
    while batch := list(islice(events, _EVENTS_PER_CHUNK)):
        yield separator
        yield orjson.dumps(batch)[1:-1]
        separator = b",\n"
    yield b"\n]}\n"


def _lay_out(runs: list[NamedRun]) -> _Layout:
    columns = [run.metadata.ops for run in runs]
    starts = [np.asarray(ops.start_ns, np.int64) for ops in columns]
    # A clock that was set back in between must not give a slice a negative length.
    ends = [np.maximum(ops.end_ns, start) for ops, start in zip(columns, starts, strict=True)]
    base_ns = min((int(start.min()) for start in starts if len(start)), default=0)

    devices = StringColumn.joined([ops.devices for ops in columns])
    pids = {device: _RUNS_PID + 1 + number for number, device in enumerate(devices.table)}
    spans = [
        (int(start.min()), int(end.max())) if len(start) else (base_ns, base_ns)
        for start, end in zip(starts, ends, strict=True)
    ]
    # Lanes are numbered on from the processes: viewers take a thread of its process's number for
    # the process's main thread.
    lanes = _Lanes(first_tid=_RUNS_PID + 1 + len(pids))
    run_tids = lanes.of_runs(spans)
    tids = lanes.of_ops(columns, starts, ends, devices)
    order = [drawing_order(start, end) for start, end in zip(starts, ends, strict=True)]
    return _Layout(base_ns, pids, order, tids, lanes.names, spans, run_tids)


class _Lanes:
    """Gives out lane numbers, unique over the whole trace; keeps each one's process and name."""

    def __init__(self, first_tid: int) -> None:
        self.names: dict[int, tuple[int, str]] = {}
        self._first_tid = first_tid

    def of_runs(self, spans: list[tuple[int, int]]) -> list[int]:
        """A lane for each run; runs that overlapped get different ones."""
        start = np.array([span[0] for span in spans], np.int64)
        end = np.array([span[1] for span in spans], np.int64)
        tids = self._place(_RUNS_PID, "runs", start, end, may_contain=False)
        return [int(tid) for tid in tids]

    def of_ops(
        self, columns: list[OpColumns], starts: list[Ints], ends: list[Ints], devices: StringColumn
    ) -> list[Ints]:
        """For each run the lane of each row.

        Runs are looked at together: a thread is the same lane in all of them, and runs at the same
        time that do not know their threads must not cross.
        """
        if not columns:
            return []
        start, end = np.concatenate(starts), np.concatenate(ends)
        threads, thread_codes = _threads(columns)
        tids = np.empty(len(start), np.int64)
        for rows in _groups(devices.codes * max(len(threads), 1) + thread_codes):
            thread_id, name = threads[thread_codes[rows[0]]]
            known = thread_id != 0 or bool(name)
            label = name or (f"thread {thread_id}" if known else "ops")
            pid = _RUNS_PID + 1 + int(devices.codes[rows[0]])
            tids[rows] = self._place(pid, label, start[rows], end[rows], may_contain=known)
        return np.split(tids, np.cumsum([len(part) for part in starts])[:-1])

    def _place(self, pid: int, name: str, start: Ints, end: Ints, *, may_contain: bool) -> Ints:
        lanes = split_lanes(start, end, may_contain=may_contain)
        first = self._first_tid + len(self.names)
        for lane in range(int(lanes.max(initial=-1)) + 1):
            self.names[first + lane] = (pid, f"{name} ({lane + 1})" if lane else name)
        return lanes + first


def _threads(columns: list[OpColumns]) -> tuple[list[tuple[int, str]], Ints]:
    """The distinct threads of all runs, by number and name, and for each row which one it has."""
    known: dict[tuple[int, str], int] = {}
    codes = [np.empty(0, np.int64)]
    for ops in columns:
        distinct, which = np.unique(ops.thread, return_inverse=True)
        of_run = [
            known.setdefault((thread, ops.thread_names.get(thread, "")), len(known))
            for thread in distinct.tolist()
        ]
        codes.append(np.array(of_run, np.int64)[which])
    return list(known), np.concatenate(codes)


def _groups(keys: Ints) -> list[Ints]:
    """The rows of each distinct key, the lowest key first."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1) if len(keys) else []


def _process_events(layout: _Layout) -> Iterator[Event]:
    for name, pid in [("runs", _RUNS_PID), *layout.pids.items()]:
        yield _metadata("process_name", pid, {"name": name})
        yield _metadata("process_sort_index", pid, {"sort_index": pid})
    for tid, (pid, name) in layout.lane_names.items():
        yield {**_metadata("thread_name", pid, {"name": name}), "tid": tid}
        yield {**_metadata("thread_sort_index", pid, {"sort_index": tid}), "tid": tid}


def _metadata(kind: str, pid: int, args: dict[str, Any]) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "args": args}


def _run_events(runs: list[NamedRun], layout: _Layout) -> Iterator[Event]:
    """One slice per run, from its first op's start to its last op's end."""
    for run, (start, end), tid in zip(runs, layout.run_spans, layout.run_tids, strict=True):
        metadata = run.metadata
        args: dict[str, Any] = {
            "engine": metadata.engine,
            "step": metadata.step_id,
            "ops": len(metadata.ops),
            "status": metadata.status.code,
            "complete": metadata.completeness.complete,
        }
        if metadata.status.message:
            args["message"] = metadata.status.message
        if metadata.status.in_flight:
            args["in_flight"] = list(metadata.status.in_flight)
        if not metadata.completeness.complete:
            args["missing"] = [
                f"{loss.what} ({loss.count}): {loss.reason}"
                for loss in metadata.completeness.losses
            ]
        yield {
            "ph": "X",
            "cat": "run",
            "name": run.name,
            "pid": _RUNS_PID,
            "tid": tid,
            "ts": (start - layout.base_ns) / 1000,
            "dur": (end - start) / 1000,
            "args": args,
        }


def _op_events(index: int, run: NamedRun, layout: _Layout) -> Iterator[Event]:
    """One slice per executed node of a run, in drawing order."""
    ops = run.metadata.ops
    order = layout.order[index]
    start = np.asarray(ops.start_ns)[order]
    spent = np.maximum(np.asarray(ops.end_ns)[order] - start, 0)
    scheduled = np.asarray(ops.scheduled_ns)[order]
    waited = np.where(scheduled > 0, np.maximum(start - scheduled, 0), 0)
    rows: Iterable[tuple[Any, ...]] = zip(
        ops.name[order].tolist(),
        ops.op[order].tolist(),
        ops.device[order].tolist(),
        layout.tids[index][order].tolist(),
        ((start - layout.base_ns) / 1000).tolist(),
        (spent / 1000).tolist(),
        (waited / 1000).tolist(),
        ops.output_bytes[order].tolist(),
        ops.step[order].tolist(),
        strict=True,
    )
    for name, op, device, tid, at, duration, waited_us, output_bytes, step in rows:
        yield {
            "ph": "X",
            "cat": "op",
            "name": name,
            "pid": layout.pids[device],
            "tid": tid,
            "ts": at,
            "dur": duration,
            "args": {
                "op": op,
                "bytes": output_bytes,
                "run": run.name,
                "step": step,
                "waited_us": waited_us,
            },
        }
