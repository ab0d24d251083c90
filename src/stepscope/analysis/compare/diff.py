"""Is the new program slower or larger than the old one, and where?

Per node, and for the whole, the times of many runs on each side are compared with a test that
assumes no distribution (see `times_test`), corrected for the number of nodes: the accepted chance
of any false alarm is shared out among them by the time they take and by how well a change of theirs
would show. A difference counts only if it is also large enough to matter, in itself and for the
whole: where the memory of a small op happens to lie may change its time by a third. Nodes that make
up the last tenth of the time are listed and not tested: they are many, and hardly matter together.

A machine is faster in one minute than in the next, and all ops with it. So a node's change is told
against what most nodes have in common. That is a change of `total`, if the sets were recorded in
turns; if one was recorded after the other it may as well be the machine, and is told in `notes`. In
turns the machine is the same for both sides, so what nodes have in common counts only as far as it
exceeds what the median of so many differing nodes is by chance. What was slow in a single run, by
all the other nodes, is taken out of a node's times (see `pace`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from stepscope.analysis.compare.pace import steadied
from stepscope.analysis.compare.peak_owners import PeakOwner, peak_owners
from stepscope.analysis.compare.rank_test import Comparison, compare, holm
from stepscope.analysis.compare.times_test import FEWEST_RUNS, Turns, compare_times, undisturbed
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.errors import StepscopeError
from stepscope.metadata.outcome import NOT_KNOWN
from stepscope.metadata.readable import number
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

By: TypeAlias = Literal["name", "op"]
_ENOUGH_FOR_SPEED = 10
_TESTED_PART = 0.9
_MATTERS = 0.005
_MATTERS_OF_NODE = 0.25
_MACHINE_TOLD = 0.03
_CHANCE = 2.5
_OF_TOTAL = 0.1
_MEANT = 0.1
_TELLING = 0.6


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One quantity on both sides.

    `base` and `new` are medians over the runs (nanoseconds or bytes); `change` is how much larger
    new runs are (0.1 is 10%), by their undisturbed times, `low` to `high` its confidence interval;
    `effect` is Cliff's delta. A node's change is told against what most nodes changed by. `p` is
    corrected for the number of quantities; it is 1 for nodes too small to be tested.
    `significant` means that p is below the level, that the change is at least the least that
    counts, and that it matters for the whole: it makes up half a percent of all time, or, in a
    program of many nodes, a quarter of what an average node takes.
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

    `total` is the summed time of all ops per run, `memory` the peak per device, `peaks` who held
    the peak of a typical run on each side. `appeared` and
    `gone` are nodes of one side only, with their median time per run. `notes` say what limits the
    comparison. Runs that did not end well are not compared, as they may have stopped half way:
    `base_left_out` and `new_left_out` count them, by how they ended.
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
    base_left_out: dict[str, int] = field(default_factory=dict)
    new_left_out: dict[str, int] = field(default_factory=dict)
    peaks: tuple[PeakOwner, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether runs of the new program failed, and none of the old one."""
        return bool(self.new_left_out.keys() - {NOT_KNOWN} and not self.base_left_out)

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
    relative change of time that counts. `StepscopeError` where no run of a side ended well.
    """
    if by not in ("name", "op"):
        raise ValueError(f"by must be 'name' or 'op'; it was {by!r}")
    base, new = named_runs(base_runs), named_runs(new_runs)
    if not base or not new:
        raise ValueError(f"diff needs runs on both sides; found {len(base)} and {len(new)}")
    base, base_left_out = _that_ended_well(base, "base")
    new, new_left_out = _that_ended_well(new, "new")
    keys, types, table = _times(base + new, by)
    old, young = table[:, : len(base)], table[:, len(base) :]
    in_base, in_new = (old > 0).any(axis=1), (young > 0).any(axis=1)
    both = np.flatnonzero(in_base & in_new)
    found = _judge(table, both, len(base), _turns(base, new))

    def row(name: str, op: str, values: Floats, i: int) -> DiffRow:
        change, p = float(np.expm1(found.times.shift[i])), float(found.times.p[i])
        return DiffRow(
            name=name,
            op=op,
            metric="time",
            base=float(np.median(values[: len(base)])),
            new=float(np.median(values[len(base) :])),
            change=change,
            low=float(np.expm1(found.times.low[i])),
            high=float(np.expm1(found.times.high[i])),
            effect=float(found.times.effect[i]),
            p=p,
            significant=p < level
            and abs(change) >= least
            and abs(change) * found.share[i] >= found.matters,
        )

    rows = [row(keys[k], types[k], table[k], i) for i, k in enumerate(both.tolist())]
    rows.sort(key=lambda r: (not r.significant, -abs(r.base * r.change), r.name))
    made = Diff(
        rows=tuple(rows),
        total=row("total", "", table.sum(axis=0), len(both)),
        memory=_memory(base, new, level),
        peaks=peak_owners(base, new),
        appeared=_medians(keys, table, np.flatnonzero(in_new & ~in_base)),
        gone=_medians(keys, table, np.flatnonzero(in_base & ~in_new)),
        base_runs=len(base),
        new_runs=len(new),
        level=level,
        least=least,
        notes=(
            *_left_out_notes(base_left_out, new_left_out),
            *_notes(len(base), len(new), len(both), found),
            *_memory_notes(base, new),
        ),
        base_left_out=base_left_out,
        new_left_out=new_left_out,
    )
    return made_of(made, base_runs, new_runs)


def _that_ended_well(runs: list[NamedRun], side: str) -> tuple[list[NamedRun], dict[str, int]]:
    """The runs to compare, and how many others ended in which way."""
    others = [run for run in runs if not run.metadata.status.ok]
    if len(others) == len(runs):
        status = others[0].metadata.status
        first = ": ".join(filter(None, (status.in_words, *status.message.splitlines()[:1])))
        raise StepscopeError(
            f"none of the {len(runs)} {side} runs ended well, so there is nothing to compare; the "
            f"first: {first}"
        )
    endings = Counter(run.metadata.status.in_words for run in others)
    return [run for run in runs if run.metadata.status.ok], dict(endings)


def _left_out_notes(*sides: dict[str, int]) -> list[str]:
    return [
        f"{number(sum(endings.values()), f'{side} run')} did not end well "
        f"({', '.join(f'{count} {how}' for how, count in endings.items())}) and cannot be "
        "compared: left out"
        for side, endings in zip(("base", "new"), sides, strict=True)
        if endings
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """`times` and `share` have an entry per node, and one for the total at the end.

    `share` is a node's part of the time, `matters` the part that a change has to make up.
    """

    times: Comparison
    share: Floats
    matters: float
    machine: float
    in_turns: bool


def _judge(table: Floats, both: NDArray[np.intp], n: int, turns: Turns | None) -> _Judged:
    whole = table.sum(axis=0, keepdims=True)
    # A node that took no time in a run took half a nanosecond.
    logs = np.log(np.maximum(np.concatenate([table[both], whole]), 0.5))
    usual = np.exp([undisturbed(logs[:, :n]), undisturbed(logs[:, n:])])
    share = (usual[:, :-1] / np.maximum(usual[:, :-1].sum(axis=1, keepdims=True), 1)).max(axis=0)
    tested = _largest(usual[0, :-1]) | _largest(usual[1, :-1])
    chosen, rest = np.flatnonzero(tested), np.flatnonzero(~tested)
    total = len(both)
    machine = 0.0
    if len(chosen) >= _ENOUGH_FOR_SPEED:
        machine = _common(np.log(usual[1, chosen] / usual[0, chosen]), turns is not None)
        # Where the sets did not take turns, what all nodes have in common is the machine's.
        logs[: total + (turns is None), n:] -= machine
        if n >= _ENOUGH_FOR_SPEED <= logs.shape[1] - n:
            logs[:total] = steadied(logs[:total], n)

    p, parts = np.ones(total + 1), np.zeros((4, total + 1))
    for rows, sums in ((np.append(chosen, total), 1), (rest, 0)):
        found = compare_times(logs[rows, :n], logs[rows, n:], turns, sums, machine)
        parts[:, rows] = found.effect, found.shift, found.low, found.high
        if sums:
            p[rows] = holm(found.p, _weights(share[chosen], (found.high - found.low)[:-1]))
    if turns is None:
        parts[1:, total] += machine
    matters = min(_MATTERS, _MATTERS_OF_NODE / max(len(chosen), 1))
    shares = np.append(share, np.inf)
    return _Judged(Comparison(p, *parts), shares, matters, machine, turns is not None)


def _weights(share: Floats, width: Floats) -> Floats:
    """How the accepted chance of a false alarm is shared out among tested nodes and the total.

    By the time they take, and most of it to those whose interval is narrow enough to show a change
    of a tenth: on the others it would be lost.
    """
    telling = share / (1 + (width / _MEANT) ** 4)
    parts = [part / max(float(part.sum()), 1e-9) for part in (telling, share)]
    mixed = _TELLING * parts[0] + (1 - _TELLING) * parts[1]
    return np.append(np.maximum(mixed, 1e-9), _OF_TOTAL)


def _common(changes: Floats, in_turns: bool) -> float:
    """What nodes changed by in common."""
    median = float(np.median(changes))
    if not in_turns or not median:
        return median
    # The error of a median, from how the nodes differ (as for a normal distribution).
    error = 1.25 * 1.48 * float(np.median(np.abs(changes - median))) / sqrt(len(changes))
    return median * max(0.0, 1 - (_CHANCE * error / median) ** 2)


def _largest(times: Floats) -> NDArray[np.bool_]:
    """The nodes that make up nine tenths of the time."""
    order = np.argsort(-times, kind="stable")
    before = np.cumsum(times[order]) - times[order]
    chosen = np.zeros(len(times), bool)
    chosen[order] = before < _TESTED_PART * times.sum()
    return chosen


def _turns(base: list[NamedRun], new: list[NamedRun]) -> Turns | None:
    def times(runs: list[NamedRun]) -> NDArray[np.int64]:
        columns = [run.metadata.ops for run in runs]
        return np.array([ops.start_ns.min() if len(ops) else 0 for ops in columns], np.int64)

    return Turns.of(times(base), times(new))


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


def _medians(keys: tuple[str, ...], table: Floats, rows: NDArray[np.intp]) -> dict[str, float]:
    found = {keys[k]: float(np.median(table[k][table[k] > 0])) for k in rows.tolist()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _with_memory(runs: list[NamedRun]) -> list[NamedRun]:
    """The runs that recorded memory: without it a peak of nothing would look like a small one."""
    return [run for run in runs if run.metadata.peak_bytes()]


def _memory(base: list[NamedRun], new: list[NamedRun], level: float) -> tuple[DiffRow, ...]:
    base, new = _with_memory(base), _with_memory(new)
    if not base or not new:
        return ()
    runs = [run.metadata for run in base + new]
    devices = sorted({device for run in runs for device in run.allocations.devices.table})
    if not devices:
        devices = sorted({device for run in runs for device in set(run.ops.devices.table)})
    by_run = [run.device_peaks() for run in runs]
    peaks = np.array([[found.get(device, 0) for found in by_run] for device in devices], float)
    known = [d for d in range(len(devices)) if peaks[d].any()]
    if not known:
        return ()
    peaks = peaks[known]
    old, young = peaks[:, : len(base)], peaks[:, len(base) :]
    found = compare(np.log(np.maximum(old, 0.5)), np.log(np.maximum(young, 0.5)))
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


def _memory_notes(base: list[NamedRun], new: list[NamedRun]) -> list[str]:
    known = [len(_with_memory(base)), len(_with_memory(new))]
    if known == [len(base), len(new)] or known == [0, 0]:
        return []
    return [
        f"memory was recorded in {known[0]} of {len(base)} base runs and {known[1]} of "
        f"{len(new)} new ones, and only these were compared; record all with FULL_TRACE"
    ]


def _notes(base: int, new: int, nodes: int, found: _Judged) -> list[str]:
    notes = []
    fewest = min(base, new)
    if fewest < FEWEST_RUNS:
        notes.append(
            f"with {base} against {new} runs no difference of time can be significant; "
            f"record at least {FEWEST_RUNS} on each side, better 30"
        )
    elif fewest < 10 and nodes > 20:
        notes.append(
            f"{base} against {new} runs are few for {nodes} nodes: only the total and very clear "
            "changes can be significant"
        )
    if nodes < _ENOUGH_FOR_SPEED:
        notes.append(
            f"only {nodes} {'node is' if nodes == 1 else 'nodes are'} on both sides: how fast the "
            "machine was in each run cannot be told apart from the nodes themselves"
        )
    if not found.in_turns and fewest >= FEWEST_RUNS:
        notes.append(
            "the sets were not recorded in turns, so what changed on the machine in between cannot "
            "be told from a change of the program; only large changes are significant. Record a "
            "few runs of one, a few of the other, and so on"
        )
        if abs(found.machine) >= _MACHINE_TOLD:
            how = "slower" if found.machine > 0 else "faster"
            notes.append(
                f"most nodes are {how} by about {abs(np.expm1(found.machine)):.0%}: that is taken "
                "for the machine's doing, not the program's"
            )
    return notes
