"""Predicted against achieved: two recordings of a program, before and after a change.

What is compared is what the finding predicted: how long a step takes (medians, the first left out),
how long all of them took where the change makes them fewer or concerns the first ones, the highest
peak, or by how much memory grows in a step. The achieved gain has an interval of its own, from how
far steps lie apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.analysis.advice.finding import BYTES, GROWTH, PROGRAM, Advice, Finding
from stepscope.analysis.result import Result
from stepscope.errors import InvalidArgumentError

if TYPE_CHECKING:
    from stepscope.analysis.memory.growth import MemoryGrowth
    from stepscope.analysis.program.steps import StepRow, Steps

__all__ = ["Check", "chosen", "compared", "growth_check", "peak_check", "step_check"]

_RESAMPLES: Final = 400


@dataclass(frozen=True, slots=True)
class Check(Result):
    """A finding, and what came of it.

    `before` and `after` are what was compared, by the finding's unit; `achieved` lies between
    `least` and `most` in 19 of 20. `inside` says whether that meets the predicted interval, `error`
    how far the prediction was off, as a share of what was achieved.
    """

    finding: Finding
    before: float
    after: float
    achieved: float
    least: float
    most: float
    inside: bool
    error: float
    step_after: str = ""


def chosen(advice: Advice, name: str) -> Finding:
    """The finding of that name, or the first of the rule of that name.

    `InvalidArgumentError` names those that there are.
    """
    for row in advice.rows:
        if row.id == name:
            return row
    for row in advice.rows:
        if row.rule == name:
            return row
    names = ", ".join(dict.fromkeys(row.id for row in advice.rows)) or "there is none"
    raise InvalidArgumentError.without_op(
        f"no finding {name!r} in the old recording; its findings: {names}"
    )


def step_check(finding: Finding, old: Steps, new: Steps) -> Check:
    """What a finding about time came to; steps of another name count where the old one is gone."""
    before = _row(old, finding.step)
    after = _row(new, finding.step, like=before)
    if finding.unit == PROGRAM:
        first, second = _sum(before), _sum(after)
        spread = 0.02 * (first[0] + second[0])
        return _check(finding, first[0], second[0], spread, after)
    # Per step of before: what all steps took afterwards, for the same work.
    times = max(1, after.rest) / max(1, before.rest) if finding.changes_steps else 1.0
    return _check(
        finding,
        _median(before)[0],
        times * _median(after)[0],
        math.hypot(_median(before)[1], times * _median(after)[1]),
        after,
    )


def growth_check(finding: Finding, old: MemoryGrowth, new: MemoryGrowth) -> Check:
    """What a finding about memory that grows came to: what all owners grow by, before and after.

    A recording whose memory is not known is an `InvalidArgumentError`: nothing grows in it.
    """
    assert finding.unit == GROWTH
    if new.lacking:
        raise InvalidArgumentError.without_op(
            f"whether memory grows in the new recording is not known: {new.lacking}"
        )
    before, after = old.owners, new.owners
    grown, grows = sum(row.bytes for row in before), sum(row.bytes for row in after)
    spread = math.hypot(*((row.high - row.low) / 2 for row in (*before, *after)))
    achieved = grown - grows
    step = next((row.step for row in after), finding.step)
    least, most = achieved - spread, achieved + spread
    return compared(finding, grown, grows, achieved, least, most, step)


def peak_check(finding: Finding, before: int, after: int) -> Check:
    """What a finding about the peak came to: the highest of each recording, in bytes.

    A recording without any memory is an `InvalidArgumentError`.
    """
    assert finding.unit == BYTES
    if not after:
        raise InvalidArgumentError.without_op(
            "no memory was recorded in the new recording: `stepscope run --trace full`"
        )
    achieved = before - after
    return compared(finding, before, after, achieved, achieved, achieved, finding.step)


def _check(finding: Finding, before: float, after: float, spread: float, row: StepRow) -> Check:
    achieved = before - after
    return compared(finding, before, after, achieved, achieved - spread, achieved + spread, row.key)


def compared(
    finding: Finding, before: float, after: float, achieved: float, least: float, most: float,
    step: str,
) -> Check:  # fmt: skip
    """What was achieved, between `least` and `most`, against what the finding predicted."""
    inside = finding.low <= most and least <= finding.high
    error = abs(finding.gain - achieved) / abs(achieved) if achieved else math.inf
    return Check(finding, before, after, achieved, least, most, inside, error, step)


def _row(steps: Steps, key: str, like: StepRow | None = None) -> StepRow:
    """The steps of that name; else, after a change, those that took longest in all."""
    named = [row for row in steps if row.key == key and row.lengths_ns]
    if named:
        return named[0]
    rows = [row for row in steps if row.lengths_ns]
    if like is not None and rows:
        # A change of the fetches is a change of the name: what ran about as often is meant.
        return min(rows[:4], key=lambda row: abs(math.log((row.rest + 1) / (like.rest + 1))))
    raise InvalidArgumentError.without_op(
        f"no run of {key!r} that ended well was recorded: there is nothing to compare"
    )


def _median(row: StepRow) -> tuple[float, float]:
    """The median length of a step, and its uncertainty."""
    rest = np.array(row.lengths_ns[1:] or row.lengths_ns, np.float64)
    picks = np.random.default_rng(1).integers(0, len(rest), (_RESAMPLES, len(rest)))
    low, high = np.percentile(np.median(rest[picks], axis=1), (2.5, 97.5))
    return float(np.median(rest)), float(high - low) / 2


def _sum(row: StepRow) -> tuple[float, int]:
    """What all but the first took, and how many these are."""
    return float(sum(row.lengths_ns[1:])), row.rest
