"""`OpColumns`: the executions of a run, one row each, over the facts of the graph that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.graph_facts import GraphFacts
from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns, times_in_range
from stepscope.metadata.readable import number, writable
from stepscope.metadata.row_groups import distinct
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["OpColumns"]

_TEXTS = frozenset(("name", "op", "device", "label"))
_NO_TENSORS = TensorColumns.empty()
_NO_MEMORY = MemoryColumns.empty()


def _numbers(values: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


class OpColumns:
    """The executions of a run as columns; `len()` is how many there were.

    `facts` are what the graph determines, `node` (int32) says which of its nodes each row executed;
    names and all that follows from the node are looked up there. A node that ran more than once has
    a row for each time, one that did not run has none.

    Strings: `name`, `op` (its type), `device`, `thread_name`, `label` (TensorFlow's timeline
    label). Numbers (int64): `thread`, `step`, `output_bytes`, and in nanoseconds since the epoch
    `scheduled_ns`, `start_ns`, `end_ns`: when the op became ready, when its turn began, when it
    was over. `op_start_ns` and `op_end_ns` bound the kernel alone where the engine tells it apart,
    and are `start_ns` and `end_ns` elsewhere. `tensors` and `memory` point back at rows by
    `op_index`.

    Columns are not to be written to. `select` (or `ops[rows]`), `replace` and `concat` make others
    of them, over the same facts where that is possible.

    >>> facts = GraphFacts.build(name=["a", "b"], op=["Const", "Neg"], device=["/cpu:0"] * 2)
    >>> ops = OpColumns.over(
    ...     facts, node=[1, 0, 1], thread=[7, 7, 7],
    ...     scheduled_ns=[0, 5, 9], start_ns=[1, 6, 9], end_ns=[4, 8, 12],
    ... )
    >>> ops.name.tolist(), ops[1:].op.tolist(), ops[1:].facts is facts
    (['b', 'a', 'b'], ['Const', 'Neg'], True)
    """

    __slots__ = (
        "_devices",
        "_facts",
        "_labels",
        "_made_labels",
        "_memory",
        "_names",
        "_node",
        "_ops",
        "_output_bytes",
        "end_ns",
        "op_end_ns",
        "op_start_ns",
        "scheduled_ns",
        "start_ns",
        "step",
        "tensors",
        "thread",
        "thread_names",
    )

    thread: NDArray[np.int64]
    scheduled_ns: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    op_start_ns: NDArray[np.int64]
    op_end_ns: NDArray[np.int64]
    step: NDArray[np.int64]
    thread_names: Mapping[int, str]
    tensors: TensorColumns
    _memory: MemoryColumns | Callable[[], MemoryColumns]
    # Either facts and nodes are known, and text is looked up there when it is asked for; or text
    # is known, and the facts are made of it when they are asked for.
    _facts: GraphFacts | None
    _node: NDArray[np.int32] | None
    _names: StringColumn | None
    _ops: StringColumn | None
    _devices: StringColumn | None
    _labels: StringColumn | None
    _made_labels: StringColumn | None
    _output_bytes: NDArray[np.int64] | None

    @classmethod
    def over(
        cls,
        facts: GraphFacts,
        *,
        node: ArrayLike,
        thread: ArrayLike,
        scheduled_ns: ArrayLike,
        start_ns: ArrayLike,
        end_ns: ArrayLike,
        step: ArrayLike = 0,
        thread_names: Mapping[int, str] | None = None,
        tensors: TensorColumns | None = None,
        memory: MemoryColumns | Callable[[], MemoryColumns] | None = None,
        op_start_ns: ArrayLike | None = None,
        op_end_ns: ArrayLike | None = None,
    ) -> OpColumns:
        """Executions of a graph's nodes; `node` are rows of the facts, the rest as in `build`.

        What makes `memory` is called when somebody asks for it.
        """
        self = cls.__new__(cls)
        self._facts = facts
        self._node = node = np.asarray(node, dtype=np.int32)
        self._names = self._ops = self._devices = self._labels = None
        if len(node) and not 0 <= node.min() <= node.max() < len(facts):
            raise ValueError(f"node points outside the {len(facts)} nodes of the graph")
        self._add_numbers(
            len(node), thread, scheduled_ns, start_ns, end_ns, step,
            thread_names, tensors, memory, op_start_ns, op_end_ns,
        )  # fmt: skip
        return self

    @classmethod
    def build(
        cls,
        *,
        name: Sequence[str] | StringColumn,
        op: Sequence[str] | StringColumn,
        device: Sequence[str] | StringColumn,
        thread: ArrayLike,
        scheduled_ns: ArrayLike,
        start_ns: ArrayLike,
        end_ns: ArrayLike,
        step: ArrayLike = 0,
        label: Sequence[str] | StringColumn | None = None,
        thread_names: Mapping[int, str] | None = None,
        tensors: TensorColumns | None = None,
        memory: MemoryColumns | None = None,
        op_start_ns: ArrayLike | None = None,
        op_end_ns: ArrayLike | None = None,
    ) -> OpColumns:
        """From plain sequences, one entry per execution; `step` may be one number for all.

        The facts are those of the distinct nodes found, made when they are asked for. Text that
        UTF-8 cannot hold has escapes there, so that every run can be written; times are as
        `times_in_range` has them, so that they can be compared.
        """
        self = cls.__new__(cls)
        self._facts = self._node = None
        self._names = StringColumn.of(name).writable()
        self._ops = StringColumn.of(op).writable()
        self._devices = StringColumn.of(device).writable()
        self._labels = None if label is None else StringColumn.of(label).writable()
        self._add_numbers(
            len(self._names), thread, scheduled_ns, start_ns, end_ns, step,
            thread_names, tensors, memory, op_start_ns, op_end_ns,
        )  # fmt: skip
        return self

    def _add_numbers(
        self,
        rows: int,
        thread: ArrayLike,
        scheduled_ns: ArrayLike,
        start_ns: ArrayLike,
        end_ns: ArrayLike,
        step: ArrayLike,
        thread_names: Mapping[int, str] | None,
        tensors: TensorColumns | None,
        memory: MemoryColumns | Callable[[], MemoryColumns] | None,
        op_start_ns: ArrayLike | None,
        op_end_ns: ArrayLike | None,
    ) -> None:
        self.thread = _numbers(thread)
        self.scheduled_ns = times_in_range(scheduled_ns)
        self.start_ns = times_in_range(start_ns)
        self.end_ns = times_in_range(end_ns)
        self.op_start_ns = self.start_ns if op_start_ns is None else times_in_range(op_start_ns)
        self.op_end_ns = self.end_ns if op_end_ns is None else times_in_range(op_end_ns)
        self.step = np.full(rows, step, np.int64) if np.ndim(step) == 0 else _numbers(step)
        self.thread_names = {
            thread: writable(name) for thread, name in (thread_names or {}).items()
        }
        self.tensors = _NO_TENSORS if tensors is None else tensors
        self._memory = _NO_MEMORY if memory is None else memory
        self._output_bytes = self._made_labels = None
        self._check(rows)

    def _check(self, rows: int) -> None:
        lengths = {
            column: len(getattr(self, column))
            for column in ("thread", "scheduled_ns", "start_ns", "end_ns", "step")
        }
        if self.op_end_ns is not self.end_ns:
            lengths["op_end_ns"] = len(self.op_end_ns)
        if self.op_start_ns is not self.start_ns:
            lengths["op_start_ns"] = len(self.op_start_ns)
        texts = {"ops": self._ops, "devices": self._devices, "labels": self._labels}
        lengths |= {column: len(text) for column, text in texts.items() if text is not None}
        wrong = {column: length for column, length in lengths.items() if length != rows}
        if wrong:
            rows_of = "nodes" if self._names is None else "names"
            raise ValueError(f"{rows} {rows_of}, but columns of other lengths: {wrong}")
        self._check_rows(self.tensors)
        if not callable(self._memory):
            self._check_rows(self._memory)

    def _check_rows(self, part: TensorColumns | MemoryColumns) -> None:
        rows = len(self)
        if len(part) and not 0 <= part.op_index.min() <= part.op_index.max() < rows:
            raise ValueError(
                f"op_index of {type(part).__name__} points outside the {rows} rows of ops"
            )

    @classmethod
    def empty(cls) -> OpColumns:
        """No rows."""
        return cls.build(
            name=(), op=(), device=(), thread=(), scheduled_ns=(), start_ns=(), end_ns=()
        )

    # -- what follows from the node ------------------------------------------------------------

    @property
    def facts(self) -> GraphFacts:
        """What is known of the nodes, whether they ran or not."""
        facts = self._facts
        if facts is None:
            facts = self._find_nodes()
        return facts

    @property
    def node(self) -> NDArray[np.int32]:
        """Per row the node that was executed, as a row of `facts`."""
        if self._node is None:
            self._find_nodes()
        node = self._node
        assert node is not None
        return node

    def _find_nodes(self) -> GraphFacts:
        """Facts of the distinct nodes, in the order in which they first ran."""
        texts = [self.names, self.ops, self.devices]
        labels = self.labels
        if labels is not None:
            texts.append(labels)
        which = texts[0].codes.astype(np.int64)
        below = len(texts[0].table)
        for text in texts[1:]:
            # Numbers that tell the rows apart, made small again before they would overflow.
            if below * len(text.table) >= 1 << 62:
                which = distinct(which).codes
                below = len(which)
            which = which * len(text.table) + text.codes
            below *= len(text.table)
        codes, examples = distinct(which)
        facts = GraphFacts(
            names=texts[0][examples],
            ops=texts[1][examples],
            devices=texts[2][examples],
            labels=None if labels is None else labels[examples],
        )
        # The node first: who finds facts finds nodes.
        self._node = codes.astype(np.int32)
        self._facts = facts
        return facts

    @property
    def names(self) -> StringColumn:
        """The node's name per row."""
        if self._names is None:
            self._names = self.facts.names.look_up(self.node)
        return self._names

    @property
    def ops(self) -> StringColumn:
        """The op type per row."""
        if self._ops is None:
            self._ops = self.facts.ops.look_up(self.node)
        return self._ops

    @property
    def devices(self) -> StringColumn:
        """The device per row."""
        if self._devices is None:
            self._devices = self.facts.devices.look_up(self.node)
        return self._devices

    @property
    def labels(self) -> StringColumn | None:
        """The timeline label per row; None where nobody knows any."""
        facts = self._facts
        if self._labels is None and facts is not None and facts.labels is not None:
            self._labels = facts.labels.look_up(self.node)
        return self._labels

    @property
    def all_labels(self) -> StringColumn:
        """As `labels`, and made as `label` says where the engine gave none."""
        labels = self.labels or self._made_labels
        if labels is None:
            self._made_labels = labels = self.facts.all_labels.look_up(self.node)
        return labels

    @property
    def name(self) -> NDArray[Any]:
        """The node's name per row, as plain strings."""
        return self.names.values

    @property
    def op(self) -> NDArray[Any]:
        """The op type per row, as plain strings."""
        return self.ops.values

    @property
    def device(self) -> NDArray[Any]:
        """The device per row, as plain strings."""
        return self.devices.values

    @property
    def label(self) -> NDArray[Any]:
        """The timeline label per row; made of name and op type where the engine gave none."""
        return self.all_labels.values

    @property
    def names_table(self) -> tuple[str, ...]:
        """The distinct node names; `names.codes` are positions in it."""
        return self.names.table

    # -- what the run added --------------------------------------------------------------------

    @property
    def memory(self) -> MemoryColumns:
        """The memory that ops used, as far as it was recorded."""
        memory = self._memory
        if callable(memory):
            # Two threads may both make it: they make the same.
            memory = memory()
            self._check_rows(memory)
            self._memory = memory
        return memory

    @property
    def thread_name(self) -> NDArray[Any]:
        """The name of the thread per row, empty where it has none."""
        known = self.thread_names
        return StringColumn.of(known.get(thread, "") for thread in self.thread.tolist()).values

    @property
    def output_bytes(self) -> NDArray[np.int64]:
        """The bytes of all outputs per row; 0 where no outputs were recorded."""
        sizes = self._output_bytes
        if sizes is None:
            sizes = np.zeros(len(self), dtype=np.int64)
            np.add.at(sizes, self.tensors.op_index, self.tensors.bytes)
            self._output_bytes = sizes
        return sizes

    def __len__(self) -> int:
        return len(self.start_ns)

    # -- others made of these ------------------------------------------------------------------

    def _columns(self) -> dict[str, Any]:
        """What the run added, by the keywords of `over` and `build`."""
        return {
            "thread": self.thread,
            "scheduled_ns": self.scheduled_ns,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "step": self.step,
            "thread_names": self.thread_names,
            "tensors": self.tensors,
            "memory": self.memory,
            "op_start_ns": None if self.op_start_ns is self.start_ns else self.op_start_ns,
            "op_end_ns": None if self.op_end_ns is self.end_ns else self.op_end_ns,
        }

    def _texts(self) -> dict[str, Any]:
        return {"name": self.names, "op": self.ops, "device": self.devices, "label": self.labels}

    def replace(self, **columns: Any) -> OpColumns:
        """The rows with other columns, by the keywords of `build`; or with other facts.

        The facts stay the same object where no text is replaced. `op_start_ns` and `op_end_ns`
        follow `start_ns` and `end_ns` where the engine did not tell them apart.
        """
        changed = {**self._columns(), **columns}
        if _TEXTS & columns.keys():
            return OpColumns.build(**{**self._texts(), **changed})
        if "facts" in columns or self._facts is not None:
            changed.setdefault("node", self.node)
            return OpColumns.over(changed.pop("facts", self.facts), **changed)
        return OpColumns.build(**self._texts(), **changed)

    def select(self, rows: Any) -> OpColumns:
        """Rows by a mask, a list of indices or a slice, in that order, with what belongs to them.

        The facts stay the same object where they are known already.
        """
        chosen = np.arange(len(self))[rows]
        if chosen.ndim != 1:
            raise TypeError(
                f"rows of ops are selected by a mask, a list of indices or a slice, not by {rows!r}"
            )
        columns = self._columns()
        for column, values in columns.items():
            if isinstance(values, np.ndarray):
                columns[column] = values[chosen]
        if len(self.tensors) or len(self.memory):
            new_row = np.full(len(self), -1, dtype=np.int64)
            new_row[chosen] = np.arange(len(chosen))
            columns["tensors"] = self.tensors.for_rows(new_row)
            columns["memory"] = self.memory.for_rows(new_row)
        if self._facts is not None:
            return OpColumns.over(self._facts, node=self.node[chosen], **columns)
        texts = self._texts()
        for column, text in texts.items():
            texts[column] = None if text is None else text[chosen]
        return OpColumns.build(**texts, **columns)

    def __getitem__(self, rows: Any) -> OpColumns:
        return self.select(rows)

    @classmethod
    def concat(cls, parts: Sequence[OpColumns]) -> OpColumns:
        """The rows of several, one below the other.

        Parts over one facts object stay over it; the facts of others are joined, each object's
        once. Threads of the same number are taken for the same one.
        """
        names = {number: name for part in parts for number, name in part.thread_names.items()}
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            one = filled[0] if filled else parts[0] if parts else cls.empty()
            return one.replace(thread_names=names)
        rows = list(map(len, filled))
        each = [part._columns() for part in filled]
        columns: dict[str, Any] = {
            column: np.concatenate([part[column] for part in each])
            for column in ("thread", "scheduled_ns", "start_ns", "end_ns", "step")
        }
        for column in ("op_start_ns", "op_end_ns"):
            if any(part[column] is not None for part in each):
                columns[column] = np.concatenate([getattr(part, column) for part in filled])
        columns["thread_names"] = names
        columns["tensors"] = TensorColumns.concat([part.tensors for part in filled], rows)
        columns["memory"] = MemoryColumns.concat([part.memory for part in filled], rows)
        if all(part._facts is None for part in filled):
            return cls.build(**_joined_texts(filled), **columns)
        facts = {id(part.facts): part.facts for part in filled}
        first = dict(zip(facts, np.cumsum([0, *map(len, facts.values())]).tolist(), strict=False))
        node = np.concatenate([part.node + np.int32(first[id(part.facts)]) for part in filled])
        return cls.over(GraphFacts.concat(list(facts.values())), node=node, **columns)

    def __repr__(self) -> str:
        return (
            f"<OpColumns: {number(len(self), 'execution')} of "
            f"{number(len(np.unique(self.names.codes)), 'node')} on "
            f"{number(len(np.unique(self.devices.codes)), 'device')}>"
        )


def _joined_texts(parts: Sequence[OpColumns]) -> dict[str, Any]:
    has_labels = any(part.labels is not None for part in parts)
    return {
        "name": StringColumn.joined([part.names for part in parts]),
        "op": StringColumn.joined([part.ops for part in parts]),
        "device": StringColumn.joined([part.devices for part in parts]),
        "label": StringColumn.joined([part.all_labels for part in parts]) if has_labels else None,
    }
