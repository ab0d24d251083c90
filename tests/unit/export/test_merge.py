"""Many runs, files and workers in one trace: nothing meets by accident, little is in memory."""

from __future__ import annotations

import gc
import gzip
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto import config_pb2

import stepscope
from shared_data import ARTEFACTS
from stepscope.analysis import Worker, WorkerRuns, workers_at
from stepscope.export import chrome, merge
from stepscope.export.chrome import run_sources
from stepscope.metadata import OpColumns, Recording, RunMetadata, StringColumn, iter_runs

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
NOON = 1_794_769_131_123_456_789
DATA = Path(__file__).parents[2] / "data"


def run(at, rows=3, thread=1):
    """A run of so many ops of 5 ns, one after the other, beginning `at` nanoseconds after noon."""
    start = NOON + at + 10 * np.arange(rows)
    nodes = StringColumn(np.arange(rows, dtype=np.int32), tuple(f"n{i}" for i in range(rows)))
    ops = OpColumns.build(
        name=nodes, op=StringColumn.repeated("Neg", rows),
        device=StringColumn.repeated(CPU, rows), thread=[thread] * rows, scheduled_ns=start,
        start_ns=start, end_ns=start + 5,
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops))
    return metadata


def events(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]


def slices(found, category="op"):
    return [e for e in found if e["ph"] == "X" and e["cat"] == category]


def test_runs_stand_in_order_of_the_wall_clock(tmp_path):
    path = merge(
        [("late", run(5000)), ("early", run(0)), ("middle", run(900))], tmp_path / "t.json"
    )
    marks = slices(events(path), "run")
    assert [(e["name"], e["ts"]) for e in marks] == [("early", 0.0), ("middle", 0.9), ("late", 5.0)]
    ops = [e["ts"] for e in slices(events(path))]
    assert ops == sorted(ops)
    assert len({e["tid"] for e in slices(events(path))}) == 1


def test_concurrent_runs_on_one_thread_share_its_lane_where_they_do_not_cross(tmp_path):
    path = merge([run(0), run(5), run(7)], tmp_path / "t.json")
    lanes = {}
    for event in slices(events(path)):
        lanes.setdefault(event["args"]["run"], set()).add(event["tid"])
    assert lanes["run 0"] == lanes["run 1"]
    assert lanes["run 2"].isdisjoint(lanes["run 0"])


def test_workers_with_devices_of_the_same_name_stay_apart(tmp_path, perfetto):
    run(0).save(tmp_path / "run_metadata.pb")
    runs = {"chief": tmp_path, "worker": [run(2), run(100)]}
    path = merge(runs, tmp_path / "t.json.gz")
    names = {e["pid"]: e["args"]["name"] for e in events(path) if e["name"] == "process_name"}
    assert sorted(names.values()) == [f"chief {CPU}", "runs", f"worker {CPU}"]
    found = [(names[e["pid"]].split()[0], e["args"]["run"]) for e in slices(events(path))]
    named = [
        ("chief", "chief run_metadata"),
        ("worker", "worker run 0"),
        ("worker", "worker run 1"),
    ]
    assert found == [each for each in named for _ in range(3)]
    assert [e["name"] for e in slices(events(path), "run")] == [name for _, name in named]
    numbers = {e["pid"] for e in events(path)}, {e["tid"] for e in events(path) if "tid" in e}
    assert numbers[0].isdisjoint(numbers[1])
    (seen,) = perfetto(path)
    assert (seen["errors"], seen["slices"]["n"]) == ({}, 12)


def test_files_functions_and_objects_may_be_mixed(tmp_path):
    run(0).save(tmp_path / "run_metadata.pb")
    given = [tmp_path / "run_metadata.pb", ("made", lambda: run(100)), ("here", run(200))]
    path = merge(given, tmp_path / "t.json")
    assert [e["name"] for e in slices(events(path), "run")] == ["run_metadata", "made", "here"]
    assert stepscope.merge is merge


def test_a_trace_of_ours_can_be_merged_again(tmp_path):
    first = chrome([("a", run(0)), ("b", run(50))], tmp_path / "first.json")
    again = merge([first], tmp_path / "again.json")
    assert len(slices(events(again))) == 6


def test_many_runs_need_no_more_memory_than_a_few(tmp_path, monkeypatch):
    monkeypatch.setattr(run_sources, "KEPT_ROWS", 2000)

    def peak(number):
        runs = [lambda at=at: run(20_000 * at, 500) for at in range(number)]
        gc.collect()
        tracemalloc.start()
        path = merge(runs, tmp_path / f"{number}.json")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        text = path.read_bytes()
        assert text.count(b'"cat":"op"') == 500 * number
        assert text.count(b'"cat":"run"') == number
        return most

    peak(2)
    assert peak(120) < 1.5 * peak(20)


def test_runs_of_workers_that_were_gone_over_are_read_once_more(tmp_path, monkeypatch):
    for worker in range(3):
        for number in range(4):
            place = tmp_path / f"w{worker}" / f"run_{number}"
            place.mkdir(parents=True)
            run(1000 * number + worker, 20).save(place / "run_metadata.pb")
    runs = WorkerRuns(workers_at(*sorted(tmp_path.glob("w*"))))
    assert [task for task, _ in runs.named()] == ["", "", ""]
    read = []
    native = Worker.read
    monkeypatch.setattr(Worker, "read", lambda self, name: read.append(1) or native(self, name))
    for rows in (1000, 100):
        read.clear()
        monkeypatch.setattr(run_sources, "KEPT_ROWS", rows)
        path = merge(runs, tmp_path / "t.json")
        assert len(read) == 12
        marks = [(e["name"], e["ts"]) for e in slices(events(path), "run")]
        assert marks == [(f"run_{n}", n + w / 1000) for n in range(4) for w in range(3)]
    read.clear()
    monkeypatch.setattr(run_sources, "KEPT_ROWS", 50)
    merge(runs, tmp_path / "t.json")
    assert len(read) == 12 + 4  # of the three at a time two are kept
    assert len(slices(events(path))) == 240


def recorded():
    """Everything that was recorded elsewhere, with the number of its ops."""
    paths = {p.parent.name: p for root in (ARTEFACTS, DATA) for p in root.glob("*/run_metadata.pb")}
    others = [*ARTEFACTS.glob("*/run_meta"), *ARTEFACTS.glob("*/*.tfevents.*")]
    return sorted([*paths.values(), *others])


def number_of_ops(path):
    if ".tfevents." in path.name:
        return sum(len(found.metadata.ops) for found in iter_runs(path))
    stats = config_pb2.RunMetadata.FromString(path.read_bytes()).step_stats
    return sum(len(device.node_stats) for device in stats.dev_stats)


def test_perfetto_finds_every_recorded_op_once(perfetto, tmp_path):
    files = recorded()
    single = [chrome(path, tmp_path / f"{i}.json") for i, path in enumerate(files)]
    seen = perfetto(*single, merge(files, tmp_path / "all.json.gz"))
    assert [found["errors"] for found in seen] == [{}] * (len(files) + 1)
    found = [sum(e["ph"] == "X" and e["cat"] == "op" for e in events(path)) for path in single]
    assert found == [number_of_ops(path) for path in files]
    names = [{e["pid"] for e in events(path) if e["name"] == "process_name"} for path in single]
    assert [len(given["processes"]) for given in seen[:-1]] == [len(pids) for pids in names]
    for path, given in zip(single, seen, strict=False):
        assert given["slices"]["n"] == sum(e["ph"] == "X" for e in events(path))
        assert given["slices"]["unfinished"] == 0


@pytest.mark.skipif(not ARTEFACTS.exists(), reason="the public traces are not there")
def test_traces_that_perfetto_complains_of_come_out_clean(perfetto, tmp_path):
    traces = sorted(ARTEFACTS.glob("public_chrome_traces/*_timeline_*.json"))
    written = [chrome(path, tmp_path / path.name) for path in traces]
    # Those of single steps are alike; the others have all that goes wrong.
    told = [path for path in written if "_step_" not in path.name]
    assert [found["errors"] for found in perfetto(*told)] == [{}] * len(told)
    for path, ours in zip(traces, written, strict=True):
        original = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
        found = slices(events(ours))
        assert len(found) == len(original)
        assert sorted(e["dur"] for e in found) == sorted(e["dur"] for e in original)
