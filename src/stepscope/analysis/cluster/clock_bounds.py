"""Bounds on the difference of two clocks, from what happened before what.

The difference d(x) of two clocks, x being the time of the first, is taken for a straight line over
the recorded time. A message from the first to the second clock says d(x) <= u: it cannot arrive
before it was sent. One the other way says d(x) >= l. The lines that satisfy all of them form a
convex polygon; its centre is the estimate, and how far it reaches is the error, exactly. Clocks
that may be right are left alone: where no difference at all is possible, that is the estimate.
Only the points of the two hulls matter, so any number of messages needs little memory.

A line is written as its values at the two ends of the recorded time, `(first, last)`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypeAlias

__all__ = ["MOST_DRIFT", "Bounds", "Constraints", "Line", "Points", "hull", "solve"]

MOST_DRIFT = 1e-3
"""No clock runs faster or slower than another by more than this: a millisecond per second."""

Points: TypeAlias = list[tuple[int, int]]
"""Of (x, bound), in nanoseconds."""
_Polygon: TypeAlias = list[tuple[float, float]]
_KEPT = 512


class Line(NamedTuple):
    """Differences at the two ends of the recorded time."""

    first: float
    last: float


class Bounds(NamedTuple):
    """The lines that are possible between `start` and `end`.

    `lowest` and `highest` are what any of them reaches at either end; None where nothing bounds the
    difference from that side. `drift` is the least and most by which the difference can grow over
    the recorded time. `slack_ns` is by how much messages contradict one another, which a
    straight line cannot explain: bounds are as much wider.
    """

    start: int
    end: int
    estimate: Line
    lowest: Line | None
    highest: Line | None
    drift: tuple[float, float]
    slack_ns: float

    @property
    def error_ns(self) -> float | None:
        """How far the difference can be from the estimate; None where nothing limits it."""
        if self.lowest is None or self.highest is None:
            return None
        return max(
            *(value - low for value, low in zip(self.estimate, self.lowest, strict=True)),
            *(high - value for value, high in zip(self.estimate, self.highest, strict=True)),
        )


def hull(points: Points, sign: int) -> Points:
    """The points that matter: of upper bounds (`sign` 1) the lower hull, of lower ones the upper.

    In order of x.
    """
    kept: Points = []
    for x, bound in sorted(points, key=lambda p: (p[0], sign * p[1])):
        if kept and kept[-1][0] == x:
            continue
        while len(kept) > 1:
            (x0, b0), (x1, b1) = kept[-2:]
            # Python's integers: products of times of day do not fit into 64 bits.
            if sign * ((b1 - b0) * (x - x0) - (bound - b0) * (x1 - x0)) < 0:
                break
            kept.pop()
        kept.append((x, bound))
    return kept


class Constraints:
    """The messages between two clocks, reduced to their hulls as they come."""

    __slots__ = ("count", "lower", "upper")

    def __init__(self) -> None:
        self.upper: Points = []
        self.lower: Points = []
        self.count = 0

    def to_second(self, sent: int, received: int) -> None:
        """A message from the first clock to the second."""
        self.count += 1
        self.upper.append((sent, received - sent))
        if len(self.upper) > _KEPT:
            self.upper = hull(self.upper, 1)

    def to_first(self, sent: int, received: int) -> None:
        """A message from the second clock to the first."""
        self.count += 1
        self.lower.append((received, sent - received))
        if len(self.lower) > _KEPT:
            self.lower = hull(self.lower, -1)

    def bounds(self) -> Bounds | None:
        """What is known of the difference; None where there was no message."""
        return solve(self.upper, self.lower)


def solve(upper: Points, lower: Points) -> Bounds | None:
    """What upper and lower bounds together say; None where there are none."""
    upper, lower = hull(upper, 1), hull(lower, -1)
    every = [*upper, *lower]
    if not every:
        return None
    start, end = min(x for x, _ in every), max(x for x, _ in every)
    # Relative to a bound: the differences of clocks that are years apart stay exact.
    zero = every[0][1]
    reach = float(max(abs(bound - zero) for _, bound in every)) + MOST_DRIFT * (end - start) + 1e6
    cuts = [_cut(x, bound - zero, 1, start, end) for x, bound in upper]
    cuts += [_cut(x, bound - zero, -1, start, end) for x, bound in lower]
    polygon, slack = _widened(cuts, reach, MOST_DRIFT * (end - start))
    lowest = Line(min(p[0] for p in polygon) + zero, min(p[1] for p in polygon) + zero)
    highest = Line(max(p[0] for p in polygon) + zero, max(p[1] for p in polygon) + zero)
    growth = [last - first for first, last in polygon]
    drift = (min(growth), max(growth))
    if all(bound >= 0 for _, bound in upper) and all(bound <= 0 for _, bound in lower):
        estimate = Line(0.0, 0.0)
        return Bounds(
            start, end, estimate, lowest if lower else None, highest if upper else None, drift, 0.0
        )
    if upper and lower:
        centre = _centre(polygon)
        estimate = Line(centre[0] + zero, centre[1] + zero)
        return Bounds(start, end, estimate, lowest, highest, drift, slack)
    # Bounded from one side alone: the least correction that the messages ask for.
    if upper:
        shift = min(highest)
        return Bounds(start, end, Line(shift, shift), None, highest, drift, slack)
    shift = max(0.0, *lowest)
    return Bounds(start, end, Line(shift, shift), lowest, None, drift, slack)


_Cut: TypeAlias = tuple[float, float, float]


def _cut(x: int, bound: int, sign: int, start: int, end: int) -> _Cut:
    """A bound as a*first + b*last <= c."""
    place = (x - start) / (end - start) if end > start else 0.0
    return sign * (1 - place), sign * place, float(sign * bound)


def _widened(cuts: list[_Cut], reach: float, drift: float) -> tuple[_Polygon, float]:
    """The polygon of all cuts; where they leave nothing, of cuts moved out by as little as will."""
    polygon = _intersection(cuts, 0.0, reach, drift)
    if polygon:
        return polygon, 0.0
    low, high = 0.0, 1.0
    while not _intersection(cuts, high, reach + high, drift):
        low, high = high, high * 2
    for _ in range(24):
        middle = (low + high) / 2
        if _intersection(cuts, middle, reach + middle, drift):
            high = middle
        else:
            low = middle
    # The contradiction says how wrong a bound may be: the truth can be as far beyond.
    return _intersection(cuts, 2 * high, reach + 2 * high, drift), high


def _intersection(cuts: list[_Cut], slack: float, reach: float, drift: float) -> _Polygon:
    polygon: _Polygon = [(-reach, -reach), (reach, -reach), (reach, reach), (-reach, reach)]
    drifting = [(-1.0, 1.0, max(drift, 1e-3)), (1.0, -1.0, max(drift, 1e-3))]
    for a, b, c in drifting + [(a, b, c + slack) for a, b, c in cuts]:
        polygon = _clipped(polygon, a, b, c)
        if not polygon:
            return []
    return polygon


def _clipped(polygon: _Polygon, a: float, b: float, c: float) -> _Polygon:
    """The part of a convex polygon in which a*x + b*y <= c."""
    sides = [a * x + b * y - c for x, y in polygon]
    if max(sides) <= 0:
        return polygon
    kept: _Polygon = []
    for i, (x, y) in enumerate(polygon):
        before = i - 1
        if (sides[i] <= 0) != (sides[before] <= 0):
            x0, y0 = polygon[before]
            part = sides[before] / (sides[before] - sides[i])
            kept.append((x0 + part * (x - x0), y0 + part * (y - y0)))
        if sides[i] <= 0:
            kept.append((x, y))
    return kept


def _centre(polygon: _Polygon) -> tuple[float, float]:
    """The centre of area; of the corners where there is no area to speak of."""
    x0, y0 = polygon[0]
    area = sum_x = sum_y = 0.0
    for (x1, y1), (x2, y2) in pairwise(polygon[1:]):
        part = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        area += part
        sum_x += part * (x1 + x2 - 2 * x0) / 3
        sum_y += part * (y1 + y2 - 2 * y0) / 3
    if abs(area) < 1e-6:
        count = len(polygon)
        return sum(p[0] for p in polygon) / count, sum(p[1] for p in polygon) / count
    return x0 + sum_x / area, y0 + sum_y / area
