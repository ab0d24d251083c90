"""The budget under an injected clock: it is held, of random programs, and no kind is left out."""

from __future__ import annotations

import doctest
import random
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.recorder import budget as budget_module
from stepscope.recorder.budget import MOST_KINDS, OTHERS, Budget, Level

CONVERGED = 50
"""So many steps after the program began, or changed, the budget is held."""


@dataclass(frozen=True)
class Kind:
    """Runs of one kind: how long, how often beside others, and what each level costs."""

    length_ns: int
    weight: float
    costs: tuple[int, ...]


class Step(NamedTuple):
    kind: int
    level: Level
    own_ns: int
    cost_ns: int


def simulated(
    budget: Budget, kinds: list[Kind], steps: int, chance: random.Random, now: int = 0
) -> tuple[list[Step], int]:
    """A program of random steps under the budget, with times that vary by 30% and more."""
    made = []
    for _ in range(steps):
        (which,) = chance.choices(range(len(kinds)), [kind.weight for kind in kinds])
        kind = kinds[which]
        level = budget.begins(f"kind {which}", now)
        own = int(kind.length_ns * chance.uniform(0.7, 1.4))
        cost = int(kind.costs[level] * chance.uniform(0.7, 1.4))
        budget.spent(cost, f"kind {which}", level)
        now += own + cost
        budget.validate()
        made.append(Step(which, level, own, cost))
    return made, now


@st.composite
def kinds_of_runs(draw: st.DrawFn) -> list[Kind]:
    """Up to five kinds of 3 us to 300 ms, whose op times cost 0.1% to 200% of a run."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        length = 10 ** draw(st.floats(3.5, 8.5))
        times = length * 10 ** draw(st.floats(-3, 0.3))
        less, more = 10 ** draw(st.floats(-3, -1)), 10 ** draw(st.floats(0, 1))
        costs = (0, int(times * less), int(times), int(times * more))
        found.append(Kind(int(length), 10 ** draw(st.floats(-2, 0)), costs))
    return found


def overhead_once_converged(steps: list[Step]) -> tuple[float, float]:
    """What recording cost after `CONVERGED` steps, as a share of the time; and one sample's share.

    Without what could not be known: the first sample of a kind at a level. That is paid back.
    """
    own = cost = largest = 0
    known = set()
    for place, step in enumerate(steps):
        if place >= CONVERGED:
            own += step.own_ns
            if step.level <= Level.LENGTH or (step.kind, step.level) in known:
                cost += step.cost_ns
                largest = max(largest, step.cost_ns)
        known.add((step.kind, step.level))
    return cost / own, largest / own


@given(st.sampled_from([0.01, 0.05, 0.2]), kinds_of_runs(), kinds_of_runs(), st.integers(0, 999))
def test_the_budget_is_held_within_50_steps_and_again_after_a_change(share, before, after, seed):
    budget, chance = Budget(share, seed=seed), random.Random(seed)
    first, now = simulated(budget, before, 400, chance)
    second, _ = simulated(budget, after, 400, chance, now)
    for steps in (first, second):
        overhead, one_sample = overhead_once_converged(steps)
        assert overhead <= 1.05 * share + one_sample


@given(st.sampled_from([0.01, 0.05, 0.2]), kinds_of_runs(), st.integers(0, 999))
def test_what_could_not_be_known_is_paid_back_before_more_is_spent(share, kinds, seed):
    budget, chance = Budget(share, seed=seed), random.Random(seed)
    now = 0
    for _ in range(300):
        in_debt = budget.credit < 0
        ((step,), later) = simulated(budget, kinds, 1, chance, now)
        earned = share * (later - now)
        now = later
        first_of_its_kind = budget.kinds[f"kind {step.kind}"].runs == 1
        if in_debt and budget.credit + earned < -step.cost_ns:
            assert step.level <= Level.LENGTH or first_of_its_kind


@given(
    st.sampled_from([0.01, 0.05, 0.2]),
    st.floats(0.02, 0.5),
    st.floats(0.1, 30),
    st.integers(50, 300),
    st.integers(0, 999),
)
def test_a_rare_kind_is_not_starved(share, cost, length, one_in, seed):
    """Its runs take up to 30 times as long as the others', and half of that to note."""
    frequent = Kind(1_000_000, 1.0, (0, 500, int(1e6 * cost), int(2e6 * cost)))
    rare_ns = int(1_000_000 * length)
    rare = Kind(rare_ns, 1 / one_in, (0, 500, int(rare_ns * cost), int(rare_ns * cost * 2)))
    budget, chance = Budget(share, seed=seed), random.Random(seed)
    steps, _ = simulated(budget, [frequent, rare], 100 * one_in, chance)
    late = [step.level for step in steps[len(steps) // 3 :] if step.kind == 1]
    # What the program earned in a tenth of its time would pay for one.
    if len(late) >= 10 and share * sum(s.own_ns for s in steps) > 10 * 2 * max(rare.costs):
        assert max(late) >= Level.TIMES


def test_runs_that_are_shorter_than_noting_them_are_counted():
    kind = Kind(2_000, 1.0, (0, 500, 2_000, 4_000))
    budget = Budget(0.01, seed=3)
    steps, _ = simulated(budget, [kind], 20_000, random.Random(3))
    assert budget.kinds["kind 0"].at[Level.COUNT] > 15_000
    assert budget.kinds["kind 0"].at[Level.LENGTH] + budget.kinds["kind 0"].at[Level.TIMES] > 50
    assert sum(s.cost_ns for s in steps) <= 0.0105 * sum(s.own_ns for s in steps)


def test_it_is_not_believed_that_runs_are_short_before_many_were_seen():
    # The first run takes no time of its own, as far as can be told: all of it was ours.
    budget = Budget(0.2)
    budget.begins("init", 0)
    budget.spent(40_000_000, "init", Level.DETAIL)
    budget.begins("train", 40_001_000)
    budget.spent(100_000_000, "train", Level.DETAIL)
    assert budget.begins("train", 141_000_000) is Level.LENGTH
    assert budget.least("train") is Level.LENGTH


def test_what_is_charged_beside_the_program_does_not_make_its_runs_look_short():
    # A thread of ours computed for 300 ms, which the program did not wait for.
    budget = Budget(0.05)
    for step in range(20):
        budget.begins("train", step * 5_000_000)
    budget.spent(300_000_000)
    for step in range(20, 60):
        level = budget.begins("train", step * 5_000_000)
        assert level is Level.LENGTH
        assert 2_000_000 < budget.between_ns <= 5_000_000


def test_steps_that_become_longer_are_soon_known_to_be():
    budget = Budget(0.05)
    for step in range(100):
        budget.begins("train", step * 1_000)
    for step in range(12):
        budget.begins("train", 100_000 + step * 10_000_000)
    assert budget.between_ns > 1_000_000


def test_a_lull_of_counting_is_short_until_it_is_known_how_many_runs_it_can_last():
    budget, kind = Budget(0.01), Kind(2_000, 1.0, (0, 500, 2_000, 4_000))
    simulated(budget, [kind], 200, random.Random(3))
    budget.spent(10**9)
    lulls = [budget.counted_in_lull("kind 0") for _ in range(14)]
    assert lulls[:4] == [8, 16, 32, 64]
    assert max(lulls) == 4096


def test_a_new_kind_gets_detail_at_once_whatever_the_debt():
    budget = Budget(0.01)
    assert budget.begins("train", 0) is Level.DETAIL
    budget.spent(10**9, "train", Level.DETAIL)
    assert budget.begins("train", 10**9 + 1000) < Level.TIMES
    assert budget.begins("evaluate", 10**9 + 2000) is Level.DETAIL


def test_it_is_known_what_first_runs_cost():
    budget = Budget(0.05)
    for kind, costs in (("train", [40_000_000, 90_000]), ("test", [7_000_000])):
        for ns in costs:
            budget.begins(kind, 0)
            budget.spent(ns, kind, Level.DETAIL)
    budget.spent(1_000)
    assert (budget.first_ns, budget.spent_ns) == (47_000_000, 47_091_000)


def test_a_program_that_always_runs_something_new_is_judged_together():
    budget = Budget(0.01)
    levels = [budget.begins(f"fetch {n}", n * 1000) for n in range(1000)]
    assert levels[:MOST_KINDS] == [Level.DETAIL] * MOST_KINDS
    assert budget.kind_of("fetch 999") == OTHERS
    assert sum(kind.runs for kind in budget.kinds.values()) == 1000


def test_an_hour_of_waiting_does_not_pay_for_the_hour_after_it():
    budget = Budget(0.05, seed=2)
    kind = Kind(1_000_000, 1.0, (0, 1_000, 300_000, 600_000))
    chance = random.Random(2)
    _, now = simulated(budget, [kind], 500, chance)
    steps, _ = simulated(budget, [kind], 500, chance, now + 3_600 * 10**9)
    assert sum(s.cost_ns for s in steps) <= 0.06 * sum(s.own_ns for s in steps)


def test_without_a_bound_everything_is_recorded():
    budget = Budget(float("inf"))
    levels = {budget.begins("train", now) for now in range(0, 10**6, 1000)}
    assert levels == {Level.DETAIL}


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ValueError, match="above 0; it was 0"):
        Budget(0)


def test_the_worked_example():
    assert doctest.testmod(budget_module).failed == 0
