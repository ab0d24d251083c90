"""Where a run executes: a value, decided without any thread."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from stepscope.options import ResolvedRunOptions
from stepscope.runtime.execute.decision import Decision, Pools, decide


class Plan(NamedTuple):
    partitions: int = 1
    has_flow: bool = False
    has_blocking: bool = False
    serial: bool = False
    may_wait: bool = False


def not_asked(workers: int) -> bool:
    raise AssertionError("whether a pool gains does not matter here")


def decided(
    plan, *, gains=not_asked, own=False, stays_on_caller=False, has_deadline=False, **options
) -> Decision:
    pools = Pools((4, 2), own, stays_on_caller)
    return decide(plan, ResolvedRunOptions(**options), pools, has_deadline, gains)


def test_a_plan_that_gains_nothing_stays_on_the_callers_thread():
    assert decided(Plan(serial=True)) == Decision("caller", "inline", products="one by one")
    assert decided(Plan(), gains=lambda workers: workers > 4) == Decision(
        "caller", "inline", products="one by one"
    )


def test_a_plan_that_gains_goes_to_the_pool():
    assert decided(Plan(), gains=lambda workers: workers == 4) == Decision(
        "pool", "pooled", products="side by side"
    )


def test_steps_that_may_wait_for_each_other_and_several_devices_go_to_the_pool():
    assert decided(Plan(may_wait=True)).place == "pool"
    assert decided(Plan(partitions=2)).place == "pool"


def test_a_deadline_moves_the_run_off_the_callers_thread():
    decision = decided(Plan(serial=True), has_deadline=True)
    assert decision == Decision("pool", "inline", products="one by one")


def test_a_step_that_may_block_gives_up_its_worker():
    plan = Plan(serial=True, has_blocking=True)
    assert decided(plan, has_deadline=True).executor == "pooled"
    assert decided(plan).executor == "inline"


@pytest.mark.parametrize("given", [{"inter_op_thread_pool": -1}, {"stays_on_caller": True}])
def test_the_callers_thread_when_it_is_asked_for(given):
    assert decided(Plan(), has_deadline=True, **given) == Decision("caller", "inline")
    assert decided(Plan(partitions=2), **given).place == "pool"


def test_pools_of_the_session_are_used_even_where_nothing_gains():
    plan = Plan(serial=True)
    decision = decided(plan, own=True, inter_op_thread_pool=1)
    assert decision == Decision("pool", "inline", 1, "one by one")


@pytest.mark.parametrize(
    ("plan", "given"),
    [
        (Plan(has_flow=True), {"inter_op_thread_pool": -1}),
        (Plan(has_flow=True), {"gains": lambda _workers: True}),
        (Plan(has_flow=True, serial=True), {"has_deadline": True}),
        (Plan(has_flow=True, partitions=2), {}),
    ],
)
def test_branches_and_loops_have_an_executor_of_their_own(plan, given):
    assert decided(plan, **given).executor == "flow"


def test_the_run_handler_pool_when_it_is_asked_for():
    decision = decided(Plan(serial=True), use_run_handler_pool=True, run_handler_priority=2)
    assert decision == Decision("run handler", "inline", products="one by one")


@pytest.mark.parametrize(
    ("given", "what", "reason"),
    [
        (
            {"use_run_handler_pool": True, "own": True},
            "experimental.use_run_handler_pool",
            "no effect: the session has thread pools of its own",
        ),
        (
            {"use_run_handler_pool": True, "inter_op_thread_pool": -1},
            "experimental.use_run_handler_pool",
            "no effect: the run stays on the caller's thread",
        ),
        (
            {"run_handler_priority": 3},
            "experimental.run_handler_pool_options.priority",
            "no effect: use_run_handler_pool is off",
        ),
    ],
)
def test_what_has_no_effect_is_a_loss(given, what, reason):
    decision = decided(Plan(serial=True), **given)
    assert [(loss.what, loss.reason) for loss in decision.losses] == [(what, reason)]
    assert decision.place != "run handler"
