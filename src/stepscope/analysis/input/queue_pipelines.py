"""Pipelines through queues: what fills a queue, what takes from it, and how full it was.

A thread that fills a queue runs its enqueue op over and over. A run of that consists of the ops
that make the elements, which is work, and of the enqueue op, which waits where the queue is full;
between two runs of the thread there is Python. What takes from the queue waits in a dequeue op
where it is empty. All of these are rows of recorded runs; which queue an op is of, its label tells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.input.input_model import Model, PipelineChange, StageCost
from stepscope.analysis.input.stages import QUEUE, UNKNOWN, Pipeline, Stage
from stepscope.analysis.intervals import merged, self_times
from stepscope.analysis.run_length import run_span
from stepscope.metadata.executed_graphs import executed_graphs
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, RunMetadata

    Ints: TypeAlias = NDArray[np.int64]

__all__ = ["QueueSums"]

_PUTS: Final = ("QueueEnqueue", "QueueEnqueueMany")
_TAKES: Final = ("QueueDequeue", "QueueDequeueMany", "QueueDequeueUpTo")
_SHOWN: Final = 3
"""Of so many ops is told how long they take of making an element."""
_PYTHON: Final = "Python of the thread"
_CALLING: Final = "calling the engine"
_GAP: Final = 10.0
"""Between two runs of a thread there is Python that fills the queue, unless it is that many times
as long as usual."""


@dataclass(slots=True)
class _Thread:
    """A thread that fills a queue: when its runs were."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def between_ns(self) -> int:
        """How long it was in Python between its runs."""
        order = np.argsort(self.starts)
        starts, ends = np.array(self.starts)[order], np.array(self.ends)[order]
        gaps = np.maximum(starts[1:] - ends[:-1], 0)
        if not len(gaps):
            return 0
        return int(gaps[gaps <= _GAP * max(float(np.median(gaps)), 1e6)].sum())


@dataclass(slots=True)
class _Queue:
    line: str = ""
    capacity: int = 0
    threads: dict[int, _Thread] = field(default_factory=lambda: defaultdict(_Thread))
    work: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By op, its type and its line: what making elements took."""
    calling_ns: int = 0
    """What runs took that fill it beside their ops."""
    puts: int = 0
    put_ns: int = 0
    put_line: str = ""
    takes: list[tuple[int, int]] = field(default_factory=list)
    """Start and length of each."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    takers: Counter[str] = field(default_factory=Counter)
    changes: list[tuple[int, int]] = field(default_factory=list)
    """When how many elements came or went."""
    sized: bool = True


class QueueSums:
    """Queues, from runs that are read one after the other."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    def add(self, what: str, run: RunMetadata) -> None:
        """Take in the next run, of a kind of that name."""
        ops = run.ops
        kinds = ops.ops.table
        plain = [kind.removesuffix("V2") for kind in kinds]
        codes = [code for code, kind in enumerate(plain) if kind in _PUTS + _TAKES]
        if not codes:
            return
        rows = np.flatnonzero(np.isin(ops.ops.codes, codes)).tolist()
        began, ended = run_span(run)
        own = self_times(ops.start_ns, ops.end_ns, ops.thread)
        waits = np.isin(ops.ops.codes, codes)
        firsts, lasts = merged(ops.start_ns, np.maximum(ops.end_ns, ops.start_ns))
        covered = int((lasts - firsts).sum())
        recording = run.recorded()
        call = recording.call if recording is not None else None
        for row in rows:
            name = str(ops.name[row])
            inputs = parse_label(name, str(ops.label[row]))[1]
            queue = self._queue(input_node(inputs[0]) if inputs else name, run)
            start, end = int(ops.start_ns[row]), int(ops.end_ns[row])
            kind = plain[int(ops.ops.codes[row])]
            count = _count(ops, row, kind, inputs)
            queue.sized &= count > 0
            if kind in _TAKES:
                queue.takes.append((start, max(0, end - start)))
                queue.spans.append((began, ended))
                queue.takers[what] += 1
                queue.changes.append((end, -count))
                continue
            queue.puts += 1
            queue.put_ns += max(0, end - start)
            queue.put_line = queue.put_line or run.sources.get(name, "")
            queue.changes.append((end, count))
            thread = queue.threads[call.thread if call is not None else int(ops.thread[row])]
            thread.starts.append(began)
            thread.ends.append(ended)
            queue.calling_ns += max(0, ended - began - covered)
            for other in np.flatnonzero(~waits & (own > 0)).tolist():
                node = str(ops.name[other])
                key = node, str(ops.op[other]), run.sources.get(node, "")
                queue.work[key] += int(own[other])

    def _queue(self, name: str, run: RunMetadata) -> _Queue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue()
            queue.line = run.sources.get(name, "")
            for graph in executed_graphs(run):
                for node in graph.node:
                    if node.name == name and "capacity" in node.attr:
                        queue.capacity = max(0, int(node.attr["capacity"].i))
        return queue

    def pipelines(self, first: int) -> list[Pipeline]:
        """A pipeline for each queue, numbered from there on."""
        found: list[Pipeline] = []
        for name, queue in self._queues.items():
            if queue.takes:
                found.append(_pipeline(first + len(found), name, queue))
        return found


def _count(ops: OpColumns, row: int, kind: str, inputs: list[str]) -> int:
    """How many elements an op moved; 0 where that is not known."""
    if kind in ("QueueEnqueue", "QueueDequeue"):
        return 1
    tensors = ops.tensors
    if kind in _TAKES:
        mine = np.flatnonzero(tensors.op_index == row)
    else:
        names = {input_node(name) for name in inputs[1:]}
        codes = [code for code, name in enumerate(ops.names.table) if name in names]
        made = np.flatnonzero(np.isin(ops.names.codes, codes))
        mine = np.flatnonzero(np.isin(tensors.op_index, made))
    for place in mine.tolist():
        shape = tensors.shape[place]
        if shape:
            return int(shape[0])
    return 0


def _parts(queue: _Queue) -> list[tuple[str, str, str, int]]:
    """What fills the queue: op, kind, line and time of each part that took any."""
    between = sum(thread.between_ns() for thread in queue.threads.values())
    parts = [(op, kind, line, ns) for (op, kind, line), ns in queue.work.most_common(_SHOWN)]
    rest = sum(queue.work.values()) - sum(part[3] for part in parts)
    parts.append((_CALLING, "", "", queue.calling_ns))
    parts.append((_PYTHON, "", queue.put_line, between))
    parts.append(("other ops", "", "", rest))
    return [part for part in parts if part[3] > 0]


def _pipeline(number: int, name: str, queue: _Queue) -> Pipeline:
    takes = sorted(queue.takes)
    count = len(takes)
    waited = np.array([ns for _, ns in takes[1:] or takes], np.int64)
    starts = np.array([start for start, _ in takes], np.int64)
    period = float(np.diff(starts).sum()) / (count - 1) if count > 1 else float(takes[0][1])
    wait = min(float(waited.mean()), period)
    threads = len(queue.threads)
    parts = _parts(queue)
    largest = max(range(len(parts)), key=lambda place: parts[place][3], default=-1)
    starved = wait > 0.02 * period and largest >= 0
    own = [ns / count for *_, ns in parts]
    stages = [
        Stage(
            number, op, kind, line, "", "", queue.puts, own[place],
            max(0.0, period - own[place] / max(1, threads)), "turn", threads, False, 0, UNKNOWN,
            starved and place == largest, (),
        )
        for place, (op, kind, line, _) in enumerate(parts)
    ]  # fmt: skip
    made = tuple(range(len(stages)))
    stages += [
        Stage(
            number, "enqueue", "", queue.put_line, "", "", queue.puts, 0.0, queue.put_ns / count,
            "room" if queue.put_ns else "", threads, False, 0, UNKNOWN, False, made,
        ),
        Stage(
            number, "queue", "", queue.line, "", "", count, 0.0, 0.0, "", 0, False, queue.capacity,
            _mean_size(queue), False, (len(made),),
        ),
        Stage(
            number, "dequeue", "", "", "", "", count, 0.0, wait, "input" if wait else "", 0, False,
            0, UNKNOWN, False, (len(made) + 1,),
        ),
    ]  # fmt: skip
    found = Pipeline(
        number, QUEUE, name, queue.line, tuple(queue.takers), 1, count, period, wait, takes[0][1],
        largest, tuple(stages), largest if starved else -1, (), 0.0,
    )  # fmt: skip
    if not parts:
        return replace(
            found,
            lacking="no run that fills it was recorded, so what limits it is not known; record the "
            "runs of all threads (stepscope run does)",
        )
    total = sum(own)
    costs = (
        StageCost("fill", total, threads),
        StageCost("queue", 0.0, inputs=(0,), buffers=True),
    )
    model = Model(costs, max(0.0, period - wait))
    return replace(
        found, told_ns=model.period_ns, changes=_changes(model, period, wait) if starved else ()
    )


def _changes(model: Model, period: float, wait: float) -> tuple[PipelineChange, ...]:
    """More threads: whether they share one interpreter or wait for something, nobody recorded."""
    fill = model.steps[0]
    needed = max(model.consumer_ns, 1.0)
    calls = max(fill.calls + 1, min(int(-(-fill.own_ns // needed)), 4 * fill.calls))
    best = max(0.0, model.period_ns - model.with_calls(0, calls).period_ns)
    unknown = abs(model.period_ns - period)
    saves = min(best, wait)
    return (PipelineChange("parallel", 0, saves, 0.0, min(saves + unknown, wait), calls),)


def _mean_size(queue: _Queue) -> float:
    """How many elements were in a queue on average over time; `UNKNOWN` where that is not known."""
    if not queue.sized or len(queue.changes) < 2 or not queue.puts:
        return UNKNOWN
    events = np.array(sorted(queue.changes), np.int64)
    size = np.cumsum(events[:, 1])
    size = size - min(0, int(size.min()))
    length = np.diff(events[:, 0])
    whole = float(length.sum())
    return float((size[:-1] * length).sum()) / whole if whole else float(size.mean())
