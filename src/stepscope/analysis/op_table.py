"""Where the time went: executions summed by op type, by node or by device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from stepscope.analysis.runs import Runs, named_runs
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Codes: TypeAlias = NDArray[np.int32]

By: TypeAlias = Literal["op", "name", "device"]
_GROUPINGS = ("op", "name", "device")


@dataclass(frozen=True, slots=True)
class OpRow:
    """The executions that share a key.

    `op` and `device` are those of all executions in the row, or "" where they differ. `bytes` is
    the sum of what the executions put out. `share` is the part of the table's total time, 0 to 1.
    """

    key: str
    op: str
    device: str
    calls: int
    total_ns: int
    mean_ns: float
    max_ns: int
    bytes: int
    share: float


@dataclass(frozen=True, slots=True)
class OpTable:
    """Rows by total time, the largest first; equal ones by key.

    Times are summed over executions: where ops ran side by side the total exceeds the time that
    passed.
    """

    by: By
    rows: tuple[OpRow, ...]
    runs: int
    calls: int
    total_ns: int

    def __iter__(self) -> Iterator[OpRow]:
        """Over the rows, the most expensive first."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)


def op_table(runs: Runs, by: By = "op") -> OpTable:
    """Sum up the executions of one run or of several, grouped by op type, node name or device."""
    if by not in _GROUPINGS:
        raise ValueError(f"by must be one of {', '.join(_GROUPINGS)}; it was {by!r}")
    columns = [run.metadata.ops for run in named_runs(runs)]
    types = StringColumn.joined([ops.ops for ops in columns])
    devices = StringColumn.joined([ops.devices for ops in columns])
    if by == "op":
        groups = types
    elif by == "device":
        groups = devices
    else:
        groups = StringColumn.joined([ops.names for ops in columns])

    keys, codes = groups.table, groups.codes
    count = len(keys)
    spent = _joined([ops.end_ns - ops.start_ns for ops in columns])
    calls = np.bincount(codes, minlength=count)
    total = _summed(codes, spent, count)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, codes, spent)
    output = _summed(codes, _joined([ops.output_bytes for ops in columns]), count)
    type_of = _shared(codes, types, count)
    device_of = _shared(codes, devices, count)

    total_ns = int(total.sum())
    order = sorted(np.flatnonzero(calls), key=lambda i: (-total[i], keys[i]))
    rows = tuple(
        OpRow(
            key=keys[i],
            op=type_of[i],
            device=device_of[i],
            calls=int(calls[i]),
            total_ns=int(total[i]),
            mean_ns=float(total[i] / calls[i]),
            max_ns=int(longest[i]),
            bytes=int(output[i]),
            share=float(total[i] / total_ns) if total_ns else 0.0,
        )
        for i in order
    )
    return OpTable(by=by, rows=rows, runs=len(columns), calls=len(codes), total_ns=total_ns)


def _joined(parts: list[Any]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _summed(codes: Codes, values: Ints, count: int) -> Ints:
    """The sum of `values` per code, in integers throughout: a float would round large sums."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, codes, values)
    return sums


def _shared(codes: Codes, of: StringColumn, count: int) -> list[str]:
    """For each code the one string its executions share, or "" where they have several."""
    lowest = np.full(count, len(of.table), np.int64)
    highest = np.full(count, -1, np.int64)
    np.minimum.at(lowest, codes, of.codes)
    np.maximum.at(highest, codes, of.codes)
    pairs = zip(lowest.tolist(), highest.tolist(), strict=True)
    return [of.table[low] if low == high else "" for low, high in pairs]
