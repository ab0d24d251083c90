"""A recurrent network and its gradients: traced, failing, out of time and out of memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from contract_programs import SEQUENCES, recurrent, recurrent_slope

from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions

STEPS = 4


def look(_number, state):
    return state


def test_values_and_gradients(engine):
    program = engine.start(recurrent(look))
    loss, found = program.run(("loss", "slope"), SEQUENCES)
    expected, slope = recurrent_slope(SEQUENCES["x"])
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(found, slope, rtol=1e-3, atol=1e-4)


def test_every_step_has_its_row(engine):
    program = engine.start(recurrent(look))
    metadata = program.traced("slope", SEQUENCES)
    assert metadata.status.code == "OK"
    rows = Counter(metadata.ops.op)
    late = engine.left_late(metadata)
    assert STEPS - late <= rows["Tanh"] <= STEPS
    # One product forth, and one back, for what came in; a function computes the kernel's, too.
    assert any(most - late <= rows["MatMul"] <= most for most in (2 * STEPS, 3 * STEPS))
    assert engine.losses(metadata) == []


def test_a_step_that_fails_is_named_with_those_before_it(engine):
    def third_fails(number, state):
        if number == 2:
            raise ValueError("the third step")
        return state

    program = engine.start(recurrent(third_fails))
    error, metadata, _ = program.failing(
        engine.raised(ValueError("the third step"), "InvalidArgumentError"), "slope", SEQUENCES
    )
    assert "the third step" in str(error)
    assert error.run_metadata is metadata
    assert metadata.status.code == "INVALID_ARGUMENT"
    assert Counter(metadata.ops.op)["Tanh"] == 2


def test_a_step_that_is_out_of_time_is_named(engine, stuck):
    def third_waits(number, state):
        return stuck(state) if number == 2 else state

    program = engine.start(recurrent(third_waits))
    if engine.python_op_at_deadline == "waited_for":
        stuck.let_go_after(0.4)
    error, metadata, _ = stuck.timing_out(
        program, engine.errors.DeadlineExceededError, "slope", SEQUENCES, timeout_in_ms=200
    )
    assert error.run_metadata is metadata
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    named = [name for name in metadata.status.in_flight if name.endswith("inside")]
    assert bool(named) == engine.names_a_step_in_flight


def test_out_of_memory_in_a_step_of_the_way_back(embedded):
    """What is kept of the iterations counts: the limit is met by it, not by one step."""
    size = 1 << 16

    def build(ops):
        x = ops.placeholder(ops.float32, [size // 4], name="x")
        _, y = ops.while_loop(lambda i, _: i < 30, lambda i, y: (i + 1, ops.sin(y)), (0, x))
        return {"x": x, "y": y, "slope": ops.gradients(y, x)[0]}

    program = embedded.start(build, ConfigProto(memory_limit_bytes=20 * size))
    fed = {"x": np.ones(size // 4, np.float32)}
    program.run("y", fed)
    error, metadata, _ = program.failing(
        embedded.errors.ResourceExhaustedError, "slope", fed,
        report_tensor_allocations_upon_oom=True,
    )  # fmt: skip
    assert "while/Sin" in str(error)
    assert metadata.status.code == "RESOURCE_EXHAUSTED"
    assert 10 < Counter(metadata.ops.op)["Sin"] < 30
    found = RunMetadata()
    program.run("y", fed, RunOptions(trace_level=RunOptions.FULL_TRACE), found)
    assert found.status.code == "OK"
