"""Predicted against achieved on the recorded graph: the step as it was and with the change.

Both run in turns, on the same made values and with the same variables, and each pair of runs is a
comparison of its own: what slows the machine for longer than a pair slows both. What is predicted
is of the step as it was recorded, where the machine may have been slower or faster: the prediction
is scaled by how long the unchanged step takes here.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from stepscope.analysis.advice import BYTES, STEP, AdviceSums, Finding, program_at
from stepscope.analysis.advice.check import Check, chosen, compared
from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.result import Result
from stepscope.analysis.runs import NamedRun
from stepscope.errors import OpError, StepscopeError
from stepscope.metadata import LoadedRun, iter_runs
from stepscope.proofs.made_values import Choice, choices
from stepscope.proofs.recorded_step import RecordedStep, recorded_step
from stepscope.proofs.rewriting import rewritten
from stepscope.proofs.trial import Trial

__all__ = ["Proof", "Proofs", "proof_of", "prove"]

_MEASURED_S: Final = 2.0
_LEAST_PAIRS: Final = 20
_MOST_PAIRS: Final = 400
_WARM: Final = 5
_SETS: Final = 3
"""So many sets of values are fed in turn: a program feeds others in each step, too."""
_RESET_EVERY: Final = 20
"""A step that trains on the same values again and again would leave what numbers can hold."""
_NO_REWRITE: Final = {
    "python-op": "what would take the place of the Python function is not in the recording",
    "input-bound": "what fills a queue or a dataset is not in the graph",
    "retracing": "a graph that is built again is the program's doing, not the graph's",
    "large-tensor": "how the program can do without the tensor, or with pieces of it, the graph "
    "does not say",
    "leak": "whether what is kept is still needed, the graph does not say",
}


@dataclass(frozen=True, slots=True)
class Proof(Result):
    """A finding, and what its change came to on the recorded graph; or why that is not known.

    `check` compares, with the prediction `scale` times what it was: the unchanged step took that
    much longer here than as recorded. `pairs` were measured. `difference` is the greatest one
    between what both returned, as a share of the greatest value, None where they return nothing
    that can be compared. `made` are the tensors that were fed made values. `added_ns` is what a
    step takes longer, for a change that saves memory, to `added_within_ns`. `lacking` says why
    there is no proof.
    """

    finding: Finding
    check: Check | None = None
    scale: float = 1.0
    pairs: int = 0
    difference: float | None = None
    made: tuple[str, ...] = ()
    added_ns: float = 0.0
    added_within_ns: float = 0.0
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class Proofs(Result):
    """A proof for each finding, in the order in which they would gain."""

    rows: tuple[Proof, ...]


def prove(
    path: str | os.PathLike[str],
    finding: str | None = None,
    *,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Proofs:
    """Apply what the findings of a recording say to its graph, and measure both in turns.

    `finding` names one of them, by its name or its rule; without, all are tried. Nothing of the
    program runs, and no file is written: what needs either cannot be proved, and says so.
    """
    place = Path(path)
    sums, kinds, last = AdviceSums(), RunKinds(), dict[str, LoadedRun]()
    for run in iter_runs(place):
        named = NamedRun(run.name, run.metadata)
        sums.add(named)
        if run.metadata.status.ok:
            last[kinds.of(named)] = run
    advice = sums.advice(program_at(place))
    findings = [chosen(advice, finding)] if finding is not None else advice.rows
    return Proofs(tuple(proof_of(one, place, last.get(one.step), clock=clock) for one in findings))


def proof_of(
    finding: Finding,
    path: Path,
    run: LoadedRun | None,
    *,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Proof:
    """The proof of a finding of the recording at `path`, of whose step `run` is one."""
    try:
        return _proof(path, finding, run, clock)
    except (OpError, StepscopeError) as error:
        return Proof(finding, lacking=_said(error))


def _proof(path: Path, finding: Finding, run: LoadedRun | None, clock: Callable[[], int]) -> Proof:
    if finding.rewrite is None or run is None:
        raise StepscopeError(_NO_REWRITE.get(finding.rule, "it is no change of a graph"))
    step = recorded_step(path, run)
    with Trial(step.graph, step.whole, step.trace_level) as old:
        old.initialize()
        choice = _choice(old, step)
        sets = [old.values(choice, seed) for seed in range(_SETS)]
        changed = rewritten(
            step.graph, finding.rewrite, lambda tensors: old.evaluated(tensors, sets[0])
        )
        with Trial(changed, step.whole, step.trace_level) as new:
            new.like(old)
            sides = _Sides(old, new, sets, [new.values(choice, seed) for seed in range(_SETS)])
            made = tuple(feed.name for feed in step.graph.feeds)
            difference = None if step.random or finding.rewrite.rows > 1 else sides.difference()
            if finding.unit == BYTES:
                return _of_peaks(finding, sides, difference, made, clock)
            return _of_times(finding, sides, difference, made, clock)


def _of_times(
    finding: Finding,
    sides: _Sides,
    difference: float | None,
    made: tuple[str, ...],
    clock: Callable[[], int],
) -> Proof:
    assert finding.unit == STEP
    assert finding.rewrite is not None
    before, after = sides.measured(clock)
    after = after / finding.rewrite.rows
    recorded = finding.gain / finding.share if finding.share else 0.0
    typical = float(np.median(before))
    scale = typical / recorded if recorded else 1.0
    scaled = replace(
        finding, gain=scale * finding.gain, low=scale * finding.low, high=scale * finding.high
    )
    least, gain, most = _median_of(before - after)
    check = compared(scaled, typical, typical - gain, gain, least, most, finding.step)
    return Proof(finding, check, scale, len(before), difference, made)


def _of_peaks(
    finding: Finding,
    sides: _Sides,
    difference: float | None,
    made: tuple[str, ...],
    clock: Callable[[], int],
) -> Proof:
    before, after = sides.peaks()
    gain = float(before - after)
    check = compared(finding, before, after, gain, gain, gain, finding.step)
    times = sides.measured(clock)
    least, added, most = _median_of(times[1] - times[0])
    within = (most - least) / 2
    return Proof(finding, check, 1.0, len(times[0]), difference, made, added, within)


def _choice(old: Trial, step: RecordedStep) -> Choice:
    """Values with which the step executes what it executed in the recording."""
    ran, problem = 0, ""
    for choice in choices():
        try:
            names = old.look(old.values(choice, 0)).ops.name.tolist()
        except OpError as error:
            problem = problem or _said(error)
            continue
        executed = Counter(name for name in names if name in step.whole)
        if executed == step.executed:
            return choice
        ran = ran or sum(executed.values())
    if not ran:
        raise StepscopeError(f"with made values for what was fed the step fails: {problem}")
    raise StepscopeError(
        f"what was fed decides what executes: with made values {ran:,} ops do, where "
        f"{sum(step.executed.values()):,} were recorded"
    )


class _Sides:
    """The step as it was and as it is now, with the values that each is fed."""

    def __init__(
        self, old: Trial, new: Trial, old_sets: Sequence[list[Any]], new_sets: Sequence[list[Any]]
    ) -> None:
        self._trials = (old, new)
        self._sets = (old_sets, new_sets)

    def difference(self) -> float | None:
        """The greatest difference between what both return of the same fetches."""
        old, new = self._trials
        self._reset()
        found = [
            dict(zip(trial.step.fetches, trial.run(sets[0]), strict=True))
            for trial, sets in zip(self._trials, self._sets, strict=True)
        ]
        pairs = list(zip(old.step.fetches, new.step.fetches, strict=False))
        if len(old.step.fetches) != len(new.step.fetches):
            pairs = [(name, name) for name in new.step.fetches if name in found[0]]
        differences = [
            _difference(np.asarray(found[0][a]), np.asarray(found[1][b])) for a, b in pairs
        ]
        return max(differences, default=None)

    def peaks(self) -> tuple[int, int]:
        """The most bytes that each holds."""
        found = [
            trial.look(sets[0]).peak_bytes()
            for trial, sets in zip(self._trials, self._sets, strict=True)
        ]
        return found[0], found[1]

    def measured(self, clock: Callable[[], int]) -> tuple[Any, Any]:
        """How long each took in each pair, in nanoseconds; who goes first changes."""
        for number in range(_WARM):
            for side in (0, 1):
                self._run(side, number)
        pairs: list[tuple[int, int]] = []
        spent = 0
        while len(pairs) < _LEAST_PAIRS or (spent < _MEASURED_S * 1e9 and len(pairs) < _MOST_PAIRS):
            if len(pairs) % _RESET_EVERY == 0:
                self._reset()
                for side in (0, 1):
                    self._run(side, 0)  # what a reset wrote is in the caches, and the rest not
            took = [0, 0]
            for side in (0, 1) if len(pairs) % 2 else (1, 0):
                began = clock()
                self._run(side, len(pairs))
                took[side] = clock() - began
            pairs.append((took[0], took[1]))
            spent += sum(took)
        both = np.array(pairs, np.float64)
        return both[:, 0], both[:, 1]

    def _run(self, side: int, number: int) -> None:
        self._trials[side].run(self._sets[side][number % _SETS])

    def _reset(self) -> None:
        for trial in self._trials:
            trial.reset()


def _median_of(figures: Any) -> tuple[float, float, float]:
    """The median, between bounds that hold in 19 of 20 (which ranks these are is binomial)."""
    ranked = np.sort(figures)
    away = 0.98 * math.sqrt(len(ranked))
    low = max(0, math.floor(len(ranked) / 2 - away))
    high = min(len(ranked) - 1, math.ceil(len(ranked) / 2 + away))
    return float(ranked[low]), float(np.median(ranked)), float(ranked[high])


def _difference(one: Any, other: Any) -> float:
    """How far arrays lie apart, as a share of the greatest value; 1 where they are unlike."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return 1.0
    if one.dtype.kind not in "fciub":
        return float(not np.array_equal(one, other))
    if np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
        return 0.0
    apart = np.abs(one.astype(np.complex128) - other.astype(np.complex128)).max()
    return float(apart / max(np.abs(one).max(), 1e-300))


def _said(error: Exception) -> str:
    return str(getattr(error, "message", None) or error).strip().partition("\n")[0]
