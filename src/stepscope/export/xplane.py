"""Runs as profiles (XSpace): what the Profile pages of TensorBoard (the package `xprof`) open.

    directory/plugins/profile/run_000001/stepscope.xplane.pb

Every run is a profile of its own, so that the page's list of runs is the list of runs. In it the
host's plane has a line per thread. An execution is an event `node:Op`, as TensorFlow names them, so
that the pages count it to its op; around those of one step lies the executor's own event with the
step's number. Streams of a GPU are lines of that GPU's plane.

Guarantees.
- `stepscope.load` of a file gives the run's rows again: name, op, device, begin, end, thread, step.
  The format has no place for tensors, memory, graphs and the time that an op waited.
- The events of a line never overlap. Where those of a thread do (a span around ops), the thread has
  several lines, under its number and name.
- A name that would read as something else as `node:Op` is written in a form of our own, which
  Stepscope reads and other tools show as it is (`event_names.named`).
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Container, Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepscope.analysis.runs import Runs, iter_named_runs
from stepscope.metadata.readable import writable
from stepscope.metadata.xplane import (
    CPU,
    DEVICE_STAT,
    ENVIRONMENT,
    HOST,
    PROCESS_EVENT,
    START_TIME,
    XSpace,
    named,
)
from stepscope.whole_files import whole_file

if TYPE_CHECKING:
    import os

    from stepscope.metadata.columns import OpColumns

__all__ = ["xplane"]

_FOLDER: Final = Path("plugins", "profile")
_FILE: Final = "stepscope.xplane.pb"
_STREAM: Final = re.compile(r"^(/device:GPU:\d+)/stream:(\d+)$")
_TWICE: Final = re.compile(r"^/device:GPU:\d+/(stream:all|memcpy)$")
_COPY: Final = "memcpy_details"
_NODE: Final = "tf_op"
_STEP: Final = "id"
_LONGEST_NS: Final = 10**15
"""A line that lasts longer than this (11 days) is continued on another: picoseconds are many."""
_LATEST_NS: Final = (1 << 62) - 1
"""Times that no clock gives, before 1970 or after 2116, are cut to the next that one could give."""


class _Row(NamedTuple):
    """One execution."""

    start_ns: int
    end_ns: int
    name: str
    op: str
    device: str
    thread: int
    step: int


def xplane(runs: Runs, directory: str | os.PathLike[str]) -> Path:
    """Write runs below `directory`, a logdir of TensorBoard's, and return it.

    `runs` may be an iterator that loads them: one at a time is in memory. Runs that are there under
    the same number are replaced. Every file is complete or not there.

    >>> import tempfile
    >>> from stepscope import RunMetadata
    >>> with tempfile.TemporaryDirectory() as logdir:
    ...     found = xplane([RunMetadata(), RunMetadata()], logdir).glob("plugins/profile/*/*")
    ...     print(*sorted(path.parent.name for path in found))
    run_000001 run_000002
    """
    root = Path(directory)
    for number, run in enumerate(iter_named_runs(runs), 1):
        place = root / _FOLDER / f"run_{number:06d}" / _FILE
        with whole_file(place) as file:
            file.write(profile_of(run.metadata.ops).SerializeToString())
    return root


def profile_of(ops: OpColumns) -> Any:
    """The executions of a run as an `XSpace` message."""
    rows = _rows(ops)
    base = rows[0].start_ns if rows else 0
    on_streams = {_on_gpu(row) for row in rows if _STREAM.match(row.device)}
    copies = {_on_gpu(row) for row in rows if row.device.endswith("/memcpy")}
    threads: dict[int, list[_Row]] = defaultdict(list)
    streams: dict[tuple[str, str, int], list[_Row]] = defaultdict(list)
    for row in rows:
        stream = _STREAM.match(row.device)
        if stream is not None:
            streams[stream[1], stream[2], row.thread].append(row)
        elif not (_TWICE.match(row.device) and _on_gpu(row) in on_streams):
            threads[row.thread].append(row)
    space = XSpace(hostnames=["stepscope"])
    planes: dict[str, _PlaneWriter] = {}
    for name in dict.fromkeys((HOST, *(gpu for gpu, _, _ in streams))):
        planes[name] = _PlaneWriter(space.planes.add(id=len(planes) + 1, name=name), base)
    for thread, executions in threads.items():
        name = ops.thread_names.get(thread, "")
        for lane in _lanes(executions):
            planes[HOST].add_thread(thread, f"{name}/{thread}", lane)
    for (gpu, stream_number, thread), kernels in streams.items():
        for lane in _lanes(kernels):
            planes[gpu].add_stream(thread, int(stream_number), lane, copies)
    if base:
        environment = _PlaneWriter(space.planes.add(id=len(planes) + 1, name=ENVIRONMENT), base)
        environment.add_start_time()
    return space


def _rows(ops: OpColumns) -> list[_Row]:
    """The executions in order of time, outer ones first."""
    start_ns, end_ns = (
        np.clip(times, 0, _LATEST_NS).tolist() for times in (ops.start_ns, ops.end_ns)
    )
    columns = (
        start_ns,
        end_ns,
        ops.name.tolist(),
        ops.op.tolist(),
        ops.device.tolist(),
        ops.thread.tolist(),
        ops.step.tolist(),
    )
    rows = map(_Row._make, zip(*columns, strict=True))
    return sorted(rows, key=lambda row: (row.start_ns, -row.end_ns))


def _on_gpu(row: _Row) -> tuple[str, str, str, int, int]:
    """What the two rows of an execution on a GPU have in common: one is on its stream, the other
    on `stream:all` or `memcpy`.
    """
    return row.device.rpartition("/")[0], row.name, row.op, row.start_ns, row.end_ns


def _lanes(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Executions of one thread, in order of time, sorted into lanes in which none overlap.

    Between two steps a nanosecond is left free: an execution may take no time, and has to lie
    inside the event of its own step.
    """
    lanes: list[list[_Row]] = []
    free: list[tuple[int, int]] = []  # The end of each lane that goes on, and its number.
    for row in rows:
        if free:
            end, number = free[0]
            lane = lanes[number]
            is_after = end < row.start_ns or (end == row.start_ns and lane[-1].step == row.step)
            if is_after and row.start_ns - lane[0].start_ns < _LONGEST_NS:
                lane.append(row)
                heapq.heapreplace(free, (row.end_ns, number))
                continue
        heapq.heappush(free, (row.end_ns, len(lanes)))
        lanes.append([row])
    return lanes


class _PlaneWriter:
    """Fills one plane: lines of events, and the tables of their names."""

    def __init__(self, plane: Any, base_ns: int) -> None:
        self._plane = plane
        self._base_ns = base_ns
        self._event_names: dict[str, int] = {}
        self._stat_names: dict[str, int] = {}

    def add_thread(self, thread: int, name: str, lane: list[_Row]) -> None:
        """A line of a thread: the event of each step, and in it those of its executions."""
        line, origin_ns = self._line(lane, id=thread, name=name)
        for step, group in groupby(lane, lambda row: row.step):
            rows = list(group)
            around = self._event(line, PROCESS_EVENT, origin_ns, rows[0].start_ns, rows[-1].end_ns)
            around.duration_ps += 1
            around.stats.add(metadata_id=self._stat(_STEP), int64_value=step)
            for row in rows:
                event = self._event(
                    line, named(row.name, row.op), origin_ns, row.start_ns, row.end_ns
                )
                if row.device != CPU:
                    device = self._stat(row.device)
                    event.stats.add(metadata_id=self._stat(DEVICE_STAT), ref_value=device)

    def add_stream(
        self, thread: int, stream: int, lane: list[_Row], copies: Container[object]
    ) -> None:
        """A line of a GPU's stream: kernels, each with the node that it was for."""
        name = f"Stream #{stream}"
        line, origin_ns = self._line(lane, id=thread, display_id=stream, name=name)
        for row in lane:
            event = self._event(line, row.op, origin_ns, row.start_ns, row.end_ns)
            event.stats.add(metadata_id=self._stat(_NODE), str_value=f"{row.name}:{row.op}")
            if _on_gpu(row) in copies:
                event.stats.add(metadata_id=self._stat(_COPY), str_value="kind:copy")

    def add_start_time(self) -> None:
        """That the plane says when the profile began."""
        self._plane.stats.add(metadata_id=self._stat(START_TIME), uint64_value=self._base_ns)

    def _line(self, lane: list[_Row], **fields: Any) -> tuple[Any, int]:
        """A new line, and the time from which its events count."""
        origin_ns = lane[0].start_ns
        line = self._plane.lines.add(timestamp_ns=origin_ns - self._base_ns, **fields)
        return line, origin_ns

    def _event(self, line: Any, name: str, origin_ns: int, start_ns: int, end_ns: int) -> Any:
        length_ns = min(max(end_ns - start_ns, 0), _LONGEST_NS)
        return line.events.add(
            metadata_id=_numbered(self._plane.event_metadata, self._event_names, name),
            offset_ps=(start_ns - origin_ns) * 1000,
            duration_ps=length_ns * 1000,
        )

    def _stat(self, name: str) -> int:
        return _numbered(self._plane.stat_metadata, self._stat_names, name)


def _numbered(table: Any, known: dict[str, int], name: str) -> int:
    """The number of a name in a table of the plane, where it is entered if it is not there."""
    number = known.get(name)
    if number is None:
        number = known[name] = len(known) + 1
        entry = table[number]
        entry.id = number
        entry.name = writable(name)
    return number
