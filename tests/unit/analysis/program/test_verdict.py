"""What limits a step: the largest cause, with its line."""

from dataclasses import replace

import pytest

from analysed_runs import T0, run_of
from recorded_program import MS, run, trace
from stepscope.analysis import verdict
from stepscope.analysis.program import verdict_words
from stepscope.metadata import RunMetadata
from stepscope.metadata.program_notes import CallTime

LINES = {
    "next": "train.py:41", "net_1/dense_1/MatMul": "model.py:14", "py": "model.py:9",
    "net_1/dense_2_1/MatMul": "model.py:15", "Map": "input.py:6",
}  # fmt: skip


def step(*, waits=10, python=0, layer=20, other=5, before=0, **parts):
    """A call of a function: it takes an element, then works in Python and in two layers."""
    rows, at = [], before
    for name, kind, long in (
        ("next", "IteratorGetNext", waits), ("py", "PyFunc", python),
        ("net_1/dense_1/MatMul", "MatMul", layer), ("net_1/dense_2_1/MatMul", "MatMul", other),
    ):  # fmt: skip
        rows.append((name, kind, [], 7, at, at, at + long))
        at += long
    return run_of(*rows, sources=lambda: LINES, call=CallTime(T0, T0 + at, 7), **parts)


def limits(*runs, name="train_step"):
    (row,) = verdict([(f"run_{i:06d} {name}", run) for i, run in enumerate(runs)]).rows
    return row, [(limit.kind, limit.name, limit.line, limit.share) for limit in row.limits]


def test_causes_add_up_to_the_step_and_leave_out_the_first():
    slow_first = step(waits=10_000)
    row, found = limits(slow_first, step(before=15), step(before=15))
    assert found == [
        ("layer", "net_1/dense_1", "model.py:14", pytest.approx(0.4)),
        ("outside", "", "", pytest.approx(0.3)),
        ("input", "", "train.py:41", pytest.approx(0.2)),
        ("layer", "net_1/dense_2_1", "model.py:15", pytest.approx(0.1)),
    ]
    assert (row.looked_at, row.first) == (2, False)
    assert row.limits[0].ns == pytest.approx(20)


@pytest.mark.parametrize(
    ("how", "kind", "line", "share"),
    [
        ({"waits": 475, "layer": 20}, "input", "train.py:41", 0.95),
        ({"python": 465}, "python", "model.py:9", 0.93),
        ({"layer": 485}, "layer", "model.py:14", 0.97),
        ({"before": 465}, "outside", "", 0.93),
    ],
)
def test_the_largest_comes_first(how, kind, line, share):
    _, found = limits(step(), *[step(**how)] * 3)
    assert (found[0][0], found[0][2]) == (kind, line)
    assert found[0][3] == pytest.approx(share, abs=0.01)


def test_what_tracing_cost_stands_apart_from_the_rest_outside_of_ops():
    """Of 11 runs after the first one was traced: 30 ms, and 10 more until its graph was ready."""
    runs, notes = [], [trace(0, 50, "step", [], where="train.py:3")]
    for number in range(12):
        began = 100 * number
        late = 41 if number == 5 else 1
        runs.append(run(began, began + late + 9, [("MatMul", began + late, began + late + 9)]))
    notes.append(trace(501, 531, "step", [], where="train.py:22"))
    notes.append(trace(505, 510, "inner", [], where="layers.py:5"))
    [row] = verdict([(f"run_{i:06d} step", run) for i, run in enumerate(runs)], notes).rows
    assert [limit.kind for limit in row.limits] == ["layer", "traced", "outside"]
    _, traced, outside = row.limits
    assert traced.line == "train.py:22"
    assert traced.ns * 11 == pytest.approx(40 * MS)
    assert outside.ns * 11 == pytest.approx(11 * MS)
    assert sum(limit.share for limit in row.limits) == pytest.approx(1)
    assert "27% being traced and built (train.py:22)" in verdict_words.cause(row)


def test_only_one_run_is_the_first():
    row, found = limits(step())
    assert (row.first, row.looked_at) == (True, 1)
    assert found[0][0] == "layer"


def test_a_layer_is_named_as_far_in_as_most_of_it_is():
    _, deep = limits(*[step(layer=80, waits=0)] * 2)
    assert deep[0][1] == "net_1/dense_1"
    _, spread = limits(*[step(layer=10, other=10, waits=0)] * 2)
    assert spread[0][1:] == ("net_1", "model.py:14", pytest.approx(1.0))


def test_the_functions_of_an_input_pipeline_are_named():
    made = run_of(
        ("Map", "MapDataset", [], 7, 0, 0, 5), sources=lambda: LINES, device="/device:CPU:0"
    )
    made = run_named(made, "tensorflow eager")
    runs = [("run_000001 eager code", made)]
    runs += [(f"run_{i:06d} train_step", step(waits=500)) for i in range(2, 6)]
    row = next(row for row in verdict(runs).rows if row.step.key == "train_step")
    assert row.limits[0].kind == "input"
    assert row.limits[0].stages == (("map", "input.py:6"),)


def run_named(run, engine):
    """The same run, of another engine."""
    metadata = RunMetadata()
    metadata.record(replace(run.recorded(), engine=engine))
    return metadata


def test_where_no_op_was_recorded_there_is_no_cause():
    row, found = limits(*[run_of(call=CallTime(T0, T0 + 50, 7))] * 3)
    assert (found, row.step.median_ns) == ([], 50.0)
