"""Is one set of measurements larger than another? A test that assumes no distribution.

For many quantities at once, one row each. `compare` is the Mann-Whitney test on two sets of runs:
exact by enumeration where the sets are small, by the normal approximation with ties elsewhere.
Consecutive runs of one process resemble each other, and a test that takes them for independent
finds differences that are not there: the spread is widened by what neighbours in a set have in
common.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, erf, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Comparison", "compare", "effects", "holm", "independence"]

_EXACT_UP_TO = 16
_QUANTILES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One entry per row.

    `p`: how likely a difference at least this large is between sets that do not differ.
    `effect`: Cliff's delta, -1 to 1: how much more often a new value exceeds a base value than the
    other way round. `shift`, `low`, `high`: how much larger new values are (the Hodges-Lehmann
    estimate) and its confidence interval, in the measurements' unit.
    """

    p: Floats
    effect: Floats
    shift: Floats
    low: Floats
    high: Floats


def compare(base: Floats, new: Floats, confidence: float = 0.95) -> Comparison:
    """Compare rows of `base` with rows of `new`; columns are runs in the order they were made."""
    rows, n = base.shape
    m = new.shape[1]
    if not rows or not n or not m:
        nothing = np.zeros(rows)
        return Comparison(np.ones(rows), nothing, nothing, nothing, nothing)
    joined = np.concatenate([base, new], axis=1)
    ranks, ties = _midranks(joined)
    u = ranks[:, n:].sum(axis=1) - m * (m + 1) / 2
    total = n + m
    spread = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    inflation = 1 / np.minimum(independence(ranks[:, :n]), independence(ranks[:, n:]))
    if total <= _EXACT_UP_TO:
        p = np.array([_exact(tuple(row), m) for row in (2 * ranks).astype(int).tolist()])
    else:
        deviation = np.sqrt(np.maximum(spread * inflation, 1e-300))
        z = np.maximum(np.abs(u - n * m / 2) - 0.5, 0) / deviation
        p = np.where(spread > 1e-9, 1 - _erf(z / sqrt(2)), 1.0)
    shift, low, high = _shifts(base, new, inflation, confidence)
    return Comparison(p, 2 * u / (n * m) - 1, shift, low, high)


def holm(p: Floats, weight: Floats | None = None) -> Floats:
    """Values of p corrected for how many there are (Holm): at most 5% chance of any false alarm.

    `weight` shares that chance out: a quantity of twice the weight gets twice as much of it.
    """
    if not len(p):
        return p
    share = np.ones(len(p)) if weight is None else weight
    order = np.argsort(p / share)
    left = np.cumsum(share[order][::-1])[::-1]
    corrected = np.maximum.accumulate((p / share)[order] * left)
    result = np.empty(len(p))
    result[order] = np.minimum(corrected, 1.0)
    return result


def effects(base: Floats, new: Floats) -> Floats:
    """Cliff's delta per row."""
    n, m = base.shape[1], new.shape[1]
    ranks, _ = _midranks(np.concatenate([base, new], axis=1))
    u = ranks[:, n:].sum(axis=1) - m * (m + 1) / 2
    delta: Floats = 2 * u / (n * m) - 1
    return delta


def _midranks(values: Floats) -> tuple[Floats, Floats]:
    """Ranks along rows from 1, equal values sharing theirs; and sum(t^3 - t) over the ties."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    rows, count = values.shape
    first = np.ones((rows, count), bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    group = np.cumsum(first.ravel()) - 1
    sizes = np.bincount(group)
    starts = np.flatnonzero(first.ravel()) % count
    middle = starts + (sizes + 1) / 2
    ranks = np.empty_like(values, dtype=np.float64)
    np.put_along_axis(ranks, order, middle[group].reshape(rows, count), axis=1)
    row_of = np.flatnonzero(first.ravel()) // count
    ties = np.zeros(rows)
    np.add.at(ties, row_of, (sizes.astype(np.float64) ** 3 - sizes))
    return ranks, ties


def independence(ranks: Floats) -> Floats:
    """How many independent values a set is worth, per value in it: 1 where neighbours differ."""
    count = ranks.shape[1]
    if count < 8:
        return np.ones(len(ranks))
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    power = (centred**2).sum(axis=1)
    together = (centred[:, 1:] * centred[:, :-1]).sum(axis=1)
    alike = np.divide(together, power, out=np.zeros(len(ranks)), where=power > 0)
    # A short series underestimates how alike its neighbours are.
    alike = np.clip(alike + 1 / count, 0, 0.9)
    worth: Floats = (1 - alike) / (1 + alike)
    return worth


@lru_cache(maxsize=4096)
def _exact(doubled: tuple[int, ...], m: int) -> float:
    """Two-sided p of the last `m` ranks (doubled, so that shared ones are whole numbers)."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(m))]
    for rank in doubled:
        for size in range(m, 0, -1):
            for sum_, count in ways[size - 1].items():
                ways[size][sum_ + rank] = ways[size].get(sum_ + rank, 0) + count
    centre = m * sum(doubled) / len(doubled)
    seen = abs(sum(doubled[-m:]) - centre)
    extreme = sum(count for sum_, count in ways[m].items() if abs(sum_ - centre) >= seen - 1e-9)
    return extreme / comb(len(doubled), m)


def _shifts(
    base: Floats, new: Floats, inflation: Floats, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """The median of all differences new - base, and the interval that holds the true one."""
    n, m = base.shape[1], new.shape[1]
    a, b = _thinned(base), _thinned(new)
    pairs = np.sort((b[:, :, None] - a[:, None, :]).reshape(len(base), -1), axis=1)
    reach = _normal_quantile(confidence) * np.sqrt(inflation * (n + m + 1) / (12 * n * m))
    last = pairs.shape[1] - 1
    low = np.floor(np.clip(0.5 - reach, 0, 1) * last).astype(np.intp)
    high = np.ceil(np.clip(0.5 + reach, 0, 1) * last).astype(np.intp)
    row = np.arange(len(pairs))
    return np.median(pairs, axis=1), pairs[row, low], pairs[row, high]


def _thinned(values: Floats) -> Floats:
    """At most 64 values per row that stand for all: the pairs of many runs would not fit."""
    if values.shape[1] <= _QUANTILES:
        return values
    places = np.linspace(0, values.shape[1] - 1, _QUANTILES).round().astype(np.intp)
    return np.sort(values, axis=1)[:, places]


def _normal_quantile(confidence: float) -> float:
    """How many deviations hold this part of a normal distribution."""
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if erf(middle / sqrt(2)) < confidence else (low, middle)
    return low


def _erf(values: Floats) -> Floats:
    return np.array([erf(value) for value in values.tolist()])
