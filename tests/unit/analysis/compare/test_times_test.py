"""The comparison of times: what it takes for noise, and what for a change."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analysis.compare.times_test import Turns, compare_times, undisturbed

ALTERNATING = Turns.of(np.arange(0, 60, 2), np.arange(1, 60, 2))


def disturbed(random, rows=40, runs=30):
    """Logarithms of times: a little noise, and in every other run or so a long interruption."""
    noise = random.normal(0, 0.02, (rows, runs))
    return noise + random.exponential(1, (rows, runs)) * (random.random((rows, runs)) < 0.4)


def test_the_undisturbed_time_is_the_mean_of_the_lower_half():
    assert undisturbed(np.array([[4.0, 900, 2, 800, 3, 7, 5, 600]])).tolist() == [3.5]
    assert undisturbed(np.array([[4.0, 900, 2, 800, 3]])).tolist() == [3]
    assert undisturbed(np.array([[7.0]])).tolist() == [7]


def test_sets_take_turns_or_they_do_not():
    assert ALTERNATING is not None
    assert len(np.unique(ALTERNATING.group)) == 30
    assert Turns.of(np.arange(30), np.arange(30, 60)) is None
    assert Turns.of(np.arange(3), np.arange(3)) is None


def test_runs_of_one_stretch_change_places_together():
    times = np.arange(80).reshape(16, 5)
    turns = Turns.of(times[::2].ravel(), times[1::2].ravel())
    assert turns.group.tolist() == np.repeat(np.arange(8), 5).tolist()


def test_sets_of_different_sizes_are_paired_evenly():
    turns = Turns.of(np.arange(0, 60, 2), np.arange(1, 60, 6))
    assert len(turns.base) == len(turns.new) == 10
    assert turns.base.tolist() == list(range(0, 30, 3))


@pytest.mark.parametrize("turns", [ALTERNATING, None])
def test_false_alarms_stay_at_their_level(turns):
    random = np.random.default_rng(3)
    p = np.concatenate(
        [compare_times(disturbed(random), disturbed(random), turns).p for _ in range(15)]
    )
    assert np.mean(p < 0.05) < 0.07


def test_a_change_is_found_under_interruptions():
    random = np.random.default_rng(4)
    base, new = disturbed(random), disturbed(random)
    new[7] += 0.1
    found = compare_times(base, new, ALTERNATING)
    assert found.p.argmin() == 7
    assert found.p[7] < 0.001
    assert found.shift[7] == pytest.approx(0.1, abs=0.03)
    assert found.low[7] < 0.1 < found.high[7]


def test_what_all_rows_differ_by_makes_single_differences_count_less():
    random = np.random.default_rng(5)
    base, new = random.normal(0, 0.02, (2, 40, 30))
    alone = new.copy()
    alone[0] += 0.1
    elsewhere = alone + random.normal(0, 0.05, (40, 1)) * (np.arange(40) > 0)[:, None]
    assert compare_times(base, alone, ALTERNATING).p[0] < 1e-4
    assert compare_times(base, elsewhere, ALTERNATING).p[0] > 0.01


def test_a_set_that_drifts_and_a_machine_that_changed_make_the_test_cautious():
    random = np.random.default_rng(7)
    base, new = random.normal(0, 0.02, (2, 40, 30))
    new[0] += 0.1
    drifting = base + np.where(np.arange(30) < 15, 0, 0.2) * (np.arange(40) == 0)[:, None]
    assert compare_times(base, new, None).p[0] < 1e-3
    assert compare_times(drifting, new, None).p[0] > 0.01
    assert compare_times(base, new, None, machine=0.2).p[0] > 0.01
    assert compare_times(base, new, ALTERNATING, machine=0.2).p[0] < 1e-4


def test_few_runs_are_ranked_exactly_and_no_rows_are_no_rows():
    few = compare_times(np.array([[1.0, 2, 3, 4]]), np.array([[5.0, 6, 7, 8]]), None)
    assert few.p[0] == pytest.approx(2 / 70)
    assert len(compare_times(np.empty((0, 30)), np.empty((0, 30)), None).p) == 0


def test_many_runs_take_neighbours_together():
    random = np.random.default_rng(6)
    base, new = random.normal(0, 0.02, (2, 10, 500))
    new[3] += 0.1
    for turns in (Turns.of(np.arange(0, 1000, 2), np.arange(1, 1000, 2)), None):
        p = compare_times(base, new, turns).p
        assert p[3] < 1e-5
        assert np.delete(p, 3).min() > 1e-3


def test_few_turns_make_wide_intervals():
    random = np.random.default_rng(8)
    base, new = random.normal(0, 0.02, (2, 10, 30))
    times = np.arange(60).reshape(10, 6)
    few = Turns.of(times[::2].ravel(), times[1::2].ravel())
    assert len(np.unique(few.group)) == 5
    widths = [
        np.median(found.high - found.low)
        for found in (compare_times(base, new, turns) for turns in (ALTERNATING, few))
    ]
    assert widths[1] > 1.1 * widths[0]
