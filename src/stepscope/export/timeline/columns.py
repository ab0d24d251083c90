"""Step stats as columns, for TensorFlow's timeline: from messages of any package, or from ours."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stepscope._messages import AllocationDescription, DataType, TensorDescription
from stepscope.export.json_rows import escaped
from stepscope.metadata.row_groups import numbered, rows_alike
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.step_stats import (
    ALLOCATION_FIELDS,
    DESCRIPTION_FIELDS,
    OUTPUT_FIELDS,
    StepStatsTable,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, TensorColumns
    from stepscope.metadata.wire.wire_scan import Scanned

    Ints: TypeAlias = NDArray[np.int64]

_FIRST_PID = 1
_POINTER_TAG = b"\x30"
_VARINT_LIMITS = np.array([1, *(1 << (7 * n) for n in range(1, 10))], np.uint64)


class DeviceColumns:
    """One `dev_stats` entry, a column per field and a row per executed node; times in micros.

    `outputs` is the number of outputs per node. `sizes`, `allocators`, `descriptions` and
    `addresses` have an entry per output, in order of nodes, and are empty unless memory was asked
    for. A description is the inside of a JSON string, without its end where the address follows;
    an address is 0 where it does not.
    """

    __slots__ = (
        "addresses",
        "allocators",
        "descriptions",
        "durations",
        "is_gpu_trace",
        "labels",
        "name",
        "names",
        "outputs",
        "pid",
        "sizes",
        "starts",
    )

    def __init__(
        self, name: str, names: list[str], labels: list[str], starts: Ints, durations: Ints
    ) -> None:
        self.name = name
        self.pid = 0
        self.is_gpu_trace = "/stream:" in name or "/memcpy" in name
        self.names = names
        self.labels = labels
        self.starts = starts
        self.durations = durations
        self.outputs: Ints = np.zeros(len(names), np.int64)
        self.sizes: Ints = np.empty(0, np.int64)
        self.allocators = StringColumn.of(())
        self.descriptions: list[str] = []
        self.addresses = np.empty(0, np.uint64)


def number_processes(devices: list[DeviceColumns]) -> None:
    """Give each entry its process number.

    Several entries may have the same device (runs on a cluster do). As in TensorFlow every entry
    gets two numbers, and entries of one name all draw into those of the last of them.
    """
    last_of = {device.name: index for index, device in enumerate(devices)}
    for device in devices:
        device.pid = _FIRST_PID + 2 * last_of[device.name]


def from_message(step_stats: Any, *, memory: bool) -> list[DeviceColumns]:
    """The entries of a `StepStats` message."""
    if memory:
        # With all its tensors a message is read sooner from its bytes than field by field.
        return _from_bytes(step_stats.SerializeToString())
    return [_of_entry(entry) for entry in step_stats.dev_stats]


def _of_entry(entry: Any) -> DeviceColumns:
    nodes = list(entry.node_stats)
    count = len(nodes)
    device = DeviceColumns(
        entry.device,
        list(map(attrgetter("node_name"), nodes)),
        list(map(attrgetter("timeline_label"), nodes)),
        np.fromiter(map(attrgetter("all_start_micros"), nodes), np.int64, count),
        np.fromiter(map(attrgetter("all_end_rel_micros"), nodes), np.int64, count),
    )
    device.outputs = np.fromiter(map(len, map(attrgetter("output"), nodes)), np.int64, count)
    return device


def _from_bytes(data: bytes) -> list[DeviceColumns]:
    table = StepStatsTable(data)
    row, begin, end = table.entries("output")
    outputs = np.bincount(row, minlength=len(table))
    description, allocation = _tensors(table, begin, end)
    sizes = allocation.numbers["requested_bytes"]
    addresses = allocation.numbers["ptr"].view(np.uint64)
    allocators = StringColumn.of(
        piece.decode() for piece in table.wire.slices(*allocation.spans["allocator_name"])
    )
    texts = _texts_of_bytes(table, description, addresses)
    names, labels = table.names.values.tolist(), table.labels.values.tolist()
    starts, durations = table.number("all_start_micros"), table.number("all_end_rel_micros")
    devices = []
    counts = np.bincount(table.device_of, minlength=len(table.devices))
    last = 0
    last_tensor = 0
    for name, count in zip(table.devices, counts.tolist(), strict=True):
        rows = slice(last, last + count)
        device = DeviceColumns(name, names[rows], labels[rows], starts[rows], durations[rows])
        device.outputs = outputs[rows]
        tensors = slice(last_tensor, last_tensor + int(device.outputs.sum()))
        device.sizes = sizes[tensors]
        device.allocators = allocators[tensors]
        device.descriptions = texts[tensors]
        device.addresses = addresses[tensors]
        last, last_tensor = rows.stop, tensors.stop
        devices.append(device)
    return devices


def _tensors(table: StepStatsTable, begin: Ints, end: Ints) -> tuple[tuple[Ints, Ints], Scanned]:
    """Where the description of each output stands in the bytes, and its allocation's fields."""
    wire = table.wire
    description = wire.scan(begin, end, OUTPUT_FIELDS).spans["tensor_description"]
    within = wire.scan(*description, DESCRIPTION_FIELDS)
    return description, wire.scan(*within.spans["allocation_description"], ALLOCATION_FIELDS)


def _texts_of_bytes(
    table: StepStatsTable, spans: tuple[Ints, Ints], addresses: NDArray[np.uint64]
) -> list[str]:
    """The text of each description, up to the address; sets the address to 0 where it is within.

    Making a message's text is slow, and of the descriptions of a run most differ only in the
    address, which comes last in bytes and text. So texts are kept by the bytes before it.
    """
    begins, ends = spans
    length = np.searchsorted(_VARINT_LIMITS, addresses, side="right")
    before = table.wire.slices(begins, np.maximum(ends - length, begins))
    known: dict[bytes, str | None] = {}
    for i, piece in enumerate(before):
        if piece not in known:
            whole = TensorDescription.FromString(table.wire.data[begins[i] : ends[i]])
            text = str(whole).replace('"', "")
            tail = f"{addresses[i]}\n}}\n"
            usual = text.endswith(tail) and piece.endswith(_POINTER_TAG)
            known[piece] = escaped(text.removesuffix(tail)) if usual else None
    if None not in known.values():
        return [known[piece] or "" for piece in before]
    return _texts_one_by_one(table, spans, addresses, [known[piece] for piece in before])


def _texts_one_by_one(
    table: StepStatsTable,
    spans: tuple[Ints, Ints],
    addresses: NDArray[np.uint64],
    texts: list[str | None],
) -> list[str]:
    begins, ends = spans
    whole = []
    for i, text in enumerate(texts):
        if text is None:
            description = TensorDescription.FromString(table.wire.data[begins[i] : ends[i]])
            addresses[i] = 0
            whole.append(escaped(str(description).replace('"', "")))
        else:
            whole.append(text)
    return whole


def from_columns(ops: OpColumns, *, memory: bool) -> list[DeviceColumns]:
    """The entries that our columns make as step stats: one per device, in order of appearance."""
    codes, first = np.unique(ops.devices.codes, return_index=True)
    names, labels = ops.name, ops.label
    starts = ops.start_ns // 1000
    durations = ops.end_ns // 1000 - starts
    tensors = ops.tensors
    order = np.argsort(tensors.op_index, kind="stable")
    outputs = np.bincount(tensors.op_index, minlength=len(ops))
    ends = np.cumsum(outputs)
    devices = []
    for code in codes[np.argsort(first)].tolist():
        rows = np.flatnonzero(ops.devices.codes == code)
        device = DeviceColumns(
            ops.devices.table[code],
            names[rows].tolist(),
            labels[rows].tolist(),
            starts[rows],
            durations[rows],
        )
        device.outputs = outputs[rows]
        if memory and device.outputs.any():
            within = np.arange(int(device.outputs.sum()))
            shift = ends[rows] - np.cumsum(device.outputs)
            chosen = order[within + np.repeat(shift, device.outputs)]
            device.sizes = tensors.bytes[chosen]
            device.allocators = tensors.allocators[chosen]
            device.descriptions = _texts(tensors, chosen)
            device.addresses = tensors.address[chosen]
        devices.append(device)
    return devices


def _texts(tensors: TensorColumns, rows: Ints) -> list[str]:
    """What the text of each tensor's description would be, were it a message."""
    columns = (
        tensors.dtype[rows],
        tensors.bytes[rows],
        tensors.allocated_bytes[rows],
        tensors.allocators.codes[rows],
        tensors.address[rows] != 0,
        numbered(tensors.shape[rows]),
    )
    codes, examples = rows_alike(columns)
    known = np.empty(len(examples), object)
    for code, row in enumerate(examples):
        dtype, requested, allocated, allocator, address, _ = (int(c[row]) for c in columns)
        shape, name = tensors.shape[rows[row]], tensors.allocators.table[allocator]
        known[code] = _head(dtype, shape, requested, allocated, name, address=bool(address))
    texts: list[str] = known[codes].tolist()
    return texts


def _head(
    dtype: int,
    shape: tuple[int, ...] | None,
    requested: int,
    allocated: int,
    allocator: str,
    *,
    address: bool,
) -> str:
    """The text of a description, up to the address if it has one; zeros are not in it."""
    lines = []
    if dtype:
        lines.append(f"dtype: {DataType.Name(dtype) if dtype in DataType.values() else dtype}")
    if shape is None:
        lines += ["shape {", "  unknown_rank: true", "}"]
    else:
        lines.append("shape {")
        for size in shape:
            lines += ["  dim {", f"    size: {size}", "  }"] if size else ["  dim {", "  }"]
        lines.append("}")
    lines.append("allocation_description {")
    if requested:
        lines.append(f"  requested_bytes: {requested}")
    if allocated:
        lines.append(f"  allocated_bytes: {allocated}")
    if allocator:
        # TensorFlow takes the quotes out of the text.
        named = str(AllocationDescription(allocator_name=allocator)).strip()
        lines.append("  " + named.replace('"', ""))
    lines.append("  ptr: " if address else "}\n")
    return escaped("\n".join(lines))
