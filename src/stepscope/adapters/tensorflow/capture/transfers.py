"""Transfers between tasks that a cluster's step stats leave out.

A task logs the tensors it receives from the moment it is told to, and it is told while the step is
already beginning: what it asked for before is in no row. The executed graphs say that it was
received all the same, and from where; the producer's row says how many bytes; the row of its first
user says when it was there at the latest, as that is when the user became ready. Such a transfer
gets a row of no length at that moment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from stepscope.metadata import Loss, OpColumns

_EDGE: Final = re.compile(r"(?:\[[^\]]*\] )*(?P<edge>.*) from \S+ to (?P<target>\S+)", re.DOTALL)
_TASK: Final = re.compile(r"(?:/job:[^/]+)?(?:/replica:\d+)?(?:/task:\d+)?")
_RECEIVES: Final = frozenset({"_Recv", "_HostRecv"})
_SENDS: Final = frozenset({"_Send", "_HostSend"})
RECV_TENSOR: Final = "RecvTensor"
"""What TensorFlow calls the row of a transfer."""


class UnloggedTransfer(NamedTuple):
    """A transfer without a row; `at_ns` is 0 where none of its users has one either."""

    edge: str
    source: str
    target: str
    bytes: int
    at_ns: int


def unlogged(ops: OpColumns, graphs: Iterable[Any]) -> list[UnloggedTransfer]:
    """The transfers between tasks that the executed graphs have and the rows of a run have not."""
    rows = _Rows(ops)
    nodes = [node for graph in graphs for node in graph.node]
    users = defaultdict(list)
    sent = {}
    for node in nodes:
        for text in node.input:
            users[text.removeprefix("^").partition(":")[0], node.device].append(node.name)
        if node.op in _SENDS and node.input:
            sent[_text(node, "tensor_name"), _text(node, "send_device")] = node.input[0]
    found = []
    for node in nodes:
        if node.op not in _RECEIVES or node.attr["client_terminated"].b:
            continue
        edge, source = _text(node, "tensor_name"), _text(node, "send_device")
        target = _text(node, "recv_device")
        if _task(source) == _task(target) or (edge, target) in rows.logged:
            continue
        size = rows.bytes_of(sent.get((edge, source), ""), source)
        at = rows.ready(users[node.name, node.device], target)
        found.append(UnloggedTransfer(edge, source, target, size, at))
    return found


def add_rows(step_stats: Any, transfers: Iterable[UnloggedTransfer]) -> None:
    """Add a row to a StepStats message for each that has a time, as TensorFlow writes them."""
    for transfer in transfers:
        if not transfer.at_ns:
            continue
        row = step_stats.dev_stats.add(device=transfer.target).node_stats.add(
            node_name=RECV_TENSOR,
            all_start_micros=transfer.at_ns // 1000,
            all_start_nanos=transfer.at_ns,
            timeline_label=(
                f"[{transfer.bytes}B] {transfer.edge} from {transfer.source} to {transfer.target}"
            ),
        )
        described = row.output.add().tensor_description
        described.allocation_description.requested_bytes = transfer.bytes


def losses_of(transfers: list[UnloggedTransfer]) -> Iterator[Loss]:
    """What `completeness` is to say of them."""
    why = "TensorFlow had not begun to log the transfers of their task: "
    timed = [t.edge for t in transfers if t.at_ns]
    if timed:
        where = "; their rows have no length and stand where their first user became ready"
        yield Loss("times of transfers", len(timed), why + ", ".join(timed) + where)
    others = [t.edge for t in transfers if not t.at_ns]
    if others:
        yield Loss("transfers", len(others), why + ", ".join(others))


class _Rows:
    """The rows of a run, looked up by node and device."""

    def __init__(self, ops: OpColumns) -> None:
        self._ops = ops
        self._by_node: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.logged: set[tuple[str, str]] = set()
        """Edge and receiving device of the transfers that have a row."""
        for row, (name, device) in enumerate(zip(ops.name, ops.device, strict=True)):
            if name == RECV_TENSOR:
                match = _EDGE.match(ops.label[row])
                if match is not None:
                    self.logged.add((match["edge"], match["target"]))
            self._by_node[name, device].append(row)

    def ready(self, names: Iterable[str], device: str) -> int:
        """When the first of these nodes became ready; 0 where none has a row."""
        rows = [row for name in names for row in self._by_node.get((name, device), ())]
        return int(self._ops.scheduled_ns[rows].min()) if rows else 0

    def bytes_of(self, tensor: str, device: str) -> int:
        """The size of a tensor, as the row of its node has it; 0 where that has none."""
        name, _, slot = tensor.partition(":")
        rows = self._by_node.get((name, device), ())
        tensors = self._ops.tensors
        of = np.isin(tensors.op_index, rows) & (tensors.slot == int(slot or 0))
        return int(tensors.bytes[of].max()) if of.any() else 0


def _text(node: Any, attr: str) -> str:
    return node.attr[attr].s.decode(errors="replace") if attr in node.attr else ""


def _task(device: str) -> str:
    match = _TASK.match(device)
    return match[0] if match is not None else ""
