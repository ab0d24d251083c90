"""What a report says of a recording with a budget: of all of its steps, not of those it kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.analysis.advice import AdviceSums
from stepscope.analysis.program.verdict import notes_for_verdict
from stepscope.analysis.sampling.summed_profile import profile_of_summaries
from stepscope.analysis.sampling.summed_steps import SampledRuns, verdict_of_all
from stepscope.analysis.sampling.weights import sampled_at

if TYPE_CHECKING:
    from stepscope.analysis.program.verdict import Verdict
    from stepscope.analysis.sampling.sampled_profile import SampledProfile
    from stepscope.metadata.readers.kept_file import StepsRecording

__all__ = ["AllSteps", "all_steps"]


class AllSteps(NamedTuple):
    """The recording and its store, where time went by op type, and what limits the steps.

    `read` runs were looked at for the verdict and for `sums`, which give advice.
    """

    store: Path
    recording: StepsRecording
    profile: SampledProfile
    verdict: Verdict
    sums: AdviceSums
    read: int


def all_steps(path: Path) -> AllSteps | None:
    """Of the one recording with a budget there; None where it has every step, or there is none.

    >>> all_steps(Path("nowhere")) is None
    True
    """
    found = sampled_at(path)
    if found is None:
        return None
    store, recording = found
    sums, sampled = AdviceSums(), SampledRuns(store, recording)
    for run in sampled:
        sums.add(run)
    limits = sums.limits.verdict(notes_for_verdict(path))
    verdict = verdict_of_all(limits, recording, sampled.kinds)
    profile = profile_of_summaries(recording, "type")
    return AllSteps(store, recording, profile, verdict, sums, len(sampled))
