"""Several timelines in one file.

What merging must not do is let things of different runs meet by accident: process numbers, flow ids
and object ids start from zero in every timeline. So:

- a process is known by its name: a device is one process, over all runs;
- flow, object and async ids are given anew, unique over the whole file;
- a run that overlaps an earlier one in time gets lanes of its own within each process they share,
  since two slices that cross on one lane cannot be drawn (Perfetto drops one of them). TensorFlow's
  own timelines have such slices, where step stats name a device twice; they are moved as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from stepscope.analysis.execution.lanes import split_lanes
from stepscope.export.messages import describe
from stepscope.export.timeline.timeline import Event, Timeline
from stepscope.whole_files import write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

# Perfetto takes lane 0 of a process, and the lane of its number, for one and the same: its main
# thread. Processes are numbered from where no lane is.
_FIRST_PID = 10_000

_LATEST = float(1 << 62)

# Phases whose `id` means something only together with others of the same family.
_ID_FAMILIES = {
    **dict.fromkeys("stf", "flow"),
    **dict.fromkeys("NOD", "object"),
    **dict.fromkeys("bneSTFp", "async"),
}


class TimeLiner:
    """Collects the timelines of several runs and saves them as one Chrome trace."""

    def __init__(self) -> None:
        """Begin with nothing collected."""
        self._metadata: dict[bytes, Event] = {}
        self._events: list[Event] = []
        self._processes: dict[Any, _Process] = {}
        self._next_id = 0

    def update_timeline(self, chrome_trace: str | bytes | dict[str, Any] | list[Any]) -> None:
        """Add a Chrome trace: what `Timeline.generate_chrome_trace_format()` returned.

        Also taken are the parsed trace and a bare list of events. What is passed is not changed.
        """
        self._add(_events_of(chrome_trace))

    def update(
        self, run_metadata: Any, *, show_dataflow: bool = True, show_memory: bool = False
    ) -> None:
        """Add the timeline of a run, from its `RunMetadata` or its `StepStats`."""
        analysis = Timeline(run_metadata).analyze_step_stats(
            show_dataflow=show_dataflow, show_memory=show_memory
        )
        self._add(analysis.chrome_trace.events)

    def save(self, f_name: str | os.PathLike[str]) -> None:
        """Write what was collected so far; gzip-compressed where the name ends in `.gz`.

        The file is complete or not there. More can be added and saved again afterwards.
        """
        events = _without_crossings(self._events)
        trace = {"traceEvents": [*self._metadata.values(), *events]}
        write_whole(f_name, [orjson.dumps(trace)])

    def _add(self, events: list[Event]) -> None:
        processes = self._processes_of(events)
        extents = _extents(events)
        shifts = {
            pid: process.lane_shift(extents[pid]) if pid in extents else 0
            for pid, process in processes.items()
        }
        ids: dict[tuple[str, Any], int] = {}
        for event in events:
            merged = dict(event)
            if "pid" in event:
                pid = event["pid"]
                merged["pid"] = processes[pid].pid
                if "tid" in event and event.get("ph") != "C":
                    merged["tid"] = processes[pid].lane(event["tid"], shifts[pid])
            family = _ID_FAMILIES.get(event.get("ph", ""))
            if family is not None and "id" in event:
                merged["id"] = ids.setdefault((family, event["id"]), self._next_id + len(ids))
            if event.get("ph") == "M":
                self._metadata.setdefault(orjson.dumps(merged, option=orjson.OPT_SORT_KEYS), merged)
            else:
                self._events.append(merged)
        self._next_id += len(ids)
        for pid, extent in extents.items():
            processes[pid].extents.append(extent)

    def _processes_of(self, events: Iterable[Event]) -> dict[Any, _Process]:
        """The process each `pid` of a trace stands for: by name, or by number if it has none."""
        names = {
            event["pid"]: event["args"]["name"]
            for event in events
            if event.get("ph") == "M" and event.get("name") == "process_name"
        }
        found: dict[Any, _Process] = {}
        for event in events:
            pid = event.get("pid")
            if pid is not None and pid not in found:
                key = names.get(pid, pid)
                if key not in self._processes:
                    self._processes[key] = _Process(_FIRST_PID + len(self._processes))
                found[pid] = self._processes[key]
        return found


class _Process:
    """A process of the merged file: the lanes it has, and when earlier runs were on it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.lanes = 0
        self.extents: list[tuple[float, float]] = []

    def lane_shift(self, extent: tuple[float, float]) -> int:
        """By how much to move the lanes of a run that lasts from `extent[0]` to `extent[1]`."""
        start, end = extent
        crosses = any(
            start < other_end and other_start < end for other_start, other_end in self.extents
        )
        return self.lanes if crosses else 0

    def lane(self, tid: Any, shift: int) -> Any:
        if not isinstance(tid, int):
            return tid
        self.lanes = max(self.lanes, tid + shift + 1)
        return tid + shift


def _extents(events: Iterable[Event]) -> dict[Any, tuple[float, float]]:
    """For each `pid`, the time from its first event to the end of its last."""
    extents: dict[Any, tuple[float, float]] = {}
    for event in events:
        if "ts" not in event or "pid" not in event or event.get("ph") == "C":
            continue
        start = float(event["ts"])
        end = start + float(event.get("dur", 0))
        known = extents.get(event["pid"], (start, end))
        extents[event["pid"]] = (min(known[0], start), max(known[1], end))
    return extents


def _without_crossings(events: list[Event]) -> list[Event]:
    """The events, those slices moved to lanes further down that cross another on theirs."""
    by_lane: dict[tuple[Any, Any], list[int]] = {}
    for i, event in enumerate(events):
        if event.get("ph") == "X" and isinstance(event.get("tid"), int):
            by_lane.setdefault((event["pid"], event["tid"]), []).append(i)
    last_lane: dict[Any, int] = {}
    for pid, tid in by_lane:
        last_lane[pid] = max(tid, last_lane.get(pid, tid))
    moved = list(events)
    for (pid, tid), rows in by_lane.items():
        lanes = split_lanes(*_nanoseconds([events[i] for i in rows]), may_contain=True)
        for i, lane in zip(rows, lanes.tolist(), strict=True):
            if lane:
                moved[i] = {**events[i], "tid": last_lane[pid] + lane}
        if lanes.any():
            _move_arrows(moved, pid, tid, [moved[i] for i in rows])
            last_lane[pid] += int(lanes.max())
    return moved


def _move_arrows(events: list[Event], pid: Any, tid: Any, slices: list[Event]) -> None:
    """Let the arrows that began or ended at slices of a lane do so where the slices are now."""
    at = {("t", e["ts"]): e["tid"] for e in slices}
    at |= {("s", e["ts"] + e.get("dur", 0)): e["tid"] for e in slices}
    for i, event in enumerate(events):
        if event.get("ph") in ("s", "t") and event.get("pid") == pid and event.get("tid") == tid:
            lane = at.get((event["ph"], event["ts"]))
            if lane is not None and lane != tid:
                events[i] = {**event, "tid": lane}


def _nanoseconds(slices: list[Event]) -> tuple[Any, Any]:
    # Times of damaged runs stop at what a column holds, with room to add the two.
    start = np.array([float(e["ts"]) * 1000 for e in slices]).clip(-_LATEST, _LATEST)
    length = np.array([float(e.get("dur", 0)) * 1000 for e in slices]).clip(-_LATEST, _LATEST)
    begin = np.rint(start).astype(np.int64)
    return begin, begin + np.rint(length).astype(np.int64)


def save_text(path: str | os.PathLike[str], trace: str) -> None:
    """Write a trace that is text, whole; gzip-compressed where the name ends in `.gz`."""
    write_whole(path, [trace.encode()])


def _events_of(chrome_trace: Any) -> list[Event]:
    if isinstance(chrome_trace, str | bytes):
        try:
            chrome_trace = orjson.loads(chrome_trace)
        except orjson.JSONDecodeError as error:
            raise ValueError(
                "update_timeline takes the JSON text of a Chrome trace "
                f"(Timeline.generate_chrome_trace_format() returns one); this is not JSON: {error}"
            ) from error
    events = chrome_trace.get("traceEvents") if isinstance(chrome_trace, dict) else chrome_trace
    if not isinstance(events, list):
        raise TypeError(
            "update_timeline takes a Chrome trace (JSON text, or an object with 'traceEvents'), "
            f"not {describe(chrome_trace)}; for run metadata call update(run_metadata)"
        )
    return events
