"""Where the time went: executions summed by op type, name, scope, device, thread or line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from stepscope.analysis.intervals import covered, merged, self_times
from stepscope.analysis.result import Result
from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Codes: TypeAlias = NDArray[np.int32]

By: TypeAlias = Literal["op", "name", "scope", "device", "thread", "source"]
GROUPINGS: tuple[str, ...] = get_args(By)


@dataclass(frozen=True, slots=True)
class OpRow:
    """The executions that share a key.

    `op` and `device` are those of all executions in the row, or "" where they differ. `total_ns`
    is the sum over executions; `self_ns` leaves out what ran nested inside them on the same
    thread; `covered_ns` is the time in which at least one of them was running. `share` is the part
    of the profile's self time, 0 to 1. `p50_ns`, `p90_ns` and `p99_ns` are percentiles of the time
    per run, over the runs it took part in. `bytes` is the sum of what the executions put out.
    """

    key: str
    op: str
    device: str
    calls: int
    total_ns: int
    self_ns: int
    covered_ns: int
    share: float
    mean_ns: float
    max_ns: int
    p50_ns: float
    p90_ns: float
    p99_ns: float
    bytes: int


@dataclass(frozen=True, slots=True)
class OpProfile(Result):
    """Rows by self time, the largest first; equal ones by key.

    `self_ns` sums up executions: where ops ran side by side it exceeds `covered_ns`, the time in
    which anything ran, and `parallelism` (their ratio) exceeds 1.
    """

    by: By
    rows: tuple[OpRow, ...]
    runs: int
    calls: int
    total_ns: int
    self_ns: int
    covered_ns: int

    @property
    def parallelism(self) -> float:
        """How many ops ran at once, on average over the time in which any did."""
        return self.self_ns / self.covered_ns if self.covered_ns else 0.0

    def __iter__(self) -> Iterator[OpRow]:
        """Over the rows, the most expensive first."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)


def op_profile(runs: Runs, by: By = "op") -> OpProfile:
    """Sum up the executions of one run or of several.

    `by` groups them: "op" (type), "name", "scope" (the name without its last part), "device",
    "thread" or "source" (the line that made the op).
    """
    if by not in GROUPINGS:
        raise ValueError(f"by must be one of {', '.join(GROUPINGS)}; it was {by!r}")
    named = named_runs(runs)
    columns = [run.metadata.ops for run in named]
    types = StringColumn.joined([ops.ops for ops in columns])
    devices = StringColumn.joined([ops.devices for ops in columns])
    groups = _groups(by, named, types, devices)
    keys, codes = groups.table, groups.codes
    count = len(keys)

    start, end = _joined([ops.start_ns for ops in columns]), _joined([o.end_ns for o in columns])
    spent = np.maximum(end - start, 0)
    run_of = np.repeat(np.arange(len(columns)), [len(ops) for ops in columns])
    # Threads of different runs may share a number: nesting is within one run.
    own = _joined([self_times(o.start_ns, o.end_ns, o.thread) for o in columns])
    calls = np.bincount(codes, minlength=count)
    total, own_total = _summed(codes, spent, count), _summed(codes, own, count)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, codes, spent)
    output = _summed(codes, _joined([ops.output_bytes for ops in columns]), count)
    open_time = covered(start, end, codes, count)
    p50, p90, p99 = _percentiles_per_run(codes, run_of, spent, count, (50, 90, 99))
    type_of, device_of = _shared(codes, types, count), _shared(codes, devices, count)

    whole = int(own_total.sum())
    firsts, lasts = merged(start, end)
    order = sorted(np.flatnonzero(calls).tolist(), key=lambda i: (-own_total[i], keys[i]))
    rows = tuple(
        OpRow(
            key=keys[i],
            op=type_of[i],
            device=device_of[i],
            calls=int(calls[i]),
            total_ns=int(total[i]),
            self_ns=int(own_total[i]),
            covered_ns=int(open_time[i]),
            share=float(own_total[i] / whole) if whole else 0.0,
            mean_ns=float(total[i] / calls[i]),
            max_ns=int(longest[i]),
            p50_ns=float(p50[i]),
            p90_ns=float(p90[i]),
            p99_ns=float(p99[i]),
            bytes=int(output[i]),
        )
        for i in order
    )
    return OpProfile(
        by=by,
        rows=rows,
        runs=len(columns),
        calls=len(codes),
        total_ns=int(total.sum()),
        self_ns=whole,
        covered_ns=int((lasts - firsts).sum()),
    )


def _groups(
    by: By, runs: list[NamedRun], types: StringColumn, devices: StringColumn
) -> StringColumn:
    columns = [run.metadata.ops for run in runs]
    if by == "op":
        return types
    if by == "device":
        return devices
    if by == "thread":
        return StringColumn.joined([_threads(ops) for ops in columns])
    if by == "name":
        return StringColumn.joined([ops.names for ops in columns])
    if by == "scope":
        return StringColumn.joined([_renamed(ops.names, _scope_of) for ops in columns])
    sources = [run.metadata.sources for run in runs]
    return StringColumn.joined(
        [
            _renamed(ops.names, lambda name, known=known: known.get(name, "(unknown)"))
            for ops, known in zip(columns, sources, strict=True)
        ]
    )


def _scope_of(name: str) -> str:
    return name.rpartition("/")[0] or "(top)"


def _threads(ops: Any) -> StringColumn:
    numbers, codes = np.unique(ops.thread, return_inverse=True)
    names = [
        "(unknown)" if not number else f"{ops.thread_names.get(number, 'thread')} {number}"
        for number in numbers.tolist()
    ]
    return StringColumn(codes.astype(np.int32), tuple(names))


def _renamed(column: StringColumn, rename: Any) -> StringColumn:
    """The column with each distinct string replaced; equal results become one."""
    seen: dict[str, int] = {}
    mapping = [seen.setdefault(rename(string), len(seen)) for string in column.table]
    codes = np.array(mapping, dtype=np.int32)[column.codes] if mapping else column.codes
    return StringColumn(codes, tuple(seen))


def _joined(parts: list[Any]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _summed(codes: Codes, values: Ints, count: int) -> Ints:
    """The sum of `values` per code, in integers throughout: a float would round large sums."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, codes, values)
    return sums


def _percentiles_per_run(
    codes: Codes, run_of: Ints, spent: Ints, count: int, percentiles: tuple[int, ...]
) -> list[NDArray[np.float64]]:
    """Per code, percentiles of its time per run, over the runs that have it."""
    runs = int(run_of.max()) + 1 if len(run_of) else 1
    pairs, place = np.unique(codes.astype(np.int64) * runs + run_of, return_inverse=True)
    per_run = _summed(place.astype(np.int32), spent, len(pairs))
    group = pairs // runs
    order = np.lexsort((per_run, group))
    values = per_run[order].astype(np.float64)
    size = np.bincount(group, minlength=count)
    first = np.cumsum(size) - size
    results = []
    for percentile in percentiles:
        position = (size - 1).clip(0) * (percentile / 100)
        low = first + np.floor(position).astype(np.int64)
        high = first + np.ceil(position).astype(np.int64)
        if not len(values):
            results.append(np.zeros(count))
            continue
        below, above = (values[p.clip(0, len(values) - 1)] for p in (low, high))
        results.append(below + (above - below) * (position - np.floor(position)))
    return results


def _shared(codes: Codes, of: StringColumn, count: int) -> list[str]:
    """For each code the one string its executions share, or "" where they have several."""
    lowest = np.full(count, len(of.table), np.int64)
    highest = np.full(count, -1, np.int64)
    np.minimum.at(lowest, codes, of.codes)
    np.maximum.at(highest, codes, of.codes)
    pairs = zip(lowest.tolist(), highest.tolist(), strict=True)
    return [of.table[low] if low == high else "" for low, high in pairs]
