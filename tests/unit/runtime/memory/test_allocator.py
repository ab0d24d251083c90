"""The session's allocator: limits, accounts of runs, and buffers kept for reuse."""

import numpy as np
import pytest

import stepscope.tf1 as tf
from stepscope.errors import ResourceExhaustedError
from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.ops.resources import ResourceStore
from stepscope.options import ConfigProto, RunOptions
from stepscope.runtime.memory import allocator as allocators
from stepscope.runtime.memory import buffers
from stepscope.runtime.memory.allocator import Allocator, allocating
from stepscope.runtime.memory.buffers import BufferCache

A, B = "/device:CPU:0", "/device:CPU:1"


@pytest.fixture
def allocator():
    return Allocator(ResourceStore(), {A: 100}, BufferCache())


def rows():
    return AllocationColumns.empty()


def test_what_runs_hold_is_charged_until_it_is_released(allocator):
    account = allocator.open(rows)
    assert account.charge(A, 60)
    assert not account.charge(A, 41)
    assert account.charge(A, 40)
    assert allocator.live(A) == 100
    account.release(A, 60)
    assert allocator.live(A) == 40
    account.close()
    account.close()
    assert allocator.live(A) == 0


def test_a_device_without_a_limit_takes_anything(allocator):
    assert allocator.open(rows).charge(B, 1 << 60)
    assert allocator.live(B) == 0


def test_a_run_is_admitted_with_its_peak_or_not_at_all(allocator):
    first = allocator.admit({A: 70, B: 1 << 60}, rows)
    assert first is not None
    assert allocator.live(A) == 70
    assert allocator.admit({A: 31}, rows) is None
    second = allocator.open(rows)
    assert second.charge(A, 30)
    assert not second.charge(A, 1)
    assert allocator.others(second) == [first]
    first.close()
    assert second.charge(A, 1)


def test_variables_and_queues_count_against_the_limit(allocator):
    allocator._held.add(A, 90)
    account = allocator.open(rows)
    assert not account.charge(A, 11)
    assert account.charge(A, 10)
    assert allocator.changes == 1


def test_idle_buffers_are_given_back_before_an_allocation_fails(allocator):
    allocator.cache.give(np.empty(64, np.uint8))
    calls = []

    def make():
        calls.append(allocator.cached_bytes)
        if len(calls) == 1:
            raise MemoryError
        return "made"

    assert allocating(allocator, make) == "made"
    assert calls == [64, 0]
    with pytest.raises(MemoryError):
        allocating(allocator, lambda: (_ for _ in ()).throw(MemoryError()))


def chains(count, floats):
    """As many graphs' ends, each needing a buffer of its own."""
    x = tf.placeholder(tf.float32, [floats], name="x")
    return x, [tf.reduce_sum(tf.add(tf.add(x, float(i)), 1.0)) for i in range(count)]


def test_many_plans_do_not_hoard(monkeypatch):
    monkeypatch.setattr(allocators, "MAX_IDLE_BUFFERS", 3 * 4096)
    with tf.Graph().as_default():
        x, ends = chains(10, 1024)
        with tf.Session() as session:
            for end in ends:
                session.run(end, {x: np.ones(1024, np.float32)})
                assert session._allocator.cached_bytes <= 3 * 4096
            assert session._allocator.cached_bytes > 0
            for end in ends:
                assert session.run(end, {x: np.zeros(1024, np.float32)}) >= 1024
            assert session._allocator.give_back() == 3 * 4096
            assert session._allocator.cached_bytes == 0


def test_a_plan_keeps_few_of_its_large_buffers(monkeypatch):
    monkeypatch.setattr(buffers, "MAX_IDLE_BUFFERS", 4096)
    monkeypatch.setattr("stepscope.runtime.execute.program.MAX_IDLE_BUFFERS", 4096)
    with tf.Graph().as_default():
        x, (end,) = chains(1, 4096)
        with tf.Session() as session:
            session.run(end, {x: np.ones(4096, np.float32)})
            assert session._allocator.cached_bytes == 4 * 4096, "one set stays, however large"


def test_under_a_limit_cached_bytes_make_way_for_live_ones():
    with tf.Graph().as_default():
        x, (first, second) = chains(2, 1 << 18)
        ones = np.ones(1 << 18, np.float32)
        with tf.Session(config=ConfigProto(memory_limit_bytes=3 << 20)) as session:
            session.run(first, {x: ones})
            session.run(second, {x: ones})
            assert session._allocator.cached_bytes <= 1 << 20


def test_a_report_counts_cached_bytes_apart():
    with tf.Graph().as_default():
        x, (end,) = chains(1, 1024)
        y = tf.placeholder(tf.float32, [None])
        many = tf.reduce_sum(tf.concat([y] * 8, 0))
        with tf.Session(config=ConfigProto(memory_limit_bytes=1 << 16)) as session:
            session.run(end, {x: np.ones(1024, np.float32)})
            with pytest.raises(ResourceExhaustedError) as caught:
                session.run(many, {y: np.ones(2048, np.float32)},
                            options=RunOptions(report_allocations_on_oom=True))  # fmt: skip
            report = caught.value.run_metadata.out_of_memory
            assert report.live == 8192
            assert report.cached == 4096
