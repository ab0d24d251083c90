"""Slow steps put among others at random: each is kept, and `stepscope info` says why."""

from __future__ import annotations

import pytest

import slow_steps


@pytest.mark.parametrize("engine", ["embedded", "tensorflow"])
def test_slow_steps_are_kept_and_explained(tmp_path, engine):
    assert slow_steps.trial(tmp_path, engine, seed=7, steps=240, slow=6, budget="20%") == []


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
