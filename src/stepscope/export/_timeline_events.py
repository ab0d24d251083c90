"""From step stats to the events of TensorFlow's timeline, step by step; `timeline` joins them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Event: TypeAlias = dict[str, Any]

_ALLOCATORS_PID = 0
_INPUT_KEYS = tuple(f"input{i}" for i in range(64))
# `name = Op(input, input)`. The greedy groups matter: names may contain " = " and parentheses.
_OP_LABEL = re.compile(r".* = (.*)\((.*)\)")


class AllocationMaximum(NamedTuple):
    """When an allocator held the most, how much that was, and in which tensors."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


class Device:
    """One `dev_stats` entry as parallel lists, one item per executed node, times in micros."""

    __slots__ = (
        "durations",
        "is_gpu_trace",
        "labels",
        "lanes",
        "name",
        "names",
        "nodes",
        "pid",
        "starts",
        "tensors_pid",
    )

    def __init__(self, name: str, nodes: list[Any]) -> None:
        self.name = name
        self.pid = self.tensors_pid = 0
        self.is_gpu_trace = "/stream:" in name or "/memcpy" in name
        self.nodes = nodes
        self.names: list[str] = [node.node_name for node in nodes]
        self.labels: list[str] = [node.timeline_label for node in nodes]
        self.starts: list[int] = [node.all_start_micros for node in nodes]
        self.durations: list[int] = [node.all_end_rel_micros for node in nodes]
        self.lanes: list[int] = []


class Tensor:
    """The last tensor produced under a name: where it came from and how long it was needed."""

    __slots__ = (
        "allocator",
        "created",
        "lane",
        "last_use",
        "num_bytes",
        "object_id",
        "pid",
        "ready",
        "tensors_pid",
    )

    def __init__(self, object_id: int, created: int, ready: int, device: Device, lane: int) -> None:
        self.object_id = object_id
        self.created = created
        self.ready = self.last_use = ready
        self.pid = device.pid
        self.tensors_pid = device.tensors_pid
        self.lane = lane
        self.allocator = ""
        self.num_bytes = 0


def read_devices(step_stats: Any) -> list[Device]:
    """Decode the message once.

    Several entries may have the same device (runs on a cluster do). As in TensorFlow every entry
    gets process numbers, and entries of one name all draw into the last of them.
    """
    devices = [Device(entry.device, list(entry.node_stats)) for entry in step_stats.dev_stats]
    last_of = {device.name: index for index, device in enumerate(devices)}
    for device in devices:
        device.pid = _ALLOCATORS_PID + 1 + 2 * last_of[device.name]
        device.tensors_pid = device.pid + 1
    return devices


def process_names(devices: list[Device]) -> Iterator[Event]:
    """The events that name the processes, in order of their numbers."""
    names = ["Allocators"]
    for device in devices:
        names += (f"{device.name} Compute", f"{device.name} Tensors")
    for pid, name in enumerate(names):
        yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}


def assign_lanes(starts: list[int], durations: list[int]) -> list[int]:
    """For each node, in recorded order, the first lane whose last node ended before it started."""
    busy_until = [0]
    lanes = []
    for start, duration in zip(starts, durations, strict=True):
        for lane, until in enumerate(busy_until):
            if start > until:
                busy_until[lane] = start + duration
                break
        else:
            lane = len(busy_until)
            busy_until.append(start + duration)
        lanes.append(lane)
    return lanes


def use_kernel_times(devices: list[Device], *, from_first_kernel: bool) -> None:
    """Stretch each op to its GPU kernels, as recorded on the devices' `/stream:all` entries."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for device in devices:
        if "/stream:all" not in device.name:
            continue
        for label, name, start, duration in zip(
            device.labels, device.names, device.starts, device.durations, strict=True
        ):
            op_name, _ = _parse_kernel(label, name)
            first[op_name] = min(first.get(op_name, start), start)
            last[op_name] = max(last.get(op_name, start + duration), start + duration)
    for device in devices:
        if "/stream:all" in device.name or "/job" not in device.name:
            continue
        for i, name in enumerate(device.names):
            if name in first:
                end = max(last[name], device.starts[i] + device.durations[i])
                if from_first_kernel:
                    device.starts[i] = first[name]
                device.durations[i] = end - device.starts[i]


def collect_tensors(devices: list[Device], *, with_memory: bool) -> dict[str, Tensor]:
    """The tensors by name. A loop produces a name again and again: the last one counts.

    Object ids are TensorFlow's: the number of names known before. A repeated name leads to ids
    given twice, which is what its traces have.
    """
    tensors: dict[str, Tensor] = {}
    for device in devices:
        for name, node, start, duration, lane in zip(
            device.names, device.nodes, device.starts, device.durations, device.lanes, strict=True
        ):
            for index, output in enumerate(node.output):
                tensor = Tensor(len(tensors), start, start + duration, device, lane)
                if with_memory:
                    allocation = output.tensor_description.allocation_description
                    tensor.allocator = allocation.allocator_name
                    tensor.num_bytes = allocation.requested_bytes
                tensors[f"{name}:{index}" if index else name] = tensor
    return tensors


def emit_tensor_lives(devices: list[Device], events: list[Event]) -> None:
    """The creation and a description of every tensor, those of repeated names included."""
    known: set[str] = set()
    for device in devices:
        pid = device.tensors_pid
        for name, node, start, duration, lane in zip(
            device.names, device.nodes, device.starts, device.durations, device.lanes, strict=True
        ):
            for index, output in enumerate(node.output):
                tensor_name = f"{name}:{index}" if index else name
                object_id = len(known)
                known.add(tensor_name)
                described = str(output.tensor_description).replace('"', "")
                events.append(
                    {
                        "ph": "N",
                        "cat": "Tensor",
                        "name": tensor_name,
                        "pid": pid,
                        "tid": lane,
                        "ts": start,
                        "id": object_id,
                    }
                )
                events.append(
                    {
                        "ph": "O",
                        "cat": "Tensor",
                        "name": tensor_name,
                        "pid": pid,
                        "tid": lane,
                        "ts": start + duration - 1,
                        "id": object_id,
                        "args": {"snapshot": {"tensor_description": described}},
                    }
                )


def emit_ops(
    devices: list[Device], tensors: dict[str, Tensor], events: list[Event], *, show_dataflow: bool
) -> None:
    """One slice per node; notes each tensor's last use and, if asked, draws the edges."""
    flow_id = 0
    for device in devices:
        pid = device.pid
        for name, label, start, duration, lane in zip(
            device.names, device.labels, device.starts, device.durations, device.lanes, strict=True
        ):
            inputs: list[str] = []
            if device.is_gpu_trace:
                name, op = _parse_kernel(label, name)
            elif name == "RecvTensor":
                # Its label is about the transfer, not about an op and its inputs.
                op = "RecvTensor"
            else:
                op, inputs = _parse_op(label)
            events.append(
                {
                    "ph": "X",
                    "cat": "Op",
                    "name": op,
                    "pid": pid,
                    "tid": lane,
                    "ts": start,
                    "dur": duration,
                    "args": {"name": name, "op": op, **_named_inputs(inputs)},
                }
            )
            for input_name in inputs:
                source, tensor = _find_tensor(tensors, input_name)
                if tensor is None:
                    continue
                tensor.last_use = max(tensor.last_use, start + duration - 1)
                if show_dataflow and (tensor.pid != pid or tensor.lane != lane):
                    events.append(
                        _flow("s", source, tensor.pid, tensor.lane, tensor.ready, flow_id)
                    )
                    events.append(_flow("t", source, pid, lane, start, flow_id))
                    flow_id += 1


def emit_memory(tensors: dict[str, Tensor], events: list[Event]) -> dict[str, AllocationMaximum]:
    """The end of every tensor, and per allocator the bytes held over time; returns the peaks."""
    changes: dict[str, list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        events.append(
            {
                "ph": "D",
                "cat": "Tensor",
                "name": name,
                "pid": tensor.tensors_pid,
                "tid": 0,
                "ts": tensor.last_use,
                "id": tensor.object_id,
            }
        )
        of_allocator = changes.setdefault(tensor.allocator, [])
        of_allocator.append((tensor.created, tensor.num_bytes, name))
        of_allocator.append((tensor.last_use, -tensor.num_bytes, name))

    maximums = {}
    for allocator, series in changes.items():
        series.sort()
        held = most = peak_at = 0
        peak_index = -1
        for index, (time, num_bytes, _) in enumerate(series):
            held += num_bytes
            if held > most:
                most, peak_at, peak_index = held, time, index
            events.append(
                {
                    "ph": "C",
                    "cat": "Memory",
                    "name": allocator,
                    "pid": _ALLOCATORS_PID,
                    "tid": 0,
                    "ts": time,
                    "args": {allocator: held},
                }
            )
        maximums[allocator] = AllocationMaximum(peak_at, most, _alive(series[: peak_index + 1]))
    return maximums


def _alive(changes: list[tuple[int, int, str]]) -> set[str]:
    """The tensors allocated and not yet freed after `changes`."""
    alive: set[str] = set()
    for _, num_bytes, name in changes:
        if num_bytes < 0:
            alive.discard(name)
        else:
            alive.add(name)
    return alive


def _flow(phase: str, name: str, pid: int, lane: int, time: int, flow_id: int) -> Event:
    return {
        "ph": phase,
        "cat": "DataFlow",
        "name": name,
        "pid": pid,
        "tid": lane,
        "ts": time,
        "id": flow_id,
    }


def _find_tensor(tensors: dict[str, Tensor], name: str) -> tuple[str, Tensor | None]:
    """The tensor an input names, and the name it was found under.

    Partitioning puts unrecorded send and receive nodes between producer and consumer and gives
    them the producer's name with a suffix `/_N`; the edge is drawn from the producer.
    """
    tensor = tensors.get(name)
    if tensor is None and (cut := name.rfind("/_")) > 0:
        name = name[:cut]
        tensor = tensors.get(name)
    return name, tensor


def _named_inputs(inputs: list[str]) -> dict[str, str]:
    if len(inputs) <= len(_INPUT_KEYS):
        return dict(zip(_INPUT_KEYS, inputs, strict=False))
    return {f"input{i}": name for i, name in enumerate(inputs)}


def _parse_op(label: str) -> tuple[str, list[str]]:
    """The op type and the inputs of a label `name = Op(input, input)`."""
    match = _OP_LABEL.match(label)
    if match is None:
        return "unknown", []
    op, inputs = match.groups()
    return op, inputs.split(", ") if inputs else []


def _parse_kernel(label: str, node_name: str) -> tuple[str, str]:
    """The op's name and type of a GPU kernel, labelled `... @@name:Op#...` or named `name:Op`."""
    start, end = label.find("@@"), label.find("#")
    if start >= 0 and start + 2 < end:
        node_name = label[start + 2 : end]
    name, op = [*node_name.split(":"), "unknown"][:2]
    return name, op
