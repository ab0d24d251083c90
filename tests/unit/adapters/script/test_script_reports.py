"""TensorFlow's `RunOptions` while a script is recorded: its own, and it knows our names as well."""

import pytest

from stepscope import errors
from stepscope.options import as_run_options


@pytest.fixture
def named(tf):
    from stepscope.adapters.tensorflow.script.reports import naming_ours

    return naming_ours(tf.RunOptions)


def test_options_of_tensorflows_are_tensorflows(named, tf):
    made = named(trace_level=named.FULL_TRACE, timeout_in_ms=5)
    assert type(made) is type(tf.RunOptions())
    assert made == tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=5)
    assert isinstance(made, named)
    assert named.FromString(made.SerializeToString()) == made


def test_our_names_travel_in_tensorflows_message(named, tf):
    from stepscope.adapters.tensorflow.script.reports import asks_for_memory

    made = named(report_allocations_on_oom=True, allocation_log_buffer_size=7, timeout_in_ms=5)
    assert isinstance(made, named)
    assert made.report_tensor_allocations_upon_oom
    assert made.timeout_in_ms == 5
    ours = as_run_options(made).resolve()
    assert (ours.allocation_log_buffer_size, ours.timeout_in_ms) == (7, 5)
    assert asks_for_memory(made)
    assert not asks_for_memory(named(timeout_in_ms=5))
    assert not asks_for_memory(None)


def test_names_that_nobody_knows_and_values_out_of_range_are_refused(named):
    with pytest.raises((ValueError, AttributeError), match="allocation_log_color"):
        named(allocation_log_color="red")
    with pytest.raises(errors.InvalidArgumentError, match="allocation_log_sampling_rate is 2"):
        as_run_options(named(allocation_log_sampling_rate=2.0)).resolve()
