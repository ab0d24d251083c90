"""On which device each op ran, what was asked for, and what moved between devices."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.execution.edges import RECEIVES, SENDS
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import named_runs
from stepscope.metadata.device_names import is_that_device
from stepscope.metadata.executed_graphs import executed_graphs

if TYPE_CHECKING:
    from stepscope.metadata import OpColumns, RunMetadata

_TRANSFER = re.compile(r"(?:\[[^\]]*\]\s*)*(?P<tensor>\S+) from (?P<source>\S+) to (?P<target>\S+)")


@dataclass(frozen=True, slots=True)
class PlacedOp:
    """A node: the device asked for ("" for none), the one it got and why, and where it ran.

    `differs` means that a device was asked for and the node got, or ran on, another one.
    """

    name: str
    op: str
    requested: str
    assigned: str
    reason: str
    ran_on: tuple[str, ...]
    calls: int
    differs: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """A tensor that moved from one device to another; `bytes` and `ns` are sums over calls."""

    tensor: str
    source: str
    target: str
    calls: int
    bytes: int
    ns: int


@dataclass(frozen=True, slots=True)
class PlacementReport(Result):
    """`rows` by device and name, but first the nodes that are elsewhere than asked for.

    `devices` counts the executions on each.
    """

    rows: tuple[PlacedOp, ...]
    devices: dict[str, int]
    transfers: tuple[Transfer, ...]

    @property
    def different(self) -> tuple[PlacedOp, ...]:
        """The nodes that are not where they were asked to be."""
        return tuple(row for row in self.rows if row.differs)


def placement(run: Any) -> PlacementReport:
    """Where the ops of one run were placed and ran. Several runs are an error: choose one."""
    runs = named_runs(run)
    if len(runs) != 1:
        raise ValueError(f"placement takes one run and was given {len(runs)}: choose one of them")
    metadata = runs[0].metadata
    ops = metadata.ops
    ran: dict[str, Counter[str]] = {}
    types: dict[str, str] = {}
    for name, op, device in zip(ops.name, ops.op, ops.device, strict=True):
        ran.setdefault(name, Counter())[device] += 1
        types[name] = op
    placed = {entry.node: entry for entry in metadata.placements}
    rows = []
    for name in dict.fromkeys([*placed, *types]):
        entry = placed.get(name)
        devices = ran.get(name, Counter())
        requested = entry.requested if entry else ""
        assigned = entry.assigned if entry else next(iter(devices), "")
        rows.append(
            PlacedOp(
                name=name,
                op=entry.op if entry else types[name],
                requested=requested,
                assigned=assigned,
                reason=entry.reason if entry else "seen running there",
                ran_on=tuple(devices),
                calls=devices.total(),
                differs=any(not is_that_device(requested, d) for d in [assigned, *devices] if d),
            )
        )
    # Nodes of the engine's own, whose names begin with "_", say less than the user's.
    rows.sort(key=lambda r: (not r.differs, r.assigned, r.name.startswith("_"), r.name))
    counts = Counter(ops.device.tolist())
    return made_of(
        PlacementReport(tuple(rows), dict(sorted(counts.items())), _transfers(metadata)), run
    )


def _transfers(metadata: RunMetadata) -> tuple[Transfer, ...]:
    ops = metadata.ops
    ends = _ends_of_graphs(metadata)
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in np.flatnonzero(np.isin(ops.op, list(RECEIVES))).tolist():
        route = ends.get(str(ops.name[row])) or _route_in_label(ops, row)
        entry = found.setdefault(route, [0, 0, 0])
        entry[0] += 1
        entry[1] += int(ops.output_bytes[row])
        entry[2] += int(ops.end_ns[row] - ops.start_ns[row])
    transfers = [Transfer(*route, *sums) for route, sums in found.items()]
    return tuple(sorted(transfers, key=lambda t: (-t.bytes, -t.ns, t.tensor)))


def _ends_of_graphs(metadata: RunMetadata) -> dict[str, tuple[str, str, str]]:
    """Per receive node what it moves, from where and to where, as the executed graphs say."""
    routes = {}
    for graph in executed_graphs(metadata):
        for node in graph.node:
            if node.op in RECEIVES and "send_device" in node.attr:
                routes[node.name] = (
                    _tensor(node.attr["tensor_name"].s.decode(errors="replace")),
                    node.attr["send_device"].s.decode(errors="replace"),
                    node.attr["recv_device"].s.decode(errors="replace") or node.device,
                )
    return routes


def _tensor(edge: str) -> str:
    """The tensor of an edge's name: "w" of "edge_4_w"."""
    return re.sub(r"\Aedge_\d+_", "", edge)


def _route_in_label(ops: OpColumns, row: int) -> tuple[str, str, str]:
    match = _TRANSFER.search(str(ops.label[row]))
    if match is not None:
        return _tensor(match["tensor"]), match["source"], match["target"]
    name, target = str(ops.name[row]), str(ops.device[row])
    stem = name.rpartition("/_")[0] or name
    # The send of the same tensor, on whichever other device there was one.
    sends = np.isin(ops.op, list(SENDS)) & (ops.device != target)
    for other in np.flatnonzero(sends).tolist():
        if str(ops.name[other]).rpartition("/_")[0] == stem:
            return stem, str(ops.device[other]), target
    return stem, "", target
