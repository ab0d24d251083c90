"""The distribution-free test, against enumeration and against what it promises."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_examples import examples
from stepscope.analysis.compare.rank_test import compare, holm


def p_of(base, new):
    return float(compare(np.array([base], float), np.array([new], float)).p[0])


@examples(60)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
)
def test_small_sets_are_exact(base, new):
    values = np.array([*base, *new], float)
    order = np.sort(values)
    ranks = np.array([(np.flatnonzero(order == v) + 1).mean() for v in values])
    centre = ranks.mean() * len(new)
    seen = abs(ranks[len(base) :].sum() - centre)
    sums = [ranks[list(c)].sum() for c in combinations(range(len(values)), len(new))]
    expected = np.mean([abs(s - centre) >= seen - 1e-9 for s in sums])
    assert p_of(base, new) == pytest.approx(expected)


def test_the_least_p_of_four_against_four():
    assert p_of([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert p_of([1, 2, 3], [5, 6, 7]) == pytest.approx(0.1)


def test_equal_values_tell_nothing():
    assert p_of([5] * 30, [5] * 30) == 1


def test_false_alarms_stay_at_their_level_and_differences_are_found():
    random = np.random.default_rng(7)
    base, new = random.lognormal(size=(2000, 30)), random.lognormal(size=(2000, 30))
    alarms = np.mean(compare(base, new).p < 0.05)
    assert 0.005 < alarms < 0.055
    assert np.mean(compare(base, new + 1.5).p < 0.05) > 0.9


def test_runs_that_resemble_their_neighbours_do_not_raise_more_alarms():
    random = np.random.default_rng(8)

    def drifting():
        noise = random.normal(size=(1000, 60))
        for i in range(1, 60):
            noise[:, i] += 0.6 * noise[:, i - 1]
        return noise[:, 20:]

    assert np.mean(compare(drifting(), drifting()).p < 0.05) < 0.1


def test_shift_and_its_interval():
    random = np.random.default_rng(9)
    base = random.normal(size=(500, 40))
    found = compare(base, random.normal(size=(500, 40)) + 0.7)
    assert np.median(found.shift) == pytest.approx(0.7, abs=0.03)
    inside = np.mean((found.low <= 0.7) & (found.high >= 0.7))
    assert inside >= 0.95
    assert np.all(found.effect[found.p < 0.01] > 0)
    many = compare(np.tile(base, (1, 10)), np.tile(base, (1, 10)) + 0.3)
    assert np.median(many.shift) == pytest.approx(0.3, abs=0.05)


def test_holm():
    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([])).tolist() == []
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


def test_a_weight_shares_out_the_chance_of_a_false_alarm():
    p = np.array([0.01, 0.01, 0.2])
    assert holm(p, np.array([2.0, 1, 1])).tolist() == pytest.approx([0.02, 0.02, 0.2])
    assert holm(p, np.ones(3)).tolist() == pytest.approx(holm(p).tolist())
    assert holm(np.empty(0)).tolist() == []
