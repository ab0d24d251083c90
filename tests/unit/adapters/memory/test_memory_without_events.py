"""Memory on TensorFlow where its allocator tells nothing: from op outputs and weak references."""

import json

import numpy as np
import pytest

import stepscope
from stepscope.adapters import tensorflow as adapter
from stepscope.metadata import MEMORY_OF_KERNELS

FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
REPORT = stepscope.RunOptions(report_allocations_on_oom=True)
TOO_MUCH = [1 << 21, 1 << 21]


def told_by_outputs(metadata):
    """Whether it is said, and how to have more, which is said once."""
    losses = metadata.completeness.losses
    advising = [loss.what for loss in losses if "stepscope run --memory" in loss.reason]
    return advising == [MEMORY_OF_KERNELS]


def test_eager_outputs_live_until_python_lets_go(tensorflow):
    def step():
        first = tensorflow.random.uniform([1000])
        second = tensorflow.exp(first)
        del first
        return tensorflow.reshape(second, [10, 100])

    metadata = stepscope.RunMetadata()
    adapter.run(step, options=FULL, run_metadata=metadata)
    rows = metadata.allocations
    large = rows.select(rows.bytes != 0)
    large = large.select(np.abs(large.bytes) == 4000)
    assert large.name.tolist() == ["RandomUniform", "Exp", "RandomUniform"]
    assert large.event.tolist() == ["allocate", "allocate", "free"]
    assert large.address[0] == large.address[2] != 0
    assert large.shape[0] == (1000,)
    assert told_by_outputs(metadata)


@pytest.mark.parametrize("engine", ["session", "function"])
def test_outputs_of_a_graph_live_until_their_last_reader(tensorflow, engine):
    def chain(x):
        first = tensorflow.exp(x, name="first")
        second = tensorflow.concat([first, first], 0, name="second")
        return tensorflow.reduce_sum(second, name="last")

    metadata = stepscope.RunMetadata()
    if engine == "function":
        adapter.run(tensorflow.function(chain), tensorflow.ones([1000]), run_metadata=metadata)
    else:
        with tensorflow.Graph().as_default() as graph:
            x = tensorflow.compat.v1.placeholder(tensorflow.float32, [1000])
            fetch = chain(x)
        with adapter.Session(graph=graph) as session:
            session.run(fetch, {x: np.ones(1000)}, options=FULL, run_metadata=metadata)
    rows = metadata.allocations
    sizes = {
        (name, event): size
        for name, event, size in zip(rows.name, rows.event, rows.bytes, strict=True)
    }
    assert sizes["first", "allocate"] == 4000
    assert sizes["first", "free"] == -4000
    assert sizes["second", "allocate"] == 8000
    assert metadata.peak_bytes() == 12000
    assert told_by_outputs(metadata)
    # Variables were there before, and are not counted: that is said.
    (loss,) = [x for x in metadata.completeness.losses if x.what == "memory from before the run"]
    assert "peak_bytes" in loss.reason


def ask_for_too_much(tensorflow, engine, metadata):
    """A request that no machine can serve, under the name "too_much" where there are names."""

    def fill(size):
        return tensorflow.fill(size, 1.0, name="too_much")

    if engine == "session":
        with tensorflow.Graph().as_default() as graph:
            size = tensorflow.compat.v1.placeholder(tensorflow.int32, [2])
            fetch = fill(size)
        with adapter.Session(graph=graph) as session:
            session.run(fetch, {size: TOO_MUCH}, options=REPORT, run_metadata=metadata)
        return
    called = tensorflow.function(fill) if engine == "function" else fill
    adapter.run(called, tensorflow.constant(TOO_MUCH), options=REPORT, run_metadata=metadata)


@pytest.mark.parametrize("engine", ["session", "function", "eager"])
def test_the_report_has_what_the_program_holds(tensorflow, engine):
    name = f"held_in_{engine}"
    variable = tensorflow.Variable(tensorflow.ones([300, 7]), name=name)
    tensor = tensorflow.ones([301, 7])
    metadata = stepscope.RunMetadata()
    with pytest.raises(stepscope.errors.ResourceExhaustedError) as caught:
        ask_for_too_much(tensorflow, engine, metadata)
    report = metadata.out_of_memory
    assert report.request.shape == tuple(TOO_MUCH)
    assert report.request.op == ("Fill" if engine == "eager" else "too_much")
    assert report.limit is None
    assert report.cached is None
    assert "Cached: not known" in str(caught.value)
    assert report.live == sum(row.bytes for row in report.rows)
    held = {row.op: row for row in report.rows}
    assert held[name].kind == "variable"
    assert held[name].bytes == variable.shape.num_elements() * 4
    # The row of tensors may hold those of other tests, and names a few shapes alone.
    others = [row for row in report.rows if row.op != name]
    assert sum(row.bytes for row in others) >= tensor.shape.num_elements() * 4
    assert name in str(caught.value)
    assert told_by_outputs(metadata)
    log = json.loads(stepscope.extract_allocation_log(metadata))
    assert [e["shape"] for e in log if e["event"] == "failed"] == [TOO_MUCH]
    del tensor


def test_other_things_that_are_exhausted_get_no_hint_about_memory(tensorflow):
    def full(_):
        raise tensorflow.errors.ResourceExhaustedError(None, None, "No space left on device")

    graph = tensorflow.Graph()
    with graph.as_default():
        node = tensorflow.numpy_function(full, [1.0], tensorflow.float32, name="allocated_memory")
    for options in (None, REPORT):
        with (
            adapter.Session(graph=graph) as session,
            pytest.raises(stepscope.errors.OpError, match="No space left") as caught,
        ):
            session.run(node, options=options)
        assert "report_allocations_on_oom" not in str(caught.value)
        assert caught.value.run_metadata.out_of_memory is None


def test_without_the_option_the_hint_is_true_here(tensorflow):
    fill = tensorflow.function(lambda size: tensorflow.fill(size, 1.0))
    with pytest.raises(tensorflow.errors.ResourceExhaustedError) as caught:
        adapter.run(fill, tensorflow.constant(TOO_MUCH))
    text = str(caught.value)
    assert "OOM when allocating tensor" in text
    assert "isn't available when running in Eager mode" not in text
    assert "report_allocations_on_oom=True" in text
    assert caught.value.run_metadata.out_of_memory is None


def test_the_log_of_a_run_that_went_well(tensorflow):
    options = stepscope.RunOptions(allocation_log_buffer_size=3)
    metadata = stepscope.RunMetadata()

    def step():
        total = tensorflow.ones([100])
        for _ in range(5):
            total = total + 1.0
        return total

    adapter.run(step, options=options, run_metadata=metadata)
    log = json.loads(stepscope.extract_allocation_log(metadata))
    assert len(log) == 3
    assert {"AddV2"} == {entry["op_name"] for entry in log if abs(entry["bytes"]) == 400}
    assert any("dropped" in loss.what for loss in metadata.completeness.losses)


def test_it_is_too_late_once_tensorflow_is_imported(tensorflow):
    with pytest.raises(
        stepscope.errors.StepscopeError, match="before the first `import tensorflow`"
    ):
        adapter.enable_memory_events()
