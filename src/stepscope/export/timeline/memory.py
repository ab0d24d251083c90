"""The memory in TensorFlow's timeline: the life of every tensor, and what allocators held."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from stepscope.export.json_rows import escape_all, escaped, int_texts, interleave
from stepscope.export.timeline.events import joined, text_column
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.export.timeline.events import TensorOutputs, TimelineNodes

    Ints: TypeAlias = NDArray[np.int64]

ALLOCATORS_PID = 0


class AllocationMaximum(NamedTuple):
    """When an allocator held the most, how much that was, and in which tensors."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


def tensor_lives(rows: TimelineNodes, tensors: TensorOutputs) -> list[str]:
    """The creation and a description of every tensor, those of repeated names included."""
    if not tensors.names:
        return []
    row = tensors.row
    places = rows.places_in(1)[row].tolist()
    names = escape_all(tensors.names)
    ids = int_texts(tensors.ids)
    descriptions = list(chain.from_iterable(device.descriptions for device in rows.devices))
    addresses = np.concatenate([device.addresses for device in rows.devices])
    closing: str | list[str] = r"\n}\n"
    ends: str | list[str] = int_texts(addresses)
    if not addresses.any():
        closing = ends = ""
    elif not addresses.all():
        closing = np.where(addresses == 0, "", closing).tolist()
        ends = np.where(addresses == 0, "", ends).tolist()
    return interleave(
        (
            '{"ph":"N","cat":"Tensor","name":"',
            names,
            places,
            rows.start_texts[row].tolist(),
            ',"id":',
            ids,
            '},{"ph":"O","cat":"Tensor","name":"',
            names,
            places,
            int_texts(rows.ends[row] - 1),
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


def memory_ends_and_counters(
    rows: TimelineNodes, tensors: TensorOutputs
) -> tuple[list[str], dict[str, AllocationMaximum]]:
    """The end of every tensor, and per allocator the bytes held over time; with the peaks."""
    chosen = tensors.last_of
    if not len(chosen):
        return [], {}
    names = tensors.names if len(chosen) == len(tensors.names) else _pick(tensors.names, chosen)
    row, last_use = tensors.row[chosen], tensors.last_use[chosen]
    freed_texts = text_column(int_texts(last_use))
    texts = interleave(
        (
            '{"ph":"D","cat":"Tensor","name":"',
            escape_all(names),
            '","pid":',
            int_texts(rows.pids[row] + 1),
            ',"tid":0,"ts":',
            freed_texts.tolist(),
            ',"id":',
            int_texts(tensors.ids[chosen]),
            "},",
        ),
        len(names),
    )
    sizes = joined([device.sizes for device in rows.devices])[chosen]
    allocators = StringColumn.joined([device.allocators for device in rows.devices])[chosen]
    used, first = np.unique(allocators.codes, return_index=True)
    maximums = {}
    for code in used[np.argsort(first)].tolist():
        held_by = np.flatnonzero(allocators.codes == code)
        counted, maximums[allocators.table[code]] = _counters(
            allocators.table[code],
            _pick(names, held_by),
            (rows.starts[row[held_by]], last_use[held_by]),
            (rows.start_texts[row[held_by]], freed_texts[held_by]),
            sizes[held_by],
        )
        texts += counted
    return texts, maximums


def _pick(texts: list[str], at: Ints) -> list[str]:
    return texts if len(at) == len(texts) else [texts[i] for i in at.tolist()]


def _counters(
    allocator: str,
    names: list[str],
    created_and_freed: tuple[Ints, Ints],
    time_texts: tuple[NDArray[Any], NDArray[Any]],
    sizes: Ints,
) -> tuple[list[str], AllocationMaximum]:
    times = np.concatenate(created_and_freed)
    changes = np.concatenate([sizes, -sizes])
    order = _by_time_and_change(times, changes)
    held = np.cumsum(changes[order])
    name = escaped(allocator)
    texts = interleave(
        (
            f'{{"ph":"C","cat":"Memory","name":"{name}","pid":{ALLOCATORS_PID},"tid":0,"ts":',
            np.concatenate(time_texts)[order].tolist(),
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
    low = int(changes.min())
    span = int(changes.max()) - low + 1
    offset = times - times.min()
    if int(offset.min()) >= 0 and int(offset.max()) < (1 << 62) // span:
        # Two nearly sorted halves, which a stable sort merges.
        return np.argsort(offset * span + (changes - low), kind="stable")
    return np.lexsort((changes, times))
