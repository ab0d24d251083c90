"""Slow steps put among others at random: each is kept, and `stepscope info` says why.

Without a bound on the cost, so that op times are noted of all on a busy machine as well; `make
slow-steps` tries it with one, and on TensorFlow.
"""

from __future__ import annotations

import pytest

import slow_steps


def test_slow_steps_are_kept_and_explained(tmp_path):
    assert slow_steps.trial(tmp_path, "embedded", seed=7, steps=150, slow=6, budget="off") == []


@pytest.mark.parametrize(
    ("kind", "why", "explained"),
    [
        ("op", "took 80 ms, 20 times the 4 ms that are usual; augment took 76.0 ms longer", True),
        ("op", "took 80 ms, 20 times the 4 ms that are usual", False),
        ("input", "began 80 ms after the run before it: the program, or its input, was late", True),
        ("stopped", "took 54 ms; the process did not run for 50.0 ms of it", True),
        ("stopped", "took 54 ms; augment took 50.0 ms longer", False),
        ("stopped", "", False),
    ],
)
def test_what_counts_as_an_explanation(kind, why, explained):
    assert slow_steps.is_explained(kind, why) is explained
