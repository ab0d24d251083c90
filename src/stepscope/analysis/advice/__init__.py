"""What to change in a program, ranked by what it would gain.

    material   what rules look at: per kind of step some of its runs, and the program's notes
    rules/     one file per rule: what to look for, and what changing it would gain
    finding    what a rule returns
    check      predicted against achieved, after the change

The gains come from `stepscope.analysis.replay`: recorded runs are replayed with the change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stepscope.analysis.advice.feeds import feeds_of
from stepscope.analysis.advice.finding import (
    BYTES,
    GROWTH,
    PROGRAM,
    STEP,
    Advice,
    Evidence,
    Finding,
)
from stepscope.analysis.advice.material import KindRuns, Material, StepMaterial
from stepscope.analysis.advice.rules import RULES
from stepscope.analysis.cluster.clock import OneClock
from stepscope.analysis.program.account import one_program
from stepscope.analysis.program.retraces import retraces
from stepscope.analysis.program.steps import Steps
from stepscope.analysis.program.verdict import VerdictSums
from stepscope.analysis.replay import WorkReader
from stepscope.analysis.result import made_of
from stepscope.analysis.runs import NamedRun, Runs, iter_named_runs
from stepscope.errors import UnreadableFileError
from stepscope.metadata import Program, iter_runs
from stepscope.metadata.program_notes import FEEDS, INPUT, MEMORY

if TYPE_CHECKING:
    from stepscope.metadata import RunMetadata

__all__ = [
    "BYTES", "GROWTH", "PROGRAM", "RULES", "STEP", "Advice", "AdviceSums", "Evidence", "Finding",
    "advise",
]  # fmt: skip


def advise(source: str | os.PathLike[str] | Runs) -> Advice:
    """What to change in the program that was recorded at a path, or whose runs these are.

    Rules that need notes of the whole program (tracing, what was fed) look at what
    `stepscope run` recorded; `lacking` says what they would have needed.

    >>> from stepscope.metadata import RunMetadata
    >>> advise(RunMetadata()).rows
    ()
    """
    sums = AdviceSums()
    if isinstance(source, str | os.PathLike):
        for run in OneClock(lambda: iter_runs(source)).passing(iter_runs(source)):
            sums.add(run)
        return made_of(sums.advice(program_at(source)), source)
    for run in iter_named_runs(source):
        sums.add(run)
    return made_of(sums.advice(), source)


def program_at(path: str | os.PathLike[str]) -> Program | None:
    """The program that was recorded there; None where there are runs alone, or several programs."""
    try:
        return one_program(path)
    except UnreadableFileError:
        return None


class AdviceSums:
    """Advice that is made while runs are read for something else."""

    def __init__(self) -> None:
        self.limits = VerdictSums()
        """What limits the same runs."""
        self._kinds: dict[str, KindRuns] = {}

    def passing(self, runs: Iterable[tuple[str, RunMetadata]]) -> Iterator[NamedRun]:
        """The runs, each taken in on its way."""
        for name, metadata in runs:
            run = NamedRun(name, metadata)
            self.add(run)
            yield run

    def add(self, run: NamedRun) -> None:
        """Take in the next run."""
        what = self.limits.add(run)
        self._kinds.setdefault(what, KindRuns()).add(run.metadata)

    def advice(self, program: Program | None = None) -> Advice:
        """Of the runs so far, and what was noted of their program."""
        material = self._material(self.limits.steps(), program)
        found: dict[str, Finding] = {}
        for find in RULES.values():
            for finding in find(material):
                found.setdefault(_distinct(finding, found), finding)
        ranked = sorted(found.values(), key=lambda row: -_rank(row, material.total_ns))
        return Advice(tuple(ranked), material.runs, material.total_ns, tuple(material.lacking))

    def _material(self, steps: Steps, program: Program | None) -> Material:
        reader = WorkReader()
        kinds: list[StepMaterial] = []
        for row in steps:
            runs: list[RunMetadata] = self._kinds[row.key].runs
            if runs and row.lengths_ns:
                kinds.append(StepMaterial(row, runs, reader))
        if program is None:
            inputs, growth = self.limits.inputs(), self.limits.growth()
            return Material(kinds, steps.total_ns, steps.runs, input=inputs, growth=growth)
        notes = program.of(FEEDS)
        return Material(
            kinds,
            steps.total_ns,
            steps.runs,
            program,
            retraces(program),
            feeds_of(notes) if notes else None,
            self.limits.inputs(program.of(INPUT)),
            self.limits.growth(program.of(MEMORY)),
        )


def _distinct(finding: Finding, found: dict[str, Finding]) -> str:
    """Its name; of one line of which several steps have a finding, with the step's."""
    return finding.id if finding.id not in found else f"{finding.id} {finding.step}"


def _rank(finding: Finding, total_ns: int) -> float:
    """Time by what part of all runs it is, memory that grows by what part of the peak.

    How high the peak itself is matters where memory is short only: it comes last.
    """
    if finding.unit == BYTES:
        return finding.share - 1.0
    if finding.unit == GROWTH:
        return finding.share
    return finding.total_ns / total_ns if total_ns else 0.0
