"""Schedules: which steps are recorded."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stepscope.errors import InvalidArgumentError
from stepscope.scheduling import Action, Schedule, as_schedule, every, parse_steps, schedule

LETTER = {Action.SKIP: ".", Action.WARMUP: "w", Action.RECORD: "R"}


def drawn(plan, steps):
    """One letter per step: skipped, warm-up, recorded."""
    return "".join(LETTER[plan(step)] for step in range(steps))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "RRRRRRRR"),
        ({"wait": 2}, "..R..R..R"),
        ({"wait": 1, "warmup": 1, "active": 2}, ".wRR.wRR.w"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, ".wRR......"),
        ({"warmup": 1, "active": 2, "repeat": 2, "skip_first": 3}, "...wRRwRR..."),
        ({"wait": 3, "repeat": 1, "skip_first": 2}, ".....R......"),
    ],
)
def test_a_schedule_goes_round_its_cycle(arguments, expected):
    assert drawn(schedule(**arguments), len(expected)) == expected


def test_the_arguments_come_in_the_order_of_torch():
    assert schedule(1, 1, 2, 2, 3) == schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=3)
    assert drawn(schedule(1, 1, 2, 2, 3), 14) == "....wRR.wRR..."


def test_every_nth_step_begins_with_the_first():
    assert drawn(every(4), 10) == "R...R...R."
    assert drawn(every(4, active=2), 10) == "RR..RR..RR"
    assert drawn(every(1), 3) == "RRR"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2:5", "..RRR..."),
        ("2:", "..RRRRRR"),
        (":3", "RRR....."),
        (":", "RRRRRRRR"),
        ("5", ".....R.."),
        ("1:7:3", ".R..R..."),
        ("::3", "R..R..R."),
        ("0, 3:5 ,7", "R..RR..R"),
    ],
)
def test_steps_are_read_as_slices(text, expected):
    assert drawn(parse_steps(text), 8) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "''"),
        ("5:5", "'5:5'"),
        ("9:3", "'9:3'"),
        ("-1:3", "'-1:3'"),
        ("1:2:3:4", "'1:2:3:4'"),
        ("a:b", "'a:b'"),
        ("1,,2", "''"),
        ("1:9:0", "stride 0"),
        ("1.5", "'1.5'"),
        (12, "int"),
    ],
)
def test_a_text_that_names_no_steps_is_refused(text, named):
    with pytest.raises(InvalidArgumentError, match=r"^steps: ") as caught:
        parse_steps(text)
    assert named in str(caught.value)


@pytest.mark.parametrize("name", ["wait", "warmup", "repeat", "skip_first"])
@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True])
def test_a_bad_number_is_refused_by_name(name, value):
    with pytest.raises(InvalidArgumentError, match=f"^schedule: {name} is .*; allowed is .*0 or"):
        schedule(**{name: value})


def test_nothing_to_record_is_refused():
    with pytest.raises(InvalidArgumentError, match="schedule: active is 0; allowed is 1 or more"):
        schedule(active=0)
    with pytest.raises(InvalidArgumentError, match="every: n is 0; allowed is 1 or more"):
        every(0)
    with pytest.raises(InvalidArgumentError, match="every: active is 0; allowed is 1 or more"):
        every(5, active=0)
    with pytest.raises(InvalidArgumentError, match=r"every: active is 6; .* n, which is 5"):
        every(5, active=6)


def test_numbers_of_numpy_are_numbers():
    plan = schedule(wait=np.int64(1), active=np.int32(2))
    assert drawn(plan, 6) == ".RR.RR"
    assert plan(np.int64(1)) is Action.RECORD


@pytest.mark.parametrize(
    "plan",
    [
        schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1),
        schedule(wait=2, active=1),
        every(3),
        parse_steps("2:5"),
        parse_steps("1,4:9:2"),
        parse_steps("3:"),
    ],
)
def test_ended_means_that_nothing_more_comes(plan):
    ends = [step for step in range(60) if plan.ended(step)]
    for step in ends:
        assert all(plan(later) is Action.SKIP for later in range(step, 80))
    finite = all(plan(step) is Action.SKIP for step in range(20, 80))
    assert bool(ends) == finite
    if ends:
        assert ends == list(range(ends[0], 60))


def test_a_run_of_several_steps_does_the_most_any_of_them_asks_for():
    plan = schedule(wait=4, warmup=1, active=1)
    assert plan.among(range(4)) is Action.SKIP
    assert plan.among(range(5)) is Action.WARMUP
    assert plan.among(range(6)) is Action.RECORD
    assert plan.among(()) is Action.SKIP


def test_any_function_of_the_step_is_a_schedule():
    assert drawn(as_schedule(lambda step: step in {1, 2}), 4) == ".RR."
    actions = itertools.cycle([Action.WARMUP, Action.RECORD])
    assert drawn(as_schedule(lambda step: next(actions)), 4) == "wRwR"
    plan = every(2)
    assert as_schedule(plan) is plan
    assert drawn(as_schedule("1:3"), 4) == ".RR."


def test_a_function_that_gives_something_else_is_refused_when_asked():
    plan = as_schedule(lambda step: "RECORD")
    with pytest.raises(InvalidArgumentError, match="gave 'RECORD' for step 7; allowed are Action"):
        plan(7)


@pytest.mark.parametrize("value", [None, 5, [1, 2], Schedule])
def test_what_is_no_schedule_is_a_type_error_that_says_what_to_pass(value):
    with pytest.raises(TypeError, match=r"expected a schedule, found .*stepscope\.every\(n\)"):
        as_schedule(value)
