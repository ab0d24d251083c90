"""What pages are given: the same as the command line says of the same input."""

import shlex
from urllib.parse import quote

import numpy as np
import pytest

from analysed_runs import T0, run_of
from kinds_of_input import KINDS, path_of, two_sets
from recorded_program import MS, note, run, trace
from simulated_cluster import BEGIN, SECOND, Clock, parameter_server_step
from stepscope.metadata import AllocationColumns, Completeness, InFlight, Loss, Status
from stepscope.metadata.program_notes import PROCESS, SCRIPT
from stepscope.store import Store
from stepscope.web.recordings import Recordings
from stepscope.web.resources.clusters import cluster_of
from stepscope.web.run_sources import FilesSource


def strings(column):
    return [column["table"][code] for code in column["codes"]]


def plain(columns, row):
    return {name: values[row].item() if hasattr(values[row], "item") else values[row]
            for name, values in columns.items()}  # fmt: skip


@pytest.fixture(params=KINDS)
def path(request, tmp_path):
    return path_of(request.param, tmp_path)


def test_everything_is_what_the_command_line_says(path, view, said):
    client = view(path)
    session = client.value("session")
    assert (session["state"], session["generation"]) == ("ok", 1)

    info = said("info", path)
    runs = client.value("runs")
    rows = info["rows"]
    assert runs["number"].tolist() == [row["number"] for row in rows]
    assert runs["ops"].tolist() == [row["ops"] for row in rows]
    assert runs["peak_bytes"].tolist() == [row["peak_bytes"] for row in rows]
    assert strings(runs["status"]) == [row["status"] for row in rows]
    assert session["typical"]["run"] in runs["number"]

    overview = client.value("overview")
    limits = {row["step"]["key"]: row["limits"] for row in info["verdict"]["rows"]}
    for row in overview["verdict"]:
        assert row["limits"] == limits[row["key"]]
    steps = said("steps", path)
    assert [row["key"] for row in overview["steps"]["rows"]] == [r["key"] for r in steps["rows"]]
    for shown, row in zip(overview["steps"]["rows"], steps["rows"], strict=True):
        assert shown["median_ns"] == row["median_ns"]
        assert np.asarray(shown["lengths_ns"]).tolist() == row["lengths_ns"]
    failed = [row for row in rows if row["status"] != "OK"]
    assert (overview["failure"] is not None) == bool(failed)
    advice = said("advise", path)["rows"]
    assert [row["what"] for row in overview["advice"]] == [row["sentence"] for row in advice[:3]]
    for shown, row in zip(overview["advice"], advice, strict=False):
        assert shown["gain_ns"] == (None if row["unit"] == "bytes" else row["gain"])
        command = shlex.join(["stepscope", "advise", "--check", row["id"], str(path)])
        assert shown["check"] == f"{command} NEW"
    if overview["bar"]:
        whole = sum(part["ns"] for part in overview["bar"]["parts"])
        assert whole == pytest.approx(overview["bar"]["ns"])

    for by in ("type", "name", "layer", "line", "device", "thread"):
        told, shown = said("top", path, "--by", by), client.value(f"ops?by={by}")
        for name in ("runs", "calls", "total_ns", "self_ns", "covered_ns"):
            assert shown[name] == told[name], name
        assert len(shown["rows"]["key"]) == len(told["rows"])
        for number, row in enumerate(told["rows"]):
            assert plain(shown["rows"], number) == row


def test_the_timeline_holds_every_execution_of_the_run(path, view, said):
    client = view(path)
    number = client.value("session")["typical"]["run"]
    timeline = client.value(f"timeline?run={number}")
    profile = said("top", path, "--run", number, "--by", "type")
    tile = client.value(f"tile?run={number}&level=0&index=0")
    assert tile["whole"]
    boxes = tile["boxes"]
    assert len(boxes["row"]) == timeline["ops"] == profile["calls"]
    assert sorted(boxes["row"].tolist()) == list(range(timeline["ops"]))
    # Drift of clocks is taken out of times of several tasks, which the table has as recorded.
    drift = 1e-5 if timeline["transfers"] else 0
    total = int(boxes["ns"].astype(np.int64).sum())
    assert total == pytest.approx(profile["total_ns"], rel=drift)
    kinds = [timeline["types"][code] for code in boxes["type"].tolist()]
    assert {row["key"]: row["calls"] for row in profile["rows"]} == {
        kind: kinds.count(kind) for kind in set(kinds)
    }
    lanes = timeline["lanes"]
    assert set(boxes["lane"].tolist()) == set(range(len(lanes)))
    for lane in lanes:
        mine = boxes["lane"] == lane["id"]
        assert int(boxes["depth"][mine].max()) + 1 == lane["rows"]
        for depth in range(lane["rows"]):
            row = mine & (boxes["depth"] == depth)
            start, ns = boxes["start"][row].astype(np.int64), boxes["ns"][row].astype(np.int64)
            order = np.argsort(start, kind="stable")
            # Boxes in one row of a lane do not overlap.
            assert (start[order][1:] >= (start + ns)[order][:-1]).all()
    summed = client.value(f"range?run={number}")
    assert summed["ops"] == profile["calls"]
    spent = {row["key"]: row["self_ns"] for row in profile["rows"]}
    told = {row["key"]: row["self_ns"] for row in summed["rows"]}
    assert told == pytest.approx(spent, rel=drift)


def test_the_critical_path_is_that_of_the_command(path, view, said):
    client = view(path)
    number = client.value("session")["typical"]["run"]
    shown = client.value(f"timeline?run={number}")["path"]
    told = said("path", path, "--run", number)
    if len(client.value("session")["sets"]) == 1 and client.value("session")["pages"]["cluster"]:
        assert shown["length_ns"] == told["length_ns"]
        assert strings(shown["name"]) == [row["name"] for row in told["rows"]]
        assert shown["by_kind"] == told["by_kind"]
    spans = zip(shown["from_ns"][1:], shown["to_ns"][:-1], strict=True)
    assert all(begin >= end for begin, end in spans)


def test_memory_sums_to_the_live_bytes_at_every_point(path, view, said):
    client = view(path)
    runs = client.value("runs")
    number = int(runs["number"][np.argmax(runs["peak_bytes"])])
    if not runs["peak_bytes"].any():
        status, error = client.error(f"memory?run={number}")
        assert (status, error["what"]) == (422, "no memory was recorded of this run")
        assert client.value("session")["pages"]["memory"] == error["todo"]
        return
    told = said("memory", path, "--run", number)
    for by in ("kind", "op", "layer"):
        shown = client.value(f"memory?run={number}&by={by}")
        assert shown["peak_bytes"] == told["devices"][0]["peak_bytes"]
        curve = shown["curve"]
        series = shown["series"]["bytes"].reshape(len(shown["series"]["key"]), -1)
        assert series.sum(axis=0).tolist() == curve["bytes"].tolist()
    tensors = shown["tensors"]
    assert shown["complete"]
    for ns, live in zip(curve["ns"].tolist(), curve["bytes"].tolist(), strict=True):
        alive = (tensors["from_ns"] <= ns) & (tensors["to_ns"] > ns)
        assert int(tensors["bytes"][alive].astype(np.int64).sum()) == live
    if len(curve["bytes"]):
        assert int(curve["bytes"].max()) == shown["peak_bytes"]
        instant = client.value(f"instant?run={number}&ns={shown['peak_ns']!r}")
        assert instant["bytes"] == shown["peak_bytes"]
        assert instant["rest_bytes"] == 0
        assert int(instant["rows"]["bytes"].astype(np.int64).sum()) == shown["peak_bytes"]


def test_each_op_can_be_asked_for_by_row_and_by_name(path, view):
    client = view(path)
    number = client.value("session")["typical"]["run"]
    index = client.value(f"index?run={number}")
    assert index["complete"]
    assert index["self_ns"].tolist() == sorted(index["self_ns"].tolist(), reverse=True)
    name = index["name"][0]
    by_name = client.value(f"op?run={number}&name={quote(name, safe='')}")
    by_row = client.value(f"op?run={number}&row={by_name['row']}")
    assert by_row["name"] == by_name["name"] == name
    assert by_row["self_ns"] == index["self_ns"][0]
    found = client.value(f"search?run={number}&q={quote(name[:12].upper(), safe='')}")
    assert name in found["name"]
    edges = client.value(f"edges?run={number}&row={by_name['row']}")
    for other in edges["outputs"]:
        back = client.value(f"edges?run={number}&row={other['row']}")
        assert by_name["row"] in [row["row"] for row in back["inputs"]]


def test_the_graph_shows_every_node_once(path, view):
    client = view(path)
    number = client.value("session")["typical"]["run"]
    seen, self_ns, scopes = [], 0, ["/"]
    while scopes:
        scope = scopes.pop()
        found = client.value(f"graph?run={number}&scope={quote(scope, safe='')}")
        kinds = strings(found["nodes"]["kind"])
        for place, (name, kind) in enumerate(zip(found["nodes"]["id"], kinds, strict=True)):
            if kind == "scope":
                scopes.append(name)
            else:
                seen.append(name)
                self_ns += int(found["nodes"]["self_ns"][place])
        places = len(found["nodes"]["id"]) + len(found["outer"]["id"])
        assert all(place < places for place in found["edges"]["from"].tolist())
    assert len(seen) == found["all"]
    assert self_ns == sum(client.value(f"index?run={number}")["self_ns"].tolist())


def test_the_verdict_counts_what_the_program_noted_beside_its_runs(view, said, tmp_path):
    """A run that waited for its function to be traced anew, and memory that grows with each."""
    with Store(tmp_path) as store:
        store.note(note(PROCESS, 0, 2_000, "train.py"))
        store.note(note(SCRIPT, 0, 2_000, "train.py"))
        for number in range(12):
            began = 100 * number
            late = 41 if number == 5 else 1
            ops = [("MatMul", began + late, began + late + 9)]
            store.add(run(began, began + late + 9, ops), "step")
        store.note(trace(501, 531, "step", [], where="train.py:22"))
    overview = view(tmp_path).value("overview")
    assert "27% being traced and built (train.py:22)" in overview["verdict"][0]["cause"]
    told = said("info", tmp_path)["verdict"]["rows"][0]["limits"]
    assert [one["kind"] for one in told] == ["layer", "traced", "outside"]
    assert overview["besides"] == []


def test_what_is_missing_of_many_runs_is_told_once(view, tmp_path):
    for number in range(3):
        lost = Loss("owners of memory", 2, f"{number} bytes were allocated before")
        run_of(("x", "Tile", [], 7, 0, 0, MS), completeness=Completeness(losses=(lost,))).save(
            tmp_path / f"run_{number}.pb"
        )
    (found,) = view(tmp_path).value("overview")["losses"]
    assert (found["what"], found["count"], found["runs"]) == ("owners of memory", 6, 3)
    assert found["reason"] == "0 bytes were allocated before (of other runs: 2 more reasons)"


def test_memory_says_what_the_engine_counted_beyond_the_allocations(view, tmp_path):
    allocations = AllocationColumns.build(
        name=["wide"], device=["CPU:0"], time_ns=[T0], event=["allocate"], bytes=[1 << 20]
    )
    run_of(
        ("wide", "Tile", [], 7, 0, 0, MS),
        allocations=lambda: allocations,
        peak_bytes=lambda: {"CPU:0": 3 << 19},
    ).save(tmp_path / "run.pb")
    found = view(tmp_path / "run.pb").value("memory")
    assert found["notes"] == [
        "the peak of 1.50 MiB is what the engine counted, 512 KiB more than the allocations here "
        "sum to at most"
    ]


def test_a_graph_opens_inside_the_one_call_that_a_step_is(view, tmp_path):
    rows = [("images", "_Arg"), ("Call/conv/Conv2D", "Conv2D"), ("Call/conv/Relu", "Relu")]
    rows += [("Call/dense/MatMul", "MatMul"), ("Call/loss/Mean", "Mean")]
    run_of(*((name, op, [], 7, at, at, at + 1_000) for at, (name, op) in enumerate(rows))).save(
        tmp_path / "run.pb"
    )
    client = view(tmp_path / "run.pb")
    opened = client.value("graph")
    assert opened["scope"] == "Call"
    assert opened["nodes"]["label"] == ["conv", "dense", "loss"]
    assert client.value("graph?scope=%2F")["nodes"]["id"] == ["images", "Call"]


def test_the_many_arguments_of_a_call_are_one_box_beside_it(view, tmp_path):
    arguments = [f"unknown_{number}" for number in range(20)]
    rows = [(name, "_Arg", []) for name in arguments]
    rows += [
        ("Call/dense/MatMul", "MatMul", arguments[:12]),
        ("Call/adam/Apply", "Apply", arguments),
    ]
    rows += [("Call/loss/Mean", "Mean", ["Call/dense/MatMul"])]
    run_of(
        *((name, op, inputs, 7, at, at, at + 1_000) for at, (name, op, inputs) in enumerate(rows))
    ).save(tmp_path / "run.pb")
    opened = view(tmp_path / "run.pb").value("graph?scope=Call")
    assert opened["outer"]["label"] == ["(20 _Arg)"]
    assert strings(opened["outer"]["kind"]) == ["others"]
    edges = opened["edges"]
    between = zip(
        edges["from"].tolist(), edges["to"].tolist(), edges["count"].tolist(), strict=True
    )
    assert sorted(between) == [(0, 2, 1), (3, 0, 12), (3, 1, 20)]


def test_a_graph_of_several_scopes_or_one_slow_op_opens_at_the_top(view, tmp_path):
    several = [("layer1/MatMul", 5), ("layer1/Relu", 1), ("layer2/MatMul", 5), ("layer2/Relu", 1)]
    slow = [("Call/a/MatMul", 5), ("Call/b/MatMul", 5), ("IteratorGetNext", 900)]
    for name, rows in (("several", several), ("slow", slow)):
        run_of(
            *((op, "MatMul", [], 7, 0, 1_000 * at, 1_000 * at + ns)
              for at, (op, ns) in enumerate(rows))
        ).save(tmp_path / f"{name}.pb")  # fmt: skip
        assert view(tmp_path / f"{name}.pb").value("graph")["scope"] == ""


def test_what_was_refused_is_told(view, said, tmp_path):
    path = path_of("out_of_memory", tmp_path)
    client = view(path)
    told = said("oom", path, "--run", 3)
    failure = client.value("overview")["failure"]
    assert (failure["run"], failure["code"]) == (3, "RESOURCE_EXHAUSTED")
    assert failure["oom"]["advice"] == told["advice"]
    shown = client.value("memory?run=3")["oom"]
    assert (shown["request"], shown["live"], shown["limit"]) == (
        told["request"], told["live"], told["limit"],
    )  # fmt: skip
    kinds = strings(client.value("timeline?run=3")["marks"]["kind"])
    assert "oom" in kinds
    assert "failure" in kinds


def test_a_failed_run_comes_first(view, tmp_path):
    client = view(path_of("failed_run", tmp_path))
    failure = client.value("overview")["failure"]
    assert failure["code"] == "INVALID_ARGUMENT"
    assert [op["name"] for op in failure["in_flight"]] == ["divide"]
    panel = client.value("op?name=divide")
    assert (panel["row"], panel["outcome"]["outcome"]) == (-1, "failed")
    assert client.error("op?name=nowhere")[0] == 400


def test_the_error_of_a_function_is_told_without_its_traceback(view, tmp_path):
    said = "\n".join(
        [
            "Graph execution error:",
            "",
            "Detected at node table/Gather defined at (most recent call last):",
            '  File "train.py", line 17, in <module>',
            "indices[6] = 4 is not in [0, 4)",
            "\t [[{{node table/Gather}}]] [Op:__inference_step_20]",
        ]
    )
    run = run_of(
        ("Call/table/read", "ReadVariableOp", [], 7, 0, 0, 1_000),
        status=Status("INVALID_ARGUMENT", said, (InFlight("table/Gather", "failed"),)),
        sources=lambda: {"Call/table/read": "train.py:9", "Call/table/Gather": "train.py:12"},
    )
    run.save(tmp_path / "run.pb")
    failure = view(tmp_path / "run.pb").value("overview")["failure"]
    assert failure["message"] == "indices[6] = 4 is not in [0, 4)"
    (op,) = failure["in_flight"]
    assert (op["name"], op["node"]) == ("table/Gather", "Call/table/Gather")
    assert (op["line"], op["outcome"]) == ("train.py:12", "failed")


def test_what_never_ran_is_in_the_graph(view, said, tmp_path):
    path = path_of("session_on_tensorflow", tmp_path)
    client = view(path)
    number = client.value("session")["typical"]["run"]
    told = said("coverage", path, "--run", number)
    found = client.value(f"graph?run={number}")
    nodes = found["nodes"]
    each = zip(nodes["id"], strings(nodes["kind"]), strings(nodes["state"]), strict=True)
    states = {name: state for name, kind, state in each if kind == "op"}
    for row in told["rows"]:
        if not row["function"] and row["name"] in states:
            assert states[row["name"]] == row["state"]
    assert len(set(states.values())) > 2


def test_four_workers(view, said, tmp_path):
    path = path_of("four_workers", tmp_path)
    client = view(path)
    shown, told = client.value("cluster"), said("network", path, "--by", "pair")
    assert shown["tasks"]["name"] == ["ps:0", "worker:0", "worker:1", "worker:2"]
    assert shown["transfers"] == told["transfers"]
    assert shown["links"]["idle_ns"].tolist() == [row["idle_ns"] for row in told["rows"]]
    clocks = {row["task"]: row for row in told["clocks"]["rows"]}
    for place, task in enumerate(shown["tasks"]["name"]):
        assert shown["tasks"]["offset_ns"][place] == clocks[task]["offset_ns"]
        assert shown["tasks"]["error_ns"][place] == clocks[task]["error_ns"]
    assert shown["stragglers"] == told["stragglers"]
    steps = shown["task_step_ns"].reshape(4, -1)
    assert np.nanmax(steps, axis=0).tolist() == shown["step_ns"].astype(np.float32).tolist()
    timeline = client.value("timeline")
    assert len({lane["device"] for lane in timeline["lanes"]}) == 4
    assert len(timeline["transfers"]["from_ns"]) > 0


def test_clocks_of_runs_of_all_tasks_are_compared_once(view, said, tmp_path):
    """Reading a thousand workers twice over would be half of what their page takes."""
    clocks = {"worker:1": Clock(5 * SECOND), "worker:2": Clock(-2 * SECOND)}
    rows, _ = parameter_server_step(BEGIN, 3, clocks)
    rows.metadata(1).save(tmp_path / "run.pb")
    recordings = Recordings(FilesSource([tmp_path]), follow=False)
    assert cluster_of(recordings).network.clocks is recordings.survey.clocks
    told = {row["task"]: row for row in said("network", tmp_path)["clocks"]["rows"]}
    tasks = view(tmp_path).value("cluster")["tasks"]
    for task, offset in zip(tasks["name"], tasks["offset_ns"].tolist(), strict=True):
        assert offset == told[task]["offset_ns"]


def test_two_sets_are_compared_as_diff_does(view, said, tmp_path):
    place = two_sets(tmp_path)
    client = view(place / "base", place / "new")
    shown, told = client.value("compare"), said("diff", place / "base", place / "new")
    assert shown["total"] == told["total"]
    rows = {row["name"]: row for row in told["rows"]}
    assert len(shown["rows"]["name"]) == len(rows)
    for number, name in enumerate(shown["rows"]["name"]):
        assert plain(shown["rows"], number) == rows[name]
    assert shown["memory"] == told["memory"]
    sums = shown["icicle"]["base"][0], shown["icicle"]["new"][0]
    gone, appeared = sum(told["gone"].values()), sum(told["appeared"].values())
    assert sums == (
        pytest.approx(sum(row["base"] for row in told["rows"]) + gone),
        pytest.approx(sum(row["new"] for row in told["rows"]) + appeared),
    )
    assert shown["sentences"][0].startswith("time, all ops: ")


def test_source_lines_are_shown_of_files_that_runs_name_and_no_others(view, tmp_path):
    import stepscope
    import stepscope.tf1 as tf

    graph = tf.Graph()
    with graph.as_default():
        y = tf.add(tf.constant(1), 2, name="here")  # the line that is looked for
    metadata = stepscope.RunMetadata()
    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
    with stepscope.Session(graph=graph) as session:
        session.run(y, None, options, metadata)
    metadata.save(tmp_path / "run_metadata.pb")
    client = view(tmp_path)
    found = client.value("op?name=here")
    assert found["source"]["available"]
    shown = dict(found["source"]["lines"])
    assert "the line that is looked for" in shown[found["source"]["line"]]
    again = client.value(f"source?line={quote(found['line'], safe='')}")
    assert again == found["source"]
    assert client.error("source?line=/etc/passwd:1")[0] == 400


def test_every_line_that_ops_were_made_at_can_be_asked_for(path, view):
    client = view(path)
    lines = [key for key in client.value("ops?by=line")["rows"]["key"] if key != "(unknown)"]
    for line in lines:
        found = client.value(f"source?line={quote(line, safe='')}")
        assert line.endswith(f"{found['file']}:{found['line']}")


def test_the_timeline_of_several_tasks_is_by_one_clock(view, said, tmp_path):
    path = path_of("four_workers", tmp_path)
    client = view(path)
    # Each step took milliseconds; the clocks of these tasks are seconds apart.
    spread = [abs(row["offset_ns"]) for row in said("network", path)["clocks"]["rows"]]
    for number in client.value("runs")["number"].tolist():
        drawn = client.value(f"timeline?run={number}")
        assert drawn["to_ns"] < max(spread) / 10
        transfers = drawn["transfers"]
        assert len(transfers["from_ns"])
        assert (transfers["to_ns"] >= transfers["from_ns"]).all()
