"""How long the steps of a program took: by what ran, the first apart from the rest.

Runs of one kind (`run_kinds`) are compared with each other. How long an op usually takes in them is
the median over some of them (`_COMPARED`); what was different in a run that took long is what took
longer in it than that, or waited longer for a thread, or was spent outside of all ops.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.intervals import sums_at
from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.run_length import covered_by, run_length
from stepscope.analysis.runs import NamedRun, Runs, iter_named_runs
from stepscope.metadata import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, RunMetadata
    from stepscope.metadata.graph_facts import GraphFacts

    Ints: TypeAlias = NDArray[np.int64]

__all__ = [
    "Cause",
    "Outlier",
    "StepRow",
    "StepSums",
    "Steps",
    "cause_in_words",
    "steps",
]

_COMPARED: Final = 200
"""Of so many runs of a kind it is kept how long each op took."""
_LONGEST: Final = 5
"""Of so many of the longest as well."""
_FAR: Final = 5.0
_AT_LEAST: Final = 0.25
_NOISE: Final = 1.4826
"""The standard deviation of a normal distribution, in median deviations."""
_FOR_OUTLIERS, _FOR_TREND = 5, 12
_CAUSES: Final = 3
_TELLING: Final = 0.1


@dataclass(frozen=True, slots=True)
class Cause:
    """What took longer in a run than it usually does, and by how much.

    `kind` is "op", "wait" (the op was ready, and waited for a thread) or "outside" (no op ran).
    """

    kind: str
    op: str
    type: str
    line: str
    more_ns: int


@dataclass(frozen=True, slots=True)
class Outlier:
    """A run that took much longer than the others of its kind; `over_ns` more than the median."""

    run: int
    ns: int
    over_ns: int
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class StepRow:
    """The runs of a kind.

    The length of a run is what the program waited for: from its call until it had the results,
    where the recording has that, else from the start of its first op to the end of its last.
    Of "eager code", which is all that ran outside of other runs, it is how long ops ran.
    `first_ns` is the first run, `first_run` its number; `median_ns` to `worst_ns` are of all the
    others, 0 where there is none; `worst_run` is what `--run` calls the longest, or -1.
    `trend` is how much longer the last third took than the first (0.1 is 10%), 0 where they do not
    differ by more than runs do anyway, or are too few to tell. `lengths_ns` are all in order,
    `far` counts those that lie far out, of which `outliers` are the longest. `failed` counts those
    that did not end well; these are in no other number.
    """

    key: str
    engine: str
    runs: int
    total_ns: int
    first_ns: int
    first_run: int
    median_ns: float
    p90_ns: float
    p99_ns: float
    worst_ns: int
    worst_run: int
    trend: float
    ops: int
    failed: int
    far: int
    outliers: tuple[Outlier, ...]
    lengths_ns: tuple[int, ...]
    rests_on: int = 0
    """Of a recording with a budget: how many runs `median_ns`, `p90_ns`, `p99_ns` (within 1%) and
    `worst_ns` are of, the first among them; else 0."""

    @property
    def rest(self) -> int:
        """How many runs there are after the first."""
        return max(0, len(self.lengths_ns) - 1)


@dataclass(frozen=True, slots=True)
class Steps(Result):
    """A row for each kind, the one that took longest in all first."""

    rows: tuple[StepRow, ...]
    runs: int
    total_ns: int

    def __iter__(self) -> Iterator[StepRow]:
        """Over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)


def steps(runs: Runs) -> Steps:
    """Sum up how long runs took, by what ran.

    Runs are looked at one after the other and not kept; of each kind there remain some numbers per
    op.
    """
    kinds, sums = RunKinds(), StepSums()
    for run in iter_named_runs(runs):
        sums.add(kinds.of(run), run)
    return made_of(sums.steps(), runs)


class StepSums:
    """Steps that are summed up while runs are read for something else."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._runs = 0

    def add(self, what: str, run: NamedRun, number: int | None = None) -> None:
        """Take in the next run, of a kind of that name; without a number it is counted."""
        kind = self._kinds.get(what)
        if kind is None:
            kind = self._kinds[what] = _Kind(what, run.metadata.engine)
        kind.add(self._runs if number is None else number, run)
        self._runs += 1

    def compared(self, what: str, run: NamedRun, number: int) -> Outlier:
        """What was different in a run from the others of its kind, far out or not.

        It was taken in as well, by that number; nothing was different where it is the only one.
        """
        return self._kinds[what].compared_with(number, run)

    def steps(self) -> Steps:
        """Of the runs so far."""
        rows = [kind.row() for kind in self._kinds.values()]
        rows.sort(key=lambda row: (-row.total_ns, row.key))
        return Steps(tuple(rows), self._runs, sum(row.total_ns for row in rows))


@dataclass(slots=True)
class _Times:
    """Of one run, by the number of a node: how long it ran and how long it waited for a thread."""

    number: int
    ns: int
    outside: int
    ran: Ints
    waited: Ints


class _Usual(NamedTuple):
    """What is usual in the runs of a kind, by the number of a node."""

    ran: NDArray[np.float64]
    waited: NDArray[np.float64]
    outside: float


@dataclass(slots=True)
class _Kind:
    name: str
    engine: str
    numbers: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    failed: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    compared: list[_Times] = field(default_factory=list)
    longest: list[tuple[int, int, _Times]] = field(default_factory=list)
    _places: dict[int, tuple[GraphFacts, Ints]] = field(default_factory=dict)

    def add(self, number: int, run: NamedRun) -> None:
        metadata = run.metadata
        if not metadata.status.ok:
            self.failed += 1
            return
        ns = run_length(run, self.name)
        self.numbers.append(number)
        self.lengths.append(ns)
        self.ops.append(len(metadata.ops))
        if len(self.lengths) == 1 or not len(metadata.ops):
            return  # the first is compared with nothing
        compared = len(self.compared) < _COMPARED
        if not compared and ns <= self.longest[0][0]:
            return
        times = self._times(number, metadata, ns)
        if compared:
            self.compared.append(times)
        heapq.heappush(self.longest, (ns, -number, times))
        if len(self.longest) > _LONGEST:
            heapq.heappop(self.longest)

    def _times(self, number: int, run: RunMetadata, ns: int) -> _Times:
        ops = run.ops
        place = self._place(ops, run)
        nodes = place[ops.node]
        ran = np.maximum(ops.end_ns - ops.start_ns, 0)
        # An op that says nothing of when it was ready says 0, or when it began.
        waited = np.where(ops.scheduled_ns > 0, ops.start_ns - ops.scheduled_ns, 0)
        size = len(self.nodes)
        return _Times(
            number,
            ns,
            max(0, ns - covered_by(ops)),
            sums_at(nodes, ran, size),
            sums_at(nodes, np.maximum(waited, 0), size),
        )

    def _place(self, ops: OpColumns, run: RunMetadata) -> Ints:
        """For each node of the run's graph the number that the kind has for it."""
        facts = ops.facts
        known = self._places.get(id(facts))
        if known is not None:
            return known[1]
        sources = run.sources
        place = np.empty(len(facts), np.int64)
        for row, (name, kind) in enumerate(
            zip(facts.names.values.tolist(), facts.ops.values.tolist(), strict=True)
        ):
            if name not in self.nodes:
                self.nodes[name] = len(self.nodes)
                self.types.append(kind)
                self.lines.append(sources.get(name, ""))
            place[row] = self.nodes[name]
        self._places[id(facts)] = (facts, place)
        return place

    def row(self) -> StepRow:
        lengths = self.lengths
        rest = np.array(lengths[1:], np.int64)
        numbers = self.numbers[1:]
        worst = int(rest.argmax()) if len(rest) else 0
        median = float(np.median(rest)) if len(rest) else 0.0
        far = _far_out(rest) if len(lengths) > _FOR_OUTLIERS else np.zeros(len(rest), bool)
        out = {numbers[place] for place in np.flatnonzero(far).tolist()}
        p90, p99 = np.percentile(rest, (90, 99)).tolist() if len(rest) else (0.0, 0.0)
        return StepRow(
            key=self.name,
            engine=self.engine,
            runs=len(lengths) + self.failed,
            total_ns=sum(lengths),
            first_ns=lengths[0] if lengths else 0,
            first_run=self.numbers[0] if lengths else 0,
            median_ns=median,
            p90_ns=float(p90),
            p99_ns=float(p99),
            worst_ns=int(rest[worst]) if len(rest) else 0,
            worst_run=numbers[worst] if numbers else -1,
            trend=_trend(rest) if len(lengths) > 1 else 0.0,
            ops=int(np.median(self.ops)) if self.ops else 0,
            failed=self.failed,
            far=int(far.sum()),
            outliers=tuple(self._outliers(out, median)),
            lengths_ns=tuple(lengths),
        )

    def _outliers(self, out: set[int], median: float) -> Iterator[Outlier]:
        if not out or not self.nodes:
            return  # of runs without their ops nothing can be told but how long they took
        usual = self._usual([t for t in self.compared if t.number not in out] or self.compared)
        for _, _, times in sorted(self.longest, key=lambda item: (-item[0], item[1])):
            if times.number in out:
                yield self._different(times, usual, median)

    def compared_with(self, number: int, run: NamedRun) -> Outlier:
        ns = run_length(run, self.name)
        others = [t for t in self.compared if t.number != number]
        if not others:
            return Outlier(number, ns, 0, ())
        times = self._times(number, run.metadata, ns)
        rest = zip(self.numbers[1:], self.lengths[1:], strict=True)
        median = float(np.median([length for place, length in rest if place != number]))
        return self._different(times, self._usual(others), median)

    def _usual(self, runs: list[_Times]) -> _Usual:
        size = len(self.nodes)
        return _Usual(
            np.median([_grown(times.ran, size) for times in runs], axis=0),
            np.median([_grown(times.waited, size) for times in runs], axis=0),
            float(np.median([times.outside for times in runs])),
        )

    def _different(self, times: _Times, usual: _Usual, median: float) -> Outlier:
        names, size = list(self.nodes), len(usual.ran)
        over = times.ns - median
        causes = []
        # What holds up one op holds up others as well: of waits the longest says it.
        for kind, many, more in (
            ("op", _CAUSES, _grown(times.ran, size) - usual.ran),
            ("wait", 1, _grown(times.waited, size) - usual.waited),
        ):
            largest = np.argsort(-more, kind="stable")[:many].tolist()
            causes += [
                Cause(kind, names[i], self.types[i], self.lines[i], int(more[i])) for i in largest
            ]
        causes.append(Cause("outside", "", "", "", int(times.outside - usual.outside)))
        telling = [cause for cause in causes if cause.more_ns > max(_TELLING * over, 0)]
        telling.sort(key=lambda cause: -cause.more_ns)
        return Outlier(times.number, times.ns, int(over), tuple(telling[:_CAUSES]))


def _grown(times: Ints, size: int) -> Ints:
    """With zeros for nodes that were not known yet."""
    return np.pad(times, (0, size - len(times)))


def _far_out(lengths: Ints) -> NDArray[np.bool_]:
    """Which runs took longer than runs do: by many deviations, and by a good part."""
    median = float(np.median(lengths))
    deviation = _NOISE * float(np.median(np.abs(lengths - median)))
    out: NDArray[np.bool_] = lengths > median + max(_FAR * deviation, _AT_LEAST * median)
    return out


def _trend(lengths: Ints) -> float:
    """How much longer the last third took than the first; 0 where chance would explain it.

    >>> _trend(np.array([10, 11] * 10)), round(_trend(np.arange(100, 130)), 2)
    (0.0, 0.19)
    """
    third = len(lengths) // 3
    if len(lengths) < _FOR_TREND:
        return 0.0
    early, late = lengths[:third], lengths[-third:]
    before, after = float(np.median(early)), float(np.median(late))
    # The error of a difference of medians, as for a normal distribution.
    spread = [_NOISE * float(np.median(np.abs(part - np.median(part)))) for part in (early, late)]
    chance = 3 * 1.25 * math.hypot(*spread) / math.sqrt(third)
    change = after - before
    return change / before if before > 0 and abs(change) > max(chance, 0.05 * before) else 0.0


def cause_in_words(cause: Cause) -> str:
    """What was different in a run.

    >>> from stepscope.analysis.program.steps import Cause
    >>> cause_in_words(Cause("op", "augment", "PyFunc", "train.py:12", 20_000_000))
    'augment took 20.0 ms longer (train.py:12)'
    """
    more = readable.time(cause.more_ns)
    if cause.kind == "outside":
        return f"{more} outside of all ops"
    line = f" ({readable.place(cause.line)})" if cause.line else ""
    name = readable.plain(cause.op).removeprefix("StatefulPartitionedCall/")
    if cause.kind == "wait":
        return f"{name} waited {more} longer for a thread{line}"
    return f"{name} took {more} longer{line}"
