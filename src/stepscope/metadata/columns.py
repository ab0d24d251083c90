"""`OpColumns`: the executions of a run, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.labels import make_label
from stepscope.metadata.memory import MemoryColumns, TensorColumns, times_in_range
from stepscope.metadata.readable import number
from stepscope.metadata.row_groups import rows_alike
from stepscope.metadata.strings import StringColumn, writable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["OpColumns"]


def _numbers(values: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


class OpColumns:
    """The executions of a run as columns; `len()` is how many there were.

    Strings: `name`, `op` (its type), `device`, `thread_name`, `label` (TensorFlow's timeline
    label). Numbers (int64): `thread`, `step`, `output_bytes`, and in nanoseconds since the epoch
    `scheduled_ns`, `start_ns`, `end_ns`: when the op became ready, when its turn began, when it
    was over. `op_start_ns` and `op_end_ns` bound the kernel alone where the engine tells it apart,
    and are `start_ns` and `end_ns` elsewhere. `tensors` and `memory` point back at rows by
    `op_index`. `ops[mask]` (or indices, or a slice) selects rows.

    Columns are not to be written to. A node that ran more than once has a row for each time.
    """

    __slots__ = (
        "_label",
        "_output_bytes",
        "devices",
        "end_ns",
        "labels",
        "memory",
        "names",
        "op_end_ns",
        "op_start_ns",
        "ops",
        "scheduled_ns",
        "start_ns",
        "step",
        "tensors",
        "thread",
        "thread_names",
    )

    names: StringColumn
    ops: StringColumn
    devices: StringColumn
    labels: StringColumn | None
    thread: NDArray[np.int64]
    scheduled_ns: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    op_start_ns: NDArray[np.int64]
    op_end_ns: NDArray[np.int64]
    step: NDArray[np.int64]
    thread_names: Mapping[int, str]
    tensors: TensorColumns
    memory: MemoryColumns
    _label: StringColumn | None
    _output_bytes: NDArray[np.int64] | None

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

        Text that UTF-8 cannot hold has escapes there, so that every run can be written; times are
        as `times_in_range` has them, so that they can be compared.
        """
        self = cls.__new__(cls)
        self.names = StringColumn.of(name).writable()
        self.ops = StringColumn.of(op).writable()
        self.devices = StringColumn.of(device).writable()
        self.labels = None if label is None else StringColumn.of(label).writable()
        self.thread = _numbers(thread)
        self.scheduled_ns = times_in_range(scheduled_ns)
        self.start_ns = times_in_range(start_ns)
        self.end_ns = times_in_range(end_ns)
        self.op_start_ns = self.start_ns if op_start_ns is None else times_in_range(op_start_ns)
        self.op_end_ns = self.end_ns if op_end_ns is None else times_in_range(op_end_ns)
        rows = len(self.names)
        self.step = np.full(rows, step, np.int64) if np.ndim(step) == 0 else _numbers(step)
        self.thread_names = {
            thread: writable(name) for thread, name in (thread_names or {}).items()
        }
        self.tensors = TensorColumns.empty() if tensors is None else tensors
        self.memory = MemoryColumns.empty() if memory is None else memory
        self._output_bytes = None
        self._label = None
        self._check(rows)
        return self

    def _check(self, rows: int) -> None:
        lengths = {
            column: len(getattr(self, column))
            for column in (
                *("names", "ops", "devices", "thread", "scheduled_ns", "start_ns", "end_ns"),
                *("op_start_ns", "op_end_ns", "step"),
            )
        }
        if self.op_end_ns is self.end_ns:
            del lengths["op_end_ns"]
        if self.op_start_ns is self.start_ns:
            del lengths["op_start_ns"]
        if self.labels is not None:
            lengths["labels"] = len(self.labels)
        wrong = {column: length for column, length in lengths.items() if length != rows}
        if wrong:
            raise ValueError(f"{rows} names, but columns of other lengths: {wrong}")
        for part in (self.tensors, self.memory):
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

    @property
    def name(self) -> NDArray[Any]:
        """The node's name per row."""
        return self.names.values

    @property
    def op(self) -> NDArray[Any]:
        """The op type per row."""
        return self.ops.values

    @property
    def device(self) -> NDArray[Any]:
        """The device per row."""
        return self.devices.values

    @property
    def thread_name(self) -> NDArray[Any]:
        """The name of the thread per row, empty where it has none."""
        known = self.thread_names
        return StringColumn.of(known.get(thread, "") for thread in self.thread.tolist()).values

    @property
    def label(self) -> NDArray[Any]:
        """The timeline label per row; made of name and op type where the engine gave none."""
        return self.all_labels.values

    @property
    def all_labels(self) -> StringColumn:
        """As `labels`, and made as `label` says where the engine gave none."""
        labels = self.labels or self._label
        if labels is None:
            codes, examples = rows_alike((self.names.codes, self.ops.codes))
            made = [make_label(self.name[row], self.op[row]) for row in examples]
            self._label = labels = StringColumn.of(made)[codes]
        return labels

    @property
    def names_table(self) -> tuple[str, ...]:
        """The distinct node names; `names.codes` are positions in it."""
        return self.names.table

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
        return len(self.names)

    def __getitem__(self, rows: Any) -> OpColumns:
        chosen = np.arange(len(self))[rows]
        if chosen.ndim != 1:
            raise TypeError(
                f"rows of ops are selected by a mask, a list of indices or a slice, not by {rows!r}"
            )
        new_row = np.full(len(self), -1, dtype=np.int64)
        new_row[chosen] = np.arange(len(chosen))
        return OpColumns.build(
            name=self.names[chosen],
            op=self.ops[chosen],
            device=self.devices[chosen],
            thread=self.thread[chosen],
            scheduled_ns=self.scheduled_ns[chosen],
            start_ns=self.start_ns[chosen],
            end_ns=self.end_ns[chosen],
            op_start_ns=self.op_start_ns[chosen],
            op_end_ns=self.op_end_ns[chosen],
            step=self.step[chosen],
            label=None if self.labels is None else self.labels[chosen],
            thread_names=self.thread_names,
            tensors=self.tensors.for_rows(new_row),
            memory=self.memory.for_rows(new_row),
        )

    def __repr__(self) -> str:
        return (
            f"<OpColumns: {number(len(self), 'execution')} of "
            f"{number(len(np.unique(self.names.codes)), 'node')} on "
            f"{number(len(np.unique(self.devices.codes)), 'device')}>"
        )
