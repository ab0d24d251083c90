"""Did the times of a node change between two sets of runs? A test that assumes no distribution.

What is compared is the undisturbed time: the mean of the lower half of a set's times, on
logarithms. What else the machine does can only lengthen a run, so the rest tells about the machine
and hardly about the program.

How far two sets of the same program lie apart is learnt from the sets themselves, by dealing the
runs anew to the two sides many times. Where the sets were recorded in turns, a run changes places
only with its neighbour in time, runs that were recorded in one stretch together: what the machine
was like at the moment then counts for neither side. Where one set was recorded after the other that
is not possible. What changed on the machine in between cannot be told from what changed in the
program; the test is then a cautious one. A set whose second half differs from its first shows how
far the machine drifts, and where all nodes moved together, they react to that differently: half of
what they have in common may be a node's own.

Sets differ also in what no single run shows, as where their memory lies. Most nodes did not change,
so if all nodes together differ more than dealing explains, that measures it, and every difference
is judged by that much more. In turns that is little, and it counts only as far as it exceeds what
so many nodes show by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import erfc, sqrt
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.compare.rank_test import Comparison, compare, effects, independence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.intp]

__all__ = ["FEWEST_RUNS", "Turns", "compare_times", "undisturbed"]

FEWEST_RUNS = 4
"""With fewer on a side no difference of time is significant: a few slow runs may be chance."""
_FEW = 16
_PART = 2
"""One in so many of a set's times, the lowest, is taken for undisturbed."""
_MOST = 64
_DEALS = 300
_FEWEST_TURNS = 5
_HIDDEN, _HIDDEN_IN_TURNS = 0.015, 0.01
"""What sets of the same program differ by at least, whatever their runs show."""
_LEAST_LEFT = 0.01
_CHANCE = 2.0
_INSIDE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Runs of both sides that are neighbours in time: `base[i]` and `new[i]` are columns.

    Those with the same `group` were recorded in the same two stretches.
    """

    base: Indices
    new: Indices
    group: Indices

    @classmethod
    def of(cls, base_time: NDArray[np.int64], new_time: NDArray[np.int64]) -> Turns | None:
        """The neighbours of sets that were recorded in turns; None if they were not."""
        count = min(len(base_time), len(new_time))
        if count < _FEWEST_TURNS:
            return None
        times = np.concatenate([base_time, new_time])
        order = np.argsort(times, kind="stable")
        is_new = (np.arange(len(times)) >= len(base_time))[order]
        stretch = np.empty(len(times), np.intp)
        stretch[order] = np.cumsum(np.concatenate([[0], is_new[1:] != is_new[:-1]]))
        pick = np.arange(count)
        base = np.argsort(base_time, kind="stable")[pick * len(base_time) // count]
        new = np.argsort(new_time, kind="stable")[pick * len(new_time) // count]
        pairs = np.stack([stretch[base], stretch[len(base_time) + new]])
        _, group = np.unique(pairs, axis=1, return_inverse=True)
        group = group.reshape(-1)
        return cls(base, new, group) if group.max() + 1 >= _FEWEST_TURNS else None


def undisturbed(values: Floats) -> Floats:
    """Per row the mean of the lower half."""
    count = _lowest(values.shape[1])
    low: Floats = np.partition(values, count - 1, axis=1)[:, :count].mean(axis=1)
    return low


def _lowest(count: int) -> int:
    return (count + _PART - 1) // _PART


def compare_times(
    base: Floats, new: Floats, turns: Turns | None, whole: int = 0, machine: float = 0.0
) -> Comparison:
    """Compare rows of logarithms of times; columns are runs, in the order they were made.

    The last `whole` rows are sums of the others: they tell nothing about what nodes have in
    common. `machine` is what nodes have changed in common; where the sets did not take turns it
    makes the test more cautious. With 16 runs or fewer on both sides together it is an exact rank
    test; with fewer than `FEWEST_RUNS` on a side p is 1.
    """
    rows, n = base.shape
    m = new.shape[1]
    if min(n, m) < FEWEST_RUNS:
        return replace(compare(base, new), p=np.ones(rows))
    if not rows or n + m <= _FEW:
        return compare(base, new)
    shift = undisturbed(new) - undisturbed(base)
    freedom = _lowest(min(n, _MOST)) + _lowest(min(m, _MOST)) - 2
    if turns is not None:
        group = np.unique(turns.group[_starts(len(turns.group))], return_inverse=True)[1]
        count = int(group.max()) + 1
        a, b = _joined_runs(base[:, turns.base]), _joined_runs(new[:, turns.new])
        spread = _without_difference(a, b, shift, group)
        spread = np.hypot(spread, _HIDDEN_IN_TURNS)
        freedom = min(freedom, count - 1)
    else:
        a, b = _joined_runs(base), _joined_runs(new)
        spread = _dealt(a, b, None) / np.sqrt(np.minimum(independence(a), independence(b)))
        spread = np.maximum(spread, np.hypot(_drift(base), _drift(new)) / 2)
        spread = np.hypot(np.hypot(spread, machine / 2), _HIDDEN)
    distance = np.abs(shift) / spread
    nodes = rows - whole
    # A median of few says little, and one node that changed is half of two.
    if nodes >= 5:
        more = 1.4826 * float(np.median(distance[:nodes]))
        if turns is not None:
            more /= 1 + _CHANCE * 1.17 / sqrt(nodes)
        spread, distance = spread * max(1.0, more), distance / max(1.0, more)
    p = _tails(distance, freedom)
    reach = _inside(freedom) * spread
    return Comparison(p, effects(base, new), shift, shift - reach, shift + reach)


def _without_difference(base: Floats, new: Floats, shift: Floats, group: Indices) -> Floats:
    """How far the sides of turns lie apart by chance.

    A real difference widens what dealing shows. So what exceeds twice the spread is taken away
    before the runs are dealt again, and Student's formula accounts for the rest. All of it must
    not be taken away: sides that were moved together differ less than chance makes them.
    """
    count = int(group.max()) + 1
    spread = _dealt(base, new, group)
    clear = np.flatnonzero(np.abs(shift) > 2 * spread)
    left = np.clip(shift, -2 * spread, 2 * spread)
    if len(clear):
        moved = new[clear] - (shift - left)[clear, None]
        spread[clear] = _dealt(base[clear], moved, group)
    spread = np.maximum(spread, 1e-12)
    own = np.maximum(1 - (left / spread) ** 2 / count, _LEAST_LEFT)
    result: Floats = spread * np.sqrt(own * count / (count - 1))
    return result


def _drift(values: Floats) -> Floats:
    """How far the second half of a set lies from its first."""
    middle = values.shape[1] // 2
    return undisturbed(values[:, middle:]) - undisturbed(values[:, :middle])


def _dealt(base: Floats, new: Floats, group: Indices | None) -> Floats:
    """How far the undisturbed times of two sides lie apart when the runs are dealt at random.

    A row's runs, shortest first, are a column here: counting down columns is counting whole rows
    at once. Neither side has more than `_MOST` runs, so that counts are small numbers.
    """
    n, m = base.shape[1], new.shape[1]
    times = np.concatenate([base, new], axis=1).T
    order = np.argsort(times, axis=0)
    times = np.take_along_axis(times, order, axis=0)
    places = np.arange(1, n + m + 1, dtype=np.uint8)[:, None]
    random = np.random.default_rng(0)
    low_n, low_m = _lowest(n), _lowest(m)
    squares = np.zeros(times.shape[1])
    for _ in range(_DEALS):
        if group is None:
            is_new = random.permutation(n + m) >= n
        else:
            swapped = (random.random(group.max() + 1) < 0.5)[group]
            is_new = np.concatenate([swapped, ~swapped])
        mine = is_new.take(order)
        rank = np.cumsum(mine, axis=0, dtype=np.uint8)
        ours = np.einsum("ij,ij->j", mine & (rank <= low_m), times) / low_m
        theirs = np.einsum("ij,ij->j", ~mine & (places - rank <= low_n), times) / low_n
        squares += (ours - theirs) ** 2
    spread: Floats = np.sqrt(squares / _DEALS)
    return spread


def _joined_runs(values: Floats) -> Floats:
    """At most 64 columns: neighbours taken together where there are more."""
    count = values.shape[1]
    if count <= _MOST:
        return values
    parts = np.split(values, _starts(count)[1:], axis=1)
    return np.stack([undisturbed(part) for part in parts], axis=1)


def _starts(count: int) -> Indices:
    """Where the groups of neighbours begin."""
    return np.linspace(0, count, min(count, _MOST), endpoint=False).astype(np.intp)


def _inside(freedom: int) -> float:
    """How many deviations hold 95% of what chance does."""
    low, high = 0.0, 1000.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        outside = _tails(np.array([middle]), freedom)[0]
        low, high = (middle, high) if outside > 1 - _INSIDE else (low, middle)
    return low


def _tails(distance: Floats, freedom: int) -> Floats:
    """How likely so many deviations are, the deviation being itself an estimate.

    Student's distribution by Wallace's formula, whose error is far below what p is read to.
    """
    normal = (8 * freedom + 1) / (8 * freedom + 3)
    normal = normal * np.sqrt(freedom * np.log1p(distance**2 / freedom))
    return np.array([erfc(value / sqrt(2)) for value in normal.tolist()])
