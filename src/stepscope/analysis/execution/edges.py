"""Which execution waited for which: the graph's edges, found in a run's own labels.

The label of a node, as TensorFlow writes it, names the node's inputs. A receive has none: it waits
for the send of the same tensor. Where a node ran several times (loops, several steps), an execution
waited for the last one of its input that was over before it became ready, in the same step.
Between tasks of a cluster `messages` tells who waited for whom; times must be by one clock.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.cluster.messages import RECEIVES, SENDS, traffic
from stepscope.analysis.cluster.tasks import task_column
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.metadata import OpColumns

__all__ = ["RECEIVES", "SENDS", "Edges", "input_node"]

_NUMBERED = re.compile(r"(.*)/_(\d+)\Z", re.DOTALL)
_TRANSFER = re.compile(r"edge_\d+_(.*?)(?::\d+)? from ", re.DOTALL)


def input_node(reference: str) -> str:
    """The node an input refers to: "x" of "x", "^x" and "x:1"."""
    name = reference.removeprefix("^")
    stem, colon, slot = name.rpartition(":")
    return stem if colon and slot.isdecimal() else name


@dataclass(frozen=True, slots=True)
class Edges:
    """`before[row]`: the rows whose end an execution waited for."""

    before: list[list[int]]

    @classmethod
    def of(cls, ops: OpColumns) -> Edges:
        """The edges between the executions of a run."""
        executions = _Executions(ops)
        inputs = _inputs_of_names(ops)
        names, steps = ops.names.codes.tolist(), ops.step.tolist()
        tasks = task_column(ops).codes.tolist()
        # A receive begins to wait before its tensor was sent; it cannot end before that.
        receives = np.isin(ops.op, list(RECEIVES))
        until = np.where(receives, ops.end_ns, ops.start_ns).tolist()
        before = [
            list(executions.latest(inputs[name], (steps[row], tasks[row]), until[row], row))
            for row, name in enumerate(names)
        ]
        # Between tasks it is messages that tell, below: times of two machines do not.
        for row in np.flatnonzero(receives).tolist() if len(set(tasks)) == 1 else ():
            if not before[row]:
                place = (steps[row], tasks[row])
                before[row] = list(executions.begun(inputs[names[row]], place, until[row]))
        _cross_tasks(ops, before)
        return cls(before)


def _cross_tasks(ops: OpColumns, before: list[list[int]]) -> None:
    """Add what executions waited for that ran in other tasks."""
    found = traffic(ops)
    for message in found.messages:
        before[message.receive] = [message.producer] if message.producer >= 0 else []
        for row in message.consumers:
            before[row].append(message.receive)
    for together in found.collectives:
        # All waited until the last had come, and so for what that one had waited for.
        last = together.rows[together.starts.index(max(together.starts))]
        for row in together.rows:
            if row != last:
                before[row] += before[last]


class _Executions:
    """The executions of each node in each step of each task, in order of their ends."""

    def __init__(self, ops: OpColumns) -> None:
        self._rows: dict[tuple[int, tuple[int, int]], list[int]] = {}
        order = np.argsort(ops.end_ns, kind="stable").tolist()
        names = ops.names.codes.tolist()
        steps = list(zip(ops.step.tolist(), task_column(ops).codes.tolist(), strict=True))
        for row in order:
            self._rows.setdefault((names[row], steps[row]), []).append(row)
        ends = ops.end_ns.tolist()
        self._starts = ops.start_ns.tolist()
        self._ends = {key: [ends[row] for row in rows] for key, rows in self._rows.items()}

    def latest(
        self, names: list[int], step: tuple[int, int], until: int, row: int
    ) -> Iterator[int]:
        """For each name its last execution that was over at `until`."""
        for name in names:
            rows = self._rows.get((name, step))
            if rows is None:
                continue
            place = bisect_right(self._ends[name, step], until) - 1
            if place >= 0 and rows[place] != row:
                yield rows[place]

    def begun(self, names: list[int], step: tuple[int, int], until: int) -> Iterator[int]:
        """For each name its last execution that had begun at `until`.

        A send hands its tensor over while it runs: the receive may be over before it is.
        """
        for name in names:
            rows = [row for row in self._rows.get((name, step), ()) if self._starts[row] <= until]
            yield from rows[-1:]


def _inputs_of_names(ops: OpColumns) -> list[list[int]]:
    """Per distinct node name the names it waits for, as positions in the same table."""
    table = ops.names.table
    place = {name: number for number, name in enumerate(table)}
    inputs: list[list[int]] = [[] for _ in table]
    first_row = np.zeros(len(table), np.intp)
    codes = ops.names.codes
    first_row[codes[::-1]] = np.arange(len(codes))[::-1]
    kinds, labels = ops.op, ops.label
    sends = _sends_by_stem(ops)
    for number in np.unique(codes).tolist():
        row = int(first_row[number])
        references = parse_label(table[number], labels[row])[1]
        found = [place[node] for node in map(input_node, references) if node in place]
        if not found and kinds[row] in RECEIVES:
            found = [
                place[node]
                for node in _producers(table[number], labels[row], sends)
                if node in place
            ]
        inputs[number] = list(dict.fromkeys(found))
    return inputs


def _sends_by_stem(ops: OpColumns) -> dict[str, list[tuple[int, str]]]:
    sends: dict[str, list[tuple[int, str]]] = {}
    for name, kind in set(zip(ops.name, ops.op, strict=True)):
        match = _NUMBERED.match(name)
        if kind in SENDS and match is not None:
            sends.setdefault(match.group(1), []).append((int(match.group(2)), name))
    return {stem: sorted(names) for stem, names in sends.items()}


def _producers(name: str, label: str, sends: dict[str, list[tuple[int, str]]]) -> list[str]:
    """What a receive waits for: the send before it of the same tensor, or the op named in it."""
    transfer = _TRANSFER.search(label)
    if transfer is not None:
        return [transfer.group(1)]
    match = _NUMBERED.match(name)
    if match is None:
        return []
    number = int(match.group(2))
    earlier = [send for n, send in sends.get(match.group(1), ()) if n < number]
    return earlier[-1:]
