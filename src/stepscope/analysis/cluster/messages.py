"""What the tasks of a cluster told one another in a run: tensors that moved, and collectives.

A receive is matched with the execution that produced its tensor and with the first one that used
it. Clocks of tasks may differ by any amount, so matching across tasks never compares times: where a
node ran several times, the first receive belongs to the first execution, and so on; where their
numbers differ, a receive is left unmatched rather than matched wrongly.

TensorFlow's RecvTensor rows tell of a transfer in their label. They begin when the sender says it
began to send, by the sender's clock, cut to what the receiver's clock allows; only their end can be
relied on. The receive itself was waiting since the step began on its task.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analysis.cluster.tasks import task_column, task_of
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.metadata import OpColumns, StringColumn

__all__ = [
    "COLLECTIVE",
    "RECEIVES",
    "SENDS",
    "Collective",
    "Message",
    "Traffic",
    "communicates",
    "traffic",
]

SENDS = frozenset({"_Send", "_HostSend"})
RECEIVES = frozenset({"_Recv", "_HostRecv", "RecvTensor"})
COLLECTIVE = re.compile(r"Collective(?!AssignGroup)|NcclAllReduce|NcclReduce|NcclBroadcast")
_BROADCAST = re.compile(r"(Collective\w*Bcast)(Send|Recv)")

_EDGE = re.compile(
    r"(?:\[(?P<size>[^\]]*)\]\s*)?(?:\[[^\]]*\]\s*)*"
    r"edge_\d+_(?P<tensor>.*?)(?::\d+)? from (?P<source>\S+) to (?P<target>\S+)",
    re.DOTALL,
)
_NUMBERED = re.compile(r"(?P<stem>.*)(?:/_|_S)(?P<number>\d+)(?::\d+)?\Z", re.DOTALL)
_SIZE = re.compile(r"([\d.]+)\s*([KMG]?)B")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Message(NamedTuple):
    """A tensor that one task received from another; rows are positions in the run's ops.

    `producer` is -1 where the run does not hold the execution that made it. `consumer` is the first
    that used it and `consumers` are all that did; -1 where none in the run did (it was fetched).
    Times are those of the clocks of their tasks: `sent_ns` (when the tensor was there to be sent, 0
    without a producer) of the source's; `asked_ns`, `began_ns` and `received_ns` (since when the
    task could wait for it, the row's own start, and when it was there) of the target's.
    """

    step: int
    tensor: str
    source: str
    target: str
    receive: int
    producer: int
    consumer: int
    consumers: tuple[int, ...]
    bytes: int
    sent_ns: int
    asked_ns: int
    began_ns: int
    received_ns: int


class Collective(NamedTuple):
    """An op that several tasks ran together: one row, start, end and size of its output per task.

    `source` is the task that sent what all others got; "" where all gave and all got.
    """

    step: int
    name: str
    source: str
    tasks: tuple[str, ...]
    rows: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    bytes: tuple[int, ...]


class Traffic(NamedTuple):
    """The communication of one run; `tasks` is the task of every row."""

    tasks: StringColumn
    messages: list[Message]
    collectives: list[Collective]


class _Receive(NamedTuple):
    row: int
    tensor: str
    source: str
    """The task that sent it; "" where only the number of its send tells."""
    number: int
    size: int


def traffic(ops: OpColumns) -> Traffic:
    """What the tasks whose rows these are told one another."""
    tasks = task_column(ops)
    kinds = ops.ops.table
    collective = [bool(COLLECTIVE.match(kind)) for kind in kinds]
    found = _collectives(ops, tasks, _rows_of(ops, collective)) if any(collective) else []
    receives = _receives(ops, _rows_of(ops, [kind in RECEIVES for kind in kinds]))
    return Traffic(tasks, _messages(ops, tasks, receives) if receives else [], found)


def communicates(ops: OpColumns) -> bool:
    """Whether a run's rows have anything to do with another task."""
    wanted = [k in SENDS or k in RECEIVES or bool(COLLECTIVE.match(k)) for k in ops.ops.table]
    return bool(len(_rows_of(ops, wanted)))


def _rows_of(ops: OpColumns, wanted: list[bool]) -> list[int]:
    codes = np.flatnonzero(np.array(wanted, bool))
    return np.flatnonzero(np.isin(ops.ops.codes, codes)).tolist() if len(codes) else []


def _receives(ops: OpColumns, rows: Iterable[int]) -> list[_Receive]:
    labels = ops.label
    names = ops.names
    found = []
    for row in rows:
        edge = _edge(str(labels[row]))
        if edge is not None:
            found.append(_Receive(row, edge[0], edge[1], -1, edge[2]))
            continue
        match = _numbered(names.table[names.codes[row]])
        if match is not None:
            found.append(_Receive(row, match[0], "", match[1], 0))
    return found


@lru_cache(maxsize=65536)
def _edge(label: str) -> tuple[str, str, int] | None:
    """Tensor, sending task and bytes of a transfer's label."""
    match = _EDGE.search(label)
    if match is None:
        return None
    size = _SIZE.fullmatch(match["size"] or "")
    count = int(float(size.group(1)) * _UNITS[size.group(2)]) if size else 0
    return match["tensor"], task_of(match["source"]), count


@lru_cache(maxsize=65536)
def _numbered(name: str) -> tuple[str, int] | None:
    """The tensor and the number in the name that partitioning gives to a send or receive."""
    match = _NUMBERED.match(name)
    return None if match is None else (match["stem"], int(match["number"]))


@lru_cache(maxsize=65536)
def _received_inputs(label: str) -> tuple[str, ...]:
    """The tensors among a node's inputs that came through a receive."""
    if "_S" not in label and "/_" not in label:
        return ()
    stems = map(_numbered, parse_label("", label)[1])
    return tuple({stem[0] for stem in stems if stem is not None})


def _messages(ops: OpColumns, tasks: StringColumn, receives: list[_Receive]) -> list[Message]:
    producers = _Producers(ops, tasks, {receive.tensor for receive in receives})
    consumers = _Consumers(ops, tasks, {receive.tensor for receive in receives})
    first = _first_starts(ops, tasks)
    steps, task_codes = ops.step, tasks.codes
    groups: dict[tuple[int, str, str, str, int], list[_Receive]] = defaultdict(list)
    for receive in receives:
        row = receive.row
        key = (
            int(steps[row]),
            receive.tensor,
            receive.source,
            str(ops.device[row]),
            receive.number,
        )
        groups[key].append(receive)
    sizes = ops.output_bytes
    messages = []
    for (step, tensor, source, _, number), members in groups.items():
        target = tasks.table[task_codes[members[0].row]]
        made = producers.find(step, tensor, source, number, target)
        if made is not None and made.task == target:
            continue
        rows = made.rows if made is not None else []
        for place, receive in enumerate(sorted(members, key=lambda r: int(ops.end_ns[r.row]))):
            row = receive.row
            producer = -1
            if len(rows) == 1 or len(rows) == len(members):
                producer = rows[min(place, len(rows) - 1)]
            end = int(ops.end_ns[row])
            users = consumers.after(step, tensor, target, end)
            waiting = str(ops.op[row]) != "RecvTensor"
            sent = 0
            if producer >= 0:
                assert made is not None
                sent = int(ops.start_ns[producer] if made.sends else ops.op_end_ns[producer])
            messages.append(
                Message(
                    step=step,
                    tensor=tensor,
                    source=made.task if made is not None else source,
                    target=target,
                    receive=row,
                    producer=producer,
                    consumer=users[0] if users else -1,
                    consumers=users if len(members) == 1 else users[:1],
                    bytes=int(sizes[row]) or receive.size,
                    sent_ns=sent,
                    asked_ns=int(ops.start_ns[row]) if waiting else first[step, target],
                    began_ns=int(ops.start_ns[row]),
                    received_ns=end,
                )
            )
    return messages


class _Made(NamedTuple):
    task: str
    rows: list[int]
    sends: bool


class _Producers:
    """Executions that made or sent tensors, by step, tensor and task, in order of time."""

    def __init__(self, ops: OpColumns, tasks: StringColumn, wanted: set[str]) -> None:
        self._made: dict[tuple[int, str, str], list[int]] = defaultdict(list)
        self._sent: dict[tuple[int, str, str], list[tuple[int, int]]] = defaultdict(list)
        table = ops.names.table
        send_kinds = [code for code, kind in enumerate(ops.ops.table) if kind in SENDS]
        names = np.zeros(len(table), bool)
        for code, name in enumerate(table):
            numbered = _numbered(name)
            names[code] = name in wanted or (numbered is not None and numbered[0] in wanted)
        rows = np.flatnonzero(names[ops.names.codes]) if len(table) else np.empty(0, np.int64)
        sends = np.isin(ops.ops.codes[rows], send_kinds)
        order = np.argsort(ops.end_ns[rows], kind="stable")
        for row, is_send in zip(rows[order].tolist(), sends[order].tolist(), strict=True):
            name = table[ops.names.codes[row]]
            task = tasks.table[tasks.codes[row]]
            step = int(ops.step[row])
            if is_send:
                numbered = _numbered(name)
                assert numbered is not None
                self._sent[step, numbered[0], task].append((numbered[1], row))
            else:
                self._made[step, name, task].append(row)
        self._tasks = tasks.table

    def find(self, step: int, tensor: str, source: str, number: int, target: str) -> _Made | None:
        """What a receive of this tensor waited for; `source` "" where its name must tell."""
        if source:
            sent = self._sent.get((step, tensor, source))
            if sent:
                last = max(number for number, _ in sent)
                return _Made(source, [row for n, row in sent if n == last], True)
            return _Made(source, self._made.get((step, tensor, source), []), False)
        best: tuple[int, str] | None = None
        for task in (target, *(task for task in self._tasks if task != target)):
            for n, _ in self._sent.get((step, tensor, task), ()):
                if n < number and (best is None or n > best[0]):
                    best = (n, task)
        if best is None:
            return None
        sent = self._sent[step, tensor, best[1]]
        return _Made(best[1], [row for n, row in sent if n == best[0]], True)


class _Consumers:
    """Executions by step, received input and task, in order of their start."""

    def __init__(self, ops: OpColumns, tasks: StringColumn, wanted: set[str]) -> None:
        self._rows: dict[tuple[int, str, str], list[tuple[int, int]]] = defaultdict(list)
        if ops.labels is None:
            return
        table = ops.labels.table
        inputs = {}
        for code, label in enumerate(table):
            received = [stem for stem in _received_inputs(label) if stem in wanted]
            if received:
                inputs[code] = received
        rows = np.flatnonzero(np.isin(ops.labels.codes, list(inputs)))
        for row in rows[np.argsort(ops.start_ns[rows], kind="stable")].tolist():
            for stem in inputs[int(ops.labels.codes[row])]:
                key = (int(ops.step[row]), stem, tasks.table[tasks.codes[row]])
                self._rows[key].append((int(ops.start_ns[row]), row))

    def after(self, step: int, tensor: str, task: str, received: int) -> tuple[int, ...]:
        """Those that began when the tensor was there (to a microsecond, as rows may be)."""
        rows = self._rows.get((step, tensor, task), ())
        return tuple(row for start, row in rows if start >= received - 1000)


def _first_starts(ops: OpColumns, tasks: StringColumn) -> dict[tuple[int, str], int]:
    steps, which = np.unique(ops.step, return_inverse=True)
    count = len(tasks.table)
    first = np.full(len(steps) * count, np.iinfo(np.int64).max)
    np.minimum.at(first, which * count + tasks.codes, ops.start_ns)
    return {
        (step, task): int(first[i * count + j])
        for i, step in enumerate(steps.tolist())
        for j, task in enumerate(tasks.table)
    }


def _collectives(ops: OpColumns, tasks: StringColumn, rows: list[int]) -> list[Collective]:
    """Collectives of the same name in the same step, the n-th of each task together."""
    places: dict[tuple[int, str, str], int] = defaultdict(int)
    groups: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: int(ops.start_ns[r])):
        step, name = int(ops.step[row]), ops.names.table[ops.names.codes[row]]
        name = _BROADCAST.sub(r"\1", name)
        task = tasks.table[tasks.codes[row]]
        place = places[step, name, task]
        places[step, name, task] = place + 1
        groups[step, name, place].append(row)
    found = []
    sizes = ops.output_bytes
    for (step, name, _), members in groups.items():
        if len(members) < 2:
            continue
        senders = [row for row in members if "BcastSend" in str(ops.op[row])]
        members.sort(key=lambda r: int(tasks.codes[r]))
        found.append(
            Collective(
                step,
                name,
                tasks.table[tasks.codes[senders[0]]] if senders else "",
                tuple(tasks.table[tasks.codes[row]] for row in members),
                tuple(members),
                tuple(int(ops.start_ns[row]) for row in members),
                tuple(int(ops.end_ns[row]) for row in members),
                tuple(int(sizes[row]) for row in members),
            )
        )
    return found
