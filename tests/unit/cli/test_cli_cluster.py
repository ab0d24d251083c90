"""Commands on what workers of a cluster recorded, and how a recording says whose it is."""

from __future__ import annotations

import json

import pytest

from simulated_cluster import BEGIN, MS, SECOND, Clock, parameter_server_step

TASKS = ("ps:0", "worker:0", "worker:1", "worker:2")


@pytest.fixture
def cluster(tmp_path):
    """Four tasks, one of them slow and with a clock that is 5 s ahead; one was killed."""
    slow = {"worker:1": 30 * MS}
    moved = {"worker:1": Clock(5 * SECOND, 100.0)}
    for step in range(4):
        begin = BEGIN + step * 5 * SECOND
        rows, _ = parameter_server_step(begin, 3, moved, work=lambda task: slow.get(task, 5 * MS))
        for task in TASKS:
            if task == "worker:2" and step == 3:
                continue
            place = tmp_path / "logs" / task.replace(":", "_") / f"run_{step + 1:06d}"
            place.mkdir(parents=True)
            rows.metadata(step, only=task).save(place / "run_metadata.pb")
    for task in TASKS:
        said = {"task": task, "cluster": TASKS, "ended": task != "worker:2"}
        place = tmp_path / "logs" / task.replace(":", "_")
        (place / "worker.json").write_text(json.dumps(said))
    return tmp_path / "logs"


def test_network_names_transfers_stragglers_clocks_and_what_is_missing(command, cluster):
    code, out, err = command("network", cluster, columns=140)
    assert code == 0
    assert out.startswith("4 tasks · 4 steps · 23 transfers of 92.0 KiB\n")
    assert "1 transfer whose producer is not in the record" in out
    first = next(line for line in out.splitlines() if "grad_1" in line)
    assert first.split()[:4] == ["grad_1", "worker:1", "ps:0", "add"]
    late = [line.split()[:3] for line in out.splitlines() if line.startswith("step ")][1:]
    assert late == [["step", str(n), "worker:1"] for n in range(4)]
    assert "worker:1: 5.00 s ahead, give or take" in out
    assert "gains 100 µs per second" in out
    assert "worker:2: 1 of 4 steps: it has runs of 3" in err
    assert "worker:2: what came after its last run: it was killed" in err


def test_network_for_programs(command, cluster):
    code, out, _ = command("network", cluster, "--by", "pair", "--json")
    found = json.loads(out)
    assert code == 0
    workers = [f"worker:{number}" for number in range(3)]
    pairs = [(end, "ps:0") for end in workers] + [("ps:0", end) for end in workers]
    assert {row["key"] for row in found["rows"]} == {f"{a} -> {b}" for a, b in pairs}
    assert found["clocks"]["rows"][2]["offset_ns"] == pytest.approx(5 * SECOND, abs=MS)
    code, out, _ = command("network", cluster, "--by", "op", "--csv")
    assert out.startswith("key,")
    assert len(out.splitlines()) == 1 + 4


def test_the_path_of_a_step_goes_through_the_slow_worker(command, cluster):
    code, out, _ = command("path", cluster, "--run", 1)
    assert code == 0
    assert out.startswith("step 1 took 30.")
    assert "grad_1" in out
    assert "5.00 s ahead" in out
    code, _, err = command("path", cluster, "--run", 9)
    assert (code, "there is no run 9" in err) == (2, True)


def test_the_path_of_one_run_of_a_cluster_is_by_the_clocks_of_all(command, tmp_path):
    """In one run alone a slow link would be half a link and half a clock."""
    moved = {"worker:0": Clock(5 * SECOND)}
    for step, delay in enumerate((MS // 5, MS // 5, 80 * MS)):
        rows, _ = parameter_server_step(
            BEGIN + step * SECOND, 2, moved,
            delay=lambda *ends, slow=delay: slow if ends == ("ps:0", "worker:0") else MS // 5,
        )  # fmt: skip
        place = tmp_path / "runs" / f"run_{step + 1:06d}"
        place.mkdir(parents=True)
        rows.metadata(step).save(place / "run_metadata.pb")
    code, out, _ = command("path", "runs", "--run", 2, "--json")
    longest = max(json.loads(out)["rows"], key=lambda part: part["end_ns"] - part["start_ns"])
    assert (code, longest["kind"]) == (0, "transfer")
    assert longest["device"] == "/job:worker/replica:0/task:0/device:CPU:0"
    assert longest["end_ns"] - longest["start_ns"] == pytest.approx(80 * MS, abs=2 * MS)
    code, out, _ = command("network", "runs", "--json")
    late = [(each["run"], each["name"]) for each in json.loads(out)["stragglers"]]
    assert late[2] == ("run_000003", "ps:0 -> worker:0")


def test_merge_stands_by_one_clock_and_says_so(command, cluster, tmp_path):
    code, out, err = command("merge", cluster, "-o", "all.json")
    assert code == 0
    assert "worker:1: 5.00 s ahead" in out
    assert "worker:2: 1 of 4 steps" in err
    trace = json.loads((tmp_path / "all.json").read_text())
    clocks = {row["task"]: row for row in trace["otherData"]["clocks"]["rows"]}
    assert clocks["worker:1"]["offset_ns"] == pytest.approx(5 * SECOND, abs=MS)
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "op"]
    assert len(slices) == 4 * 7 + 3 * (4 + 4 + 3)
    gradient = sorted(e["ts"] for e in slices if e["name"] == "grad_1")
    added = sorted(e["ts"] for e in slices if e["name"] == "add")
    for made, used in zip(gradient, added, strict=True):
        assert 0 < used - made < 40_000
    assert max(e["ts"] + e["dur"] for e in slices) < 15.1e6
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert len(names) == 1 + 4


def test_top_reads_all_workers(command, cluster):
    code, out, _ = command("top", cluster, "--by", "name", "--json")
    rows = {row["key"]: row for row in json.loads(out)["rows"]}
    assert (code, rows["grad_1"]["calls"], rows["RecvTensor"]["calls"]) == (0, 4, 23)


def test_a_recording_says_which_task_it_is_of(embedded, script, tmp_path, monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    name = script(
        "import json\n"
        "import tensorflow.compat.v1 as tf\n"
        "print(json.load(open('out/worker.json'))['ended'])\n"
        "with tf.Session() as sess: sess.run(tf.constant(1.0) + 2.0)\n"
    )
    done = embedded("--out", "out", name)
    assert (done.returncode, done.stdout) == (0, "False\n")
    said = json.loads((tmp_path / "out" / "worker.json").read_text())
    assert (said["task"], said["ended"]) == ("worker:1", True)
    assert said["cluster"] == ["chief:0", "worker:0", "worker:1"]
    monkeypatch.setenv("TF_CONFIG", "not json")
    done = embedded("--out", "out", script("print('ran')"))
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert not (tmp_path / "out" / "worker.json").exists()
