"""Is the new program slower or larger than the old one, and where?

Per node, and for the whole, the times of many runs on each side are compared with a test that
assumes no distribution (see `rank_test`), corrected for the number of nodes, and a difference
counts only if it is also large enough to matter.

A machine is faster in one minute than in the next, and all ops with it. So the times of a node are
compared after dividing each run by its speed: the median, over the nodes, of how its times relate
to their usual ones. A change in most of the nodes at once is then a change of `total`, not of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from stepscope.analysis.rank_test import Comparison, compare, holm
from stepscope.analysis.result import Result
from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

By: TypeAlias = Literal["name", "op"]
_ENOUGH_FOR_SPEED = 10


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One quantity on both sides.

    `base` and `new` are medians over the runs (nanoseconds or bytes); `change` is how much larger
    new runs are (0.1 is 10%), `low` to `high` its confidence interval; `effect` is Cliff's delta.
    `p` is corrected for the number of quantities. `significant` means that p is below the level
    and the change at least the least that counts.
    """

    name: str
    op: str
    metric: str
    base: float
    new: float
    change: float
    low: float
    high: float
    effect: float
    p: float
    significant: bool

    @property
    def difference(self) -> float:
        """What the change amounts to, in the metric's unit."""
        return self.new - self.base


@dataclass(frozen=True, slots=True)
class Diff(Result):
    """`rows`: nodes by how much they changed the whole, the largest first.

    `total` is the summed time of all ops per run, `memory` the peak per device. `appeared` and
    `gone` are nodes of one side only, with their median time per run. `notes` say what limits the
    comparison.
    """

    rows: tuple[DiffRow, ...]
    total: DiffRow
    memory: tuple[DiffRow, ...]
    appeared: dict[str, float]
    gone: dict[str, float]
    base_runs: int
    new_runs: int
    level: float
    least: float
    notes: tuple[str, ...] = field(default=())

    def regressions(
        self, time: float | None = 0.05, memory: float | None = 0.01
    ) -> tuple[DiffRow, ...]:
        """What became significantly worse by more than so much; None leaves a metric out."""
        bounds = {"time": time, "memory": memory}
        every = (self.total, *self.rows, *self.memory)
        return tuple(
            row
            for row in every
            if row.significant and (bound := bounds[row.metric]) is not None and row.change > bound
        )


def diff(
    base_runs: Runs, new_runs: Runs, *, by: By = "name", level: float = 0.05, least: float = 0.03
) -> Diff:
    """Compare two sets of runs of a program.

    `level` is the chance of any false alarm among all nodes that is accepted, `least` the smallest
    relative change of time that counts.
    """
    if by not in ("name", "op"):
        raise ValueError(f"by must be 'name' or 'op'; it was {by!r}")
    base, new = named_runs(base_runs), named_runs(new_runs)
    if not base or not new:
        raise ValueError(f"diff needs runs on both sides; found {len(base)} and {len(new)}")
    keys, types, table = _times(base + new, by)
    old, young = table[:, : len(base)], table[:, len(base) :]
    in_base, in_new = (old > 0).any(axis=1), (young > 0).any(axis=1)
    both = np.flatnonzero(in_base & in_new)

    whole = table.sum(axis=0, keepdims=True)
    speed = _speed(table[both])
    adjusted = table[both] / speed
    times = _compare(adjusted[:, : len(base)], adjusted[:, len(base) :])
    total = _compare(whole[:, : len(base)], whole[:, len(base) :])
    corrected = holm(np.concatenate([times.p, total.p]))

    def row(name: str, op: str, values: Floats, found: Comparison, i: int, p: float) -> DiffRow:
        before, after = np.median(values[: len(base)]), np.median(values[len(base) :])
        change = float(np.expm1(found.shift[i]))
        return DiffRow(
            name=name, op=op, metric="time", base=float(before), new=float(after), change=change,
            low=float(np.expm1(found.low[i])), high=float(np.expm1(found.high[i])),
            effect=float(found.effect[i]), p=p, significant=p < level and abs(change) >= least,
        )  # fmt: skip

    rows = [
        row(keys[k], types[k], table[k], times, i, float(corrected[i]))
        for i, k in enumerate(both.tolist())
    ]
    rows.sort(key=lambda r: (not r.significant, -abs(r.base * r.change), r.name))
    return Diff(
        rows=tuple(rows),
        total=row("total", "", whole[0], total, 0, float(corrected[-1])),
        memory=_memory(base, new, level),
        appeared=_medians(keys, table, np.flatnonzero(in_new & ~in_base)),
        gone=_medians(keys, table, np.flatnonzero(in_base & ~in_new)),
        base_runs=len(base),
        new_runs=len(new),
        level=level,
        least=least,
        notes=tuple(_notes(len(base), len(new), len(both))),
    )


def _times(runs: list[NamedRun], by: By) -> tuple[tuple[str, ...], list[str], Floats]:
    """Names, op types, and the time of each name in each run."""
    columns = [run.metadata.ops for run in runs]
    names = StringColumn.joined([ops.names if by == "name" else ops.ops for ops in columns])
    types = StringColumn.joined([ops.ops for ops in columns])
    run_of = np.repeat(np.arange(len(runs)), [len(ops) for ops in columns])
    spent = np.concatenate([np.maximum(ops.end_ns - ops.start_ns, 0) for ops in columns])
    place = names.codes.astype(np.int64) * len(runs) + run_of
    count = len(names.table)
    table: Floats = np.bincount(place, weights=spent, minlength=count * len(runs)).astype(float)
    of_name = np.zeros(count, np.int64)
    of_name[names.codes] = types.codes
    kinds = [types.table[code] for code in of_name.tolist()] if types.table else []
    return names.table, kinds, table.reshape(count, len(runs))


def _speed(table: Floats) -> Floats:
    """How slow each run was, 1 being usual, by the median node that all runs have."""
    everywhere = table[(table > 0).all(axis=1)]
    if len(everywhere) < _ENOUGH_FOR_SPEED:
        return np.ones(table.shape[1])
    usual = np.median(everywhere, axis=1, keepdims=True)
    factor: Floats = np.median(everywhere / usual, axis=0)
    return factor


def _compare(base: Floats, new: Floats) -> Comparison:
    """On logarithms: a change is a factor. A node that took no time in a run took half a ns."""
    return compare(np.log(np.maximum(base, 0.5)), np.log(np.maximum(new, 0.5)))


def _medians(keys: tuple[str, ...], table: Floats, rows: NDArray[np.intp]) -> dict[str, float]:
    found = {keys[k]: float(np.median(table[k][table[k] > 0])) for k in rows.tolist()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _memory(base: list[NamedRun], new: list[NamedRun], level: float) -> tuple[DiffRow, ...]:
    runs = [run.metadata for run in base + new]
    devices = sorted({device for run in runs for device in run.allocations.devices.table})
    if not devices:
        devices = sorted({device for run in runs for device in set(run.ops.devices.table)})
    peaks = np.array([[run.peak_bytes(device) for run in runs] for device in devices], float)
    known = [d for d in range(len(devices)) if peaks[d].any()]
    if not known:
        return ()
    peaks = peaks[known]
    old, young = peaks[:, : len(base)], peaks[:, len(base) :]
    found = _compare(old, young)
    corrected = holm(found.p)
    rows = []
    for i, device in enumerate(known):
        # Bytes are counted, not measured: what is the same in every run needs no test.
        exact = len(set(old[i])) == len(set(young[i])) == 1 and min(len(base), len(new)) > 1
        p = (0.0 if old[i][0] != young[i][0] else 1.0) if exact else float(corrected[i])
        change = float(np.expm1(found.shift[i]))
        rows.append(
            DiffRow(
                name=f"peak of {devices[device]}",
                op="",
                metric="memory",
                base=float(np.median(old[i])),
                new=float(np.median(young[i])),
                change=change,
                low=float(np.expm1(found.low[i])),
                high=float(np.expm1(found.high[i])),
                effect=float(found.effect[i]),
                p=p,
                significant=p < level,
            )
        )
    return tuple(rows)


def _notes(base: int, new: int, nodes: int) -> list[str]:
    notes = []
    fewest = min(base, new)
    if fewest < 4:
        notes.append(
            f"with {base} against {new} runs no difference of time can be significant; "
            "record at least 4 on each side, better 30"
        )
    elif fewest < 10 and nodes > 20:
        notes.append(
            f"{base} against {new} runs are few for {nodes} nodes: only the total and very clear "
            "changes can be significant"
        )
    if nodes < _ENOUGH_FOR_SPEED:
        notes.append(
            f"only {nodes} nodes are on both sides: how fast the machine was in each run cannot "
            "be told apart from the nodes themselves"
        )
    return notes
