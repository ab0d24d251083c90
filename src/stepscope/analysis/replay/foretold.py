"""How long a run would be said to take by what other runs tell: how far runs differ, too.

What the model of the engine gets wrong in the run itself is told by `modelled`. Here each run is
replayed with the delays of the others: how long its ops took and on which threads they ran
is its own, what handing them over took and what the call takes around them is what the other runs
of the same nodes took for it. Whether a thread went on with an op or had to be woken for it is told
apart, as the second takes far longer.

Of the others' delays it is the mean without the largest and the smallest fourth: delays are small
or very large (the system ran something else), and their sum is what a run is made of. Of a run that
has no others nothing is known of its delays, and none are taken.

>>> from stepscope.analysis.replay.simulation import Work
>>> def run(delay):
...     work = Work([10.0, 10.0], [0.0, delay], [[], [0]], [0, 1], 2)
...     return RecordedWork(work, ["a", "b"], ["Tanh", "Neg"], 4, 24 + delay)
>>> foretold_ns([run(1.0), run(3.0), run(5.0)])
[28.0, 27.0, 26.0]
>>> foretold_ns([run(1.0)])
[20.0]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope.analysis.replay.modelled import woken_ops
from stepscope.analysis.replay.recorded_work import RecordedWork
from stepscope.analysis.replay.simulation import ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Place: TypeAlias = tuple[str, int, bool]

__all__ = ["foretold_ns"]

_OTHERS: Final = 24
"""So many other runs are asked at most, the nearest ones."""


def foretold_ns(runs: Sequence[RecordedWork]) -> list[float]:
    """How long each run would have taken by its ops, and by what the others took beside theirs."""
    alike: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for number, run in enumerate(runs):
        alike[frozenset(run.nodes)].append(number)
    found = [0.0] * len(runs)
    for numbers in alike.values():
        kind = _Kind([runs[number] for number in numbers])
        for place, number in enumerate(numbers):
            found[number] = kind.foretold_ns(place)
    return found


class _Kind:
    """Runs of the same nodes, with their delays in the same order."""

    def __init__(self, runs: Sequence[RecordedWork]) -> None:
        self._runs = runs
        self._places = [_places(run) for run in runs]
        known = sorted({place for places in self._places for place in places})
        self._column = {place: column for column, place in enumerate(known)}
        self._woken = np.array([woken for _, _, woken in known], bool)
        self._delays = np.full((len(runs), len(known)), np.nan)
        for row, (run, places) in enumerate(zip(runs, self._places, strict=True)):
            self._delays[row, [self._column[place] for place in places]] = run.work.delays
        self._around = np.array([run.around_ns for run in runs], float)

    def foretold_ns(self, number: int) -> float:
        run = self._runs[number]
        first = min(max(0, number - _OTHERS // 2), max(0, len(self._runs) - 1 - _OTHERS))
        others = [n for n in range(first, min(len(self._runs), first + _OTHERS + 1)) if n != number]
        if not others:
            return max(ends(replace(run.work, delays=[0.0] * len(run.nodes))), default=0.0)
        typical = _middle(self._delays[others])
        for woken in (False, True):
            # Of an op that none of the others ran like this: as of any op.
            same = self._woken == woken
            some = typical[same & ~np.isnan(typical)]
            typical[same & np.isnan(typical)] = float(np.median(some)) if some.size else 0.0
        delays = typical[[self._column[place] for place in self._places[number]]]
        around = float(_middle(self._around[others, None])[0])
        return around + max(ends(replace(run.work, delays=delays.tolist())), default=0.0)


def _places(run: RecordedWork) -> list[Place]:
    """Of each op its node, the how many-th time it ran, and whether its thread was woken for it."""
    turns: Counter[str] = Counter()
    found: list[Place] = []
    for name, woken in zip(run.nodes, woken_ops(run.work), strict=True):
        found.append((name, turns[name], woken))
        turns[name] += 1
    return found


def _middle(values: Floats) -> Floats:
    """By columns the mean without the largest and the smallest fourth; NaN of nothing.

    >>> _middle(np.array([[1.0], [2.0], [3.0], [90.0]])).tolist()
    [2.5]
    """
    ordered = np.sort(values, axis=0)  # what is not known comes last
    counts = (~np.isnan(values)).sum(axis=0)
    cut = counts // 4
    rows = np.arange(len(values))[:, None]
    kept = (rows >= cut) & (rows < counts - cut)
    sums = np.where(kept, ordered, 0.0).sum(axis=0)
    found: Floats = np.where(counts > 0, sums / np.maximum(1, counts - 2 * cut), np.nan)
    return found
