"""Who gets which memory: forwarding, reuse and liveness on small plans made for each case."""

import numpy as np
import pytest

import stepscope.tf1 as st
from stepscope.graph.build import apply_op
from stepscope.graph.registry import Kernel, is_registered, register
from stepscope.ops.resources import ResourceStore
from stepscope.runtime.memory import buffers
from stepscope.runtime.memory.buffers import (
    BufferCache,
    assign_buffers,
    fetch_policy,
    hand_out,
    own,
)
from stepscope.runtime.plan.exec_graph import ExecGraph
from stepscope.runtime.plan.placement import Placer, local_devices
from stepscope.runtime.plan.plan import Plan

if not is_registered("_TestOpaqueCopy"):
    register(
        "_TestOpaqueCopy",
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=["T: type"],
        shape=lambda c: c.input(0),
        kernel=lambda _node: Kernel(np.copy, opaque=True),
    )


def plan_of(build, devices=1):
    """The plan of what `build` returns, with a placeholder of 64 floats fed."""
    with st.Graph().as_default():
        x = st.placeholder(st.float32, [64], name="x")
        fetched = build(x)
        fetches = list(fetched) if isinstance(fetched, (list, tuple)) else [fetched]
    graph = ExecGraph([x], fetches, [], Placer(local_devices(devices), soft=True))
    return Plan(graph, {graph.args[x]: x.shape}, ResourceStore())


def step_index(plan, name):
    return next(i for i, s in enumerate(plan.steps) if s.node.name == name)


def buffer_of(plan, assigned, name):
    view = assigned.view_of.get((step_index(plan, name), 0))
    return None if view is None else assigned.views[view].buffer


def memory_of(plan, name):
    return plan.memories[plan.steps[step_index(plan, name)].groups[0]]


def chain(x, length):
    for i in range(length):
        x = st.add(x, 1.0, name=f"n{i}")
    return x


def test_a_chain_writes_over_itself():
    plan = plan_of(lambda x: chain(x, 6))
    assigned = assign_buffers(plan)
    assert len(assigned.sizes) == 1
    assert assigned.nbytes == 256
    assert {buffer_of(plan, assigned, f"n{i}") for i in range(5)} == {0}


def test_what_is_fetched_has_no_buffer_of_the_plan():
    plan = plan_of(lambda x: chain(x, 3))
    assert buffer_of(plan, assign_buffers(plan), "n2") is None
    assert memory_of(plan, "n2").escapes


def test_what_is_fed_is_never_written_to():
    plan = plan_of(lambda x: st.negative(st.add(x, x, name="a"), name="b"))
    assert memory_of(plan, "_arg_x_0_0").fed
    assert memory_of(plan, "_arg_x_0_0").foreign
    assert buffer_of(plan, assign_buffers(plan), "a") is not None


def test_an_input_that_is_read_later_is_not_written_over():
    def build(x):
        a = st.add(x, 1.0, name="a")
        b = st.add(a, 1.0, name="b")
        return st.add(a, b, name="c")

    plan = plan_of(build)
    assigned = assign_buffers(plan)
    assert buffer_of(plan, assigned, "a") != buffer_of(plan, assigned, "b")


def test_a_buffer_is_given_out_again_after_its_last_reader():
    def build(x):
        a = st.add(x, 1.0, name="a")
        total = st.reduce_sum(a, name="s")
        b = st.add(x, total, name="b")
        return st.add(b, 1.0, name="c")

    plan = plan_of(build)
    assigned = assign_buffers(plan)
    assert buffer_of(plan, assigned, "a") == buffer_of(plan, assigned, "b")


def test_a_view_keeps_its_memory_alive():
    def build(x):
        a = st.add(x, 1.0, name="a")
        view = st.reshape(a, [8, 8], name="view")
        b = st.add(x, 2.0, name="b")
        return st.add(st.reshape(b, [8, 8]), view, name="c")

    plan = plan_of(build)
    assert memory_of(plan, "a") is memory_of(plan, "view")
    assigned = assign_buffers(plan)
    assert buffer_of(plan, assigned, "a") != buffer_of(plan, assigned, "b")


def test_an_op_that_also_reads_a_view_of_its_input_does_not_write_over_it():
    def build(x):
        a = st.add(x, 1.0, name="a")
        turned = st.reshape(st.transpose(st.reshape(a, [8, 8])), [64])
        return st.negative(st.add(a, turned, name="both"), name="c")

    plan = plan_of(build)
    assigned = assign_buffers(plan)
    assert buffer_of(plan, assigned, "both") != buffer_of(plan, assigned, "a")


def test_what_a_custom_op_saw_or_made_is_never_reused():
    def build(x):
        a = st.add(x, 1.0, name="a")
        kept = apply_op("_TestOpaqueCopy", a, name="kept").outputs[0]
        return chain(st.add(kept, a, name="b"), 3)

    plan = plan_of(build)
    assigned = assign_buffers(plan)
    assert memory_of(plan, "a").kept
    assert memory_of(plan, "kept").foreign
    assert buffer_of(plan, assigned, "a") is None
    assert buffer_of(plan, assigned, "kept") is None
    assert buffer_of(plan, assigned, "b") is not None


def test_a_fed_array_is_copied_for_a_custom_op():
    plan = plan_of(lambda x: apply_op("_TestOpaqueCopy", x, name="kept").outputs[0])
    step = plan.steps[step_index(plan, "kept")]
    assert step.copies(plan, 0)


def test_a_fed_array_s_view_is_copied_for_a_custom_op_too():
    plan = plan_of(
        lambda x: apply_op("_TestOpaqueCopy", st.reshape(x, [8, 8]), name="kept").outputs[0]
    )
    assert plan.steps[step_index(plan, "kept")].copies(plan, 0)


def test_a_tensor_that_is_sent_lives_until_it_was_read_on_the_other_device():
    def build(x):
        a = st.add(x, 1.0, name="a")
        with st.device("/cpu:1"):
            b = st.add(a, 1.0, name="b")
            return st.add(b, a, name="c")

    plan = plan_of(build, devices=2)
    memory = memory_of(plan, "a")
    assert memory.last_use >= step_index(plan, "c")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_buffers_are_multiples_of_64_bytes_and_views_fit(dtype):
    def build(x):
        a = st.cast(x, dtype, name="a")
        return st.cast(st.identity(a), st.float32)

    plan = plan_of(build)
    assigned = assign_buffers(plan)
    assert all(size % 64 == 0 for size in assigned.sizes)
    for view, array in zip(assigned.views, assigned.allocate(), strict=True):
        assert array.shape == view.shape
        assert array.nbytes <= assigned.sizes[view.buffer]


def test_the_second_fetch_of_the_same_memory_is_a_copy():
    def build(x):
        a = st.add(x, 1.0, name="a")
        return [a, st.reshape(a, [8, 8]), x]

    assert list(fetch_policy(plan_of(build))) == [False, True, True]


def test_own_and_hand_out():
    whole = np.arange(6.0)
    assert hand_out(whole) is whole
    reshaped = whole.reshape(2, 3)
    assert hand_out(reshaped) is reshaped
    part = whole[:2]
    assert not np.shares_memory(hand_out(part), whole), "it would keep the rest alive"
    fixed = np.arange(3.0)
    fixed.setflags(write=False)
    assert hand_out(fixed).flags.writeable
    assert not np.shares_memory(own(whole), whole)
    for give in (own, hand_out):
        assert isinstance(give(np.array(2.0, np.float32)), np.float32)
        assert give(b"text") == b"text"


def test_the_cache_gives_back_what_it_was_given_up_to_its_bound():
    cache = BufferCache(max_bytes=256)
    first = cache.take(100)
    assert first.nbytes == 128
    cache.give(first)
    assert cache.cached_bytes == 128
    assert cache.take(128) is first
    assert cache.cached_bytes == 0
    for _ in range(5):
        cache.give(np.empty(128, np.uint8))
    assert cache.cached_bytes == 256
    assert cache.take(0).nbytes == 0


def test_sizes_fall_into_classes_that_waste_at_most_a_quarter():
    cache = BufferCache()
    for size in [*range(1, 5000, 7), 123_456, 4 << 20, (4 << 20) + 1]:
        rounded = cache.take(size).nbytes
        assert size <= rounded <= max(size + 63, size * 1.25)
        assert rounded % 64 == 0
    near = cache.take(1_000_000)
    cache.give(near)
    assert cache.take(1_000_100) is near, "a little more than before is the same class"


def test_what_was_freed_longest_ago_goes_first():
    cache = BufferCache(max_bytes=1024)
    for size in (512, 256, 256):
        cache.give(np.empty(size, np.uint8))
    cache.give(np.empty(64, np.uint8))
    assert cache.cached_bytes == 576, "the largest and oldest is gone"
    assert cache.shrink(64) == 512
    assert cache.shrink(0) == 64
    assert cache.cached_bytes == 0
    cache.give(np.empty(2048, np.uint8))
    assert cache.cached_bytes == 0, "larger than the whole cache"


def test_poisoning_overwrites_what_is_given_back():
    before = buffers.poisoning()
    try:
        buffers.poisoning(True)
        cache = BufferCache()
        array = np.zeros(64, np.uint8)
        cache.give(array)
        assert (array == buffers.POISON).all()
    finally:
        buffers.poisoning(before)
