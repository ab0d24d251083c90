"""What is kept: within its bounds at every moment, whatever comes, and for the reasons it says."""

from __future__ import annotations

import doctest
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope import errors
from stepscope.recorder import keeping as keeping_module
from stepscope.recorder.keeping import Changes, Keep, Keeper, Noted, as_keep

SECOND = 1_000_000_000


class Files:
    """Carries out changes, as a store does."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.written: dict[int, int] = {}

    def carry_out(self, changes: Changes, sizes: dict[int, int]) -> None:
        for number in changes.forget:
            del self.written[number]
        for number in changes.write:
            assert number not in self.written
            self.written[number] = sizes[number]
            self.carry_out(self.keeper.written(number, sizes[number]), sizes)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["train", "evaluate", "save"]),
            st.integers(1, 100_000_000),
            st.integers(1, 400),
            st.sampled_from(["", "", "", "took long"]),
            st.booleans(),
            st.floats(0.0, 3.0),
            st.booleans(),
        ),
        max_size=150,
    ),
    st.integers(200, 3000),
    st.integers(200, 3000),
)
def test_bounds_are_never_exceeded_and_what_is_written_is_what_is_wanted(events, memory, disk):
    keeper = Keeper(
        Keep(slowest=2, first=2, latest=2, sample=3, failed=3, trigger=3, before=5, before_s=2),
        memory=memory, disk=disk,
    )  # fmt: skip
    files, sizes, now = Files(keeper), {}, 0
    for number, (kind, length, size, why, failed, pause, asked) in enumerate(events, 1):
        now += int(pause * SECOND)
        sizes[number] = size
        rank, sampled = float(length % 7) if why else 0.0, length % 3 > 0
        run = Noted(
            number, kind, now, length, size, failed=failed, sampled=sampled, why=why, rank=rank
        )
        files.carry_out(keeper.ended(run), sizes)
        keeper.validate()
        if asked:
            files.carry_out(keeper.trigger("asked", now), sizes)
        keeper.validate()
        assert sum(files.written.values()) == keeper.disk_bytes <= disk
        assert {kept.number for kept in keeper.kept()} == set(files.written)
        assert all(kept.reasons for kept in keeper.kept())
    files.carry_out(keeper.closes(), sizes)
    assert sum(files.written.values()) <= disk
    assert {kept.number for kept in keeper.kept()} == set(files.written)


def noted(number: int, ms: float, kind: str = "train", **more: object) -> Noted:
    return Noted(number, kind, number * SECOND, int(ms * 1e6), 1, **more)


def kept_for(keeper: Keeper, reason: str) -> list[int]:
    return [run.number for run in keeper.kept() if reason in run.reasons]


def test_of_a_thousand_runs_the_slowest_first_and_latest_of_each_kind_are_kept():
    keeper = Keeper(Keep(before_s=0), memory=1 << 20, disk=1 << 20)
    order = random.Random(1).sample(range(1000), 1000)
    writes = 0
    for number, ms in enumerate(order, 1):
        writes += len(keeper.ended(noted(number, ms + 1, ("train", "test")[number % 2])).write)
    keeper.closes()
    for parity, kind in enumerate(("train", "test")):
        numbers = [n for n in range(1, 1001) if n % 2 == parity]
        slowest = sorted(sorted(numbers, key=lambda n: order[n - 1])[-5:])
        of_kind = {run.number for run in keeper.kept() if run.kind == kind}
        assert [n for n in kept_for(keeper, "slowest") if n in of_kind] == slowest
        assert [n for n in kept_for(keeper, "first") if n in of_kind] == numbers[:3]
        assert [n for n in kept_for(keeper, "latest") if n in of_kind] == numbers[-5:]
        assert len([n for n in kept_for(keeper, "sample") if n in of_kind]) == 20
    assert writes < 300  # decided by what was noted: not one write for each run


def test_every_run_is_as_likely_in_the_sample_as_any_other():
    found = []
    for seed in range(300):
        keeper = Keeper(
            Keep(slowest=0, first=0, latest=0, sample=5, before_s=0),
            memory=1000, disk=1000, seed=seed,
        )  # fmt: skip
        for number in range(1, 101):
            keeper.ended(noted(number, 1))
        found += kept_for(keeper, "sample")
    assert len(found) == 1500
    # A quarter of them from each quarter, within four standard deviations.
    for quarter in range(4):
        share = sum(quarter * 25 < number <= quarter * 25 + 25 for number in found)
        assert 375 - 70 < share < 375 + 70


def test_a_trigger_keeps_the_seconds_before_it_and_says_why():
    keeper = Keeper(Keep(0, 10, 3, 0, 0, 0, 0, before_s=10), memory=1 << 20, disk=1 << 20)
    for number in range(1, 31):
        keeper.ended(noted(number, 5))
    changes = keeper.ended(noted(31, 50, why="took 50 ms, 10 times the 5 ms that are usual"))
    assert sorted(changes.write) == [29, 30, 31]  # at most three in all: its own, and two before
    assert keeper.why(31).why == "took 50 ms, 10 times the 5 ms that are usual"
    assert keeper.why(30).why == "before: took 50 ms, 10 times the 5 ms that are usual"


def test_triggers_in_a_row_do_not_keep_everything():
    keeper = Keeper(Keep(0, 100, 100, 0, 0, 0, 0, before_s=5), memory=1 << 20, disk=1 << 20)
    for number in range(1, 101):
        keeper.ended(noted(number, 5, why="slow" if number % 2 else ""))
    assert len(kept_for(keeper, "trigger")) == 50
    assert len(kept_for(keeper, "before")) < 30


def test_of_too_many_slow_runs_those_stay_that_were_slowest_for_what_is_usual():
    keeper = Keeper(Keep(trigger=3, slowest=0, first=0, latest=0, sample=0), memory=1000, disk=1000)
    for number, rank in enumerate([3.1, 9.0, 3.2, 30.0, 3.15, 4.0], 1):
        # Of those of which the length alone was noted nothing else would keep them.
        noted = Noted(number, "train", number, 10, 1, sampled=False, why="slow", rank=rank)
        keeper.ended(noted)
        keeper.validate()
    assert [run.number for run in keeper.kept() if "trigger" in run.reasons] == [2, 4, 6]
    assert keeper.dropped["train", "trigger"] == 3


def test_what_was_dropped_is_counted_by_kind_and_reason():
    keeper = Keeper(Keep(failed=2, slowest=0, first=0, latest=0, sample=0), memory=9, disk=9)
    for number in range(1, 6):
        keeper.ended(noted(number, 1, failed=True))
    assert keeper.dropped["train", "failed"] == 3
    assert kept_for(keeper, "failed") == [4, 5]


def test_what_to_keep_is_given_by_name():
    assert as_keep({"slowest": 9, "before_s": 2.5}) == Keep(slowest=9, before_s=2.5)
    with pytest.raises(errors.InvalidArgumentError, match="keep has no 'slow'; it has asked, "):
        as_keep({"slow": 9})
    with pytest.raises(errors.InvalidArgumentError, match="at least 0; it was -1"):
        as_keep({"slowest": -1})


def test_the_worked_example():
    assert doctest.testmod(keeping_module).failed == 0
