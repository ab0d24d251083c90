"""Chrome traces: TensorFlow's timelines, our own exports, and slices of any other trace.

A slice becomes an execution. In TensorFlow's timelines its `args` tell node, op type and inputs,
and its process the device; lanes there are drawn, not threads. Our own exports also tell runs,
steps, threads and the time of day. Of other traces the slice's name is all there is.

What a trace cannot hold (nanoseconds, threads, memory) is declared as a loss of the run.
"""

from __future__ import annotations

import math
import re
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.errors import UnreadableFileError, code_from_name
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.outcome import END_MISSING, Completeness, Loss, Status
from stepscope.metadata.readable import writable
from stepscope.metadata.readers.json_events import EventStream, is_gzip
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.labels import make_label

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["NAME", "recognises", "runs"]

NAME = "a Chrome trace"

_PRODUCER = "stepscope"
_COMPUTE = " Compute"
# Half of what a column holds, so that a start and a duration can be added.
_LATEST_US = 4.5e15
_INT64_MAX = (1 << 63) - 1
# The lanes of our exports on which ops lie whose thread nobody knows.
_DRAWN = re.compile(r"ops( \(\d+\))?")


def recognises(path: Path, data: bytes) -> bool:
    """Whether it is JSON, or packed and not known to be something else."""
    if is_gzip(data):
        return not path.name.endswith((".pb.gz", ".tar.gz", ".tgz"))
    return data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def runs(path: Path, data: bytes) -> Iterator[tuple[str, RunMetadata]]:
    """The runs that the trace tells apart: those of an export of ours, else one."""
    stream = EventStream(data)
    trace = _Trace()
    for events in stream:
        for event in events:
            trace.add(event)
    if not trace.has_events:
        packed = "gzip-compressed, and inside it " if is_gzip(data) else ""
        what = "a Chrome trace without events" if stream.is_trace else "JSON that is no trace"
        if not stream.is_trace and is_gzip(data):
            what = "no Chrome trace"
        problem = f"; {stream.problem}" if stream.problem else ""
        raise UnreadableFileError(f"{path}: is {packed}{what}{problem}")
    if not trace.rows and not trace.marks:
        raise UnreadableFileError(
            f"{path}: a Chrome trace without a single slice that has a time and a duration"
        )
    losses = _losses(path, stream, trace)
    about = stream.about.get("otherData")
    ours = isinstance(about, dict) and about.get("producer") == _PRODUCER
    base = _base_ns(about) if isinstance(about, dict) and ours else 0
    yield from trace.runs(base, losses, ours=ours)


def _base_ns(about: dict[str, Any]) -> int:
    text = str(about.get("base_epoch_ns", ""))
    return int(text) if text.isdecimal() and len(text) < 20 and int(text) < _INT64_MAX else 0


def _losses(path: Path, stream: EventStream, trace: _Trace) -> list[Loss]:
    losses = []
    if stream.problem or stream.unreadable:
        problem = stream.problem or "some of it is no JSON"
        losses.append(Loss("pieces of the file", stream.unreadable, f"{path.name}: {problem}"))
    if trace.untimed:
        reason = "their time or duration is missing, negative, or no number that a clock shows"
        losses.append(Loss("events of the trace", trace.untimed, reason))
    if trace.folded:
        reason = "they were folded together when the trace was written, to keep it small"
        losses.append(Loss("executions", min(trace.folded, _INT64_MAX), reason))
    if trace.unpaired:
        reason = "only slices with a duration are read, not those with a begin and an end apart"
        losses.append(Loss("events of the trace", trace.unpaired, reason))
    return losses


class _Interned(dict[Any, int]):
    """Gives every distinct value a number."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


def _text(value: object) -> str:
    """The value as text that can be written again: half a surrogate pair cannot."""
    return writable(value if isinstance(value, str) else repr(value)[:200])


def _key(value: object) -> object:
    return value if isinstance(value, int | str) else _text(value)


class _Trace:
    """Gathers the slices, a few numbers for each."""

    def __init__(self) -> None:
        self.has_events = False
        self.untimed = 0
        self.unpaired = 0
        self.folded = 0
        self._names = _Interned()
        self._types = _Interned()
        self._labels = _Interned()
        self._runs = _Interned()
        self._lanes = _Interned()
        self._codes = [array("i") for _ in range(5)]
        self._times = [array("q") for _ in range(4)]
        self._processes: dict[object, str] = {}
        self._threads: dict[tuple[object, object], str] = {}
        self.marks: dict[str, dict[str, Any]] = {}

    @property
    def rows(self) -> int:
        """How many slices there are."""
        return len(self._codes[0])

    def add(self, event: object) -> None:
        """Take an event, whatever it is."""
        if not isinstance(event, dict):
            return
        phase = event.get("ph")
        if not isinstance(phase, str):
            return
        self.has_events = True
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        if phase == "X":
            self._slice(event, args)
        elif phase == "M":
            self._name(event, args)
        elif phase in ("B", "E"):
            self.unpaired += phase == "B"

    def _name(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        name = _text(args.get("name", ""))
        pid, tid = _key(event.get("pid")), _key(event.get("tid"))
        if event.get("name") == "process_name":
            self._processes[pid] = name
        elif event.get("name") == "thread_name":
            self._threads[pid, tid] = name

    def _slice(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        start, spent = _nanoseconds(event.get("ts")), _nanoseconds(event.get("dur", 0))
        if start is None or spent is None or spent < 0:
            self.untimed += 1
            return
        shown = _text(event.get("name", ""))
        category = event.get("cat")
        # What our exports draw beside ops; other programs may use the same words for their own.
        if category == "run" and "engine" in args and "ops" in args:
            self.marks.setdefault(shown, args)
            return
        if category == "step" and "step" in args and "ops" in args:
            return
        if category == "folded" and "calls" in args:
            self.folded += max(_step(args["calls"]), 0)
            return
        op = args.get("op")
        name = _text(args["name"]) if isinstance(args.get("name"), str) else shown
        kind = _text(op) if isinstance(op, str) else shown
        label = make_label(name, kind, _inputs(args)) if isinstance(op, str) else ""
        run = args.get("run")
        waited = _nanoseconds(args.get("waited_us", 0)) or 0
        codes = (
            self._names[name],
            self._types[kind],
            self._labels[label],
            self._runs[_text(run) if isinstance(run, str) else ""],
            self._lanes[_key(event.get("pid")), _key(event.get("tid"))],
        )
        for column, code in zip(self._codes, codes, strict=True):
            column.append(code)
        numbers = (start, spent, max(waited, 0), _step(args.get("step")))
        for times, number in zip(self._times, numbers, strict=True):
            times.append(number)

    def runs(
        self, base: int, losses: list[Loss], *, ours: bool
    ) -> Iterator[tuple[str, RunMetadata]]:
        """The runs, in the order in which they begin in the file."""
        name, kind, label, run, lane = (np.array(codes, np.int32) for codes in self._codes)
        start, spent, waited, step = (np.array(times, np.int64) for times in self._times)
        # Later than any clock shows: the base is damaged, the times by themselves are not.
        if int((start + spent).max(initial=0)) + base < _INT64_MAX:
            start = start + base
        devices, threads, thread_names = self._places(ours=ours)
        whole = OpColumns.build(
            name=StringColumn(name, tuple(self._names)),
            op=StringColumn(kind, tuple(self._types)),
            label=StringColumn(label, tuple(self._labels)),
            device=devices[lane],
            thread=threads[lane],
            thread_names=thread_names,
            scheduled_ns=start - waited,
            start_ns=start,
            end_ns=start + spent,
            step=step,
        )
        for title in dict.fromkeys((*self._runs, *self.marks)):
            columns = whole.select(run == self._runs.get(title, -1))
            mark = self.marks.get(title, {})
            yield title, _recorded(columns, mark, [*losses, *_inherent(ours=ours)])

    def _places(self, *, ours: bool) -> tuple[StringColumn, Any, dict[int, str]]:
        """Device and thread of every lane, and the names of threads."""
        devices = []
        threads = []
        names: dict[int, str] = {}
        for pid, tid in self._lanes:
            process = self._processes.get(pid, f"process {pid}")
            devices.append(process.removesuffix(_COMPUTE))
            name = self._threads.get((pid, tid), "")
            known = ours and isinstance(tid, int) and not _DRAWN.fullmatch(name)
            thread = _step(tid) if known else 0
            threads.append(thread)
            if thread and name:
                names[thread] = name
        return StringColumn.of(devices), np.array(threads, np.int64), names


def _recorded(columns: OpColumns, mark: dict[str, Any], losses: list[Loss]) -> RunMetadata:
    engine = mark.get("engine")
    completeness = Completeness(tuple(losses))
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine=_text(engine) if isinstance(engine, str) else "",
            step_id=_step(mark.get("step")),
            status=_status(mark, cut=bool(completeness.damage)),
            completeness=completeness,
            ops=lambda: columns,
        )
    )
    return metadata


def _status(mark: dict[str, Any], *, cut: bool) -> Status:
    if cut and "status" not in mark:
        return END_MISSING
    code = mark.get("status", "OK")
    try:
        code_from_name(code)
    except ValueError:
        code = "UNKNOWN"
    message = mark.get("message", "")
    return Status(code, _text(message) if message else "")


def _inherent(*, ours: bool) -> Iterator[Loss]:
    yield Loss("memory", 0, "a Chrome trace holds no allocations and no tensors that are read back")
    if not ours:
        yield Loss("threads", 0, "the trace has lanes that were drawn, not threads")
        yield Loss("nanoseconds", 0, "the trace counts in microseconds")


def _inputs(args: dict[str, Any]) -> list[str]:
    """The inputs that TensorFlow numbers: input0, input1, ..."""
    inputs: list[str] = []
    while isinstance(name := args.get(f"input{len(inputs)}"), str):
        inputs.append(_text(name))
    return inputs


def _step(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _INT64_MAX:
        return 0
    return value


def _nanoseconds(micros: object) -> int | None:
    """Microseconds as a trace has them, in nanoseconds; None where no clock shows that."""
    if isinstance(micros, bool) or not isinstance(micros, int | float):
        return None
    if isinstance(micros, float) and not math.isfinite(micros):
        return None
    if not -_LATEST_US < micros < _LATEST_US:
        return None
    return round(micros * 1000)
