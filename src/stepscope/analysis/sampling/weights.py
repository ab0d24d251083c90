"""What runs of a recording with a budget stand for.

A recorder with a budget (`stepscope.recorder`) keeps few runs of many, and not at random: those
that failed, the slowest, the first. Sums over what it kept would be those of a stranger program. So
each run with op times gets a **weight**, by its kind of step and why it was kept:

    failed, trigger, slowest, asked, first    it stands for itself: 1
    sample                                    all of these together stand for all other steps
    before, latest                            0: kept to be looked at

>>> from stepscope.metadata.stored.step_summaries import StepSummary
>>> kept = [KeptRun(1, "step", Level.DETAIL, ("first", "slowest")),
...         KeptRun(40, "step", Level.TIMES, ("sample",)),
...         KeptRun(70, "step", Level.TIMES, ("sample", "latest")),
...         KeptRun(99, "step", Level.LENGTH, ("slowest",)),
...         KeptRun(100, "step", Level.TIMES, ("latest",))]
>>> weights = Weights.of(StepsRecording(kept=tuple(kept), summaries=(StepSummary("step", at=[0, 90,
...                                                                              9, 1]),)))
>>> weights.of_run("run_000001"), weights.of_run("run_000070 step"), weights.of_run("run_000100")
(1.0, 49.5, 0.0)
>>> weights.steps, weights.rests_on
(100, 3)
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording, recordings_at
from stepscope.metadata.stored.step_summaries import Level

__all__ = ["Weights", "sampled_at", "samples", "weights_at"]

_ITSELF: Final = frozenset({"failed", "trigger", "slowest", "asked", "first"})
_NUMBER: Final = re.compile(r"run_(\d+)")


@dataclass(frozen=True, slots=True)
class Weights:
    """How many steps each run stands for.

    `sampled` has, by kind, how many runs are its random sample, and how many steps they stand for.
    """

    weight: dict[int, float]
    kind: dict[int, str]
    """Of the runs of samples."""
    sampled: dict[str, tuple[int, int]]
    steps: int
    length_ns: float = 0.0
    """How long all steps took, by those whose length was noted; 0 where none was."""

    @classmethod
    def of(cls, recording: StepsRecording) -> Weights:
        """Those of what one recorder kept."""
        weight: dict[int, float] = {}
        kind_of: dict[int, str] = {}
        sampled: dict[str, tuple[int, int]] = {}
        with_times: defaultdict[str, list[KeptRun]] = defaultdict(list)
        for run in recording.kept:
            weight[run.number] = 0.0
            if run.level >= Level.TIMES:
                with_times[run.kind].append(run)
        for summary in recording.summaries:
            runs = with_times[summary.kind]
            alone = {run.number for run in runs if _ITSELF & set(run.reasons)}
            sample = [run for run in runs if "sample" in run.reasons and run.number not in alone]
            rest = summary.runs - len(alone)
            if rest and not sample:
                # Nothing was left to chance: whatever there is stands for all.
                sample, alone, rest = runs, set(), summary.runs
            weight.update(dict.fromkeys(alone, 1.0))
            if sample:
                weight.update({run.number: rest / len(sample) for run in sample})
                kind_of.update({run.number: summary.kind for run in sample})
                sampled[summary.kind] = len(sample), rest
        noted = [one for one in recording.summaries if one.lengths.count and with_times[one.kind]]
        length = sum(one.lengths.total / one.lengths.count * one.runs for one in noted)
        return cls(weight, kind_of, sampled, recording.steps, length)

    @property
    def rests_on(self) -> int:
        """How many runs estimates rest on."""
        return sum(weight > 0 for weight in self.weight.values())

    @property
    def all_are_there(self) -> bool:
        """Whether every step is there with its op times: nothing is estimated."""
        return self.rests_on == self.steps

    def of_run(self, name: str) -> float:
        """How many steps the run of that name stands for."""
        return self.weight.get(_number(name), 0.0)

    def kind_of(self, name: str) -> str:
        """The kind of step that the run of that name is a sample of; "" where it is none."""
        return self.kind.get(_number(name), "")


def sampled_at(path: str | os.PathLike[str]) -> tuple[Path, StepsRecording] | None:
    """The recording with a budget there, and its store, if it does not have all of its steps.

    Of several recordings with a budget it is not told whose runs are whose: None as well, as where
    there are stores beside it.
    """
    place = Path(path)
    found = recordings_at(place)
    if len(found) != 1 or (place.is_dir() and len(list(place.glob("*.stepscope"))) > 1):
        return None
    return None if Weights.of(found[0][1]).all_are_there else found[0]


def weights_at(path: str | os.PathLike[str]) -> Weights | None:
    """What the runs there stand for; None where all steps are there, or no budget was kept to."""
    found = sampled_at(path)
    return None if found is None else Weights.of(found[1])


def samples(recording: StepsRecording) -> dict[str, list[KeptRun]]:
    """By kind, the runs with op times that stand for all steps that do not stand for themselves.

    >>> from stepscope.metadata.stored.step_summaries import StepSummary
    >>> runs = [KeptRun(1, "step", Level.DETAIL, ("first",)),
    ...         KeptRun(7, "step", Level.TIMES, ("sample", "latest")),
    ...         KeptRun(9, "step", Level.TIMES, ("slowest", "sample"))]
    >>> summaries = StepSummary("step", at=[0, 50, 9, 1]),
    >>> found = samples(StepsRecording(kept=tuple(runs), summaries=summaries))
    >>> [run.number for run in found["step"]]
    [7]
    """
    sampled = Weights.of(recording).kind
    found: dict[str, list[KeptRun]] = {}
    for run in recording.kept:
        if run.number in sampled:
            found.setdefault(run.kind, []).append(run)
    return found


def _number(name: str) -> int:
    found = _NUMBER.search(name)
    return int(found[1]) if found else -1
