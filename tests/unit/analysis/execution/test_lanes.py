"""Slices on lanes: never crossing, and on no more lanes than needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analysis.execution.lanes import split_lanes

SLICES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1])),
    max_size=40,
)


def lanes_of(slices, **options):
    start = np.array([s for s, _ in slices], np.int64)
    end = np.array([e for _, e in slices], np.int64)
    return split_lanes(start, end, **options).tolist()


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


def contains(a, b):
    return a[0] <= b[0] and b[1] <= a[1]


def pairs_on_a_lane(slices, lanes):
    for i in range(len(slices)):
        for j in range(i):
            if lanes[i] == lanes[j]:
                yield slices[i], slices[j]


@given(SLICES)
def test_slices_that_follow_each_other_never_overlap(slices):
    lanes = lanes_of(slices, may_contain=False)
    assert not [pair for pair in pairs_on_a_lane(slices, lanes) if overlap(*pair)]
    real = [s for s in slices if s[0] < s[1]]
    at_once = max((sum(s[0] <= t < s[1] for s in real) for t in range(53)), default=0)
    if len(real) == len(slices):
        assert len(set(lanes)) == at_once


@given(SLICES)
def test_slices_that_may_contain_each_other_never_cross(slices):
    lanes = lanes_of(slices, may_contain=True)
    for a, b in pairs_on_a_lane(slices, lanes):
        assert not overlap(a, b) or contains(a, b) or contains(b, a)


@pytest.mark.parametrize(
    ("slices", "side_by_side", "nested"),
    [
        ([], [], []),
        ([(0, 5), (5, 9)], [0, 0], [0, 0]),
        ([(5, 9), (0, 5)], [0, 0], [0, 0]),
        ([(0, 9), (2, 5)], [0, 1], [0, 0]),
        ([(0, 5), (2, 9)], [0, 1], [0, 1]),
        ([(3, 3), (3, 8)], [0, 0], [0, 0]),
        ([(2, 5), (0, 9), (6, 12)], [1, 0, 1], [0, 0, 1]),
    ],
)
def test_examples(slices, side_by_side, nested):
    assert lanes_of(slices, may_contain=False) == side_by_side
    assert lanes_of(slices, may_contain=True) == nested


def test_thousands_of_crossing_slices_find_their_lanes_at_once():
    start = np.arange(20_000)
    lanes = split_lanes(start, start + 40_000, may_contain=True)
    assert lanes.tolist() == list(range(20_000))


def test_beyond_the_first_lanes_slices_still_follow_each_other():
    slices = [(i % 50, 60 + i % 50) for i in range(50)] + [(120 + i, 200 + i) for i in range(50)]
    lanes = lanes_of(slices, may_contain=True)
    assert not [pair for pair in pairs_on_a_lane(slices, lanes) if overlap(*pair)]
    assert len(set(lanes)) == 50
