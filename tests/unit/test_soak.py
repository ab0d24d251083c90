"""`make soak`: what it calls flat, and what it does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "soak"))
import soak

MB = 1 << 20
SLACK = soak.SLACK["resident bytes"]


def is_flat(resident):
    grown = soak.growth(range(len(resident)), resident, SLACK)
    return grown.by <= grown.allowed


@pytest.mark.parametrize(
    ("megabytes", "flat"),
    [
        ([100 + 40 * (i % 2) for i in range(90)], True),  # it goes up and down
        ([min(2000, 50 * i) for i in range(90)], True),  # it grew until it was full
        ([1400 + 17 * i for i in range(90)], False),  # it goes on growing
        ([60 + 0.15 * i for i in range(90)], True),  # a creep that an allocator may have
        ([60 + 1.5 * i for i in range(90)], False),
    ],
)
def test_flat_is_what_does_not_grow_in_the_second_half(megabytes, flat):
    assert is_flat([size * MB for size in megabytes]) == flat


def test_what_is_not_flat_fails_the_soak_and_the_rule_is_said(capsys):
    soaked = soak.Soak({}, 0)
    soaked.held = [(i, 100 * MB + i * 5 * MB, 1, 10) for i in range(60)]
    assert not soaked.report()
    said = capsys.readouterr().out
    assert "resident bytes NOT FLAT: by least squares +152,043,520 in the second half" in said
    assert "50,331,648 allowed (10% of the mean, 50,331,648 at least)" in said
    assert "open files flat: by least squares +0 in the second half of the time, 8 allowed" in said


def test_of_a_moment_nothing_is_said():
    assert soak.growth([0, 1, 2], [1, 2, 3], 0) is None
