"""Transfers with their owners, the time they took, and who was late."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope
from random_examples import examples
from simulated_cluster import (
    BEGIN,
    MS,
    SECOND,
    Clock,
    Rows,
    all_reduce_step,
    parameter_server_step,
)
from stepscope.analysis import critical_path, network
from stepscope.analysis.cluster.messages import traffic
from stepscope.export import chrome

DATA = Path(__file__).parents[3] / "data"


def test_transfers_of_a_real_cluster_have_producers_consumers_and_bytes():
    run = stepscope.load(DATA / "distributed_ps_worker" / "run_metadata.pb")
    found = network(run)
    told = {(r.producer, r.source, r.target, r.consumer, r.bytes) for r in found.rows}
    assert told == {
        ("w/read", "ps:0", "worker:0", "y", 131072),
        ("gradients/y_grad/MatMul_1", "worker:0", "ps:0", "mul_1", 131072),
        ("upd", "ps:0", "worker:0", "", 131072),
    }
    assert (found.transfers, found.unmatched, found.bytes) == (3, 0, 3 * 131072)
    for row in found.rows:
        assert row.waiting_ns + row.moving_ns == row.total_ns > 0
        assert row.rate == pytest.approx(row.bytes / row.moving_ns * 1e9)


def test_transfers_of_a_real_cluster_are_arrows_by_way_of_the_receive():
    run = stepscope.load(DATA / "distributed_ps_worker" / "run_metadata.pb")
    events = json.loads(chrome(run))["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]

    def at(event):
        around = [
            s["name"] for s in slices
            if s["tid"] == event["tid"] and s["ts"] <= event["ts"] <= s["ts"] + s["dur"]
        ]  # fmt: skip
        return around[-1]

    ends = {e["id"]: at(e) for e in events if e["ph"] == "f"}
    arrows = [(at(e), ends[e["id"]]) for e in events if e["ph"] == "s"]
    assert ("w/read", "RecvTensor") in arrows
    assert ("w/read", "y") not in arrows


def test_a_path_crosses_tasks_through_transfers():
    run = stepscope.load(DATA / "distributed_ps_worker" / "run_metadata.pb")
    path = critical_path(run)
    assert path.names[-5:] == (
        "gradients/y_grad/MatMul_1", "RecvTensor", "mul_1", "upd", "RecvTensor",
    )  # fmt: skip
    # A constant waits for what its label does not tell; the way goes on to the first transfer.
    assert path.names[:5] == ("_SOURCE", "w", "w/read", "RecvTensor", "y")


def test_the_path_of_a_step_goes_through_the_slow_worker_and_both_transfers():
    slow = {"worker:1": 30 * MS}
    rows, end = parameter_server_step(BEGIN, 3, work=lambda task: slow.get(task, 5 * MS))
    path = critical_path(rows.metadata())
    assert path.names == (
        "_SOURCE", "w/read", "RecvTensor", "grad_1", "RecvTensor", "add", "w/assign",
    )  # fmt: skip
    assert path.length_ns == end - BEGIN
    assert path.savings[0].name == "grad_1"


def test_of_tensors_received_at_one_moment_the_one_sent_last_was_waited_for():
    """A busy server finds what came long before only with what comes last."""
    late = BEGIN + 40 * MS

    def step(order):
        rows = Rows({})
        rows.op("ps:0", "_SOURCE", "NoOp", BEGIN, BEGIN + 1000)
        made = {"worker:0": BEGIN + 5 * MS, "worker:1": late - 2 * MS}
        for place, (task, end) in enumerate(made.items()):
            rows.op(task, f"grad_{place}", "MatMul", BEGIN + 1000, end, "x")
        for place, task in enumerate(order):
            end = late + 20_000 * place
            rows.transfer(f"grad_{task[-1]}", task, made[task], "ps:0", BEGIN + 1000, end, 64)
        rows.op("ps:0", "add", "AddN", late + MS, late + 2 * MS, "grad_0_S1", "grad_1_S2")
        return critical_path(rows.metadata())

    for order in (("worker:0", "worker:1"), ("worker:1", "worker:0")):
        assert step(order).names[-3:] == ("grad_1", "RecvTensor", "add")


def test_the_path_of_a_collective_goes_through_the_last_to_come():
    slow = {"worker:2": 30 * MS}
    rows, _ = all_reduce_step(BEGIN, 3, work=lambda task: slow.get(task, 5 * MS))
    path = critical_path(rows.metadata())
    assert path.names == ("grad", "reduce", "apply")
    assert path.rows[0].device.startswith("/job:worker/replica:0/task:2")
    assert path.by_kind["executing"] == pytest.approx(30 * MS, abs=MS)


def test_receive_time_is_split_into_waiting_for_the_producer_and_moving():
    rows, _ = parameter_server_step(
        BEGIN, 1, work=lambda _task: 7 * MS, delay=lambda *_of: 2 * MS, size=8000
    )
    found = network(rows.metadata())
    gradient = next(row for row in found.rows if row.producer == "grad_0")
    # Asked for as the step began; made after 2 ms of transfer and 7 ms of work.
    assert gradient.waiting_ns == pytest.approx(9 * MS, abs=MS // 10)
    assert gradient.moving_ns == pytest.approx(2 * MS, abs=MS // 10)
    assert gradient.idle_ns == pytest.approx(11 * MS, abs=MS // 10)
    assert gradient.rate == pytest.approx(8000 / 2e-3, rel=0.1)
    assert (gradient.consumer, gradient.bytes) == ("add", 8000)


def test_the_server_waits_the_same_whatever_its_clock_says():
    def of(clock: Clock):
        steps = [
            parameter_server_step(BEGIN + i * SECOND, 3, {"worker:1": clock})[0].metadata(i)
            for i in range(5)
        ]
        return network(steps, "pair")

    right, wrong = of(Clock()), of(Clock(5 * SECOND, 100.0))
    assert wrong.clocks.rows[2].offset_ns == pytest.approx(5 * SECOND, abs=MS)
    by_key = {row.key: row for row in wrong.rows}
    assert by_key.keys() == {row.key for row in right.rows}
    for one in right.rows:
        other = by_key[one.key]
        assert other.bytes == one.bytes
        assert other.total_ns == pytest.approx(one.total_ns, abs=MS)
        assert other.moving_ns == pytest.approx(one.moving_ns, abs=2 * MS)


def test_a_slow_worker_is_named_with_what_it_cost():
    slow = {"worker:2": 30 * MS}
    rows, _ = parameter_server_step(BEGIN, 4, work=lambda task: slow.get(task, 5 * MS))
    (late,) = network(rows.metadata()).stragglers
    assert (late.kind, late.name, late.waiting) == ("task", "worker:2", 1)
    assert late.cost_ns == pytest.approx(25 * MS, abs=MS)


def test_a_slow_link_is_named_with_what_it_cost():
    slow = {("worker:1", "ps:0"): 40 * MS}
    rows, _ = parameter_server_step(BEGIN, 4, delay=lambda *ends: slow.get(ends, MS // 5))
    (late,) = network(rows.metadata()).stragglers
    assert (late.kind, late.name) == ("link", "worker:1 -> ps:0")
    assert late.cost_ns == pytest.approx(40 * MS, abs=MS)


def test_a_slow_link_to_a_worker_makes_the_others_wait_for_the_link_not_the_worker():
    slow = {("ps:0", "worker:3"): 50 * MS}
    rows, _ = parameter_server_step(BEGIN, 4, delay=lambda *ends: slow.get(ends, MS // 5))
    (late,) = network(rows.metadata()).stragglers
    assert (late.kind, late.name) == ("link", "ps:0 -> worker:3")


def test_the_last_to_a_collective_is_named_and_all_others_waited_for_it():
    slow = {"worker:1": 60 * MS}
    rows, _ = all_reduce_step(BEGIN, 5, work=lambda task: slow.get(task, 5 * MS))
    found = network(rows.metadata())
    (late,) = found.stragglers
    assert (late.kind, late.name, late.waiting) == ("task", "worker:1", 4)
    assert late.cost_ns == pytest.approx(55 * MS, abs=MS)
    assert late.waited_ns == pytest.approx(4 * 55 * MS, abs=4 * MS)
    waited = {row.target: row.waiting_ns for row in found.rows}
    assert waited["worker:1"] == 0
    assert waited["worker:0"] == pytest.approx(55 * MS, abs=MS)


def test_every_step_has_its_own_straggler():
    steps = []
    for step in range(6):
        slow = {f"worker:{step % 3}": 20 * MS}
        rows, _ = parameter_server_step(
            BEGIN + step * SECOND, 3, work=lambda task, slow=slow: slow.get(task, 5 * MS)
        )
        steps.append(rows.metadata(step))
    found = network(steps)
    assert [late.name for late in found.stragglers] == [f"worker:{i % 3}" for i in range(6)]
    assert [late.step for late in found.stragglers] == list(range(6))


@pytest.mark.parametrize(("by", "keys"), [
    ("pair", {"ps:0 -> worker:0", "ps:0 -> worker:1", "worker:0 -> ps:0", "worker:1 -> ps:0"}),
    ("op", {"w/read", "grad_0", "grad_1"}),
    ("edge", {"w/read ps:0 -> worker:0 grad_0", "w/read ps:0 -> worker:1 grad_1",
              "grad_0 worker:0 -> ps:0 add", "grad_1 worker:1 -> ps:0 add"}),
])  # fmt: skip
def test_traffic_by_edge_pair_and_op(by, keys):
    rows, _ = parameter_server_step(BEGIN, 2)
    found = network(rows.metadata(), by)
    assert {row.key for row in found.rows} == keys
    assert sum(row.bytes for row in found.rows) == 4 * 4096


def test_sends_and_receives_that_are_nodes_are_matched_by_their_numbers():
    rows, _ = parameter_server_step(BEGIN, 1)
    rows.rows = [row for row in rows.rows if row[1] != "RecvTensor"]
    rows.op("ps:0", "w/read_S0", "_Send", BEGIN + 21_000, BEGIN + 22_000, "w/read")
    rows.op("worker:0", "w/read_S1", "_Recv", BEGIN + 2000, BEGIN + 200_000)
    (message,) = traffic(rows.metadata().ops).messages
    assert (message.tensor, message.source, message.target) == ("w/read", "ps:0", "worker:0")
    assert (message.asked_ns, message.sent_ns) == (BEGIN + 2000, BEGIN + 21_000)


def test_a_receive_whose_producer_is_not_there_is_counted_and_not_guessed():
    rows, _ = parameter_server_step(BEGIN, 1)
    found = network(rows.metadata(only="worker:0"))
    assert (found.transfers, found.unmatched) == (1, 1)
    (row,) = found.rows
    assert (row.producer, row.source, row.waiting_ns) == ("w/read", "ps:0", 0)
    assert found.clocks.unconstrained == ()


def test_a_run_of_one_task_has_no_traffic():
    rows, _ = all_reduce_step(BEGIN, 1)
    found = network(rows.metadata())
    assert (found.rows, found.stragglers, found.transfers) == ((), (), 0)


def test_an_unknown_grouping_is_refused():
    with pytest.raises(ValueError, match="edge, pair, op; it was 'device'"):
        network([], "device")


works = st.lists(st.integers(MS, 30 * MS), min_size=2, max_size=5)


@examples(60)
@given(work=works, offset=st.integers(-(10**10), 10**10), ppm=st.floats(-200, 200))
def test_parts_add_up_and_a_clearly_late_worker_is_named(work, offset, ppm):
    steps = [
        parameter_server_step(
            BEGIN + i * SECOND, len(work), {"worker:0": Clock(offset, ppm)},
            work=lambda task: work[int(task[7:])],
        )[0].metadata(i)
        for i in range(4)
    ]  # fmt: skip
    found = network(steps, "pair")
    for row in found.rows:
        assert row.waiting_ns + row.moving_ns == row.total_ns
        assert 0 <= row.idle_ns <= row.total_ns + 4 * MS
    order = sorted(work)
    if order[-1] - order[-2] > 5 * MS:
        late = {entry.name for entry in found.stragglers}
        assert late == {f"worker:{work.index(order[-1])}"}
