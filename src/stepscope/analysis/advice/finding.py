"""What advice consists of: findings, each with its evidence and what a change would gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.replay import Prediction
from stepscope.analysis.result import Result
from stepscope.metadata.readable import size, time

__all__ = ["BYTES", "GROWTH", "PROGRAM", "STEP", "Advice", "Evidence", "Finding"]

STEP: Final = "step"
PROGRAM: Final = "program"
BYTES: Final = "bytes"
GROWTH: Final = "bytes a step"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row that one can look at: an op, a stage or a call, with what it took in a typical step.

    `count` is how often it ran there; `bytes` is what it holds or moves, 0 where that says nothing.
    """

    what: str
    type: str
    where: str
    count: int
    ns: float
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to change in a program, and what that would gain.

    `id` is the same in each recording of the program: the rule that found it, and the line. `title`
    names the cause in a few words, `sentence` says in one line what to do for what gain,
    `advice` how to do it. `step` is the kind of step that it is about, "" of the whole program.

    `gain`, between `low` and `high` in 19 of 20, is by `unit`: nanoseconds a step (`STEP`),
    nanoseconds in all (`PROGRAM`), bytes of the peak (`BYTES`), or bytes by which memory grows in a
    step (`GROWTH`). `share` is the part of the step, of the time of all runs, or of the peak.
    `total_ns` is the gain in all, 0 for memory.
    `replayed` runs told it; `model_error` and `error` are by how much the replay of one of them
    misses its length, by its own op times and by what the others tell (`Prediction`).
    """

    id: str
    rule: str
    title: str
    step: str
    line: str
    unit: str
    gain: float
    low: float
    high: float
    share: float
    total_ns: float
    sentence: str
    advice: str
    evidence: tuple[Evidence, ...]
    replayed: int = 0
    error: float = 0.0
    model_error: float | None = None
    changes_steps: bool = False
    """After the change there are fewer steps, or others: what is compared is all of them."""
    rewrite: Rewrite | None = None
    """The same as a change of the graph; None where it is none."""

    @property
    def gains(self) -> str:
        """The gain in words: `18.1 ms ± 900 µs a step`."""
        return f"{self.said(self.gain)} ± {self.said((self.high - self.low) / 2)}{self.per}"

    @property
    def per(self) -> str:
        """What amounts are of: ` a step`, ` in all`, "" for the peak."""
        return {STEP: " a step", GROWTH: " a step", PROGRAM: " in all", BYTES: ""}[self.unit]

    def said(self, amount: float) -> str:
        """An amount by its unit in words: `18.1 ms`, `1.00 MiB`."""
        return size(round(amount)) if self.unit in (BYTES, GROWTH) else time(amount)

    @property
    def prediction(self) -> Prediction:
        """The gain with its interval."""
        return Prediction(
            self.gain, self.low, self.high, self.replayed, self.error, self.model_error
        )


@dataclass(frozen=True, slots=True)
class Advice(Result):
    """`rows` are the findings, the one that gains most first.

    `runs` were looked at, which took `total_ns`. `lacking` says what some rules would have needed
    and the record does not have, and how to record it.
    """

    rows: tuple[Finding, ...]
    runs: int
    total_ns: int
    lacking: tuple[str, ...]

    def best(self, step: str) -> Finding | None:
        """The finding that gains most in the steps of a kind.

        How high the peak is matters where memory is short: that is none of what limits a step.
        """
        mine = (row for row in self.rows if row.step == step and row.unit != BYTES)
        return next(mine, None)
