"""The ledger of what is alive, on profiles made by hand."""

from itertools import count

import pytest

from stepscope.adapters.tensorflow.memory.allocator_events import CPU, LiveBlocks
from stepscope.metadata.xplane import XSpace

START = 1_700_000_000_000_000_000
ALLOCATOR = "bfc_cpu_allocator_for_gpu"


class Profile:
    """An XSpace in the making; events come a microsecond after each other."""

    def __init__(self, begins=START):
        self.space = XSpace()
        self.plane = self.space.planes.add(name="/host:CPU")
        self.line = self.plane.lines.add(id=1, name="python", timestamp_ns=begins)
        self.numbers = {}
        self.times = count(1_000_000, 1_000_000)

    def number(self, field, name):
        known = self.numbers.setdefault(field, {})
        table = getattr(self.plane, field)
        if name not in known:
            known[name] = len(known) + 1
            table[known[name]].id = known[name]
            table[known[name]].name = name
        return known[name]

    def add(self, name, duration_ps=0, **stats):
        event = self.line.events.add(
            metadata_id=self.number("event_metadata", name),
            offset_ps=next(self.times),
            duration_ps=duration_ps,
        )
        for key, value in stats.items():
            stat = event.stats.add(metadata_id=self.number("stat_metadata", key))
            if isinstance(value, str):
                stat.str_value = value
            else:
                stat.int64_value = value

    def allocate(self, address, size, in_use, op="op", allocator=ALLOCATOR, shape="[2,3]"):
        self.add(
            "MemoryAllocation", allocator_name=allocator, addr=address, allocation_bytes=size,
            requested_bytes=size - 6, bytes_allocated=in_use, bytes_available=1000 - in_use,
            tf_op=op, shape=shape, data_type=1, id=7,
        )  # fmt: skip

    def free(self, address, size, in_use, allocator=ALLOCATOR):
        self.add(
            "MemoryDeallocation", allocator_name=allocator, addr=address, allocation_bytes=size,
            requested_bytes=size - 6, bytes_allocated=in_use, bytes_available=1000 - in_use, id=0,
        )  # fmt: skip

    def taken_by(self, ledger):
        return ledger.take(self.space.SerializeToString())


@pytest.fixture
def ledger():
    return LiveBlocks()


def named(alive):
    return {held.name: held.certain for held in alive.values()}


def test_a_free_carries_what_its_allocation_said(ledger):
    profile = Profile()
    profile.allocate(64, 100, 100, op="matmul")
    profile.free(64, 100, 0)
    allocated, freed = profile.taken_by(ledger).events
    assert freed.held == allocated.held
    held = allocated.held
    assert (held.name, held.address, held.bytes, held.requested) == ("matmul", 64, 100, 94)
    assert (held.shape, held.dtype, held.step, held.device) == ((2, 3), 1, 7, CPU)
    assert (allocated.time_ns, freed.time_ns) == (START + 1000, START + 2000)


def test_what_one_profile_allocated_is_alive_in_the_next(ledger):
    first = Profile()
    first.allocate(64, 100, 100, op="kept")
    first.taken_by(ledger)
    second = Profile(START + 10**9)
    second.allocate(256, 50, 150, op="more")
    found = second.taken_by(ledger)
    assert named(found.alive) == {"kept": True}
    alive, in_use = found.at(START + 2 * 10**9)
    assert named(alive) == {"kept": True, "more": True}
    assert in_use == {CPU: 150}
    assert found.limit(CPU) == 1000


def test_a_gap_between_profiles_is_noticed(ledger):
    first = Profile()
    first.allocate(64, 100, 100, op="maybe gone")
    first.taken_by(ledger)
    second = Profile(START + 10**9)
    second.allocate(256, 50, 80, op="sure")
    found = second.taken_by(ledger)
    assert found.in_use == {CPU: 30}
    assert named(found.at(START + 2 * 10**9)[0]) == {"maybe gone": False, "sure": True}


def test_a_profile_without_events_has_what_was_alive(ledger):
    assert Profile().taken_by(ledger) is None
    first = Profile()
    first.allocate(64, 100, 100, op="kept")
    first.taken_by(ledger)
    found = Profile(START + 10**9).taken_by(ledger)
    assert named(found.alive) == {"kept": True}
    assert found.in_use == {CPU: 100}


def test_allocators_beside_the_device_are_counted_apart(ledger):
    profile = Profile()
    profile.allocate(64, 100, 100)
    profile.allocate(128, 200, 200, allocator="mklcpu")
    profile.allocate(64, 300, 300, allocator="GPU_1_bfc")
    gpu = CPU.replace("CPU:0", "GPU:1")
    assert profile.taken_by(ledger).at(START + 10**9)[1] == {
        CPU: 100, f"{CPU} (mklcpu)": 200, gpu: 300,
    }  # fmt: skip


def test_events_of_an_allocator_that_leaves_some_are_not_taken_for_the_whole(ledger):
    profile = Profile()
    profile.allocate(128, 200, 200, op="named_bfc", allocator="mklcpu")
    assert profile.taken_by(ledger) is None
    whole = Profile(START + 10**9)
    whole.allocate(64, 100, 100)
    assert whole.taken_by(ledger).partly_told() == []
    again = Profile(START + 2 * 10**9)
    again.allocate(128, 200, 200, allocator="mklcpu")
    assert again.taken_by(ledger).partly_told() == [f"{CPU} (mklcpu)"]


def test_the_moment_of_refusal_is_the_end_of_the_op_that_waited(ledger):
    profile = Profile()
    profile.allocate(64, 100, 100)
    profile.add("outer", duration_ps=10_100_000_000_000)
    profile.add("wide:Fill", duration_ps=10_000_000_000_000)
    found = profile.taken_by(ledger)
    end = START + 3000 + 10_000_000_000
    assert found.refused_at("wide", end + 10**9) == end
    assert found.refused_at("unknown", end + 10**9) == end
    assert found.refused_at("wide", START + 5000) == START + 5000


def test_the_peak_is_found_between_two_times(ledger):
    profile = Profile()
    profile.allocate(64, 100, 100, op="first")
    profile.allocate(128, 100, 200, op="second")
    profile.free(64, 100, 100)
    found = profile.taken_by(ledger)
    assert set(named(found.at_peak(START, START + 10**9))) == {"first", "second"}
    assert set(named(found.at_peak(START + 2500, START + 10**9))) == {"second"}


def test_older_versions_write_null(ledger):
    profile = Profile()
    profile.allocate(64, 100, 100, op="(null)", shape="")
    held = profile.taken_by(ledger).events[0].held
    assert (held.name, held.shape) == ("", None)
