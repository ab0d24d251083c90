"""Merged timelines: same device, same process; ids of different runs never meet."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest
from tensorboard.compat.proto import config_pb2

from stepscope.export import Timeline, TimeLiner

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"


def run(at, devices=(CPU0, CPU1), name="x"):
    """A run that starts at `at`: a tensor made on each device but the last, used on the next."""
    metadata = config_pb2.RunMetadata()
    for number, device in enumerate(devices):
        label = f"{name}{number} = Neg({name}{number - 1})" if number else f"{name}0 = Const()"
        node = metadata.step_stats.dev_stats.add(device=device).node_stats.add(
            node_name=f"{name}{number}",
            timeline_label=label,
            all_start_micros=at + 10 * number,
            all_end_rel_micros=8,
        )
        node.output.add()
    return metadata


def saved(liner, tmp_path, name="merged.json"):
    liner.save(tmp_path / name)
    return json.loads((tmp_path / name).read_bytes())["traceEvents"]


def process_names(events):
    return [(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"]


def flows(events):
    """Where each flow goes: the (process, time) of its events, by id."""
    found = {}
    for event in events:
        if event["ph"] in "st":
            found.setdefault(event["id"], []).append((event["ph"], event["pid"], event["ts"]))
    return found


def test_one_timeline_is_saved_as_it_is_but_for_the_numbers_of_processes(tmp_path):
    text = Timeline(run(1000).step_stats).generate_chrome_trace_format(show_memory=True)
    liner = TimeLiner()
    liner.update_timeline(text)
    found, original = saved(liner, tmp_path), json.loads(text)["traceEvents"]
    number = {event["pid"]: other["pid"] for event, other in zip(original, found, strict=True)}
    flows_and_objects = {}
    for event in original:
        event["pid"] = number[event["pid"]]
        if "id" in event:
            key = (event["cat"], event["id"])
            event["id"] = flows_and_objects.setdefault(key, len(flows_and_objects))
    assert found == original


def test_a_device_is_one_process_whatever_its_number_in_each_timeline(tmp_path):
    liner = TimeLiner()
    liner.update(run(1000, devices=(CPU0, CPU1)))
    liner.update(run(2000, devices=(CPU1, CPU0)))
    events = saved(liner, tmp_path)
    names = process_names(events)
    assert sorted(name for _, name in names) == sorted(
        ["Allocators"] + [f"{d} {kind}" for d in (CPU0, CPU1) for kind in ("Compute", "Tensors")]
    )
    assert len({pid for pid, _ in names}) == 5
    device_of = dict(names)
    assert [(e["ts"], device_of[e["pid"]]) for e in events if e["ph"] == "X"] == [
        (1000, f"{CPU0} Compute"),
        (1010, f"{CPU1} Compute"),
        (2000, f"{CPU1} Compute"),
        (2010, f"{CPU0} Compute"),
    ]


def test_flows_stay_within_their_run(tmp_path):
    liner = TimeLiner()
    for at in (1000, 2000, 3000):
        liner.update(run(at))
    found = flows(saved(liner, tmp_path))
    assert sorted([(phase, time) for phase, _, time in ends] for ends in found.values()) == [
        [("s", at + 8), ("t", at + 10)] for at in (1000, 2000, 3000)
    ]


def test_tensors_of_different_runs_are_different_objects(tmp_path):
    liner = TimeLiner()
    liner.update(run(1000), show_memory=True)
    liner.update(run(2000), show_memory=True)
    lives = Counter((e["id"], e["ph"]) for e in saved(liner, tmp_path) if e["ph"] in "NOD")
    assert len(lives) == 4 * 3
    assert set(lives.values()) == {1}


def test_runs_one_after_the_other_share_lanes_and_concurrent_ones_do_not(tmp_path):
    liner = TimeLiner()
    for at in (1000, 2000, 1003):
        liner.update(run(at, devices=(CPU0,)))
    lane = {e["ts"]: e["tid"] for e in saved(liner, tmp_path) if e["ph"] == "X"}
    assert lane[1000] == lane[2000]
    assert lane[1003] != lane[1000]


def test_counters_keep_their_lane(tmp_path):
    liner = TimeLiner()
    liner.update(run(1000), show_memory=True)
    liner.update(run(1001), show_memory=True)
    assert {e["tid"] for e in saved(liner, tmp_path) if e["ph"] == "C"} == {0}


def test_what_is_merged_is_not_changed():
    trace = json.loads(Timeline(run(1000)).generate_chrome_trace_format())
    before = json.dumps(trace)
    liner = TimeLiner()
    liner.update(run(1000))
    liner.update_timeline(trace)
    assert json.dumps(trace) == before


def test_a_bare_list_of_events_and_unnamed_processes(tmp_path):
    liner = TimeLiner()
    liner.update_timeline(b'[{"ph":"X","name":"a","pid":7,"tid":"main","ts":1,"dur":1}]')
    liner.update(run(1000))
    pids = {e["name"]: e["pid"] for e in saved(liner, tmp_path) if e["ph"] == "X"}
    assert pids["a"] != pids["Const"]


def test_nothing_collected_is_an_empty_trace(tmp_path):
    assert saved(TimeLiner(), tmp_path) == []


def test_it_can_be_compressed_and_saved_again(tmp_path, capsys):
    liner = TimeLiner()
    liner.update(run(1000))
    liner.save(str(tmp_path / "new" / "merged.json.gz"))
    liner.update(run(2000))
    liner.save(tmp_path / "new" / "merged.json.gz")
    events = json.loads(gzip.decompress((tmp_path / "new" / "merged.json.gz").read_bytes()))
    assert [e["ts"] for e in events["traceEvents"] if e["ph"] == "X"] == [1000, 1010, 2000, 2010]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["merged.json.gz"]
    assert capsys.readouterr() == ("", "")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "merged.json"
    path.write_text("old")
    liner = TimeLiner()
    liner.update_timeline([{"ph": "X", "name": object(), "pid": 1, "ts": 1}])
    with pytest.raises(TypeError):
        liner.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_run_metadata_in_the_wrong_method_says_where_it_goes():
    with pytest.raises(TypeError, match=r"update\(run_metadata\)"):
        TimeLiner().update_timeline(run(1))


def test_text_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match="this is not JSON"):
        TimeLiner().update_timeline("{'traceEvents': []}")


def test_perfetto_finds_every_slice_and_flow(perfetto, tmp_path):
    liner = TimeLiner()
    for at in (1000, 2000, 2004):
        liner.update(run(at), show_memory=True)
    liner.save(tmp_path / "merged.json")
    (seen,) = perfetto(tmp_path / "merged.json")
    assert seen["errors"] == {}
    assert (seen["slices"]["n"], seen["flows"]) == (6, 3)
    assert len(seen["processes"]) == len(set(seen["processes"])) == 5
