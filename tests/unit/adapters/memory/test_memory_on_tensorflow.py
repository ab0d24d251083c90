"""Out of memory on TensorFlow, under a limit, in processes of their own: who held every byte.

The oracle is the allocator itself: when it gives up it logs every chunk that is in use.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

import started_python
import stepscope
from patience import patient
from unit.adapters.memory import out_of_memory_programs as programs

CHUNK = re.compile(r"InUse at ([0-9a-f]+) of size (\d+)")
RECORDED = ("session", "function", "eager")


@pytest.fixture(scope="module")
def outcomes(tensorflow, tmp_path_factory):
    """What each program found, and the chunks in use by address, as the allocator logged them.

    All at once: most of the time they wait for memory.
    """
    folder = tmp_path_factory.mktemp("out_of_memory")
    tests = Path(programs.__file__).parents[3]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0", "PYTHONPATH": str(tests)}
    unrecorded = {
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(programs.LIMIT_MB),
    }
    started, logs = {}, {}
    try:
        for name in programs.PROGRAMS:
            started[name] = started_python.start(
                [sys.executable, programs.__file__, name, folder / f"{name}.json"],
                cwd=folder,
                env=environment | (unrecorded if name == "unrecorded" else {}),
                outputs=1,
            )
        for name, process in started.items():
            (logs[name],) = process.communicate(patient(240))
    finally:
        for process in started.values():
            process.send_signal(signal.SIGKILL)
    found = {}
    for name, text in logs.items():
        assert started[name].wait() == 0, f"{name}: {text[-3000:]}"
        chunks = {int(at, 16): int(size) for at, size in CHUNK.findall(text)}
        outcome = json.loads((folder / f"{name}.json").read_text())
        found[name] = outcome | {"chunks": chunks, "file": folder / f"{name}.pb"}
    return found


def alive_when_refused(log):
    """The log's tensors that were alive when the request was refused, by address."""
    refused = next(entry["time_ns"] for entry in log if entry["event"] == "failed")
    alive = {}
    for entry in log:
        if entry["time_ns"] >= refused or entry["device"] != programs.CPU:
            continue
        if entry["event"] == "free":
            alive.pop(entry["address"])
        else:
            alive[entry["address"]] = entry
    return alive


@pytest.mark.parametrize("name", RECORDED)
def test_rows_sum_to_what_the_allocator_has_in_use(outcomes, name):
    found = outcomes[name]
    report = found["report"]
    in_use = sum(found["chunks"].values())
    assert report["live"] == in_use
    assert sum(row["bytes"] for row in report["rows"]) == in_use
    assert report["limit"] == programs.LIMIT_MB << 20
    unattributed = [row for row in report["rows"] if row["kind"] == "unattributed"]
    assert sum(row["bytes"] for row in unattributed) <= in_use / 100
    for row in unattributed:
        assert f"{row['bytes']:,}" in found["error"]


@pytest.mark.parametrize("name", RECORDED)
def test_what_was_alive_is_told_with_shape_type_time_and_address(outcomes, name):
    found = outcomes[name]
    alive = alive_when_refused(found["log"])
    assert {address: entry["bytes"] for address, entry in alive.items()} == found["chunks"]
    large = [entry for entry in alive.values() if entry["bytes"] > 100_000]
    shapes = {(entry["op_name"], tuple(entry["shape"])) for entry in large}
    assert ("weights", (512, 1024)) in shapes
    assert any(shape == (1000, 1024) for _, shape in shapes)
    for entry in large:
        assert entry["dtype"] == "float32"
        assert found["began"] < entry["time_ns"] < found["ended"]


@pytest.mark.parametrize("name", RECORDED)
def test_variables_are_named(outcomes, name):
    rows = outcomes[name]["report"]["rows"]
    variables = {row["op"]: row["bytes"] for row in rows if row["kind"] == "variable"}
    assert variables == {"weights": 512 * 1024 * 4, "bias": 1024 * 4}


@pytest.mark.parametrize(
    ("name", "op"),
    [("session", "wide/RandomUniform"), ("function", "wide/RandomUniform"), ("eager", "Fill")],
)
def test_the_request_is_told_and_the_program_goes_on(outcomes, name, op):
    found = outcomes[name]
    request = found["report"]["request"]
    assert (request["op"], request["shape"]) == (op, [1024, 8192])
    assert (request["dtype"], request["bytes"]) == ("float32", 1024 * 8192 * 4)
    assert found["began"] < request["time_ns"] < found["ended"]
    assert (found["code"], found["status"]) == (8, "RESOURCE_EXHAUSTED")
    assert found["of_tensorflow"]
    assert found["with_metadata"]
    assert f"{op} asked for 33,554,432 bytes" in found["error"]
    assert "waited ten seconds" in found["error"]
    assert "report_tensor_allocations_upon_oom to RunOptions" not in found["error"]
    assert found["again"] != 0


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_that_fits_tells_its_peak_and_its_variables(outcomes, name):
    fitted = outcomes[name]["fitted"]
    assert fitted["peak_of_rows"] == fitted["allocator_peak"] <= fitted["peak"]
    assert {"weights", "bias"} <= set(fitted["names"])
    others = ("source lines", "kernel times of eager ops")
    assert [loss for loss in fitted["losses"] if not loss.startswith(others)] == []


def test_what_grew_since_the_last_run_that_fitted(outcomes):
    found = outcomes["function"]
    grown = {row["op"] for row in found["report"]["grown"]}
    assert "weights" not in grown
    assert "rew since the last run that fitted" in found["error"]


@pytest.mark.parametrize("name", RECORDED)
def test_the_report_travels_in_the_saved_file(outcomes, name):
    found = outcomes[name]
    loaded = stepscope.load(found["file"])
    assert loaded.out_of_memory.live == found["report"]["live"]
    assert json.loads(stepscope.extract_allocation_log(loaded)) == found["log"]


def test_out_of_memory_inside_python_keeps_its_class(outcomes):
    found = outcomes["python"]
    assert found["of_tensorflow"]
    assert (found["code"], found["status"]) == (8, "RESOURCE_EXHAUSTED")
    request = found["report"]["request"]
    assert (request["op"], request["shape"]) == ("Fill", [1024, 1 << 16])
    assert found["again"] == 1024 * 8


def test_what_was_allocated_before_recording_is_found_or_one_row(outcomes):
    found = outcomes["unrecorded"]
    rows = found["report"]["rows"]
    in_use = sum(found["chunks"].values())
    assert found["report"]["live"] == sum(row["bytes"] for row in rows) == in_use
    variables = {row["op"]: row["bytes"] for row in rows if row["kind"] == "variable"}
    assert variables == {"weights": 512 * 1024 * 4, "bias": 1024 * 4}
    before = [row for row in rows if row["op"] == "before recording"]
    assert len(before) == 1
    assert before[0]["kind"] == "unattributed"
    assert "owners of memory from before recording" in found["losses"]
