"""`top`, `path`, `placement`, `parallelism`, `coverage` and `diff` of runs with known answers."""

import json
import shutil

import pytest

from stepscope._messages import GraphDef
from stepscope.metadata import OpColumns, Placement, Recording, RunMetadata, Status
from stepscope.metadata.wire.labels import make_label

T0 = 1_700_000_000_000_000_000
CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU0 = "/job:localhost/replica:0/task:0/device:GPU:0"
MS = 1_000_000


def run_of(*rows, placements=(), status=None):
    """A run of `(name, op, inputs, thread, scheduled, start, end)`, in ms."""
    columns = OpColumns.build(
        name=[r[0] for r in rows],
        op=[r[1] for r in rows],
        label=[make_label(r[0], r[1], r[2]) for r in rows],
        thread=[r[3] for r in rows],
        scheduled_ns=[T0 + int(r[4] * MS) for r in rows],
        start_ns=[T0 + int(r[5] * MS) for r in rows],
        end_ns=[T0 + int(r[6] * MS) for r in rows],
        device=[CPU0] * len(rows),
        thread_names={1: "pool", 2: "pool"},
    )
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine="test",
            ops=lambda: columns,
            placements=lambda: list(placements),
            status=status or Status(),
        )
    )
    return metadata


@pytest.fixture
def diamond(tmp_path):
    """a, then b (short) and c (long) side by side, then d, which waited 1 ms for its thread."""
    run_of(
        ("a", "Const", [], 1, 0, 0, 2),
        ("b", "Mul", ["a"], 1, 2, 2, 4),
        ("c", "Add", ["a"], 2, 2, 3, 8),
        ("d", "Sub", ["b", "c"], 1, 8, 9, 10),
    ).save(tmp_path / "run_metadata.pb")
    return "run_metadata.pb"


def lines(out):
    return {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}


def test_top_sums_up(command, diamond):
    code, out, _ = command("top", diamond, "--by", "name", columns=160)
    assert code == 0
    assert out.splitlines()[0] == "1 run · 4 ops · 10.0 ms of work in 9.00 ms (1.11 at once)"
    assert lines(out)["c"][:6] == ["c", "Add", "CPU:0", "1", "5.00", "ms"]
    assert "50.0%" in lines(out)["c"]
    by_thread = lines(command("top", diamond, "--by", "thread")[1])["pool"]
    assert by_thread


def test_path_is_the_long_branch_and_says_what_would_help(command, diamond):
    code, out, _ = command("path", diamond)
    assert code == 0
    assert out.splitlines()[0] == f"{diamond} took 10.0 ms"
    assert "  80.0%  8.00 ms  ops running" in out
    assert "  20.0%  2.00 ms  ready, but not running yet" in out
    parts = [line.split()[0] for line in out.split("\n\n")[1].splitlines()[2:]]
    assert parts == ["a", "c", "c", "d", "d"]
    savings = out.split("if an op were 10% faster")[1]
    assert lines(savings)["c"] == ["c", "Add", "5.00", "ms", "500", "µs"]


def test_run_chooses_and_a_typical_one_is_the_default(command, tmp_path):
    for number, length in enumerate((1, 7, 3)):
        place = tmp_path / "out" / f"run_{number:06d}"
        place.mkdir(parents=True)
        run_of(("only", "Mul", [], 1, 0, 0, length)).save(place / "run_metadata.pb")
    out = command("path", "out")[1]
    assert out.startswith("run 2 (run_000002): the run of median length of 3 alike, of 3 in all; ")
    assert "run 2 (run_000002) took 3.00 ms" in out
    assert command("path", "out", "--run", "-1")[1].startswith("run 2 (run_000002) took 3.00 ms")
    code, _, err = command("path", "out", "--run", "3")
    assert code == 2
    assert "there is no run 3; out holds 3" in err
    assert command("top", "out")[1].startswith("3 runs · 3 ops · 11.0 ms")
    assert command("top", "out", "--run", "0")[1].startswith("1 run · 1 op · 1.00 ms")


def test_parallelism_draws_lanes_and_names_who_waited(command, diamond):
    code, out, _ = command("parallelism", diamond, columns=80)
    assert code == 0
    drawn = [line for line in out.splitlines() if "▕" in line]
    assert [line.split("▕")[0].strip() for line in drawn] == ["pool 1", "pool 2", "CPU:0"]
    shades = drawn[1].split("▕")[1].rstrip("▏")
    busy = [place for place, shade in enumerate(shades) if shade == "█"]
    assert busy[0] / len(shades) == pytest.approx(0.3, abs=0.03)
    assert busy[-1] / len(shades) == pytest.approx(0.8, abs=0.03)
    assert "ops at once: 0 for 10.0%, 1 for 80.0%, 2 for 10.0%" in out
    assert lines(out.split("waited longest")[1])["d"][:4] == ["d", "Sub", "1.00", "ms"]


def test_placement_shows_first_what_is_elsewhere(command, tmp_path):
    placements = [
        Placement("a", "Mul", CPU0, CPU0, "asked for"),
        Placement("z", "Mul", GPU0, CPU0, "soft placement"),
    ]
    rows = [("a", "Mul", [], 1, 0, 0, 1), ("z", "Mul", [], 1, 1, 1, 2)]
    run_of(*rows, placements=placements).save(tmp_path / "run_metadata.pb")
    code, out, _ = command("placement", "run_metadata.pb")
    assert code == 0
    assert "CPU:0: 2 executions\n1 op not where asked for\n" in out
    table = out.split("\n\n")[1].splitlines()[2:]
    assert [line.split()[0] for line in table] == ["z", "a"]
    assert table[0].split()[1:] == ["Mul", "CPU:0", "GPU:0", "soft", "placement", "1"]
    only = json.loads(command("placement", "run_metadata.pb", "--different", "--json")[1])
    assert [row["name"] for row in only["rows"]] == ["z"]


def test_coverage_finds_the_graph_beside_the_run(command, diamond, tmp_path):
    code, _, err = command("coverage", diamond)
    assert code == 2
    assert "there is no graph.pb beside run_metadata.pb" in err

    graph = GraphDef()
    for name, op, inputs in (
        ("a", "Const", []),
        ("b", "Mul", ["a", "a"]),
        ("unused", "Neg", ["a"]),
    ):
        graph.node.add(name=name, op=op, input=inputs)
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    code, out, _ = command("coverage", diamond)
    assert code == 0
    assert "      1  pruned: nothing the run was asked for needs it" in out
    assert lines(out)["b"] == ["b", "Mul", "measured", "1", "2.00", "ms"]
    assert lines(out)["unused"][2] == "pruned"
    missing = command("coverage", diamond, "--missing")[1]
    assert "b " not in missing.split("\n\n")[1]

    (tmp_path / "graph.pbtxt").write_text(str(graph))
    assert command("coverage", diamond, "graph.pbtxt")[1] == out
    (tmp_path / "noise.pb").write_bytes(b"\xff" * 40)
    code, _, err = command("coverage", diamond, "noise.pb")
    assert code == 2
    assert "noise.pb: is no GraphDef" in err


@pytest.fixture
def two_sides(tmp_path):
    """20 runs of 12 ops on each side; in `slow`, op 5 takes twice as long."""
    for side, factor in (("base", 1), ("same", 1), ("slow", 2)):
        for number in range(20):
            wobble = (number * 7 % 20) / 200
            rows, at = [], 0.0
            for op in range(12):
                length = (1 + wobble + op / 100) * (factor if op == 5 else 1)
                rows.append((f"op_{op}", "Mul", [], 1, at, at, at + length))
                at += length
            place = tmp_path / side / f"run_{number:06d}"
            place.mkdir(parents=True)
            run_of(*rows).save(place / "run_metadata.pb")


def test_diff_is_a_gate(command, two_sides):
    code, out, err = command("diff", "base", "slow", "--fail-on", "time>5%")
    assert code == 1
    assert out.startswith("20 runs against 20\n")
    assert lines(out)["op_5"][-1] == "significant"
    assert "regression: op_5: " in err
    assert "+100.0%" in err

    code, _, err = command("diff", "base", "same", "--fail-on", "time>5%")
    assert (code, err) == (0, "no regression\n")
    assert command("diff", "base", "slow")[0] == 0
    assert command("diff", "base", "slow", "--fail-on", "time>300%")[0] == 0
    assert command("diff", "slow", "base", "--fail-on", "time>5%")[0] == 0
    # What programs read is the same, and the gate still closes.
    code, out, err = command("diff", "base", "slow", "--fail-on", "time>5%", "--json")
    assert code == 1
    assert json.loads(out)["base_runs"] == 20
    code, _, err = command("diff", "base", "slow", "--fail-on", "speed>5%")
    assert code == 2
    assert "write 'time>5%,memory>1%'" in err


def test_a_gate_says_what_it_cannot_judge(command, two_sides, tmp_path):
    code, out, err = command("diff", "base", "same", "--fail-on", "time>5%,memory>1%")
    assert code == 0
    assert out.startswith("20 runs against 20\n")
    assert "memory became worse cannot be told, as it was not recorded on both sides" in err
    assert err.endswith("no regression\n")
    assert command("diff", "base", "slow", "--fail-on", "time>5%,memory>1%")[0] == 1
    shutil.copytree(tmp_path / "base" / "run_000000", tmp_path / "one" / "run_000000")
    code, _, err = command("diff", "base", "one", "--fail-on", "time>5%")
    assert code == 0
    assert "cannot be told from 20 against 1 runs; record at least 4 on each side" in err


def test_runs_that_fail_are_no_regression_and_do_not_pass(command, two_sides, tmp_path):
    file = tmp_path / "same" / "run_000007" / "run_metadata.pb"
    failed = run_of(("op_0", "Mul", [], 1, 0, 0, 1), status=Status("INTERNAL", "broken"))
    failed.save(file)
    code, out, err = command("diff", "base", "same", "--fail-on", "time>5%")
    assert code == 2
    assert "20 runs against 19\n" in out
    assert "note: 1 new run did not end well (1 INTERNAL) and cannot be compared: left out" in out
    assert "runs of the new program fail, and none of the old one did" in err
    assert command("diff", "base", "same")[0] == 0
    for file in (tmp_path / "same").rglob("run_metadata.pb"):
        failed.save(file)
    code, _, err = command("diff", "base", "same", "--fail-on", "time>5%")
    assert code == 2
    assert "none of the 20 new runs ended well" in err
    assert "INTERNAL: broken" in err


def test_names_that_would_break_a_table_of_markdown(command, tmp_path):
    slower = ["a|b", "new\nline", "tick`tock"]
    names = [*slower, *(f"op_{i}" for i in range(20))]
    for side, factor in (("base", 1), ("slow", 4)):
        for number in range(20):
            rows, at = [], 0.0
            for name in names:
                length = (1 + number % 7 / 200) * (factor if name in slower else 1)
                rows.append((name, "Mul", [], 1, at, at, at + length))
                at += length
            run_of(*rows).save(tmp_path / side / f"run_{number:06d}" / "run_metadata.pb")
    every = command("diff", "base", "slow", "--markdown", "--limit", "0")[1]
    for row in ("| `a\\|b` | Mul |", r"| `new\nline` | Mul |", "| `` tick`tock `` | Mul |"):
        assert row in every
    few = command("diff", "base", "slow", "--markdown", "--limit", "2")[1]
    assert few.count("| Mul |") == 2
    assert "\nAnd 1 more op.\n" in few


def test_diff_for_a_pull_request(command, two_sides):
    code, out, _ = command("diff", "base", "slow", "--fail-on", "time>5%", "--markdown")
    assert code == 1
    assert out.startswith("### Stepscope: regression\n\n20 runs against 20.\n")
    assert "| `op_5` | Mul | " in out
    quiet = command("diff", "base", "same", "--markdown")[1]
    assert "No op changed significantly." in quiet
