"""From columns of step stats to the events of TensorFlow's timeline, as JSON text.

All nodes of all devices are rows of one table here, in recorded order; a tensor is an output of a
row. `timeline` joins the parts.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from stepscope.export._json_rows import (
    escape_all,
    escaped,
    int_texts,
    interleave,
)
from stepscope.export._label_table import LabelTable, table_for
from stepscope.export.lanes import lowest_free_lanes
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.export._timeline_columns import Device

    Ints: TypeAlias = NDArray[np.int64]

ALLOCATORS_PID = 0

_RECV = "RecvTensor"


class AllocationMaximum(NamedTuple):
    """When an allocator held the most, how much that was, and in which tensors."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


class Rows:
    """The nodes of all devices one after the other, and where each is drawn."""

    def __init__(self, devices: list[Device]) -> None:
        self.devices = devices
        self.names = list(chain.from_iterable(device.names for device in devices))
        self.starts = _joined([device.starts for device in devices])
        self.durations = _joined([device.durations for device in devices])
        self.ends: Ints = self.starts + self.durations
        sizes = [len(device.names) for device in devices]
        self.pids = np.repeat(np.array([device.pid for device in devices], np.int64), sizes)
        self.lanes = _joined([assign_lanes(d.starts, d.durations) for d in devices])
        self.outputs = _joined([device.outputs for device in devices])
        self.start_texts = int_texts(self.starts)
        self.places = _places(self.pids, self.lanes)


def _places(pids: Ints, lanes: Ints) -> list[str]:
    """The part of an event's text that says where it is drawn, up to its time; per row."""
    keys = pids << 32 | lanes
    distinct, which = np.unique(keys, return_inverse=True)
    texts = [f'","pid":{key >> 32},"tid":{key & 0xFFFFFFFF},"ts":' for key in distinct.tolist()]
    return [texts[i] for i in which.tolist()]


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def process_names(devices: list[Device]) -> list[str]:
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
        return np.array(lowest_free_lanes(starts, starts + durations + 1, first_free_at=1))
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


def use_kernel_times(devices: list[Device], *, from_first_kernel: bool) -> None:
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


class Tensors:
    """The outputs of all rows. A loop produces a name again and again: the last one counts.

    Object ids are TensorFlow's: the number of names known before. A repeated name leads to ids
    given twice, which is what its traces have.
    """

    def __init__(self, rows: Rows) -> None:
        self.row: Ints = np.repeat(np.arange(len(rows.names)), rows.outputs)
        self.names = _output_names(rows, self.row)
        self.last_of = dict(zip(self.names, range(len(self.names)), strict=True))
        if len(self.last_of) == len(self.names):
            self.ids: Ints = np.arange(len(self.names))
        else:
            new = np.zeros(len(self.names), np.int64)
            first = dict(zip(reversed(self.names), range(len(self.names) - 1, -1, -1), strict=True))
            new[list(first.values())] = 1
            self.ids = np.cumsum(new) - new
        self.last_use: Ints = rows.ends[self.row]


def _output_names(rows: Rows, row: Ints) -> list[str]:
    names = rows.names
    if int(rows.outputs.max(initial=0)) <= 1:
        return [names[i] for i in row.tolist()]
    before = np.cumsum(rows.outputs) - rows.outputs
    index = np.arange(len(row)) - before[row]
    return [
        f"{names[i]}:{slot}" if slot else names[i]
        for i, slot in zip(row.tolist(), index.tolist(), strict=True)
    ]


def tensor_lives(rows: Rows, tensors: Tensors) -> list[str]:
    """The creation and a description of every tensor, those of repeated names included."""
    if not tensors.names:
        return []
    row = tensors.row.tolist()
    in_process = _places(rows.pids + 1, rows.lanes)
    places = [in_process[i] for i in row]
    names = escape_all(tensors.names)
    ids = int_texts(tensors.ids)
    descriptions = list(chain.from_iterable(device.descriptions for device in rows.devices))
    addresses = np.concatenate([device.addresses for device in rows.devices])
    ends = int_texts(addresses)
    closing: str | list[str] = r"\n}\n"
    for i in np.flatnonzero(addresses == 0).tolist():
        closing = [closing] * len(row) if isinstance(closing, str) else closing
        ends[i] = closing[i] = ""
    return interleave(
        (
            '{"ph":"N","cat":"Tensor","name":"',
            names,
            places,
            [rows.start_texts[i] for i in row],
            ',"id":',
            ids,
            '},{"ph":"O","cat":"Tensor","name":"',
            names,
            places,
            int_texts(rows.ends[tensors.row] - 1),
            ',"id":',
            ids,
            ',"args":{"snapshot":{"tensor_description":"',
            descriptions,
            ends,
            closing,
            '"}}},',
        ),
        len(row),
    )


def ops_and_flows(rows: Rows, tensors: Tensors, *, show_dataflow: bool) -> list[str]:
    """One slice per node, then, if asked, the edges between them; notes each tensor's last use."""
    if not rows.names:
        return []
    table = table_for(len(rows.names))
    names, codes = _told_by_labels(rows, table)
    consumer, tensor, sources = _edges(table, codes, tensors)
    np.maximum.at(tensors.last_use, tensor, rows.ends[consumer] - 1)
    numbers = codes.tolist()
    texts = interleave(
        (
            [table.heads[code] for code in numbers],
            rows.places,
            rows.start_texts,
            ',"dur":',
            int_texts(rows.durations),
            ',"args":{"name":"',
            names,
            [table.tails[code] for code in numbers],
        ),
        len(numbers),
    )
    producer = tensors.row[tensor]
    drawn = np.flatnonzero(
        (rows.pids[producer] != rows.pids[consumer])
        | (rows.lanes[producer] != rows.lanes[consumer])
    )
    if show_dataflow and len(drawn):
        texts += _flows(rows, producer[drawn], consumer[drawn], sources[drawn])
    return texts


def _flows(rows: Rows, producer: Ints, consumer: Ints, sources: NDArray[Any]) -> list[str]:
    """For each edge the two events of its arrow."""
    names = escape_all(sources.tolist())
    ids = int_texts(np.arange(len(names)))
    consumers = consumer.tolist()
    return interleave(
        (
            '{"ph":"s","cat":"DataFlow","name":"',
            names,
            [rows.places[i] for i in producer.tolist()],
            int_texts(rows.ends[producer]),
            ',"id":',
            ids,
            '},{"ph":"t","cat":"DataFlow","name":"',
            names,
            [rows.places[i] for i in consumers],
            [rows.start_texts[i] for i in consumers],
            ',"id":',
            ids,
            "},",
        ),
        len(names),
    )


def memory_ends_and_counters(
    rows: Rows, tensors: Tensors
) -> tuple[list[str], dict[str, AllocationMaximum]]:
    """The end of every tensor, and per allocator the bytes held over time; with the peaks."""
    chosen = np.array(list(tensors.last_of.values()), np.int64)
    if not len(chosen):
        return [], {}
    names = list(tensors.last_of)
    row, last_use = tensors.row[chosen], tensors.last_use[chosen]
    texts = interleave(
        (
            '{"ph":"D","cat":"Tensor","name":"',
            escape_all(names),
            '","pid":',
            int_texts(rows.pids[row] + 1),
            ',"tid":0,"ts":',
            int_texts(last_use),
            ',"id":',
            int_texts(tensors.ids[chosen]),
            "},",
        ),
        len(names),
    )
    sizes = _joined([device.sizes for device in rows.devices])[chosen]
    allocators = StringColumn.joined([device.allocators for device in rows.devices])[chosen]
    used, first = np.unique(allocators.codes, return_index=True)
    maximums = {}
    for code in used[np.argsort(first)].tolist():
        held_by = np.flatnonzero(allocators.codes == code)
        counted, maximums[allocators.table[code]] = _counters(
            allocators.table[code],
            [names[i] for i in held_by.tolist()],
            rows.starts[row[held_by]],
            last_use[held_by],
            sizes[held_by],
        )
        texts += counted
    return texts, maximums


def _counters(
    allocator: str, names: list[str], created: Ints, freed: Ints, sizes: Ints
) -> tuple[list[str], AllocationMaximum]:
    times = np.concatenate([created, freed])
    changes = np.concatenate([sizes, -sizes])
    order = _by_time_and_change(times, changes)
    held = np.cumsum(changes[order])
    name = escaped(allocator)
    texts = interleave(
        (
            f'{{"ph":"C","cat":"Memory","name":"{name}","pid":{ALLOCATORS_PID},"tid":0,"ts":',
            int_texts(times[order]),
            f',"args":{{"{name}":',
            int_texts(held),
            "}},",
        ),
        len(order),
    )
    peak = int(np.argmax(held))
    if held[peak] <= 0:
        return texts, AllocationMaximum(0, 0, set())
    # A tensor is in the set if what last happened to it up to the peak did not take bytes away.
    happened = order[: peak + 1]
    last_change = np.full(len(names), -1, np.int64)
    last_change[happened % len(names)] = changes[happened]
    seen = np.zeros(len(names), bool)
    seen[happened % len(names)] = True
    alive = np.flatnonzero(seen & (last_change >= 0)).tolist()
    at, most = int(times[order[peak]]), int(held[peak])
    return texts, AllocationMaximum(at, most, {names[i] for i in alive})


def _by_time_and_change(times: Ints, changes: Ints) -> Ints:
    distinct, rank = np.unique(changes, return_inverse=True)
    offset = times - times.min()
    if int(offset.max()) < (1 << 62) // len(distinct):
        return np.argsort(offset * len(distinct) + rank)
    return np.lexsort((changes, times))


def _told_by_labels(rows: Rows, table: LabelTable) -> tuple[list[str], Ints]:
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
    return names, _joined(codes)


def _edges(table: LabelTable, codes: Ints, tensors: Tensors) -> tuple[Ints, Ints, NDArray[Any]]:
    """For each input that was recorded: the row it is of, the tensor, and the tensor's name.

    Partitioning puts unrecorded send and receive nodes between producer and consumer and gives
    them the producer's name with a suffix `/_N`; the edge is drawn from the producer.
    """
    consumer, inputs = table.inputs_of(codes)
    used = np.zeros(len(table.input_names), bool)
    used[inputs] = True
    found = np.flatnonzero(used)
    names = [table.input_names[i] for i in found.tolist()]
    get = tensors.last_of.get
    tensor = np.array([get(name, -1) for name in names], np.int64)
    for i in np.flatnonzero(tensor < 0).tolist():
        cut = names[i].rfind("/_")
        if cut > 0:
            names[i] = names[i][:cut]
            tensor[i] = get(names[i], -1)
    tensor_of = np.full(len(used), -1, np.int64)
    tensor_of[found] = tensor
    name_of = np.empty(len(used), dtype=object)
    name_of[found] = names
    recorded = tensor_of[inputs] >= 0
    inputs = inputs[recorded]
    return consumer[recorded], tensor_of[inputs], name_of[inputs]


def _parse_kernel(label: str, node_name: str) -> tuple[str, str]:
    """The op's name and type of a GPU kernel, labelled `... @@name:Op#...` or named `name:Op`."""
    start, end = label.find("@@"), label.find("#")
    if start >= 0 and start + 2 < end:
        node_name = label[start + 2 : end]
    name, op = [*node_name.split(":"), "unknown"][:2]
    return name, op
