"""What recording costs and nobody counts is found by how long recorded runs take."""

from __future__ import annotations

import doctest
import random

import pytest

from stepscope.recorder import controller as controller_module
from stepscope.recorder.budget import Budget, Level
from stepscope.recorder.controller import Controller, Ended
from stepscope.recorder.keeping import Keep, Keeper

STEP = 1_000_000
COUNTED = {Level.COUNT: 0, Level.LENGTH: 1_000, Level.TIMES: 20_000, Level.DETAIL: 60_000}
UNSEEN = {Level.COUNT: 0, Level.LENGTH: 0, Level.TIMES: 150_000, Level.DETAIL: 300_000}


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_the_budget_is_held_where_most_of_the_cost_is_not_counted(share):
    keeper = Keeper(Keep(), memory=1 << 30, disk=1 << 30)
    control = Controller(Budget(share, seed=2), keeper)
    chance, now, spent, own = random.Random(2), 0, 0, 0
    for step in range(12_000):
        begun = control.begins("train", now)
        length = int(STEP * chance.uniform(0.8, 1.3))
        counted, unseen = COUNTED[begun.level], UNSEEN[begun.level]
        now += length + counted + unseen
        whole = length + unseen
        control.ended(begun, Ended(now, counted, size=1000, whole_ns=whole))
        if step >= 4_000:
            spent, own = spent + counted + unseen, own + length
    # The first hundreds are recorded by what was counted alone.
    assert spent / own <= 1.1 * share + 0.002
    assert control.budget.kinds["train"].at[Level.TIMES] > 50


def test_the_worked_examples():
    assert doctest.testmod(controller_module).failed == 0
