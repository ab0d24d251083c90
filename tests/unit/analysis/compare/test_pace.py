"""What the machine did to all nodes of a run is taken out of each."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analysis.compare.pace import steadied


def paced(seed, nodes=40, runs=60):
    """Logarithms of times in runs of differing pace, which nodes feel differently; and the pace."""
    random = np.random.default_rng(seed)
    pace = random.normal(0, 0.2, runs)
    feels = random.uniform(0.3, 1.5, (nodes, 1))
    return random.normal(0, 0.03, (nodes, runs)) + feels * pace, pace


def test_noise_that_nodes_share_goes_and_their_own_stays():
    logs, _ = paced(1)
    steady = steadied(logs, 30)
    assert np.median(logs.std(axis=1)) > 0.15
    assert 0.02 < np.median(steady.std(axis=1)) < 0.06


def test_a_node_that_changed_keeps_its_change_and_gives_others_none():
    logs, pace = paced(2)
    pace[30:] = pace[:30]
    logs[:, 30:] = logs[:, :30] + np.random.default_rng(3).normal(0, 0.03, (40, 30))
    logs[:3, 30:] += 0.5
    steady = steadied(logs, 30)
    apart = np.median(steady[:, 30:], axis=1) - np.median(steady[:, :30], axis=1)
    assert apart[:3] == pytest.approx([0.5] * 3, abs=0.1)
    assert np.abs(apart[3:]).max() < 0.1


def test_nodes_that_share_nothing_stay_as_they_are():
    logs = np.random.default_rng(4).normal(0, 0.05, (40, 60))
    assert np.median(np.abs(steadied(logs, 30) - logs)) < 0.01
    constant = np.zeros((12, 20))
    assert steadied(constant, 10).tolist() == constant.tolist()


def test_which_side_a_run_is_on_makes_no_difference_where_none_changed():
    logs, _ = paced(5)
    order = np.arange(60).reshape(2, 30)
    swap = np.random.default_rng(6).random(30) < 0.5
    dealt = np.concatenate([np.where(swap, order[1], order[0]), np.where(swap, *order)])
    assert np.abs(steadied(logs[:, dealt], 30) - steadied(logs, 30)[:, dealt]).max() < 0.05
