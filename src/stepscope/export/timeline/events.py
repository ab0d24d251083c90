"""From columns of step stats to the events of TensorFlow's timeline, as JSON text.

All nodes of all devices are rows of one table here, in recorded order; a tensor is an output of a
row. `timeline` joins the parts.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stepscope.analysis.execution.lanes import lanes_in_order
from stepscope.export.json_rows import (
    escape_all,
    escaped,
    int_texts,
    interleave,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.export.timeline.columns import DeviceColumns
    from stepscope.export.timeline.label_table import LabelTable, Parts

    Ints: TypeAlias = NDArray[np.int64]

_RECV = "RecvTensor"


class TimelineNodes:
    """The nodes of all devices one after the other, and where each is drawn."""

    def __init__(self, devices: list[DeviceColumns]) -> None:
        self.devices = devices
        self.names = list(chain.from_iterable(device.names for device in devices))
        self.starts = joined([device.starts for device in devices])
        self.durations = joined([device.durations for device in devices])
        self.ends: Ints = self.starts + self.durations
        sizes = [len(device.names) for device in devices]
        self.pids = np.repeat(np.array([device.pid for device in devices], np.int64), sizes)
        lanes = [assign_lanes(d.starts, d.durations) for d in devices]
        self.lanes = joined(lanes)
        self._lane_counts = [int(of_device.max(initial=-1)) + 1 for of_device in lanes]
        before = np.cumsum(self._lane_counts) - self._lane_counts
        self._place_codes = self.lanes + np.repeat(before.astype(np.int64), sizes)
        self.outputs = joined([device.outputs for device in devices])
        self.start_texts = text_column(int_texts(self.starts))
        self.places = self.places_in(0)

    def places_in(self, process: int) -> NDArray[Any]:
        """The part of an event's text that says where it is drawn, up to its time; per row.

        `process` is 0 for the device's first process, 1 for the second.
        """
        texts = [
            f'","pid":{device.pid + process},"tid":{lane},"ts":'
            for device, count in zip(self.devices, self._lane_counts, strict=True)
            for lane in range(count)
        ]
        return text_column(texts)[self._place_codes]


def text_column(texts: list[str]) -> NDArray[Any]:
    """Texts to pick from by number."""
    return np.fromiter(texts, object, len(texts))


def joined(parts: list[Ints]) -> Ints:
    """Columns one below the other; none at all are an empty one."""
    return np.concatenate([np.empty(0, np.int64), *parts])


def process_names(devices: list[DeviceColumns]) -> list[str]:
    """The events that name the processes, in order of their numbers."""
    names = ["Allocators"]
    for device in devices:
        names += (f"{device.name} Compute", f"{device.name} Tensors")
    return [
        f'{{"name":"process_name","ph":"M","pid":{pid},"args":{{"name":"{escaped(name)}"}}}}'
        for pid, name in enumerate(names)
    ]


def assign_lanes(starts: Ints, durations: Ints) -> Ints:
    """For each node, in recorded order, the first lane whose last node ended before it started."""
    if (starts[1:] >= starts[:-1]).all():
        # Before the first node, lane 0 counts as busy until time 0.
        return lanes_in_order(starts, starts + durations + 1, first_free_at=1)
    busy_until = [0]
    lanes = []
    for start, duration in zip(starts.tolist(), durations.tolist(), strict=True):
        for lane, until in enumerate(busy_until):
            if start > until:
                busy_until[lane] = start + duration
                break
        else:
            lane = len(busy_until)
            busy_until.append(start + duration)
        lanes.append(lane)
    return np.array(lanes, np.int64)


def use_kernel_times(devices: list[DeviceColumns], *, from_first_kernel: bool) -> None:
    """Stretch each op to its GPU kernels, as recorded on the devices' `/stream:all` entries."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for device in devices:
        if "/stream:all" not in device.name:
            continue
        ends = (device.starts + device.durations).tolist()
        for label, name, start, end in zip(
            device.labels, device.names, device.starts.tolist(), ends, strict=True
        ):
            op_name, _ = _parse_kernel(label, name)
            first[op_name] = min(first.get(op_name, start), start)
            last[op_name] = max(last.get(op_name, end), end)
    for device in devices:
        if not first or "/stream:all" in device.name or "/job" not in device.name:
            continue
        for i, name in enumerate(device.names):
            if name in first:
                end = max(last[name], int(device.starts[i] + device.durations[i]))
                if from_first_kernel:
                    device.starts[i] = first[name]
                device.durations[i] = end - device.starts[i]


class TensorOutputs:
    """The outputs of all rows. A loop produces a name again and again: the last one counts.

    `last_of` has the last tensor of each name, in the order in which names first came; `by_name`
    too, by the name's number in the table, with -1 where no row puts out such a tensor. Object ids
    are TensorFlow's: the number of names known before. A repeated name leads to ids given twice,
    which is what its traces have.
    """

    def __init__(self, rows: TimelineNodes, table: LabelTable) -> None:
        self.row: Ints = np.repeat(np.arange(len(rows.names)), rows.outputs)
        self.names = _output_names(rows, self.row)
        codes = table.tensors(self.names)
        number = np.arange(len(codes))
        self.by_name: Ints = np.full(len(table.tensor_names), -1)
        self.by_name[codes] = number
        if int(np.count_nonzero(self.by_name >= 0)) == len(codes):
            self.ids = self.last_of = number
        else:
            first = np.full(len(self.by_name), -1)
            first[codes[::-1]] = number[::-1]
            new = first[codes] == number
            self.ids = np.cumsum(new) - new
            self.last_of = self.by_name[codes[new]]
        self.last_use: Ints = rows.ends[self.row]


def _output_names(rows: TimelineNodes, row: Ints) -> list[str]:
    names = rows.names
    if int(rows.outputs.max(initial=0)) <= 1:
        return names if len(row) == len(names) else [names[i] for i in row.tolist()]
    before = np.cumsum(rows.outputs) - rows.outputs
    index = np.arange(len(row)) - before[row]
    return [
        f"{names[i]}:{slot}" if slot else names[i]
        for i, slot in zip(row.tolist(), index.tolist(), strict=True)
    ]


def ops_and_flows(
    rows: TimelineNodes, tensors: TensorOutputs, table: LabelTable, *, show_dataflow: bool
) -> list[str]:
    """One slice per node, then, if asked, the edges between them; notes each tensor's last use."""
    if not rows.names:
        return []
    names, codes = _told_by_labels(rows, table)
    parts = table.parts()
    consumer, name, tensor = _edges(table, parts, codes, tensors)
    np.maximum.at(tensors.last_use, tensor, rows.ends[consumer] - 1)
    texts = interleave(
        (
            parts.heads[codes].tolist(),
            rows.places.tolist(),
            rows.start_texts.tolist(),
            ',"dur":',
            int_texts(rows.durations),
            ',"args":{"name":"',
            names,
            parts.tails[codes].tolist(),
        ),
        len(codes),
    )
    producer = tensors.row[tensor]
    drawn = np.flatnonzero(
        (rows.lanes[producer] != rows.lanes[consumer])
        | (rows.pids[producer] != rows.pids[consumer])
    )
    if show_dataflow and len(drawn):
        texts += _flows(rows, producer[drawn], consumer[drawn], parts.names[name[drawn]].tolist())
    return texts


def _flows(rows: TimelineNodes, producer: Ints, consumer: Ints, names: list[str]) -> list[str]:
    """For each edge the two events of its arrow."""
    ids = int_texts(np.arange(len(names)))
    return interleave(
        (
            '{"ph":"s","cat":"DataFlow","name":"',
            names,
            rows.places[producer].tolist(),
            int_texts(rows.ends[producer]),
            ',"id":',
            ids,
            '},{"ph":"t","cat":"DataFlow","name":"',
            names,
            rows.places[consumer].tolist(),
            rows.start_texts[consumer].tolist(),
            ',"id":',
            ids,
            "},",
        ),
        len(names),
    )


def _told_by_labels(rows: TimelineNodes, table: LabelTable) -> tuple[list[str], Ints]:
    """The name of each row, escaped, and the number of its label."""
    names: list[str] = []
    codes: list[Ints] = []
    for device in rows.devices:
        if device.is_gpu_trace:
            told = [_parse_kernel(*pair) for pair in zip(device.labels, device.names, strict=True)]
            names += escape_all([name for name, _ in told])
            codes.append(table.codes_of_ops([op for _, op in told]))
            continue
        names += escape_all(device.names)
        of_device = table.codes(device.labels)
        if _RECV in device.names:
            # Its label is about the transfer, not about an op and its inputs.
            received = [i for i, name in enumerate(device.names) if name == _RECV]
            of_device[received] = table.codes_of_ops([_RECV])
        codes.append(of_device)
    return names, joined(codes)


def _edges(
    table: LabelTable, parts: Parts, codes: Ints, tensors: TensorOutputs
) -> tuple[Ints, Ints, Ints]:
    """For each input that was recorded: the row it is of, the number of its name, and the tensor.

    Partitioning puts unrecorded send and receive nodes between producer and consumer and gives
    them the producer's name with a suffix `/_N`; the edge is drawn from the producer.
    """
    begins = parts.first[codes]
    counts = parts.first[codes + 1] - begins
    consumer = np.repeat(np.arange(len(codes)), counts)
    within = np.arange(len(consumer)) - np.repeat(np.cumsum(counts) - counts, counts)
    name = parts.inputs[begins[consumer] + within]
    by_name = np.append(tensors.by_name, np.full(len(parts.names) - len(tensors.by_name), -1))
    tensor = by_name[name]
    missing = np.flatnonzero(tensor < 0)
    if len(missing):
        producer_of = {}
        for code in np.unique(name[missing]).tolist():
            text = table.tensor_names[code]
            cut = text.rfind("/_")
            producer_of[code] = table.tensor(text[:cut]) if cut > 0 else -1
        name[missing] = [producer_of[code] for code in name[missing].tolist()]
        # A producer may have got its number after `parts` was made; then no row puts it out.
        known = (name >= 0) & (name < len(by_name))
        consumer, name = consumer[known], name[known]
        tensor = by_name[name]
        recorded = tensor >= 0
        consumer, name, tensor = consumer[recorded], name[recorded], tensor[recorded]
    return consumer, name, tensor


def _parse_kernel(label: str, node_name: str) -> tuple[str, str]:
    """The op's name and type of a GPU kernel, labelled `... @@name:Op#...` or named `name:Op`."""
    start, end = label.find("@@"), label.find("#")
    if start >= 0 and start + 2 < end:
        node_name = label[start + 2 : end]
    name, op = [*node_name.split(":"), "unknown"][:2]
    return name, op
