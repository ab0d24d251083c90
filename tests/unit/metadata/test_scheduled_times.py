"""When a row was ready, in step stats of versions of TensorFlow that write it in different ways."""

from __future__ import annotations

import pytest

from stepscope.metadata import RunMetadata

START_NS = 1_794_790_519_466_454_237


def ready(start=START_NS, **fields):
    metadata = RunMetadata()
    device = metadata.step_stats.dev_stats.add(device="/device:CPU:0")
    device.node_stats.add(node_name="mm", all_start_nanos=start, **fields)
    return int(metadata.ops.scheduled_ns[0])


@pytest.mark.parametrize("start", [START_NS, START_NS + 10**16])
@pytest.mark.parametrize("before_ns", [0, 1, 732, 5_000_000_000])
def test_nanoseconds_that_were_multiplied_once_more_are_put_right(start, before_ns):
    """As TensorFlow 2.15 writes them: a thousand times as many, in 64 bits, with a sign."""
    written = (start - before_ns) * 1000 % (1 << 64)
    written -= (1 << 64) * (written >> 63)
    assert ready(start, scheduled_nanos=written) == start - before_ns


def test_a_row_of_tensorflow_2_15_as_it_was_written():
    found = ready(scheduled_nanos=5_456_344_316_622_562_248, scheduled_micros=5_456_344_316_622_562)
    assert found == START_NS - 5168


def test_nanoseconds_stay_as_they_are():
    assert ready(scheduled_nanos=START_NS - 123) == START_NS - 123
    assert ready(scheduled_micros=START_NS // 1000 - 5) == (START_NS // 1000 - 5) * 1000
    assert ready() == START_NS


def test_a_time_that_nothing_explains_is_kept():
    assert ready(scheduled_nanos=START_NS + 10**17 + 1) == START_NS + 10**17 + 1
