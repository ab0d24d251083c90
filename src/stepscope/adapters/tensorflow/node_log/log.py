"""What the nodes of a run did, from our own executor: complete, exact, and cheaper than events.

TensorFlow's profiler needs three events per node to show all of them. An executor type of ours (see
`build`) notes the same in a fraction of the time. It sees the nodes of the graphs that a thread
runs. What a graph determines is known once (`executed_graph`); a log adds numbers, which are made
columns of by NumPy alone.

Guarantees. A log may be read at any time and from any thread, also while its run is under way. Of
nodes that had begun by then it tells whether they ended, and whether well.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.events import Profile
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.executed_graph import (
    ExecutedGraphs,
    descriptions,
    known_graphs,
    text_of,
)
from stepscope.metadata import OpColumns, TensorColumns
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.xplane import ANNOTATION, Described, Row, Step

_STARTED, _ENDED, _DONE, _FAILED = 1, 2, 3, 4
_SIZES: Final = struct.Struct("7q")
_ROW: Final = np.dtype(
    [
        ("scheduled", "i8"), ("start", "i8"), ("end", "i8"), ("graph", "u4"), ("node", "u4"),
        ("thread", "i4"), ("state", "i4"), ("output", "u4"), ("unused", "u4"),
    ]
)  # fmt: skip
_OUTPUT: Final = np.dtype([("row", "u4"), ("slot", "u4"), ("output", "u4"), ("unused", "u4")])
RECORD_NS: Final = 90
"""What noting one node costs the run, about: measured as dilation of warm runs of a thousand."""


class NodeLog:
    """The log of one run. Enter and leave it on the thread that starts the run's steps."""

    def __init__(self, *, outputs: bool) -> None:
        """With `outputs`, what each node puts out is described as well."""
        self._library: Any = build.library()
        self._outputs = outputs
        self._handle: Any = None

    def enter(self) -> None:
        self._handle = self._library.stepscope_enter(int(self._outputs))
        self._release = weakref.finalize(self, self._library.stepscope_release, self._handle)
        self._release.atexit = False

    def leave(self) -> None:
        """Steps that this thread starts from now on are not logged any more."""
        self._library.stepscope_leave(self._handle)

    def release(self) -> None:
        """Give its memory to the next log. Whoever reads it must have done so."""
        self._handle = None
        self._release()

    def read(self) -> LoggedNodes | None:
        """What is there by now. None before it is entered."""
        handle = self._handle
        if handle is None:
            return None
        size = ctypes.c_int64()
        data = text_of(self._library.stepscope_read(handle, ctypes.byref(size)), size)
        return LoggedNodes(data, functools.partial(self._library.stepscope_graph, handle))


@functools.cache
def accelerated() -> bool:
    """Whether there are devices that the profiler alone sees at work."""
    devices = versions.tensorflow().config.list_physical_devices()
    return any(device.device_type != "CPU" for device in devices)


class LoggedNodes:
    """What was read of a log; taken apart when somebody looks."""

    def __init__(self, data: bytes, handle_of: Any) -> None:
        """`handle_of` gives the library's handle of a graph that the log names."""
        self._data = data
        self._sizes = rows, more, steps, graphs, _, self.dropped, self.undescribed = (
            _SIZES.unpack_from(data)
        )
        self._places = [_SIZES.size]
        for count, size in ((rows, _ROW.itemsize), (more, _OUTPUT.itemsize), (steps, 8)):
            self._places.append(self._places[-1] + count * size)
        numbers = struct.unpack_from(f"{graphs}q", data, self._places[3])
        self.graphs: ExecutedGraphs = known_graphs.of(numbers, handle_of)
        """What was executed."""

    @functools.cached_property
    def table(self) -> NDArray[Any]:
        """A row per execution that had begun, in order of time."""
        return self._rows[self._order]

    @functools.cached_property
    def _rows(self) -> NDArray[Any]:
        return np.frombuffer(self._data, _ROW, self._sizes[0], self._places[0])

    @functools.cached_property
    def _order(self) -> NDArray[np.int64]:
        rows = self._rows
        return np.lexsort((np.maximum(rows["start"], rows["end"]), rows["start"]))

    @functools.cached_property
    def node(self) -> NDArray[np.int32]:
        """Per row of the table the node, as a row of the graphs' facts."""
        return self.graphs.nodes(self.table["graph"], self.table["node"])

    @functools.cached_property
    def steps(self) -> set[int]:
        """The steps that were logged, by the executor's numbers."""
        return set(np.frombuffer(self._data, np.int64, self._sizes[2], self._places[2]).tolist())

    @functools.cached_property
    def threads(self) -> dict[int, tuple[int, str]]:
        """By the system's numbers of threads, the profiler's, and their names."""
        text = self._data[self._places[3] + 8 * self._sizes[3] :].decode(errors="replace")
        known = (line.split(" ", 2) for line in text.splitlines())
        return {int(number): (int(handle), name) for number, handle, name in known}

    def ended_mask(self, *, failed: bool = False) -> NDArray[np.bool_]:
        """Of the table's rows, those that came to an end; with `failed`, to a good one."""
        return self._done if failed else self._over

    @functools.cached_property
    def _done(self) -> NDArray[np.bool_]:
        return np.asarray(self.table["state"] == _DONE, dtype=np.bool_)

    @functools.cached_property
    def _over(self) -> NDArray[np.bool_]:
        return np.asarray(self._done | (self.table["state"] == _FAILED), dtype=np.bool_)

    def times_executed(self, *, failed: bool = False) -> NDArray[np.int64]:
        """Per node of the graphs, how often it came to an end."""
        node = self.node[self.ended_mask(failed=failed)]
        return np.bincount(node, minlength=len(self.graphs.facts)).astype(np.int64)

    def executed(self, *, failed: bool = False) -> list[tuple[str, str, int]]:
        """Name, op type and number of executions of each node that came to an end."""
        times = self.times_executed(failed=failed)
        nodes = np.flatnonzero(times)
        facts = self.graphs.facts
        names, ops = facts.names.values, facts.ops.values
        return list(
            zip(names[nodes].tolist(), ops[nodes].tolist(), times[nodes].tolist(), strict=True)
        )

    def columns(
        self, step_id: int, thread_names: Mapping[int, str], *, failed: bool, outputs: bool
    ) -> OpColumns:
        """What came to an end; of a run that `failed`, to a good one."""
        mask = self.ended_mask(failed=failed)
        table, node = self.table[mask], self.node[mask]
        start = table["start"]
        scheduled = table["scheduled"]
        scheduled = np.where((scheduled == 0) | (scheduled > start), start, scheduled)
        return OpColumns.over(
            self.graphs.facts,
            node=node,
            thread=table["thread"],
            scheduled_ns=scheduled,
            start_ns=start,
            end_ns=np.maximum(start, table["end"]),
            step=step_id,
            thread_names=thread_names,
            tensors=self._tensors(mask) if outputs else None,
        )

    def _tensors(self, mask: NDArray[np.bool_]) -> TensorColumns:
        """What the rows of the table under the mask put out; rows are counted among these."""
        number = self.table["output"]
        number = np.where(number == 0, self.graphs.constants[self.node], number)
        new_row = np.where(mask, np.cumsum(mask) - 1, -1)
        put_out = np.flatnonzero((number != 0) & mask)
        row, slot, number = new_row[put_out], np.zeros(len(put_out), np.int32), number[put_out]
        if self._sizes[1]:
            more = np.frombuffer(self._data, _OUTPUT, self._sizes[1], self._places[1])
            place = np.empty(len(self._order), np.int64)
            place[self._order] = np.arange(len(self._order))
            more_row = new_row[place[more["row"]]]
            kept = more_row >= 0
            row = np.concatenate([row, more_row[kept]])
            slot = np.concatenate([slot, more["slot"][kept].astype(np.int32)])
            number = np.concatenate([number, more["output"][kept]])
            order = np.lexsort((slot, row))
            row, slot, number = row[order], slot[order], number[order]
        descriptions.up_to(int(number.max(initial=0)))
        size = descriptions.bytes[number]
        return TensorColumns(
            row.astype(np.int32), slot, descriptions.dtype[number], descriptions.shape[number],
            size, size, np.zeros(len(size), np.uint64), StringColumn.repeated("cpu", len(size)),
        )  # fmt: skip

    # -- one by one: for what is not looked at in every run --------------------------------------

    @functools.cached_property
    def _each(self) -> list[tuple[Row, int]]:
        """Each execution that had begun, with its state."""
        table = self.table
        facts = self.graphs.facts
        tensors = self._tensors(np.ones(len(table), bool))
        outputs: dict[int, dict[int, Described]] = {}
        for row, slot, dtype, shape, size in zip(
            tensors.op_index.tolist(), tensors.slot.tolist(), tensors.dtype.tolist(),
            tensors.shape, tensors.bytes.tolist(), strict=True,
        ):  # fmt: skip
            outputs.setdefault(row, {})[slot] = dtype, shape, size
        names, ops, devices = (
            column.values[self.node].tolist() for column in (facts.names, facts.ops, facts.devices)
        )
        found = []
        for i, (ready, start, end, thread, state) in enumerate(
            table[["scheduled", "start", "end", "thread", "state"]].tolist()
        ):
            slots = outputs.get(i, {}) if state in (_DONE, _FAILED) else {}
            put_out = tuple(slots.get(slot) for slot in range(max(slots) + 1)) if slots else ()
            row = Row(
                names[i], ops[i], start, max(start, end), -thread, "", devices[i],
                min(ready, start) or start, put_out,
            )  # fmt: skip
            found.append((row, state))
        return found

    @functools.cached_property
    def ended(self) -> list[Row]:
        """The executions that came to an end, also to a bad one."""
        return [row for row, state in self._each if state in (_DONE, _FAILED)]

    @functools.cached_property
    def unfinished(self) -> list[Row]:
        """Those that began and did not come to a good end."""
        return [row for row, state in self._each if state != _DONE]

    @functools.cached_property
    def going(self) -> set[str]:
        """The nodes of those that had come to no end."""
        return {row.name for row, state in self._each if state in (_STARTED, _ENDED)}

    @functools.cached_property
    def done(self) -> set[str]:
        """The nodes that came to a good end."""
        return {row.name for row, state in self._each if state == _DONE}

    def with_others(self, profile: Profile, steps: Iterable[int]) -> Iterator[Row]:
        """The run's executions: those logged, and what the profiler alone saw in its steps."""
        yield from self.ended
        times: dict[str, list[tuple[int, int]]] = {}
        for row in (*self.ended, *self.unfinished):
            times.setdefault(row.name, []).append((row.start_ns, row.end_ns))
        for number, step in profile.steps.numbered_with_children(list(steps)):
            logged = number in self.steps or _is_among(step, times)
            if not logged:
                yield from step.executions({})
                continue
            yield from (row for row in step.rows if row.op == ANNOTATION)
            yield from step.python


def _is_among(step: Step, times: Mapping[str, list[tuple[int, int]]]) -> bool:
    """Whether most of a step's kernels are logged: it is one inside a step that was."""
    kernels = [row for row in step.rows if row.op != ANNOTATION]
    found = sum(
        any(start < row.end_ns and row.start_ns < end for start, end in times.get(row.name, ()))
        for row in kernels
    )
    return 2 * found > len(kernels)
