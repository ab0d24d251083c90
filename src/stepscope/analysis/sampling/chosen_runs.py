"""Which runs of a recording with a budget answer for all of its steps.

Those that failed or were slow are there in greater numbers than in the program: whoever asks what
is usual is to look at the random sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.analysis.program.run_kinds import EAGER_CODE
from stepscope.analysis.sampling.weights import samples
from stepscope.metadata import readable
from stepscope.metadata.stored.step_summaries import Level

if TYPE_CHECKING:
    from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording

__all__ = [
    "Chosen",
    "places",
    "random_sample",
    "recorded_in_detail",
    "share_above",
    "typical_of_sample",
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Runs of a recording, and in words what they stand for."""

    runs: tuple[KeptRun, ...]
    why: str


def random_sample(recording: StepsRecording) -> Chosen:
    """The runs of the random samples of all kinds, in their order."""
    found = sorted(
        (run for runs in samples(recording).values() for run in runs), key=lambda run: run.number
    )
    said = (
        f"{readable.number(len(found), 'run')} of the random sample stand for "
        f"{readable.number(recording.steps, 'step')}; runs that were kept for being slow, "
        "failing or the first are left out"
    )
    return Chosen(tuple(found), said)


def typical_of_sample(recording: StepsRecording) -> Chosen | None:
    """The run of median length in the sample of the kind that ran most often; None without one."""
    sampled = samples(recording)
    kinds = [one for one in recording.summaries if one.kind in sampled]
    if not kinds:
        return None
    most = max(kinds, key=lambda one: (one.kind != EAGER_CODE, one.runs, one.lengths.total))
    runs = sorted(sampled[most.kind], key=lambda run: (run.length_ns, run.number))
    said = (
        f"the run of median length of a random sample of {len(runs):,}, of "
        f"{readable.number(most.runs, 'step')} of its kind"
    )
    return Chosen((runs[(len(runs) - 1) // 2],), said)


def recorded_in_detail(recording: StepsRecording) -> Chosen:
    """The runs whose memory is known, and what can be said of the others'."""
    found = tuple(run for run in recording.kept if run.level is Level.DETAIL)
    sampled = {run.number for runs in samples(recording).values() for run in runs}
    random = sum(run.number in sampled for run in found)
    said = (
        f"of {readable.number(recording.steps, 'step')} the memory of "
        f"{readable.number(len(found), 'run')} was recorded"
    )
    if random:
        said += (
            f"; {random:,} of these are a random sample: of all steps at most "
            f"{share_above(random):.1%} held more than the most of these, 19 times of 20"
        )
    return Chosen(found, said)


def share_above(sampled: int) -> float:
    """Of how many of all steps at most, 19 times of 20, the largest of a random sample is exceeded.

    >>> round(share_above(20), 3), round(share_above(299), 3)
    (0.139, 0.01)
    """
    return float(1 - 0.05 ** (1 / sampled))


def places(recording: StepsRecording, runs: Sequence[KeptRun]) -> list[int]:
    """What `--run` calls these runs: their places among all that the store has."""
    place = {run.number: place for place, run in enumerate(recording.kept)}
    return [place[run.number] for run in runs]
