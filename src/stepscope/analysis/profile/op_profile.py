"""Where the time went: executions summed by op type, name, layer, line, device or thread."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from stepscope.analysis.intervals import self_times
from stepscope.analysis.profile.layers import layers_of
from stepscope.analysis.profile.profile_sums import Batch, ProfileSums
from stepscope.analysis.profile.source_functions import SourceFunctions
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import NamedRun, Runs, iter_named_runs
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.together import decoded_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from stepscope.metadata import RunMetadata

    Ints: TypeAlias = NDArray[np.int64]
    Groups: TypeAlias = Callable[[RunMetadata], StringColumn]

By: TypeAlias = Literal[
    "type", "name", "layer", "line", "file", "function", "device", "thread", "scope"
]
GROUPINGS: tuple[str, ...] = get_args(By)
OLDER = {"op": "type", "source": "line"}
"""What groupings were called before, which is still understood."""
UNKNOWN = "(unknown)"
_BATCH = 250_000


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
    which anything ran, and `parallelism` (their ratio) exceeds 1. `not_ok` counts the runs that did
    not end well, by how they ended; of these not all ops may be there.
    """

    by: By
    rows: tuple[OpRow, ...]
    runs: int
    calls: int
    total_ns: int
    self_ns: int
    covered_ns: int
    not_ok: Mapping[str, int] = field(default_factory=dict)

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


def op_profile(runs: Runs, by: By | str = "type") -> OpProfile:
    """Sum up the executions of one run or of several.

    `by` groups them: "type" (of op), "name", "layer" (see `analysis.layers`; `layer_profile` has
    them as a tree), the "line", "file" or "function" of the program that made the op, "device",
    "thread", or "scope" (the name without its last part). Runs are looked at one after the other,
    so an iterator that loads them needs memory for a few at a time.
    """
    return made_of(profile_by(runs, *groups_by(by)), runs)


def groups_by(by: By | str) -> tuple[By, Groups]:
    """What `by` means, and what gives a run's executions their keys; a `ValueError` for no such."""
    chosen: Any = OLDER.get(by, by)
    if chosen not in GROUPINGS:
        raise ValueError(f"by must be one of {', '.join(GROUPINGS)}; it was {by!r}")
    return chosen, _GROUPS[chosen]()


def profile_by(runs: Runs, by: By, groups: Groups) -> OpProfile:
    """Sum up executions by what `groups` makes of those of a run: a key for each of its rows."""
    sums = ProfileSums()
    count = 0
    not_ok: Counter[str] = Counter()
    for batch in _batches(iter_named_runs(runs)):
        sums.add(_batch(groups, batch, count))
        count += len(batch)
        endings = (run.metadata.status for run in batch)
        not_ok.update(status.in_words for status in endings if not status.ok)
    open_time, covered_ns = sums.covered()
    p50, p90, p99 = sums.percentiles_per_run((50, 90, 99))
    whole = int(sums.own.sum())
    keys = list(sums.keys)
    used = np.flatnonzero(sums.calls).tolist()
    rows = tuple(
        OpRow(
            key=keys[i],
            op=sums.type_of[i] or "",
            device=sums.device_of[i] or "",
            calls=int(sums.calls[i]),
            total_ns=int(sums.total[i]),
            self_ns=int(sums.own[i]),
            covered_ns=int(open_time[i]),
            share=float(sums.own[i] / whole) if whole else 0.0,
            mean_ns=float(sums.total[i] / sums.calls[i]),
            max_ns=int(sums.longest[i]),
            p50_ns=float(p50[i]),
            p90_ns=float(p90[i]),
            p99_ns=float(p99[i]),
            bytes=int(sums.bytes[i]),
        )
        for i in sorted(used, key=lambda i: (-sums.own[i], keys[i]))
    )
    return OpProfile(
        by=by,
        rows=rows,
        runs=count,
        calls=int(sums.calls.sum()),
        total_ns=int(sums.total.sum()),
        self_ns=whole,
        covered_ns=covered_ns,
        not_ok=dict(not_ok),
    )


def _batches(runs: Iterator[NamedRun]) -> Iterator[list[NamedRun]]:
    """Runs together up to some number of executions: one by one, small runs would take long."""
    batch: list[NamedRun] = []
    rows = 0
    for run in decoded_ahead(runs, lambda run: run.metadata):
        if batch and len(run.metadata.ops) > _BATCH:
            # A large one by itself: its columns are then taken as they are.
            yield batch
            batch, rows = [], 0
        batch.append(run)
        rows += len(run.metadata.ops) + 1
        if rows > _BATCH:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _batch(groups: Groups, runs: list[NamedRun], first: int) -> Batch:
    if len(runs) == 1:
        ops = runs[0].metadata.ops
        return Batch(
            keys=groups(runs[0].metadata),
            types=ops.ops,
            devices=ops.devices,
            run=np.broadcast_to(np.int64(first), (len(ops),)),
            start=ops.start_ns,
            end=ops.end_ns,
            own=self_times(ops.start_ns, ops.end_ns, ops.thread),
            bytes=ops.output_bytes,
        )
    columns = [run.metadata.ops for run in runs]
    return Batch(
        keys=StringColumn.joined([groups(run.metadata) for run in runs]),
        types=StringColumn.joined([ops.ops for ops in columns]),
        devices=StringColumn.joined([ops.devices for ops in columns]),
        run=np.repeat(np.arange(first, first + len(runs)), [len(ops) for ops in columns]),
        start=_joined([ops.start_ns for ops in columns]),
        end=_joined([ops.end_ns for ops in columns]),
        # Threads of different runs may share a number: nesting is within one run.
        own=_joined([self_times(o.start_ns, o.end_ns, o.thread) for o in columns]),
        bytes=_joined([ops.output_bytes for ops in columns]),
    )


def _by_scope(run: RunMetadata) -> StringColumn:
    return _renamed(run.ops.names, lambda name: name.rpartition("/")[0] or "(top)")


def _by_line(run: RunMetadata) -> StringColumn:
    known = run.sources
    return _renamed(run.ops.names, lambda name: known.get(name) or UNKNOWN)


def _by_file(run: RunMetadata) -> StringColumn:
    known = run.sources
    return _renamed(run.ops.names, lambda name: known.get(name, "").rpartition(":")[0] or UNKNOWN)


def _by_function() -> Groups:
    functions = SourceFunctions()

    def by_function(run: RunMetadata) -> StringColumn:
        known, ops = run.sources, run.ops
        began = int(ops.start_ns.min()) if len(ops) else 0
        return _renamed(
            ops.names,
            lambda name: functions.at(known[name], began) if known.get(name) else UNKNOWN,
        )

    return by_function


def _by_layer(run: RunMetadata) -> StringColumn:
    keys = StringColumn.of([place.layer for place in layers_of(run)])
    return StringColumn(keys.codes[run.ops.node], keys.table)


def _by_thread(run: RunMetadata) -> StringColumn:
    ops = run.ops
    numbers = np.unique(ops.thread)
    codes = np.searchsorted(numbers, ops.thread)
    names = [
        UNKNOWN if not number else f"{ops.thread_names.get(number, 'thread')} {number}"
        for number in numbers.tolist()
    ]
    return StringColumn(codes.astype(np.int32), tuple(names))


_GROUPS: dict[str, Callable[[], Groups]] = {
    "type": lambda: lambda run: run.ops.ops,
    "name": lambda: lambda run: run.ops.names,
    "layer": lambda: _by_layer,
    "line": lambda: _by_line,
    "file": lambda: _by_file,
    "function": _by_function,
    "device": lambda: lambda run: run.ops.devices,
    "thread": lambda: _by_thread,
    "scope": lambda: _by_scope,
}


def _renamed(column: StringColumn, rename: Callable[[str], str]) -> StringColumn:
    """The column with each distinct string replaced; equal results become one."""
    seen: dict[str, int] = {}
    mapping = [seen.setdefault(rename(string), len(seen)) for string in column.table]
    codes = np.array(mapping, dtype=np.int32)[column.codes] if mapping else column.codes
    return StringColumn(codes, tuple(seen))


def _joined(parts: list[Any]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])
