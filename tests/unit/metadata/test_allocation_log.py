"""The allocation log: what it keeps, samples and counts, and what comes out as JSON."""

from __future__ import annotations

import json
import zlib
from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto import config_pb2

import stepscope
from random_examples import examples
from stepscope.metadata import AllocationColumns, Recording, RunMetadata
from stepscope.metadata.memory.allocation_log import LogSettings, json_of, log_of

T0 = 1_794_769_119_769_750_449
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
MIB = 1 << 20


class Events:
    """The events of a run, one by one."""

    COLUMNS = ("name", "device", "time_ns", "bytes", "address", "event", "slot", "dtype", "shape")

    def __init__(self):
        self.rows = []

    def add(self, name, size, address=0, event=None, slot=0, device=CPU, after=1, shape=None):
        event = event or ("free" if size < 0 else "allocate")
        time = self.rows[-1][2] + after if self.rows else T0
        self.rows.append((name, device, time, size, address, event, slot, 1, shape))

    def pairs(self, count, size=400):
        """So many tensors, each allocated and freed before the next."""
        for i in range(count):
            self.add(f"op_{i}", size, 0x7F00 + i)
            self.add(f"op_{i}", -size, 0x7F00 + i)
        return self

    def columns(self):
        return AllocationColumns.build(
            **{column: [row[i] for row in self.rows] for i, column in enumerate(self.COLUMNS)}
        )

    def log(self, **options):
        return log_of(self.columns(), LogSettings(**options))


def told(log):
    columns = log.columns
    return list(zip(columns.name.tolist(), columns.event.tolist(), strict=True))


def test_the_log_holds_the_last_events_and_counts_the_others():
    log = Events().pairs(5).log(capacity=3)
    assert told(log) == [("op_3", "free"), ("op_4", "allocate"), ("op_4", "free")]
    assert log.columns.bytes.tolist() == [-400, 400, -400]
    assert (log.dropped, log.sampled_out) == (7, 0)
    (loss,) = log.losses(LogSettings(capacity=3))
    assert loss.count == 7
    assert "the last 3 events (allocation_log_buffer_size)" in loss.reason


def test_a_log_with_room_loses_nothing():
    log = Events().pairs(5).log(capacity=10)
    assert len(log.columns) == 10
    assert log.losses(LogSettings(capacity=10)) == ()


def test_sampling_keeps_pairs_together():
    log = Events().pairs(400).log(rate=0.3)
    columns = log.columns
    kept = columns.name[columns.event == "allocate"].tolist()
    assert kept == columns.name[columns.event == "free"].tolist()
    assert 60 < len(kept) < 180
    assert log.sampled_out == 800 - len(columns)
    (loss,) = log.losses(LogSettings(rate=0.3))
    assert loss.count == log.sampled_out
    assert "a rate of 0.3 (allocation_log_sampling_rate)" in loss.reason


def sampled_names(seed, order=range(200)):
    events = Events()
    for i in order:
        events.add(f"op_{i}", 8)
    return set(events.log(rate=0.5, seed=seed).columns.name)


def test_sampling_depends_on_the_seed_and_not_on_the_order():
    first = sampled_names(seed=3)
    assert sampled_names(seed=3, order=reversed(range(200))) == first
    assert sampled_names(seed=4) != first


def test_an_op_that_runs_often_is_sampled_like_many_ops():
    events = Events()
    for i in range(400):
        events.add("MatMul", 8, 0x1000 + i)
    assert 60 < len(events.log(rate=0.25).columns) < 140


def test_large_allocations_are_never_sampled_out():
    events = Events().pairs(50, size=MIB).pairs(50, size=MIB - 4)
    sizes = np.abs(events.log(rate=0.001).columns.bytes)
    assert np.count_nonzero(sizes == MIB) == 100
    assert np.count_nonzero(sizes == MIB - 4) < 20


def test_the_refused_request_is_neither_sampled_out_nor_pushed_out():
    events = Events()
    events.add("too_big", 64, event="failed")
    log = events.pairs(20, size=2 * MIB).log(capacity=3, rate=0.001)
    assert told(log) == [("too_big", "failed"), ("op_19", "allocate"), ("op_19", "free")]
    assert log.dropped == 38


def test_a_free_of_something_older_than_the_log_is_logged():
    events = Events()
    events.add("variable", -400, 0x7F00)
    assert told(events.log(rate=0.001)) == [("variable", "free")]


def test_addresses_are_small_numbers_unless_asked_for():
    events = Events()
    events.add("a", 4, 0x7FFF12345678)
    events.add("b", 4, 0x7FFF00000040)
    events.add("a", -4, 0x7FFF12345678)
    events.add("c", 4)
    for mode, expected in (
        ("anonymous", [1, 2, 1, 0]),
        ("raw", [0x7FFF12345678, 0x7FFF00000040, 0x7FFF12345678, 0]),
        ("none", [0, 0, 0, 0]),
    ):
        assert events.log(address_mode=mode).columns.address.tolist() == expected, mode


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"capacity": 0}, "at least 1"),
        ({"rate": 0.0}, "above 0"),
        ({"rate": 1.5}, "up to 1"),
        ({"address_mode": "hashed"}, "'anonymous'"),
    ],
)
def test_settings_that_make_no_log_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        LogSettings(**wrong)


def test_which_options_ask_for_a_log():
    def asked(**options):
        return LogSettings.of(stepscope.RunOptions(**options).resolve())

    assert asked() is None
    assert asked(trace_level=3) is None
    assert asked(report_allocations_on_oom=True) == LogSettings()
    assert asked(allocation_log_sampling_rate=0.5) == LogSettings(rate=0.5)
    assert asked(allocation_log_address="raw") == LogSettings(address_mode="raw")
    both = asked(allocation_log_buffer_size=7, allocation_log_sampling_rate=0.1)
    assert both == LogSettings(capacity=7, rate=0.1)


# -- against a ring that takes the events one by one ---------------------------------------


class Ring:
    """The log as its description has it: one event at a time, nothing else known."""

    def __init__(self, settings):
        self.settings = settings
        self.kept, self.refused = [], []
        self.sampled_out = 0
        self.seen = Counter()
        self.open = {}

    def add(self, row):
        name, device, _, size, address, event, slot, _, _ = row
        owner = (device, address) if address else (device, name, slot)
        if event == "failed":
            self.refused.append(row)
            return
        if event == "free":
            waiting = self.open.get(owner)
            logged = waiting.popleft() if waiting else True
        else:
            logged = size >= self.settings.large_bytes or self.drawn(name, slot)
            self.seen[name, slot] += 1
            self.open.setdefault(owner, deque()).append(logged)
        if logged:
            self.kept.append(row)
        else:
            self.sampled_out += 1

    def drawn(self, name, slot):
        seed = (self.settings.seed << 40) ^ (zlib.crc32(name.encode()) << 8) ^ (slot & 0xFF)
        draw = splitmix(splitmix(seed) + self.seen[name, slot] * 0x9E3779B97F4A7C15)
        return draw < self.settings.rate * 2**64

    def rows(self):
        refused = self.refused[-self.settings.capacity :]
        room = self.settings.capacity - len(refused)
        return self.kept[len(self.kept) - room if room < len(self.kept) else 0 :] + refused


def splitmix(value):
    mask = 2**64 - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c/d"]),
        st.integers(1, 2000),
        st.integers(0, 3),
        st.sampled_from(["allocate", "allocate", "free", "free", "held", "failed"]),
        st.integers(-1, 1),
        st.sampled_from([CPU, "/device:CPU:1"]),
    ),
    max_size=60,
)


@examples(300)
@given(
    rows=ROWS,
    capacity=st.integers(1, 20),
    rate=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_the_log_is_that_of_a_ring_filled_one_by_one(rows, capacity, rate, seed):
    chosen = LogSettings(capacity, rate, seed, large_bytes=1900, address_mode="raw")
    events, ring = Events(), Ring(chosen)
    for name, size, address, event, slot, device in rows:
        signed = -size if event == "free" else size
        events.add(name, signed, address, event, slot, device, shape=(len(events.rows),))
        ring.add(events.rows[-1])
    log = log_of(events.columns(), chosen)
    assert [shape[0] for shape in log.columns.shape] == sorted(row[8][0] for row in ring.rows())
    assert log.sampled_out == ring.sampled_out
    assert len(log.columns) + log.dropped + log.sampled_out == len(rows)


# -- as text -------------------------------------------------------------------------------


def a_log():
    return AllocationColumns.build(
        name=["dense/MatMul", "dense/MatMul", "big"],
        device=[CPU] * 3,
        time_ns=[T0, T0 + 1, T0 + 2],
        bytes=[4000, -4000, 1 << 40],
        address=[1, 1, 0],
        event=["allocate", "free", "failed"],
        slot=[0, 0, -1],
        dtype=[1, 1, 0],
        shape=[(10, 100), (10, 100), None],
        step=12,
    )


def metadata_with_log():
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", allocation_log=a_log))
    return metadata


def test_the_log_as_json():
    entries = json.loads(stepscope.extract_allocation_log(metadata_with_log()))
    assert entries[0] == {
        "op_name": "dense/MatMul",
        "slot": 0,
        "shape": [10, 100],
        "dtype": "float32",
        "bytes": 4000,
        "address": 1,
        "device": CPU,
        "event": "allocate",
        "kind": "temporary",
        "step": 12,
        "time": "2026-11-15T18:58:39.769750449Z",
        "time_ns": T0,
    }
    assert [entry["event"] for entry in entries] == ["allocate", "free", "failed"]
    assert entries[2]["shape"] is None
    assert entries[2]["dtype"] == ""
    assert entries[2]["address"] is None


def test_the_log_travels_in_the_bytes_of_tensorflows_message():
    theirs = config_pb2.RunMetadata.FromString(metadata_with_log().SerializeToString())
    assert stepscope.extract_allocation_log(theirs) == json_of(a_log())


def test_a_run_without_a_log_has_an_empty_one():
    assert stepscope.extract_allocation_log(RunMetadata()) == "[]"


def test_what_is_no_metadata_is_refused():
    with pytest.raises(TypeError, match=r"takes the RunMetadata.*builtins.dict"):
        stepscope.extract_allocation_log({})


def test_every_element_type_has_tensorflows_name(tensorflow):
    from stepscope._messages import DataType
    from stepscope.metadata.dtype_names import dtype_name

    known = [number for number in DataType.values() if number]
    for number in known:
        try:
            theirs = tensorflow.as_dtype(number).name
        except TypeError:
            continue
        assert dtype_name(number) == theirs
    assert dtype_name(0) == ""
    assert dtype_name(9999) == "DataType(9999)"
