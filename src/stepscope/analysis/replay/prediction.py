"""What a change would gain, with an interval: from replaying recorded runs with it and without.

The gain of a run is the difference between the two replays of it, so that what the simulation gets
wrong in both cancels. The gain that is predicted is the median over the runs. Its interval has
three parts, added as independent errors are: how far the gains of runs lie apart (a bootstrap of
the median), how far the program's steps drift in the course of the recording, and the error of the
replay on the recorded runs, as a share of the gain: by how much it misses a run whose delays it is
told by the others (`foretold`), or by the model of the engine and the run's own op times
(`modelled`), whichever is more.

>>> gains = [10.0, 11.0, 9.0, 10.0, 10.5]
>>> predicted = of_gains(gains, lengths=[20.0] * 5, error=0.02)
>>> predicted.gain_ns, round(predicted.low_ns, 1), round(predicted.high_ns, 1)
(10.0, 8.9, 11.1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from stepscope.analysis.replay.foretold import foretold_ns
from stepscope.analysis.replay.modelled import modelled_ns
from stepscope.analysis.replay.recorded_work import RecordedWork

__all__ = ["Prediction", "of_gains", "predict"]

_RESAMPLES: Final = 400
_LEAST: Final = 0.05
"""A program that runs again does not take the same time to less than this, as a share."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A run would be shorter by `gain_ns`, which lies between `low_ns` and `high_ns` in 19 of 20.

    `runs` were replayed, and missed the recorded length of one of these, without any change, by so
    much in the median (0.02 is 2%): `model_error` with its own op times and the model of what comes
    between ops, `error` with the delays of the others, in which runs differ. What rests on no
    replay has no `model_error`.
    """

    gain_ns: float
    low_ns: float
    high_ns: float
    runs: int
    error: float
    model_error: float | None = None

    def times(self, factor: float) -> Prediction:
        """The same of so many runs, or of a part of one."""
        return replace(
            self,
            gain_ns=factor * self.gain_ns,
            low_ns=factor * self.low_ns,
            high_ns=factor * self.high_ns,
        )

    def plus(self, least: float, most: float) -> Prediction:
        """With nanoseconds on top, nobody knows how many between the two.

        >>> Prediction(10.0, 9.0, 11.0, 3, 0.0).plus(0, 4)
        Prediction(gain_ns=12.0, low_ns=9.0, high_ns=15.0, runs=3, error=0.0, model_error=None)
        """
        return replace(
            self,
            gain_ns=self.gain_ns + (least + most) / 2,
            low_ns=self.low_ns + least,
            high_ns=self.high_ns + most,
        )

    def between(self, least: float, likely: float, most: float) -> Prediction:
        """With a gain that is some part of this one: likely that, and between the other two."""
        return replace(
            self,
            gain_ns=likely * self.gain_ns,
            low_ns=least * self.low_ns,
            high_ns=max(most, 1e-12) * self.high_ns,
        )


def predict(
    runs: Sequence[RecordedWork], changed_ns: Callable[[RecordedWork], float],
    base: Sequence[float] | None = None,
) -> Prediction:  # fmt: skip
    """What is gained in a run whose replay with the change takes `changed_ns`.

    `base` are the lengths of the replays without it, for who knows them.
    """
    if base is None:
        base = [run.replayed_ns() for run in runs]
    gains = [before - changed_ns(run) for before, run in zip(base, runs, strict=True)]
    error, model_error = replay_error(runs), own_error(runs)
    found = of_gains(gains, [float(run.recorded_ns) for run in runs], max(error, model_error))
    return replace(found, error=error, model_error=model_error)


def replay_error(runs: Sequence[RecordedWork]) -> float:
    """By how much the replay of a run by the others misses its length: the median over the runs."""
    return _median_error(foretold_ns(runs), runs)


def own_error(runs: Sequence[RecordedWork]) -> float:
    """The same of the replay by its own op times: what the model of the engine gets wrong."""
    return _median_error([modelled_ns(run) for run in runs], runs)


def _median_error(told_ns: Sequence[float], runs: Sequence[RecordedWork]) -> float:
    errors = [
        abs(ns / run.recorded_ns - 1)
        for ns, run in zip(told_ns, runs, strict=True)
        if run.recorded_ns > 0
    ]
    return float(np.median(errors)) if errors else 0.0


def of_gains(gains: Sequence[float], lengths: Sequence[float], error: float) -> Prediction:
    """The prediction from what was gained in each of some runs, which took `lengths`."""
    if not gains:
        return Prediction(0.0, 0.0, 0.0, 0, error)
    found = np.array(gains)
    gain = float(np.median(found))
    spread = 0.0
    if len(found) > 1:
        picks = np.random.default_rng(1).integers(0, len(found), (_RESAMPLES, len(found)))
        medians = np.median(found[picks], axis=1)
        low, high = np.percentile(medians, (2.5, 97.5))
        spread = float(high - low) / 2
    around = math.hypot(spread, abs(gain) * (_drift(lengths) + error), _LEAST * max(gain, 0))
    return Prediction(gain, gain - around, gain + around, len(gains), error)


def _drift(lengths: Sequence[float]) -> float:
    """How far the median lengths of the earlier and the later half lie from their middle, as a
    share of it.

    >>> _drift([9, 9, 9, 11, 11, 11])
    0.1
    """
    half = len(lengths) // 2
    if not half:
        return 0.0
    early, late = float(np.median(lengths[:half])), float(np.median(lengths[-half:]))
    return abs(late - early) / max(early + late, 1e-9)
