"""Comparing two sets of runs."""

from __future__ import annotations

import numpy as np
import pytest

from analysed_runs import CPU0, T0, run_of
from stepscope.analysis import diff
from stepscope.errors import StepscopeError
from stepscope.metadata import AllocationColumns, Status
from stepscope.metadata.outcome import END_MISSING

OPS = [f"op{i}" for i in range(20)]


def runs(seed, count=30, factors=None, speed=True, peak=None, names=OPS, first=0, every=10**7):
    """Runs of twenty ops of 1 to 20 us with noise of their own and the machine's.

    One begins each 10 ms, the first at `first`: sets that begin within these take turns.
    """
    random = np.random.default_rng(seed)
    result = []
    for number in range(count):
        machine = random.lognormal(0, 0.2) if speed else 1
        rows, now = [], first + number * every
        for i, name in enumerate(names):
            length = 1000 * (i + 1) * (factors or {}).get(name, 1) * machine
            length = int(length * random.lognormal(0, 0.03))
            rows.append((name, "Op", [], 1, now, now, now + length))
            now += length
        parts = {}
        if peak is not None:
            events = AllocationColumns.build(name=["v"], device=[CPU0], time_ns=[T0], bytes=[peak])
            parts["allocations"] = lambda events=events: events
        result.append(run_of(*rows, **parts))
    return result


IN_TURN = 5_000_000
AFTERWARDS = 10**10


def test_one_slower_op_is_found_and_nothing_else():
    found = diff(runs(1, speed=False), runs(2, speed=False, factors={"op17": 1.1}, first=IN_TURN))
    (row,) = [row for row in found.rows if row.significant]
    assert row.name == "op17"
    assert found.rows[0] is row
    assert row.change == pytest.approx(0.1, abs=0.03)
    assert row.low <= 0.1 <= row.high
    assert row.effect > 0.8
    assert row.p < 0.05
    assert [r.name for r in found.regressions()] == ["op17"]
    assert found.regressions(time=0.2) == ()
    assert found.regressions(time=None) == ()
    assert found.notes == ()


def test_a_faster_op_is_significant_and_no_regression():
    found = diff(runs(1, speed=False), runs(2, speed=False, factors={"op17": 0.8}, first=IN_TURN))
    assert [row.name for row in found.rows if row.significant] == ["op17"]
    assert found.regressions() == ()


def test_a_small_op_counts_only_once_it_matters_for_the_whole():
    def significant(factor):
        new = runs(2, speed=False, factors={"op2": factor}, first=IN_TURN)
        rows = diff(runs(1, speed=False), new).rows
        return [row.name for row in rows if row.significant]

    assert significant(1.2) == []
    assert significant(4) == ["op2"]


def test_a_slower_machine_is_a_change_of_the_total_alone():
    everything = dict.fromkeys(OPS, 1.5)
    found = diff(runs(1, speed=False), runs(2, speed=False, factors=everything, first=IN_TURN))
    assert [row.name for row in found.rows if row.significant] == []
    assert found.total.significant
    assert found.total.change == pytest.approx(0.5, abs=0.02)
    assert [row.name for row in found.regressions()] == ["total"]


def test_sets_recorded_one_after_the_other_cannot_tell_the_machine_from_the_program():
    everything = dict.fromkeys(OPS, 1.5)
    found = diff(runs(1, speed=False), runs(2, speed=False, factors=everything, first=AFTERWARDS))
    assert found.regressions() == ()
    assert found.total.change == pytest.approx(0.5, abs=0.02)
    assert "not recorded in turns" in found.notes[0]
    assert "most nodes are slower by about 50%" in found.notes[1]


@pytest.mark.parametrize("first", [IN_TURN, AFTERWARDS])
def test_sets_of_one_program_raise_few_alarms(first):
    alarms = sum(
        any(r.significant for r in (*found.rows, found.total))
        for found in (diff(runs(100 + i), runs(500 + i, first=first)) for i in range(25))
    )
    assert alarms <= 3


def test_new_and_gone_nodes():
    found = diff(runs(1, names=["a", "b"]), runs(2, names=["a", "c"]))
    assert list(found.appeared) == ["c"]
    assert list(found.gone) == ["b"]
    assert [row.name for row in found.rows] == ["a"]
    assert any("only 1 node is on both sides" in note for note in found.notes)


def test_memory_is_exact():
    found = diff(runs(1, 3, peak=1000), runs(2, 3, peak=1020))
    (row,) = found.memory
    assert (row.base, row.new, row.significant) == (1000, 1020, True)
    assert row.change == pytest.approx(0.02)
    assert [r.name for r in found.regressions(memory=0.01)] == [f"peak of {CPU0}"]
    assert found.regressions(memory=0.05) == ()
    same = diff(runs(1, 3, peak=1000), runs(2, 3, peak=1000))
    assert not same.memory[0].significant


def test_memory_that_one_side_did_not_record_is_no_regression():
    found = diff(runs(1, 5), runs(2, 5, peak=1020))
    assert found.memory == ()
    assert found.regressions(time=None, memory=0.01) == ()
    assert any("in 0 of 5 base runs and 5 of 5 new" in note for note in found.notes)


def failing(count, status=None):
    """Runs that stopped half way."""
    status = status or Status("RESOURCE_EXHAUSTED", "too large\nat length")
    rows = [("op0", "Op", [], 1, 0, 0, 1000)]
    return [run_of(*rows, status=status) for _ in range(count)]


def test_runs_that_failed_are_no_fast_ones():
    good = runs(1, speed=False)
    found = diff(good, [*runs(1, speed=False, first=IN_TURN), *failing(3)])
    assert (found.base_runs, found.new_runs) == (30, 30)
    assert found.new_left_out == {"RESOURCE_EXHAUSTED": 3}
    assert found.gone == {}
    assert found.total.change == pytest.approx(0)
    assert "3 new runs did not end well (3 RESOURCE_EXHAUSTED)" in found.notes[0]
    assert found.fails
    assert not diff(good + failing(1), good + failing(2)).fails
    assert not diff(good, good + failing(1, END_MISSING)).fails
    with pytest.raises(StepscopeError, match=r"none of the 3 new runs ended well.* too large$"):
        diff(good, failing(3))


def test_too_few_runs_say_so_and_alarm_never():
    for many, few in ((3, 3), (30, 1), (30, 2), (30, 3)):
        slow = runs(2, few, factors=dict.fromkeys(OPS, 9), first=IN_TURN)
        for found in (diff(runs(1, many), slow), diff(slow, runs(1, many))):
            assert found.regressions() == ()
            assert {row.p for row in (found.total, *found.rows)} == {1.0}
            assert "at least 4 on each side" in found.notes[0]


def test_by_op_type_and_bad_arguments():
    assert [row.name for row in diff(runs(1), runs(2), by="op").rows] == ["Op"]
    with pytest.raises(ValueError, match="'name' or 'op'; it was 'scope'"):
        diff(runs(1, 1), runs(2, 1), by="scope")
    with pytest.raises(ValueError, match="runs on both sides; found 0 and 1"):
        diff([], runs(2, 1))
