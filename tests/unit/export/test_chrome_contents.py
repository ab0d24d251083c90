"""What our Chrome trace shows besides slices: edges, memory, steps, annotations, outputs, lines."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stepscope.export import chrome
from stepscope.metadata import AllocationColumns, OpColumns, Recording, RunMetadata, TensorColumns

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"
NOON = 1_794_769_131_123_456_789


def run(*rows, labels=None, step=0, **recorded):
    """A run of ops `(name, op, device, thread, start, end)`, times in nanoseconds after noon."""
    name, op, device, thread, start, end = zip(*rows, strict=True)
    tensors = recorded.pop("tensors", None)
    ops = OpColumns.build(
        name=name, op=op, device=device, thread=thread, label=labels, step=step, tensors=tensors,
        scheduled_ns=np.array(start) + NOON, start_ns=np.array(start) + NOON,
        end_ns=np.array(end) + NOON,
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops, **recorded))
    return metadata


def events(runs, **options):
    return json.loads(chrome(runs, **options))["traceEvents"]


def slices(found, category="op"):
    return {e["name"]: e for e in found if e["ph"] == "X" and e["cat"] == category}


def arrows(found):
    """Each arrow's name, and the ops it goes from and to."""
    ops = [e for e in found if e["ph"] == "X" and e["cat"] == "op"]

    def op_at(event):
        return next(
            op["name"]
            for op in ops
            if op["tid"] == event["tid"] and op["ts"] <= event["ts"] < op["ts"] + op["dur"]
        )

    begins = {e["id"]: e for e in found if e["ph"] == "s"}
    ends = {e["id"]: e for e in found if e["ph"] == "f"}
    assert begins.keys() == ends.keys()
    return sorted((begins[i]["name"], op_at(begins[i]), op_at(ends[i])) for i in begins)


def test_edges_between_lanes_come_from_the_labels():
    found = events(
        run(
            ("a", "Const", CPU0, 1, 0, 10),
            ("b", "Neg", CPU0, 2, 20, 30),
            ("c", "Add", CPU1, 1, 40, 50),
            ("d", "Neg", CPU1, 1, 60, 70),
            labels=["a = Const()", "b = Neg(a)", "c = Add(b:1, a/_3, ^d)", "d = Neg(c)"],
        )
    )
    assert arrows(found) == [("a", "a", "b"), ("a", "a", "c"), ("b", "b", "c")]


def test_without_labels_edges_come_from_the_graphs_as_executed():
    from stepscope._messages import GraphDef

    graph = GraphDef()
    graph.node.add(name="a", op="Const")
    graph.node.add(name="b", op="Neg", input=["a:0", "^c"])
    found = events(
        run(
            ("a", "Const", CPU0, 1, 0, 10),
            ("c", "NoOp", CPU0, 1, 11, 12),
            ("b", "Neg", CPU0, 2, 20, 30),
            partition_graphs=lambda: [graph],
        )
    )
    assert arrows(found) == [("a", "a", "b")]


def test_in_a_loop_an_edge_comes_from_the_execution_before():
    found = events(
        run(
            ("x", "Add", CPU0, 1, 0, 10),
            ("y", "Neg", CPU0, 2, 15, 18),
            ("x", "Add", CPU0, 1, 20, 30),
            ("y", "Neg", CPU0, 2, 35, 38),
            labels=["x = Add(y)", "y = Neg(x)", "x = Add(y)", "y = Neg(x)"],
        )
    )
    leaves = sorted((e["ts"], e["name"]) for e in found if e["ph"] == "s")
    assert leaves == [(0.009, "x"), (0.017, "y"), (0.029, "x")]


def test_arrows_are_numbered_over_all_runs_and_can_be_left_out(perfetto, tmp_path):
    def one(at):
        rows = (("a", "Const", CPU0, 1, at, at + 10), ("b", "Neg", CPU0, 2, at + 20, at + 30))
        return run(*rows, labels=["a = Const()", "b = Neg(a)"])

    runs = [one(0), one(5), one(100)]
    ids = [e["id"] for e in events(runs) if e["ph"] == "s"]
    assert sorted(ids) == [0, 1, 2]
    assert [e for e in events(runs, show_dataflow=False) if e["ph"] in "sf"] == []
    (seen,) = perfetto(chrome(runs, tmp_path / "trace.json"))
    assert (seen["errors"], seen["flows"]) == ({}, 3)


def memory(*rows):
    names, devices, times, sizes = zip(*rows, strict=True)
    return AllocationColumns.build(
        name=names, device=devices, time_ns=np.array(times) + NOON, bytes=sizes
    )


def curve(found, pid, name="live bytes"):
    return [
        (e["ts"], e["args"]["bytes"])
        for e in found
        if e["ph"] == "C" and e["pid"] == pid and e["name"] == name
    ]


def test_the_live_bytes_of_each_device_are_a_curve(perfetto, tmp_path):
    allocations = memory(
        ("a", CPU0, 1000, 64), ("b", CPU1, 2000, 8), ("c", CPU0, 3000, 32), ("c", CPU0, 3000, 4),
        ("a", CPU0, 5000, -64),
    )  # fmt: skip
    metadata = run(
        ("a", "Neg", CPU0, 1, 0, 9000),
        ("b", "Neg", CPU1, 2, 0, 9000),
        allocations=lambda: allocations,
    )
    found = events(metadata)
    pid = {e["args"]["name"]: e["pid"] for e in found if e["name"] == "process_name"}
    assert curve(found, pid[CPU0]) == [(1.0, 64), (3.0, 100), (5.0, 36)]
    assert curve(found, pid[CPU1]) == [(2.0, 8)]
    assert [e for e in events(metadata, show_memory=False) if e["ph"] == "C"] == []
    # Saved and loaded again, columns may share a table of strings.
    path = chrome(metadata.save(tmp_path / "run_metadata.pb"), tmp_path / "trace.json")
    (seen,) = perfetto(path)
    assert (seen["errors"], seen["counters"]) == ({}, 4)
    assert seen["processes"] == ["runs", CPU0, CPU1]


def test_runs_at_the_same_time_have_curves_of_their_own():
    def one(at):
        allocations = memory(("a", CPU0, at, 64), ("a", CPU0, at + 9, -64))
        return run(("a", "Neg", CPU0, at + 1, at, at + 10), allocations=lambda: allocations)

    found = events([one(0), one(5), one(50)])
    names = [e["name"] for e in found if e["ph"] == "C"]
    assert sorted(set(names)) == ["live bytes", "live bytes (2)"]
    assert names.count("live bytes (2)") == 2


def test_steps_of_a_run_have_marks():
    found = events(
        run(
            ("a", "Neg", CPU0, 1, 0, 10),
            ("a", "Neg", CPU0, 1, 20, 30),
            ("b", "Neg", CPU0, 1, 30, 45),
            step=[3, 4, 4],
        )
    )
    marks = slices(found, "step")
    assert {name: (e["ts"], e["dur"], e["args"]["ops"]) for name, e in marks.items()} == {
        "step 3": (0.0, 0.01, 1),
        "step 4": (0.02, 0.025, 2),
    }
    assert slices(found)["b"]["args"]["step"] == 4


@pytest.mark.parametrize("thread", [7, 0])
def test_annotations_lie_around_the_ops_within_them(thread, perfetto, tmp_path):
    metadata = run(
        ("epoch", "Annotation", CPU0, thread, 0, 100),
        ("batch", "Annotation", CPU0, thread, 10, 60),
        ("mm", "MatMul", CPU0, thread, 20, 50),
    )
    found = events(metadata)
    assert slices(found, "annotation").keys() == {"epoch", "batch"}
    lanes = {e["tid"] for e in slices(found, "annotation").values()}
    assert len(lanes) == 1
    assert (slices(found)["mm"]["tid"] in lanes) == (thread != 0)
    (seen,) = perfetto(chrome(metadata, tmp_path / "trace.json"))
    assert (seen["errors"], seen["slices"]["maxdepth"]) == ({}, 2 if thread else 1)


def test_an_op_says_its_outputs_and_the_line_that_made_it():
    tensors = TensorColumns.build(
        op_index=[1, 0, 1], slot=[1, 0, 0], dtype=[3, 1, 1], shape=[(), (2, -1), None],
        bytes=[4, 8, 16],
    )  # fmt: skip
    found = slices(
        events(
            run(
                ("mm", "MatMul", CPU0, 1, 0, 5),
                ("split", "Split", CPU0, 1, 6, 7),
                ("no", "NoOp", CPU0, 1, 8, 9),
                tensors=tensors,
                sources=lambda: {"mm": "train.py:12"},
            )
        )
    )
    assert found["mm"]["args"]["outputs"] == "float32[2,?]"
    assert found["mm"]["args"]["source"] == "train.py:12"
    assert found["split"]["args"]["outputs"] == "int32[], float32[...]"
    assert found["split"]["args"]["bytes"] == 20
    assert "outputs" not in found["no"]["args"]
    assert "source" not in found["split"]["args"]


def test_any_name_is_written_as_it_is(perfetto, tmp_path):
    odd = 'a"b\\c\n\t\x01é漢 \u2028'
    metadata = run((odd, odd, odd, 1, 0, 5), sources=lambda: {odd: odd})
    found = events([(odd, metadata)])
    (op,) = slices(found).values()
    assert (op["name"], op["args"]["op"], op["args"]["source"]) == (odd, odd, odd)
    assert op["args"]["run"] == odd
    assert [e["args"]["name"] for e in found if e["name"] == "process_name"] == ["runs", odd]
    (seen,) = perfetto(chrome([(odd, metadata)], tmp_path / "trace.json"))
    assert seen["errors"] == {}


def test_the_bytes_of_a_name_that_are_no_text_are_escaped():
    found = events(run(("a\udcff", "Neg", CPU0, 1, 0, 5)))
    assert list(slices(found)) == ["a\\xff"]
