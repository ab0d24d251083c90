"""Triggers, budgets and sizes as users write them; and the controller's worked example."""

from __future__ import annotations

import doctest
import math
import signal
from pathlib import Path

import pytest

from stepscope import errors
from stepscope.recorder import controller, triggers
from stepscope.recorder.triggers import (
    FileTrigger,
    MemoryTrigger,
    SignalTrigger,
    Slow,
    Took,
    Usual,
    parse_share,
    parse_size,
    parse_trigger,
)


def test_conditions_as_text():
    assert parse_trigger("slow 3x") == Slow(3)
    assert parse_trigger("memory 2 GB") == MemoryTrigger(2 << 30)
    assert parse_trigger("SIGUSR2") == parse_trigger("signal SIGUSR2")
    assert parse_trigger("SIGUSR2") == SignalTrigger(signal.SIGUSR2)
    assert parse_trigger("file /tmp/keep now") == FileTrigger(Path("/tmp/keep now"))


@pytest.mark.parametrize("text", ["slow", "slow 3", "SIGNONE", "", "memory", "slow ..x", "error 3"])
def test_what_is_no_condition_is_one_clear_error(text):
    with pytest.raises(errors.InvalidArgumentError):
        parse_trigger(text)


def test_budgets_as_text():
    assert parse_share("1%") == 0.01
    assert parse_share(0.2) == 0.2
    assert parse_share("off") == math.inf
    for wrong in ("5", "0%", "200%", -1, "much", True):
        with pytest.raises(errors.InvalidArgumentError, match="share of the program's time"):
            parse_share(wrong)


def test_sizes_as_text():
    assert parse_size("64 MB") == parse_size("64mib") == 64 << 20
    for wrong in ("", "64 XB", -3, "0 MB", True):
        with pytest.raises(errors.InvalidArgumentError, match="64 MB, 1 GB or a number of bytes"):
            parse_size(wrong)


def test_a_step_is_slow_by_its_own_length_or_by_what_came_before_it():
    slow, usual = Slow(3), Usual(100, 5e6, 6e6)
    assert slow.why(Took(14_000_000, 1_000_000), usual) == ""
    assert slow.why(Took(16_000_000, 0), usual).startswith("took 16 ms, 3.2 times the 5 ms")
    assert slow.why(Took(5_000_000, 50_000_000), usual) == (
        "began 50 ms after the run before it, where 1 ms are usual: the program, or its input, was "
        "late"
    )


def test_a_step_may_be_slow_both_ways_and_says_both():
    usual = Usual(100, 4_000_000, 4_100_000)
    said = Slow(3).why(Took(20_000_000, 40_000_000), usual)
    assert said.startswith("took 20 ms, 5 times the 4 ms that are usual; began 40 ms after")
    # That it took long itself makes nothing of what was before it late.
    assert "began" not in Slow(3).why(Took(60_000_000, 2_000_000), usual)
    assert Slow(3).excess(Took(20_000_000, 40_000_000), usual) == pytest.approx(60 / 4.1)


def test_nothing_is_slow_before_it_is_known_what_is_usual():
    assert Slow(3).why(Took(10**9), Usual(9, 1.0, 1.0)) == ""


def test_the_worked_examples():
    assert doctest.testmod(triggers).failed == 0
    assert doctest.testmod(controller).failed == 0
