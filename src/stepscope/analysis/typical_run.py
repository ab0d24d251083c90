"""Which of several runs to look at where nobody said which.

The first run of a script makes its variables, and its eager code outside of any step is a run of
its own, often the longest. What people ask about is the step: what was run most often. Runs are of
one kind if most of their nodes have the same names. Of the kind that was run most often (of several
the one that took longest in all; eager code only if there is nothing else) the run of median length
is taken. If no run was repeated it is the longest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.run_length import run_span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.metadata import RunMetadata

_ALIKE = 0.8
_KINDS = 100
"""Runs that resemble none of so many kinds are not told apart any further."""


@dataclass(slots=True)
class _Kind:
    names: frozenset[str]
    eager: bool
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Length and number of each."""


@dataclass(frozen=True, slots=True)
class TypicalRun:
    """The number of the run, and in words why it was taken."""

    number: int
    why: str


def typical_run(runs: Iterable[tuple[int, RunMetadata]]) -> TypicalRun:
    """The run to look at, of at least one, each with its number. None of them is kept."""
    candidates = RunCandidates()
    for number, run in runs:
        candidates.add(number, run)
    return candidates.chosen()


class RunCandidates:
    """A choice that is made while runs are read for something else."""

    def __init__(self) -> None:
        self._kinds: list[_Kind] = []
        self._count = 0

    def add(self, number: int, run: RunMetadata) -> None:
        """Take in the next run; it is not kept."""
        self._count += 1
        kinds, names = self._kinds, _names(run)
        kind = next((kind for kind in kinds if _alike(kind.names, names)), None)
        if kind is None:
            kind = _Kind(names, run.engine.endswith("eager"))
            if len(kinds) < _KINDS:
                kinds.append(kind)
            else:
                kind = kinds[-1]
        began, ended = run_span(run)
        kind.runs.append((ended - began, number))

    def chosen(self) -> TypicalRun:
        """Of the runs so far, of which there is at least one."""
        kinds, count = self._kinds, self._count
        most = max(
            kinds, key=lambda k: (len(k.runs), not k.eager, sum(length for length, _ in k.runs))
        )
        if count == 1:
            return TypicalRun(most.runs[0][1], "")
        if len(most.runs) > 1:
            ordered = sorted(most.runs)
            number = ordered[(len(ordered) - 1) // 2][1]
            what = f"the run of median length of {len(most.runs):,} alike"
            return TypicalRun(number, f"{what}, of {count:,} in all")
        kinds = [kind for kind in kinds if not kind.eager] or kinds
        _, number = max((run for kind in kinds for run in kind.runs), key=lambda run: run[0])
        return TypicalRun(number, f"the longest of {count:,} runs")


def _names(run: RunMetadata) -> frozenset[str]:
    names = run.ops.names
    return frozenset(names.table[code] for code in np.unique(names.codes).tolist())


def _alike(a: frozenset[str], b: frozenset[str]) -> bool:
    return len(a & b) >= _ALIKE * max(len(a | b), 1) if a or b else True
