"""The allocation log of embedded runs: what is in it, what it leaves out, and who is told."""

import json

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.errors import InvalidArgumentError
from stepscope.options import RunOptions, ThreadPoolOptionProto
from stepscope.runtime.plan import plan


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def chain(length=40):
    x = tf.placeholder(tf.float32, [8], name="x")
    y = x
    for i in range(length):
        y = tf.add(y, 1.0, name=f"a{i}")
    return x, tf.reduce_sum(y, name="total")


def logged(fetch, feeds, config=None, **options):
    metadata = stepscope.RunMetadata()
    with tf.Session(config=config) as session:
        session.run(fetch, feeds, options=RunOptions(**options), run_metadata=metadata)
    return metadata


ONES = np.ones(8, np.float32)


@pytest.mark.parametrize(
    "options",
    [{"report_allocations_on_oom": True}, {"allocation_log_buffer_size": 200},
     {"allocation_log_sampling_rate": 1.0}, {"allocation_log_address": "raw"}],
)  # fmt: skip
def test_each_of_its_options_brings_the_log_of_a_run_that_went_well(options):
    x, total = chain()
    metadata = logged(total, {x: ONES}, **options)
    log = metadata.allocation_log
    assert len(log) == 1 + 2 * 41, "what is fed, and each op's memory, made and freed"
    assert log.peak_bytes() == 32 + 32 + 4 == metadata.peak_bytes()
    assert metadata.completeness.complete
    assert len(metadata.ops) == 0, "nobody asked for a trace"
    assert metadata.overhead.ns > 0
    assert metadata.sources["a3"].startswith(__file__)


def test_no_option_no_log():
    x, total = chain()
    metadata = logged(total, {x: ONES}, trace_level=1)
    assert len(metadata.allocation_log) == 0
    assert json.loads(stepscope.extract_allocation_log(metadata)) == []


def test_the_last_events_stay_and_the_others_are_counted():
    x, total = chain()
    metadata = logged(total, {x: ONES}, allocation_log_buffer_size=10)
    log = metadata.allocation_log
    assert len(log) == 10
    assert log.name[-1] == "total"
    (loss,) = metadata.completeness.losses
    assert (loss.what, loss.count) == ("allocation events dropped", 83 - 10)


def test_sampling_is_the_same_every_time_and_says_what_it_left_out():
    x, total = chain()
    names = []
    for _ in range(2):
        metadata = logged(total, {x: ONES}, allocation_log_sampling_rate=0.3)
        log = metadata.allocation_log
        names.append(log.name.tolist())
        (loss,) = metadata.completeness.losses
        assert loss.what == "allocation events sampled out"
        assert loss.count + len(log) == 83
    assert names[0] == names[1]
    assert 0 < len(names[0]) < 60


def test_addresses_as_small_numbers_as_they_are_or_not_at_all():
    x, total = chain(3)
    found = {
        mode: logged(total, {x: ONES}, allocation_log_address=mode, allocation_log_buffer_size=50)
        .allocation_log.address.tolist()
        for mode in ("anonymous", "raw", "none")
    }  # fmt: skip
    assert max(found["anonymous"]) <= 3
    assert max(found["raw"]) > 1 << 16
    assert found["none"] == [0] * len(found["none"])


@pytest.mark.parametrize(
    "options",
    [{"allocation_log_buffer_size": -1}, {"allocation_log_buffer_size": 10_000_001},
     {"allocation_log_sampling_rate": 0.0}, {"allocation_log_sampling_rate": 1.5},
     {"allocation_log_address": "secret"}],
)  # fmt: skip
def test_values_out_of_range_are_invalid_arguments(options):
    with pytest.raises(InvalidArgumentError, match=f"{next(iter(options))} is"):
        RunOptions(**options)


def test_on_a_pool_the_log_has_the_same_owners(monkeypatch):
    x, total = chain()
    inline = logged(total, {x: ONES}, allocation_log_buffer_size=200)
    monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    config = stepscope.ConfigProto(
        session_inter_op_thread_pool=[ThreadPoolOptionProto(num_threads=2)]
    )
    wide = tf.add_n([tf.reduce_sum(tf.add(x, float(i))) for i in range(3)]) + total
    metadata = logged(wide, {x: ONES}, config, allocation_log_buffer_size=200)
    ours = set(metadata.allocation_log.name.tolist())
    assert set(inline.allocation_log.name.tolist()) <= ours


def test_a_log_beside_a_full_trace_holds_the_same_events():
    x, total = chain(5)
    metadata = logged(total, {x: ONES}, trace_level=3, allocation_log_buffer_size=100)
    assert metadata.allocation_log.name.tolist() == metadata.allocations.name.tolist()
    assert metadata.allocation_log.time_ns.tolist() == metadata.allocations.time_ns.tolist()


def test_each_event_as_json_has_what_a_reader_needs():
    x, total = chain(2)
    metadata = logged(total, {x: ONES}, report_allocations_on_oom=True)
    for event in json.loads(stepscope.extract_allocation_log(metadata)):
        assert {"shape", "dtype", "op_name", "time", "bytes", "address", "device", "event"} <= set(
            event
        )
        assert event["dtype"] == "float32"
