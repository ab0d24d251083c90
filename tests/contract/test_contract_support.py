"""Rule 1: each option does its job or is refused by name, and the support table tells the truth."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contract_tensorflow import ENGINES

from stepscope.options import RunOptions, run_option_fields

FIELDS = run_option_fields()
PAGE = Path(__file__).parents[2] / "docs" / "support.md"

VALUES = {
    "trace_level": 3,
    "timeout_in_ms": 60_000,
    "inter_op_thread_pool": -1,
    "output_partition_graphs": True,
    "debug_options.global_step": 3,
    "debug_options.reset_disk_byte_usage": True,
    "report_tensor_allocations_upon_oom": True,
    "experimental.collective_graph_key": 5,
    "experimental.use_run_handler_pool": True,
    "experimental.run_handler_pool_options.priority": 2,
    "allocation_log_buffer_size": 100,
    "allocation_log_sampling_rate": 0.5,
    "allocation_log_address": "raw",
}
"""A value for each option that is not its default; options of watches are in `WATCH`."""
WATCH = {
    "node_name": "y",
    "output_slot": 0,
    "debug_ops": ["DebugIdentity"],
    "tolerate_debug_op_creation_failures": True,
}
_IN_A_WATCH = "debug_options.debug_tensor_watch_opts."


def options_with(field, directory):
    options = RunOptions()
    if field.startswith(_IN_A_WATCH):
        options.debug_options.debug_tensor_watch_opts.add(
            debug_urls=[f"file://{directory}"], **WATCH
        )
        return options
    *path, last = field.split(".")
    message = options
    for name in path:
        message = getattr(message, name)
    setattr(message, last, VALUES[field])
    return options


def build(ops):
    x = ops.placeholder(ops.float32, [2], name="x")
    return {"x": x, "y": ops.add(x, 1.0, name="y")}


FED = {"x": np.array([1.0, 2.0], np.float32)}


def test_the_table_covers_exactly_the_options_there_are(engine):
    assert set(engine.support) == set(FIELDS)


def test_each_state_is_yes_or_refused(engine):
    assert {state for state, _ in engine.support.values()} <= {"yes", "refused"}


@pytest.mark.parametrize("field", FIELDS)
def test_what_the_table_says_of_an_option_is_so(engine, tmp_path, field):
    program = engine.start(build)
    options = options_with(field, tmp_path)
    assert options != RunOptions(), "the value that is tried is not the default"
    state, _ = engine.support[field]
    assert engine.refusal(program, "y", FED, options) is (state == "refused")
    if state == "yes":
        np.testing.assert_array_equal(program.run("y", FED, options), [2.0, 3.0])
    np.testing.assert_array_equal(program.run("y", FED), [2.0, 3.0])


def test_the_second_name_of_the_oom_switch_is_treated_as_the_first(engine):
    program = engine.start(build)
    options = RunOptions(report_allocations_on_oom=True)
    assert options.report_tensor_allocations_upon_oom
    if not engine.refusal(program, "y", FED, options):
        np.testing.assert_array_equal(program.run("y", FED, options), [2.0, 3.0])


def test_the_report_of_allocations_is_tensorflow_s_own_in_a_session(tensorflow):
    made = ENGINES["tensorflow session"]()

    def build(ops):
        x = ops.reduce_sum(ops.random_uniform([10, 10]), name="kept")
        return {"y": ops.fill([60_000, 60_000, 60_000], x, name="big")}

    program = made.start(build)
    error, metadata, _ = program.failing(
        made.errors.ResourceExhaustedError, "y", report_tensor_allocations_upon_oom=True
    )
    made.finish()
    assert "Current usage from device" in error.message
    assert metadata.status.code == "RESOURCE_EXHAUSTED"
    assert metadata.status.in_flight == ["big"]


def test_the_page_has_a_column_for_each_engine(engine):
    (header,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| field")]
    assert engine.name in [cell.strip().lower() for cell in header.split("|")]


def test_the_page_in_the_docs_is_what_the_code_says():
    done = subprocess.run(
        [sys.executable, "-m", "stepscope.cli.output.support_table", "--check", str(PAGE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
