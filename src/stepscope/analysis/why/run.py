"""Why a run was slower than others of its kind: what was different in it, and the chain of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.program.steps import Cause, StepSums
from stepscope.analysis.result import Result
from stepscope.analysis.runs import NamedRun, named_runs
from stepscope.analysis.why.op import Chains, Link
from stepscope.errors import StepscopeError
from stepscope.metadata.readable import plain, time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["RunCauses", "why_run"]


@dataclass(frozen=True, slots=True)
class RunCauses(Result):
    """Why a run was slower than the median of the others of its kind (`what`).

    `causes` are what was different, the largest first. `rows` is the chain of the op that differed
    most (`op`), or that ended last where none did. `median_ns` is 0 where it is the only one.
    """

    rows: tuple[Link, ...]
    run: int
    what: str
    ns: int
    median_ns: float
    compared: int
    first: bool
    causes: tuple[Cause, ...]
    op: str
    origin: str


def why_run(runs: Iterable[tuple[int, Any]], number: int) -> RunCauses:
    """Why the run of a number was slower than the others of its kind.

    `runs` are pairs of a number and a run, as of `enumerate`; they are looked at one after the
    other, and only the one in question is kept. `StepscopeError` where there is none of the number,
    or it failed.

    Example:
        >>> why_run(enumerate(stepscope.load("stepscope-out/train")), 42)  # doctest: +SKIP
    """
    kinds, sums = RunKinds(), StepSums()
    kept: tuple[str, NamedRun] | None = None
    numbers: dict[str, list[int]] = {}
    seen: list[int] = []
    for place, item in runs:
        (run,) = named_runs([item])
        what = kinds.of(run)
        sums.add(what, run, place)
        seen.append(place)
        if run.metadata.status.ok:
            numbers.setdefault(what, []).append(place)
        if place == number:
            kept = what, run
    if kept is None:
        known = f"there are {seen[0]} to {seen[-1]}" if seen else "there is none"
        raise StepscopeError(f"there is no run {number}; {known}")
    what, run = kept
    if not run.metadata.status.ok:
        status = run.metadata.status
        raise StepscopeError(
            f"run {number} failed ({status.code}: {plain(status.message.splitlines()[0])}), and is "
            "not compared with runs that did not; `stepscope info --run` has the whole message"
            if status.message
            else f"run {number} failed ({status.code}), and is not compared with runs that did not"
        )
    if not len(run.metadata.ops):
        raise StepscopeError(f"run {number} has no ops; record them with `stepscope run`")
    found = sums.compared(what, run, number)
    others = [other for other in numbers[what] if other != number]
    # The first of a kind builds: it is compared with, and others are not compared with it.
    compared = len([other for other in others if other != numbers[what][0]])
    walked = Chains(run.metadata, number)
    causes = found.causes if found.over_ns > 0 else ()
    largest = _decisive(causes)
    op = walked.last_op() if largest is None else largest.op
    chain = walked.why(op, 0.0, 0)
    if largest is None:
        reason = "ended last; no op took longer than it usually does" if compared else "ended last"
    elif largest.kind == "wait":
        reason = f"waited {time(largest.more_ns)} longer for a thread than it usually does"
    else:
        reason = f"took {time(chain.node_ns)}, {time(largest.more_ns)} longer than it usually does"
    return RunCauses(
        rows=(replace(chain.rows[0], reason=reason), *chain.rows[1:]),
        run=number,
        what=what,
        ns=found.ns,
        median_ns=float(found.ns - found.over_ns) if compared else 0.0,
        compared=compared,
        first=bool(others) and number == numbers[what][0],
        causes=causes,
        op=op,
        origin=chain.origin,
    )


def _decisive(causes: Sequence[Cause]) -> Cause | None:
    """The op that differed most; rather one that took longer than one that waited for it."""
    largest = next((cause for cause in causes if cause.op), None)
    ran = next((cause for cause in causes if cause.kind == "op"), None)
    if largest is not None and ran is not None and 2 * ran.more_ns >= largest.more_ns:
        return ran
    return largest
