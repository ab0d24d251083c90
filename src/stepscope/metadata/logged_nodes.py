"""What the nodes of one run did, as an executor logs it: numbers over the facts of its graphs.

A log has a row per execution: the numbers of graph and node, three times, a thread, how far it came
(`STARTED` and so on), and the number of what its first output was; further outputs have rows of
their own, and so has what it took of memory (`LoggedMemory`). What graphs and outputs are is known
by these numbers, once for all runs (`LoggedGraphs`, `Descriptions`). Columns are made of it when
somebody looks, by NumPy alone; so a run can be stored as it was logged (`stored_log`), which costs
the program little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stepscope.cached_property import cached_property
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.graph_facts import GraphFacts
from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.metadata.memory.logged_memory import (
    LoggedMemory,
    changes_in_time,
    memory_of_ops,
    outputs_of_changes,
)
from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.xplane import FIRST_NODE, Described, Row

__all__ = [
    "DONE",
    "ENDED",
    "FAILED",
    "OUTPUT",
    "ROW",
    "RUNS_INSIDE",
    "STARTED",
    "TAKES_NONE",
    "Descriptions",
    "DoingAt",
    "InputRows",
    "Log",
    "LoggedGraphs",
    "LoggedNodes",
    "ended",
    "nodes_of",
]

STARTED, ENDED, DONE, FAILED = 1, 2, 3, 4
"""How far an execution came: its kernel began, ended, and its node was done, well or not."""
ROW: Final = np.dtype(
    [
        ("scheduled", "i8"), ("start", "i8"), ("end", "i8"), ("graph", "u4"), ("node", "u4"),
        ("thread", "i4"), ("state", "i4"), ("output", "u4"), ("unused", "u4"),
    ]
)  # fmt: skip
OUTPUT: Final = np.dtype([("row", "u4"), ("slot", "u4"), ("output", "u4"), ("unused", "u4")])
TAKES_NONE: Final = frozenset(
    {
        "Const", "NoOp", "VarHandleOp", "ReadVariableOp", "Placeholder", "PlaceholderWithDefault",
        "_Arg", "_Retval", "Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims",
        "StopGradient", "PreventGradient", "Enter", "Exit", "Switch", "Merge", "NextIteration",
        "LoopCond", "_Send", "_Recv", "Snapshot", "EnsureShape",
    }
)  # fmt: skip
"""Op types whose outputs are the memory of somebody else."""
RUNS_INSIDE: Final = re.compile(
    r"(Stateful|TPU)?PartitionedCall|(Stateless)?(While|If|Case)|SymbolicGradient|XlaLaunch(V2)?"
    r"|_XlaRun|BatchFunction|MapDefun|RemoteCall|(Eager)?PyFunc(Stateless)?"
)
"""Op types that run something of their own, with an executor that is not ours or none."""
_MADE_ELSEWHERE: Final = re.compile(rf"{RUNS_INSIDE.pattern}|Iterator\w*|OptionalGetValue")
"""Op types whose outputs are made where nobody of ours counts."""


class InputRows(NamedTuple):
    """The inputs of nodes, as rows of the facts."""

    producer: NDArray[np.int32]
    slot: NDArray[np.int32]
    """Which of the producer's outputs."""
    consumer: NDArray[np.int32]


class LoggedGraphs(Protocol):
    """The graphs of a run: their nodes one after the other."""

    @property
    def facts(self) -> GraphFacts:
        """Of all their nodes."""

    @property
    def numbers(self) -> NDArray[np.uint32]:
        """What logs call each graph."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many nodes each graph has."""

    def nodes(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Per row of a log its node, as a row of the facts."""

    @property
    def constants(self) -> NDArray[np.uint32]:
        """Per node the number of what it is, if it is a constant; else 0."""

    @property
    def edges(self) -> InputRows:
        """All inputs of nodes."""


class Descriptions(Protocol):
    """What tensors are, by numbers."""

    def of(
        self, numbers: NDArray[Any]
    ) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[np.int64]]:
        """Dtype, shape and bytes of each."""


class DoingAt(NamedTuple):
    """What a run was doing at a time, as far as it came to an end."""

    going: list[Row]
    """What had begun by then and ended after it."""
    last: Row | None
    """What had begun last by then."""


class Log(NamedTuple):
    """What was logged of a run."""

    rows: NDArray[Any]
    """As `ROW`, in the order in which threads wrote them."""
    outputs: NDArray[Any]
    """As `OUTPUT`: of executions with several, those after the first."""
    memory: LoggedMemory | None = None
    """None where it was not counted, or not that of all executions."""


class LoggedNodes:
    """The log of a run over its graphs; taken apart when somebody looks."""

    def __init__(self, log: Log, graphs: LoggedGraphs, described: Descriptions) -> None:
        self.log = log
        self.graphs = graphs
        self.described = described

    @cached_property
    def table(self) -> NDArray[Any]:
        """A row per execution that had begun, in order of time."""
        return self.log.rows[self._order]

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        rows = self.log.rows
        return np.lexsort((np.maximum(rows["start"], rows["end"]), rows["start"]))

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """Where in the table each row of the log is."""
        place = np.empty(len(self._order), np.int64)
        place[self._order] = np.arange(len(self._order))
        return place

    @cached_property
    def node(self) -> NDArray[np.int32]:
        """Per row of the table the node, as a row of the graphs' facts."""
        return self.graphs.nodes(self.table)

    def ended_mask(self, *, failed: bool = False) -> NDArray[np.bool_]:
        """Of the table's rows, those that came to an end; with `failed`, to a good one."""
        return ended(self.table, failed=failed)

    def times_executed(self, *, failed: bool = False) -> NDArray[np.int64]:
        """Per node of the graphs, how often it came to an end."""
        rows = self.log.rows
        node = self.graphs.nodes(rows[ended(rows, failed=failed)])
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
            memory=(lambda: self._memory(mask)) if self.log.memory is not None else None,
        )

    def _memory(self, mask: NDArray[np.bool_]) -> MemoryColumns:
        """What the rows of the table under the mask took; rows are counted among these."""
        if self.log.memory is None:
            return MemoryColumns.empty()
        return memory_of_ops(self.log.memory, np.where(mask, np.cumsum(mask) - 1, -1)[self._place])

    def _tensors(self, mask: NDArray[np.bool_]) -> TensorColumns:
        """What the rows of the table under the mask put out; rows are counted among these."""
        number = self.table["output"]
        number = np.where(number == 0, self.graphs.constants[self.node], number)
        new_row = np.where(mask, np.cumsum(mask) - 1, -1)
        put_out = np.flatnonzero((number != 0) & mask)
        row, slot, number = new_row[put_out], np.zeros(len(put_out), np.int32), number[put_out]
        more = self.log.outputs
        if len(more):
            more_row = new_row[self._place[more["row"]]]
            kept = more_row >= 0
            row = np.concatenate([row, more_row[kept]])
            slot = np.concatenate([slot, more["slot"][kept].astype(np.int32)])
            number = np.concatenate([number, more["output"][kept]])
            order = np.lexsort((slot, row))
            row, slot, number = row[order], slot[order], number[order]
        dtype, shape, size = self.described.of(number)
        return TensorColumns(
            row.astype(np.int32), slot, dtype, shape, size, size,
            np.zeros(len(size), np.uint64), StringColumn.repeated("cpu", len(size)),
        )  # fmt: skip

    @cached_property
    def has_loops(self) -> bool:
        """Whether a node was executed more than once."""
        return bool(np.bincount(self.graphs.nodes(self.log.rows)).max(initial=0) > 1)

    @cached_property
    def made_elsewhere(self) -> list[str]:
        """The op types of its graphs that put out what nobody here saw being made."""
        return sorted(filter(_MADE_ELSEWHERE.fullmatch, self.graphs.facts.ops.table))

    @property
    def counts_memory(self) -> bool:
        """Whether the allocations are those that were counted; of `made_elsewhere` by outputs."""
        return self.log.memory is not None and not (self.has_loops and self.made_elsewhere)

    @property
    def tells_allocations(self) -> bool:
        """Whether `allocations` has them: in a loop it is not known which output was read when."""
        return self.counts_memory or not self.has_loops

    def allocations(self, ops: OpColumns, step_id: int) -> AllocationColumns:
        """Memory as it was counted, else by what ops put out: alive until the last reader is done.

        `ops` is what `columns` gave, with outputs.
        """
        if not self.counts_memory:
            return _allocations(self.graphs.facts, [self._outputs_alive(ops, None)], step_id)
        parts = [self._counted(ops)]
        if self.made_elsewhere:
            parts.append(self._outputs_alive(ops, frozenset(self.made_elsewhere)))
        return _allocations(self.graphs.facts, parts, step_id)

    def _counted(self, ops: OpColumns) -> _Changes:
        """What was counted."""
        assert self.log.memory is not None
        changes = self.log.memory.changes
        table, place = self.table, self._place[changes["row"]]
        tensors = self._tensors(np.ones(len(table), bool))
        which, taken_at = outputs_of_changes(changes, place, tensors)
        slot = np.where(which >= 0, tensors.slot[which], -1) if len(tensors) else which
        node = self.node[place]
        read = np.zeros(len(changes), np.int64)
        if not self.has_loops:
            reads = self._last_reads(ops, int(slot.max(initial=0)))
            read = np.where(slot >= 0, reads[node, slot], 0)
        time = changes_in_time(
            changes, table["start"][place], table["end"][place], taken_at, read
        )  # fmt: skip
        dtype, shape = np.zeros(len(changes), np.int32), np.full(len(changes), None, object)
        known = which >= 0
        dtype[known], shape[known] = tensors.dtype[which[known]], tensors.shape[which[known]]
        return _Changes(node, time, changes["bytes"], slot, dtype, shape)

    def _last_reads(self, ops: OpColumns, slots: int) -> NDArray[np.int64]:
        """By node and output (up to `slots` at least) when the last reader of it was done; or 0."""
        row_of = np.full(len(self.graphs.facts), -1, dtype=np.int64)
        row_of[ops.node] = np.arange(len(ops))
        producer, output, reader = self.graphs.edges
        width = max(int(output.max(initial=0)), slots) + 1
        ran = row_of[reader] >= 0
        read = np.zeros((len(self.graphs.facts), width), dtype=np.int64)
        np.maximum.at(read, (producer[ran], output[ran]), ops.end_ns[row_of[reader[ran]]])
        return read

    def _outputs_alive(self, ops: OpColumns, kinds: frozenset[str] | None) -> _Changes:
        """What ops of these types put out, from each op's start to its last reader's end.

        None for all types that take memory for it.
        """
        node, facts, tensors = ops.node, self.graphs.facts, ops.tensors
        takes = np.array(
            [op not in TAKES_NONE if kinds is None else op in kinds for op in facts.ops.table], bool
        )
        made = np.flatnonzero(takes[facts.ops.codes[node[tensors.op_index]]] & (tensors.bytes > 0))
        row, slot, size = tensors.op_index[made], tensors.slot[made], tensors.bytes[made]
        start = ops.start_ns[row]
        freed = self._last_reads(ops, int(slot.max(initial=0)))[node[row], slot]
        end = ops.end_ns[-1] if len(ops) else 0
        gone = np.flatnonzero((freed > start) & (freed <= end))
        both = np.concatenate([np.arange(len(made)), gone])
        kept = made[both]
        return _Changes(
            node[row[both]], np.concatenate([start, freed[gone]]),
            np.concatenate([size, -size[gone]]), slot[both], tensors.dtype[kept],
            tensors.shape[kept],
        )  # fmt: skip

    # -- one by one: a loop may have a million, so of no more than is asked for -------------------

    def _rows(self, mask: NDArray[np.bool_]) -> list[Row]:
        """The executions under a mask of the table's rows."""
        table, node = self.table[mask], self.node[mask]
        facts = self.graphs.facts
        tensors = self._tensors(mask)
        outputs: dict[int, dict[int, Described]] = {}
        for row, slot, dtype, shape, size in zip(
            tensors.op_index.tolist(), tensors.slot.tolist(), tensors.dtype.tolist(),
            tensors.shape, tensors.bytes.tolist(), strict=True,
        ):  # fmt: skip
            outputs.setdefault(row, {})[slot] = dtype, shape, size
        names, ops, devices = (
            column.values[node].tolist() for column in (facts.names, facts.ops, facts.devices)
        )
        found = []
        for i, (ready, start, end, thread, state) in enumerate(
            table[["scheduled", "start", "end", "thread", "state"]].tolist()
        ):
            slots = outputs.get(i, {}) if state in (DONE, FAILED) else {}
            put_out = tuple(slots.get(slot) for slot in range(max(slots) + 1)) if slots else ()
            row = Row(
                names[i], ops[i], start, max(start, end), -thread, "", devices[i],
                min(ready, start) or start, put_out,
            )  # fmt: skip
            found.append(row)
        return found

    def doing_at(self, time_ns: int, *, failed: bool) -> DoingAt:
        """What it was doing at a time, of what came to an end; with `failed`, to a good one."""
        counts = self.graphs.facts.names.values != FIRST_NODE
        begun = self.ended_mask(failed=failed) & (self.table["start"] < time_ns)
        begun &= counts[self.node]
        last = np.zeros(len(begun), bool)
        last[np.flatnonzero(begun)[-1:]] = True
        return DoingAt(
            self._rows(begun & (self.table["end"] > time_ns)), next(iter(self._rows(last)), None)
        )

    @cached_property
    def ended(self) -> list[Row]:
        """The executions that came to an end, also to a bad one."""
        return self._rows(self.ended_mask())

    @cached_property
    def unfinished(self) -> list[Row]:
        """Those that began and did not come to a good end."""
        return self._rows(self.table["state"] != DONE)

    @cached_property
    def going(self) -> set[str]:
        """The nodes of those that had come to no end."""
        return self._names(~self.ended_mask())

    @cached_property
    def done(self) -> set[str]:
        """The nodes that came to a good end."""
        return self._names(self.table["state"] == DONE)

    def _names(self, mask: NDArray[np.bool_]) -> set[str]:
        return set(self.graphs.facts.names.values[np.unique(self.node[mask])].tolist())


class _Changes(NamedTuple):
    """Allocations and frees: the columns of `AllocationColumns`, by the node that took it."""

    node: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    bytes: NDArray[np.int64]
    slot: NDArray[Any]
    dtype: NDArray[np.int32]
    shape: NDArray[Any]


def _allocations(facts: GraphFacts, parts: list[_Changes], step_id: int) -> AllocationColumns:
    """All of these, in order of time."""
    node, time_ns, size, slot, dtype, shape = map(np.concatenate, zip(*parts, strict=True))
    return AllocationColumns.build(
        name=facts.names.look_up(node),
        device=facts.devices.look_up(node),
        time_ns=time_ns,
        bytes=size,
        slot=slot,
        dtype=dtype,
        shape=shape,
        step=step_id,
    )


def nodes_of(numbers: NDArray[Any], lengths: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.int32]:
    """Per row of a log its node, where the nodes of the graphs of these numbers are in a row."""
    node = rows["node"]
    if len(numbers) <= 1:
        return node.astype(np.int32)
    order = np.argsort(numbers)
    firsts = np.cumsum(lengths) - lengths
    place = order[np.searchsorted(numbers, rows["graph"], sorter=order)]
    found: NDArray[np.int32] = (firsts[place] + node).astype(np.int32)
    return found


def ended(rows: NDArray[Any], *, failed: bool) -> NDArray[np.bool_]:
    """Which rows of a log came to an end; of a run that `failed`, to a good one."""
    state = rows["state"]
    done = state == DONE
    return np.asarray(done if failed else done | (state == FAILED), dtype=np.bool_)
