"""Chrome traces: TensorFlow's timelines, our exports, damaged and hostile ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from shared_data import ARTEFACTS
from stepscope.errors import UnreadableFileError
from stepscope.export import Timeline, chrome, merge
from stepscope.metadata import OpColumns, Recording, RunMetadata, load
from stepscope.metadata.readers import json_events

DATA = Path(__file__).parents[2] / "data"
MLP = RunMetadata.FromString((DATA / "mlp_adam_refvars" / "run_metadata.pb").read_bytes())
SMALL = RunMetadata.FromString((DATA / "py_function" / "run_metadata.pb").read_bytes())


def event(**fields):
    return {"ph": "X", "ts": 10, "dur": 5, "name": "n", "pid": 1, "tid": 1} | fields


def loaded(tmp_path, content, name="trace.json"):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tmp_path / name).write_bytes(data)
    return load(tmp_path / name)


def drawn(metadata):
    return Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True)


def test_a_timeline_tells_its_ops(tmp_path):
    run = loaded(tmp_path, drawn(MLP).encode())
    assert len(run.ops) == 66
    assert list(run.ops.name) == list(MLP.ops.name)
    assert list(run.ops.op) == list(MLP.ops.op)
    assert set(run.ops.device) == set(MLP.ops.device)
    assert run.ops.start_ns.tolist() == [ns // 1000 * 1000 for ns in MLP.ops.start_ns.tolist()]
    row = list(run.ops.op).index("MatMul")
    assert run.ops.label[row].endswith(MLP.ops.label[row].rpartition("] ")[2])
    assert {loss.what for loss in run.completeness.losses} == {"memory", "threads", "nanoseconds"}


@pytest.mark.parametrize("name", ["trace.json.gz", "timeline.gz"])
def test_packed(tmp_path, name):
    run = loaded(tmp_path, gzip.compress(drawn(MLP).encode()), name)
    assert len(run.ops) == 66


def test_our_exports_tell_runs_and_times_exactly(tmp_path):
    chrome([("one", MLP), ("two", SMALL)], tmp_path / "both.json.gz")
    one, two = load(tmp_path / "both.json.gz")
    assert len(one.ops) == 66
    assert sorted(two.ops.name) == sorted(SMALL.ops.name)
    assert sorted(one.ops.start_ns) == sorted(MLP.ops.start_ns)
    assert sorted(one.ops.end_ns) == sorted(MLP.ops.end_ns)
    single = loaded(tmp_path, chrome(MLP).encode())
    assert sorted(single.ops.op) == sorted(MLP.ops.op)


def recorded(**columns):
    ops = OpColumns.build(
        **{"thread": [1, 1], "scheduled_ns": [0, 0], "start_ns": [10, 30], "end_ns": [20, 40]}
        | {"name": ["a", "b"], "op": ["Add", "Mul"], "device": ["/cpu:0", "/cpu:0"]} | columns
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops))
    return metadata


def test_the_marks_of_steps_in_our_exports_are_no_executions(tmp_path):
    run = loaded(tmp_path, chrome(recorded(step=[3, 4])).encode())
    assert list(run.ops.name) == ["a", "b"]
    assert run.ops.step.tolist() == [3, 4]


def test_a_run_without_executions_comes_back_from_our_exports(tmp_path):
    both = loaded(tmp_path, chrome([("idle", RunMetadata()), ("busy", recorded())]).encode())
    assert sorted((len(run.ops), run.engine) for run in both) == [(0, ""), (2, "embedded")]
    assert len(loaded(tmp_path, chrome(RunMetadata()).encode()).ops) == 0


def test_runs_of_equal_names_of_two_workers_are_told_apart(tmp_path):
    merge({"chief": recorded(), "worker": recorded()}, tmp_path / "both.json")
    both = load(tmp_path / "both.json")
    assert [set(run.ops.device) for run in both] == [{"chief /cpu:0"}, {"worker /cpu:0"}]


@pytest.mark.parametrize("category", ["run", "step", "folded"])
def test_other_programs_may_use_our_words(tmp_path, category):
    run = loaded(tmp_path, [event(cat=category, args={"step": 1})])
    assert list(run.ops.name) == ["n"]


@pytest.mark.skipif(not ARTEFACTS.is_dir(), reason="needs the public traces")
def test_the_public_traces_agree_with_their_facts():
    folder = ARTEFACTS / "public_chrome_traces"
    facts = json.loads((folder / "facts.json").read_text())
    for file, known in facts.items():
        run = load(folder / file)
        assert len(run.ops) == known["by_phase"]["X"]
        spent = (run.ops.end_ns - run.ops.start_ns).sum()
        assert spent == known["x_total_dur"] * 1000
        assert run.ops.start_ns.min() == known["x_min_ts"] * 1000
        assert run.ops.end_ns.max() == known["x_max_end"] * 1000


@pytest.mark.skipif(not ARTEFACTS.is_dir(), reason="needs the captured files")
def test_tensorflows_timelines_have_every_op():
    for file in ARTEFACTS.glob("*/timeline_*.json"):
        facts = json.loads((file.parent / "facts.json").read_text())
        assert len(load(file).ops) == facts["run_metadata"]["num_nodes"]


def test_other_traces_give_their_slices(tmp_path):
    trace = {
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "python"}},
            event(name="step", pid=3, cat="x"),
            {"ph": "B", "ts": 1, "name": "open", "pid": 3, "tid": 1},
            {"ph": "E", "ts": 2, "pid": 3, "tid": 1},
        ],
        "otherData": {"version": "x"},
    }
    run = loaded(tmp_path, trace)
    assert list(run.ops.name) == ["step"]
    assert list(run.ops.device) == ["python"]
    (loss,) = [loss for loss in run.completeness.losses if loss.what == "events of the trace"]
    assert loss.count == 1
    assert "a begin and an end apart" in loss.reason


@pytest.mark.parametrize(
    "change",
    [
        {"ts": float("nan")}, {"ts": "soon"}, {"ts": None}, {"ts": True}, {"ts": 1e300},
        {"ts": 10**40}, {"dur": -1}, {"dur": float("inf")}, {"dur": [1]},
    ],
)  # fmt: skip
def test_events_without_a_time_are_counted(tmp_path, change):
    run = loaded(tmp_path, [event(), event(**change), event(name="last")])
    assert list(run.ops.name) == ["n", "last"]
    (loss,) = [loss for loss in run.completeness.losses if loss.what == "events of the trace"]
    assert loss.count == 1


@pytest.mark.parametrize(
    "change",
    [
        {"pid": {"a": 1}}, {"tid": [1]}, {"pid": None}, {"args": 7}, {"args": {"op": 5}},
        {"name": 12}, {"name": None}, {"args": {"step": "x", "run": 4, "waited_us": "y"}},
        {"name": "\ud800 half"}, {"args": {"name": "\udfff", "op": "\udc00"}}, {"cat": ["run"]},
    ],
)  # fmt: skip
def test_strange_values_do_no_harm(tmp_path, change):
    run = loaded(tmp_path, [event(**change), event()])
    assert len(run.ops) == 2
    again = RunMetadata.FromString(run.SerializeToString())
    assert sorted(again.ops.name) == sorted(run.ops.name)


def test_a_key_twice_counts_as_the_last(tmp_path):
    run = loaded(tmp_path, b'[{"ph":"M","ph":"X","ts":1,"ts":2,"dur":3,"name":"a"}]')
    assert run.ops.start_ns.tolist() == [2000]


@pytest.mark.parametrize("end", [0.3, 0.6, 0.95])
def test_a_cut_trace_gives_the_events_before_the_cut(tmp_path, end):
    trace = Timeline(MLP.step_stats).generate_chrome_trace_format()
    text = json.dumps(json.loads(trace), indent=2).encode()
    run = loaded(tmp_path, text[: int(len(text) * end)])
    names = list(run.ops.name)
    assert names == list(MLP.ops.name)[: len(names)]
    assert any(loss.what == "pieces of the file" for loss in run.completeness.losses)


def test_a_damaged_event_costs_only_itself(tmp_path):
    events = [event(name=f"n{number}") for number in range(50)]
    text = json.dumps(events).replace('"n25"', '"n25')
    run = loaded(tmp_path, text.encode())
    names = set(run.ops.name)
    assert {f"n{number}" for number in range(50)} - names <= {"n25", "n26"}
    (loss,) = [loss for loss in run.completeness.losses if loss.what == "pieces of the file"]
    assert loss.count >= 1


def test_a_packed_file_that_ends_early(tmp_path):
    events = [event(name=f"n{number}", ts=number) for number in range(5000)]
    packed = gzip.compress(json.dumps(events).encode())
    run = loaded(tmp_path, packed[: len(packed) // 2], "t.json.gz")
    assert 100 < len(run.ops) < 5000
    assert "ends early" in run.completeness.losses[0].reason


def test_a_file_that_unpacks_without_end_is_stopped(tmp_path):
    bomb = gzip.compress(b"[" + b" " * 40_000_000 + b"{}]", 1)
    with pytest.raises(UnreadableFileError, match="unpacks to more than"):
        loaded(tmp_path, bomb, "bomb.json.gz")


@pytest.mark.parametrize("text", [b"[" * 500_000, b'{"traceEvents":[' + b'{"a":' * 200_000])
def test_depth_is_refused(tmp_path, text):
    with pytest.raises(UnreadableFileError, match="a Chrome trace without events"):
        loaded(tmp_path, text)


def test_stretches_are_cut_between_events(monkeypatch, tmp_path):
    monkeypatch.setattr(json_events, "_STRETCH", 300)
    monkeypatch.setattr(json_events, "_READ", 100)
    nested = {"op": "A", "list": [{"x": 1}, {"y": "},{"}], "text": "}, {"}
    events = [event(name=f"n{number}", args=nested) for number in range(200)]
    for text in (json.dumps(events), json.dumps({"a": 1, "traceEvents": events, "b": [2]})):
        run = loaded(tmp_path, text.encode())
        assert list(run.ops.name) == [f"n{number}" for number in range(200)]
        assert not [loss for loss in run.completeness.losses if loss.count]
