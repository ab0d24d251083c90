"""How much work executions did, how fast, and how near that is to what the machine reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.intervals import self_times
from stepscope.analysis.profile.op_profile import By, groups_by
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import Runs, iter_named_runs
from stepscope.analysis.work.machine import Reach
from stepscope.analysis.work.run_work import UNCOUNTED, WorkOfRuns

__all__ = ["Lack", "WorkProfile", "WorkRow", "work_profile"]


@dataclass(frozen=True, slots=True)
class WorkRow:
    """The executions that share a key.

    `flops` and `bytes` are sums over those executions whose work is known, `uncounted` are how many
    are not: of these neither operations nor time is in the rates. `flops_per_s` and `bytes_per_s`
    are per second of self time; `intensity` is operations per byte. `reach` is the least time that
    the work takes on the machine, as a part of what it took: above 1 where data stayed in caches.
    `bound` says which of the two takes that time, "compute" or "memory". Without a `Reach`, or
    where nothing is known, `reach` is 0 and `bound` empty.
    """

    key: str
    calls: int
    self_ns: int
    share: float
    flops: int
    bytes: int
    uncounted: int
    flops_per_s: float
    bytes_per_s: float
    intensity: float
    reach: float
    bound: str


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that was missing to count work, and for how many executions."""

    what: str
    calls: int


@dataclass(frozen=True, slots=True)
class WorkProfile(Result):
    """Rows by self time, the largest first; `machine` is what they are compared with."""

    by: By
    rows: tuple[WorkRow, ...]
    runs: int
    calls: int
    self_ns: int
    flops: int
    bytes: int
    uncounted: int
    machine: Reach | None
    lacking: tuple[Lack, ...] = ()

    def __iter__(self) -> Iterator[WorkRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class _Sums:
    """Sums by key, in the order of `_FIELDS`."""

    _FIELDS = ("calls", "self_ns", "flops", "bytes", "uncounted", "counted_ns", "least_ns", "bound")

    def __init__(self) -> None:
        self.of: dict[str, list[float]] = {}

    def add(self, keys: tuple[str, ...], columns: list[np.ndarray]) -> None:
        for place, key in enumerate(keys):
            sums = self.of.setdefault(key, [0] * len(columns))
            for at, column in enumerate(columns):
                sums[at] += column[place].item()


def work_profile(runs: Runs, by: By | str = "type", machine: Reach | None = None) -> WorkProfile:
    """Sum up the work of one run's executions or of several.

    `by` groups them as `op_profile` does. `machine`, as `machine_reach` measures it, is what the
    rates are compared with. Shapes have to be recorded, as a full trace does; `lacking` says where
    they are not.
    """
    chosen, groups = groups_by(by)
    reach = machine or Reach(float("inf"), float("inf"))
    work_of, sums = WorkOfRuns(), _Sums()
    count, lacking = 0, Counter[str]()
    for run in iter_named_runs(runs):
        count += 1
        ops = run.metadata.ops
        work = work_of.of(run.metadata)
        lacking.update(work.lacking)
        own = self_times(ops.start_ns, ops.end_ns, ops.thread)
        known = work.flops != UNCOUNTED
        flops = np.where(known, work.flops, 0)
        moved = np.where(known & (work.bytes != UNCOUNTED), work.bytes, 0)
        by_flops, by_bytes = 1e9 * flops / reach.flops_per_s, 1e9 * moved / reach.bytes_per_s
        keys = groups(run.metadata)
        columns = [
            np.bincount(keys.codes, weights, len(keys.table))
            for weights in (
                np.ones(len(own)), own, flops, moved, ~known, own * known,
                np.maximum(by_flops, by_bytes), np.where(by_flops >= by_bytes, by_flops, -by_bytes),
            )
        ]  # fmt: skip
        sums.add(keys.table, columns)
    whole = sum(found[1] for found in sums.of.values())
    rows = [
        _row(key, found, whole, machine is not None) for key, found in sums.of.items() if found[0]
    ]
    rows.sort(key=lambda row: (-row.self_ns, row.key))
    return made_of(
        WorkProfile(
            by=chosen,
            rows=tuple(rows),
            runs=count,
            calls=sum(row.calls for row in rows),
            self_ns=int(whole),
            flops=sum(row.flops for row in rows),
            bytes=sum(row.bytes for row in rows),
            uncounted=sum(row.uncounted for row in rows),
            machine=machine,
            lacking=tuple(Lack(what, calls) for what, calls in lacking.most_common()),
        ),
        runs,
    )


def _row(key: str, found: list[float], whole: float, compared: bool) -> WorkRow:
    calls, own, flops, moved, uncounted, counted, least, bound = found
    rated = compared and counted > 0 and least > 0
    return WorkRow(
        key=key,
        calls=int(calls),
        self_ns=int(own),
        share=own / whole if whole else 0.0,
        flops=int(flops),
        bytes=int(moved),
        uncounted=int(uncounted),
        flops_per_s=1e9 * flops / counted if counted else 0.0,
        bytes_per_s=1e9 * moved / counted if counted else 0.0,
        intensity=flops / moved if moved else 0.0,
        reach=least / counted if rated else 0.0,
        bound=("compute" if bound > 0 else "memory") if rated else "",
    )
