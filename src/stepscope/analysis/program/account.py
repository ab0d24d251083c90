"""Where the wall clock of a whole program went, in parts that sum to it.

The account is of the program's main thread. What it did there nests: a function is traced inside a
run, a module imported inside a trace. Each moment belongs to the innermost of these, so that none
is counted twice; what belongs to nothing is Python, by construction.

    >>> spans = [Span(0, 10, "run"), Span(2, 6, "trace"), Span(3, 4, "import")]
    >>> [(part.label, part.ns) for part in exclusive(spans, 0, 12)]
    [('run', 6), ('trace', 3), ('import', 1), ('', 2)]

What our recording cost is known as sums, not as moments: it is taken from the parts it lies in.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.analysis.intervals import merged
from stepscope.analysis.program.run_parts import parts_between
from stepscope.analysis.program.waiting import INPUT_TYPES
from stepscope.analysis.result import Result, made_of
from stepscope.errors import UnreadableFileError
from stepscope.metadata import Program, programs
from stepscope.metadata.program_notes import (
    COST,
    ENDED,
    EXPORTING,
    IMPORT,
    PLAN,
    PROCESS,
    RECORDING,
    SCRIPT,
    STOPPED,
    TRACE,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, RunMetadata
    from stepscope.metadata.readers.programs import ProgramRun

    Ints = NDArray[np.int64]

__all__ = [
    "PARTS",
    "STEPS",
    "Account",
    "AccountRow",
    "AccountedRuns",
    "account",
    "one_program",
]

PARTS: Final = {
    "starting": "starting Python",
    "imports": "importing modules",
    "tracing": "tracing functions",
    "planning": "planning runs",
    "first_runs": "first runs, of each kind",
    "computing": "steps: computing",
    "threads": "steps: waiting for a thread",
    "input": "steps: waiting for input",
    "transfers": "steps: waiting for transfers",
    "python_ops": "steps: Python in ops",
    "calling": "steps: calling the engine",
    "unrecorded": "runs not recorded",
    "eager": "eager ops between steps",
    "before": "Python before the first run",
    "between": "Python between steps",
    "after": "Python after the last run",
    "ending": "ending the process",
    "exporting": "writing files asked for besides",
    "recording": "Stepscope's recording",
}
"""What there is, by its key, and what people call it."""
STEPS: Final = ("computing", "threads", "input", "transfers", "python_ops", "calling")
"""The parts of the steps that were not the first of their kind."""
_OF_NOTES: Final = {
    IMPORT: "imports", TRACE: "tracing", PLAN: "planning", RECORDING: "recording",
    EXPORTING: "exporting",
}  # fmt: skip
_EAGER: Final = "tensorflow eager"
_SERVER: Final = "tensorflow server"


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One part of the time. `key` is one of `PARTS`; `count` is how many imports, traces or runs it
    is made of, 0 where it is of none; `mostly` names the largest of them, `where` its line.
    """

    part: str
    key: str
    ns: int
    share: float
    count: int
    mostly: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class Account(Result):
    """The wall clock of a program: `rows` sum to `whole_ns`.

    `runs` is how many recorded runs the main thread made, `first_runs` of them the first of their
    kind. Runs of other threads went on meanwhile: `other_runs` of them took `other_ns` in all.
    `ended` is False of a program that is still going, or died. With `died` the account is up to its
    death; of one that is going, or of whose death nobody knows, it ends with what was noted last.
    """

    rows: tuple[AccountRow, ...]
    program: str
    whole_ns: int
    runs: int
    first_runs: int
    other_runs: int
    other_ns: int
    ended: bool
    died: bool = False

    def ns(self, *keys: str) -> int:
        """What these parts come to.

        >>> Account((AccountRow("steps", "computing", 5, 1.0, 1),), "", 5, 1, 0, 0, 0, True).ns(
        ...     *STEPS
        ... )
        5
        """
        return sum(row.ns for row in self.rows if row.key in keys)


def one_program(source: str | os.PathLike[str] | Program) -> Program:
    """The program that was recorded there; an error that names them where there are several."""
    found = [source] if isinstance(source, Program) else programs(source)
    if len(found) > 1:
        names = ", ".join(str(program.path) for program in found[:5])
        raise UnreadableFileError(
            f"{source}: holds {len(found)} programs; name one of them: {names}"
        )
    if found[0].last(PROCESS) is None:
        raise UnreadableFileError(
            f"{found[0].path}: holds runs alone, and no note of when their program began; "
            "record the program with `stepscope run SCRIPT` to have it"
        )
    return found[0]


def account(source: str | os.PathLike[str] | Program, runs: AccountedRuns | None = None) -> Account:
    """Where the time of the program went that `stepscope run` recorded at a path.

    Its runs are read for that, unless they were taken in before, as `runs`.

    `UnreadableFileError` where the record has no program in it, which says how to record one.
    """
    program = one_program(source)
    if runs is None:
        runs = AccountedRuns(program)
        for run in program.runs():
            runs.add(run)
    return made_of(_Accounting(program, runs).account(), source)


# -- moments -----------------------------------------------------------------------------------


class ThreadSpan(NamedTuple):
    """Something that the thread did; `run` is the place of the run that it was, -1 of none."""

    start: int
    end: int
    label: str
    run: int = -1


class Piece(NamedTuple):
    """What a span had for itself: all of it, without the spans inside."""

    label: str
    ns: int
    run: int
    start: int


def exclusive(spans: Iterable[ThreadSpan], start: int, end: int) -> list[Piece]:
    """What each span of a thread had for itself; pieces of time that none had are without a label.

    Spans nest; of two that do not quite, by different clocks, the one inside ends with the other.
    """
    found: list[Piece] = []
    open_spans: list[tuple[ThreadSpan, int]] = []  # with its place in `found`
    now = start

    def advance(until: int) -> None:
        nonlocal now
        until = min(until, end)
        if until <= now:
            return
        if open_spans:
            place = open_spans[-1][1]
            found[place] = found[place]._replace(ns=found[place].ns + until - now)
        else:
            found.append(Piece("", until - now, -1, now))
        now = until

    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.end <= start or span.start >= end:
            continue
        while open_spans and open_spans[-1][0].end <= span.start:
            advance(open_spans[-1][0].end)
            open_spans.pop()
        advance(span.start)
        if open_spans:
            span = span._replace(end=min(span.end, open_spans[-1][0].end))
        found.append(Piece(span.label, 0, span.run, span.start))
        open_spans.append((span, len(found) - 1))
    while open_spans:
        advance(open_spans[-1][0].end)
        open_spans.pop()
    advance(end)
    return found


# -- the account -------------------------------------------------------------------------------


class AccountedRuns:
    """What an account needs of a program's runs: taken in while they are read for something else.

    The program's functions have all been traced by then; what recording cost need not be known.
    """

    def __init__(self, program: Program) -> None:
        self._main = program.main_thread
        self._traces = sorted(
            note.started_ns for note in program.of(TRACE) if note.thread == self._main
        )
        self._seen: set[str] = set()
        self.spans: list[ThreadSpan] = []
        self.runs: list[tuple[str, dict[str, int]]] = []
        """Of each run of the main thread what it is called, and what its ops did; nothing of the
        first of its kind."""
        self.firsts: set[int] = set()
        self.others = 0
        self.others_ns = 0
        self.eager: list[OpColumns] = []
        """The ops of eager code, outside of runs."""
        self.slowed_ns: Counter[bool] = Counter()
        """By how much the embedded engine's runs were slowed down inside, first ones and others."""

    def passing(self, runs: Iterable[ProgramRun]) -> Iterator[tuple[str, RunMetadata]]:
        """The runs by their names, each taken in on its way."""
        for run in runs:
            self.add(run)
            yield run.name, run.metadata

    def add(self, run: ProgramRun) -> None:
        """Take in the next run."""
        call = run.call
        ops = run.metadata.ops
        if run.engine == _EAGER and call is None:
            if len(ops):
                self.eager.append(ops)
            return
        if call is None and not len(ops):
            return
        begin = call.started_ns if call is not None else int(ops.start_ns.min())
        until = call.ended_ns if call is not None else int(ops.end_ns.max())
        elsewhere = call is not None and call.thread not in (0, self._main)
        if elsewhere or run.engine == _SERVER:
            self.others += 1
            self.others_ns += max(0, until - begin)
            return
        place = len(self.runs)
        if _is_first(run, self._seen, _any_between(self._traces, begin, until)):
            self.firsts.add(place)
            self.runs.append((run.what, {}))
        else:
            self.runs.append((run.what, parts_between(ops, begin, until)))
        self.spans.append(ThreadSpan(begin, until, "run", place))
        if run.engine == "embedded":
            self.slowed_ns[place in self.firsts] += run.overhead_ns


class _Accounting:
    """One account in the making."""

    def __init__(self, program: Program, runs: AccountedRuns) -> None:
        self._program = program
        self._taken = runs
        self._main = program.main_thread
        self._ns: Counter[str] = Counter()
        self._count: Counter[str] = Counter()
        self._largest: dict[str, tuple[int, str, str]] = {}
        self._spans = list(runs.spans)

    def account(self) -> Account:
        program = self._program
        self._note_spans()
        for ops in self._taken.eager:
            self._eager_spans(ops)
        process, script = program.last(PROCESS), program.last(SCRIPT)
        ends = [span.end for span in self._spans]
        ends += [note.ended_ns or note.started_ns for note in program.notes]
        assert process is not None, "see one_program"
        start = process.started_ns
        ended = process.ended_ns > 0
        last = program.last(ENDED)
        noted = process.ended_ns if ended else max(ends)
        end = last.started_ns if last is not None else noted
        recording = program.of(RECORDING)
        if recording:
            self._spans.append(ThreadSpan(start, recording[0].started_ns, "starting"))
        if ended:
            self._spans.append(ThreadSpan(process.ended_ns, end, "ending"))
        script_end = script.ended_ns if script is not None and script.ended_ns else end
        stopped = program.of(STOPPED)
        if stopped and stopped[0].started_ns < script_end:
            self._spans.append(ThreadSpan(stopped[0].started_ns, script_end, "unrecorded"))
        pieces = exclusive(self._spans, start, end)
        self._sum_pieces([piece for piece in pieces if piece.label])
        self._sum_gaps([piece for piece in pieces if not piece.label])
        self._take_costs()
        return Account(
            self._rows(end - start),
            process.what,
            end - start,
            len(self._taken.runs),
            len(self._taken.firsts),
            self._taken.others,
            self._taken.others_ns,
            ended,
            died=not ended and last is not None,
        )

    def _note_spans(self) -> None:
        for note in self._program.notes:
            key = _OF_NOTES.get(note.kind)
            if key is None or not note.ended_ns or note.thread != self._main:
                continue
            self._spans.append(ThreadSpan(note.started_ns, note.ended_ns, key))
            if key not in ("recording", "exporting"):
                self._count[key] += not note.details.get("inside")
            if key in ("imports", "tracing"):
                self._compare(key, note.ns, note.what, note.where)

    def _compare(self, key: str, ns: int, what: str, where: str = "") -> None:
        self._largest[key] = max(self._largest.get(key, (0, "", "")), (ns, what, where))

    def _eager_spans(self, ops: OpColumns) -> None:
        """The ops of eager code, outside of runs."""
        waits = _waits_for_input(self._program)
        own = np.array([not (waits and name in INPUT_TYPES) for name in ops.ops.table])[
            ops.ops.codes
        ]
        firsts, lasts = merged(ops.start_ns[own], np.maximum(ops.end_ns, ops.start_ns)[own])
        pairs = zip(firsts.tolist(), lasts.tolist(), strict=True)
        self._spans += [ThreadSpan(first, last, "eager") for first, last in pairs]
        self._count["eager"] += int(own.sum())

    def _sum_pieces(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if piece.run < 0:
                self._ns[piece.label] += piece.ns
                continue
            what, spent = self._taken.runs[piece.run]
            if piece.run in self._taken.firsts:
                self._ns["first_runs"] += piece.ns
                self._count["first_runs"] += 1
                self._compare("first_runs", piece.ns, what)
                continue
            left = piece.ns
            for key, ns in spent.items():
                taken = min(left, ns)
                self._ns[key] += taken
                left -= taken
            self._ns["calling"] += left
            self._count["computing"] += 1

    def _sum_gaps(self, gaps: Sequence[Piece]) -> None:
        runs = [span for span in self._spans if span.run >= 0]
        first = min((span.start for span in runs), default=0)
        last = max((span.start for span in runs), default=0)
        for gap in gaps:
            if not runs or gap.start < first:
                self._ns["before"] += gap.ns
            else:
                self._ns["after" if gap.start > last else "between"] += gap.ns

    def _take_costs(self) -> None:
        """Take what is known as a sum from the parts that it lies in."""
        script = self._program.last(SCRIPT)
        noted = sum(
            note.ns
            for note in self._program.of(RECORDING)
            if script is not None and note.started_ns >= script.started_ns
            and (not script.ended_ns or note.started_ns < script.ended_ns)
        )  # fmt: skip
        cost = self._program.last(COST)
        known = cost.details if cost is not None else {}
        python = ("between", "after", "before")
        around = max(0, known.get("around_ns", 0) - noted)
        before = min(around, max(0, known.get("before_ns", 0) - noted))
        after = min(around - before, known.get("after_ns", 0))
        self._move(before, ("before",), "recording")
        self._move(after, ("after", "between", "before"), "recording")
        self._move(around - before - after, python, "recording")
        steps = ("calling", "computing")
        self._move(self._taken.slowed_ns[True], ("first_runs", *steps), "recording")
        slowed = known.get("inside_ns", 0) + self._taken.slowed_ns[False]
        self._move(slowed, (*steps, "first_runs"), "recording")
        self._move(known.get("unrecorded_ns", 0), python, "unrecorded")
        self._move(_waits_for_input(self._program), python, "input")

    def _move(self, ns: int, sources: Sequence[str], target: str) -> None:
        for source in sources:
            taken = min(max(0, ns), self._ns[source])
            self._ns[source] -= taken
            self._ns[target] += taken
            ns -= taken

    def _rows(self, whole: int) -> tuple[AccountRow, ...]:
        return tuple(
            AccountRow(
                title,
                key,
                self._ns[key],
                self._ns[key] / whole if whole else 0.0,
                self._count[key],
                *self._largest.get(key, (0, "", ""))[1:],
            )
            for key, title in PARTS.items()
            if self._ns[key]
        )


def _waits_for_input(program: Program) -> int:
    """How long the program itself waited for elements of its datasets, outside of runs."""
    cost = program.last(COST)
    return int(cost.details.get("input_ns", 0)) if cost is not None else 0


def _is_first(run: ProgramRun, seen: set[str], traced: bool) -> bool:
    """Whether a run is the first of its kind, or of a graph that it had to have made."""
    if run.engine == "tensorflow function":
        kind = f"{run.engine} {run.what}"
        known = kind in seen and not traced
    else:
        kind = run.kind
        known = kind in seen
    seen.add(kind)
    return not known


def _any_between(moments: Sequence[int], start: int, end: int) -> bool:
    place = bisect_left(moments, start)
    return place < len(moments) and moments[place] < end
