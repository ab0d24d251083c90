"""Every command on every kind of file that can be read: it works, and says what the file holds."""

import gzip
import json
import shutil

import pytest

from small_profile import write_profile
from stepscope.analysis.typical_run import typical_run
from stepscope.cli.arguments.command_line import COMMANDS
from stepscope.metadata import iter_runs

READS_RUNS = [c for c in COMMANDS if c not in ("run", "completion", "coverage", "oom", "prepare")]


def tensorflow_metadata(place, data_dir, recorded, command):
    shutil.copy(data_dir / "mlp_adam_refvars" / "run_metadata.pb", place / "run_metadata.pb")
    return place / "run_metadata.pb"


def distributed(place, data_dir, recorded, command):
    return data_dir / "distributed_ps_worker"


def own_run(place, data_dir, recorded, command):
    return recorded / "classify" / "run_000002" / "run_metadata.pb"


def run_directory(place, data_dir, recorded, command):
    return recorded / "classify"


def tensorflow_run(place, data_dir, recorded, command):
    return recorded / "optimised"


def event_file(place, data_dir, recorded, command):
    (file,) = (recorded / "base").iterdir()
    return file


def logdir(place, data_dir, recorded, command):
    shutil.copytree(recorded / "base", place / "logs" / "train")
    shutil.copytree(recorded / "new", place / "logs" / "eval")
    return place / "logs"


def chrome_trace(place, data_dir, recorded, command):
    assert command("timeline", recorded / "classify", "-o", place / "trace.json")[0] == 0
    return place / "trace.json"


def compressed_timeline(place, data_dir, recorded, command):
    file = data_dir / "rnn_while_v1" / "run_metadata.pb"
    assert command("timeline", "--tf1", file, "-o", place / "old.json")[0] == 0
    (place / "old.json.gz").write_bytes(gzip.compress((place / "old.json").read_bytes()))
    return place / "old.json.gz"


def profile(place, data_dir, recorded, command):
    write_profile(place / "vm.xplane.pb")
    return place / "vm.xplane.pb"


KINDS = [
    tensorflow_metadata, distributed, own_run, run_directory, tensorflow_run, event_file, logdir,
    chrome_trace, compressed_timeline, profile,
]  # fmt: skip


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def file(request, tmp_path, data_dir, recorded, command):
    (tmp_path / "in").mkdir()
    return request.param(tmp_path / "in", data_dir, recorded, command)


def said(command, *arguments, **surroundings):
    code, out, err = command(*arguments, **surroundings)
    assert code == 0, err
    return out


def test_each_command_says_something_true(file, command, tmp_path):
    runs = [run.metadata for run in iter_runs(file)]
    ops = sum(len(run.ops) for run in runs)
    assert ops
    looked_at = runs[typical_run(enumerate(runs)).number]
    names = set(looked_at.ops.name)

    profile = json.loads(said(command, "top", file, "--by", "name", "--json"))
    assert (profile["calls"], profile["runs"]) == (ops, len(runs))
    assert f"{ops:,} ops" in said(command, "top", file)

    lengths = json.loads(said(command, "steps", file, "--json"))
    assert sum(row["runs"] for row in lengths["rows"]) == lengths["runs"] == len(runs)
    layers = json.loads(said(command, "top", file, "--by", "layer", "--json"))
    assert sum(row["calls"] for row in layers["rows"] if not row["depth"]) == ops
    assert layers["self_ns"] == profile["self_ns"]

    path = json.loads(said(command, "path", file, "--json"))
    assert {part["name"] for part in path["rows"]} <= names
    assert "took" in said(command, "path", file)

    placed = json.loads(said(command, "placement", file, "--json"))
    assert sum(placed["devices"].values()) == len(looked_at.ops)
    shown = said(command, "placement", file)
    known = any(row["requested"] for row in placed["rows"])
    assert ("not where asked for" if known else "the file does not say so") in shown

    lanes = json.loads(said(command, "parallelism", file, "--json"))["rows"]
    devices = {lane["name"]: lane["ops"] for lane in lanes if lane["kind"] == "device"}
    assert devices == {d: list(looked_at.ops.device).count(d) for d in set(looked_at.ops.device)}
    assert "ops at once" in said(command, "parallelism", file)

    pipelines = json.loads(said(command, "input", file, "--json"))
    assert pipelines["pipelines"] or pipelines["lacking"]
    assert said(command, "input", file)

    longest = profile["rows"][0]["key"]
    chain = json.loads(said(command, "why", longest, file, "--json"))
    assert chain["rows"][0]["op"] == chain["op"] == longest
    assert {link["op"] for link in chain["rows"]} <= {n for run in runs for n in run.ops.name}
    assert chain["origin"] in " ".join(said(command, "why", longest, file, columns=1000).split())
    slow = json.loads(said(command, "why", "#0", file, "--json"))
    assert slow["rows"][0]["run"] == 0
    assert "run 0" in said(command, "why", "run", "0", file)

    advice = json.loads(said(command, "advise", file, "--json"))
    assert advice["runs"] == len(runs)
    shown = said(command, "advise", file)
    assert ("check  stepscope advise --check" if advice["rows"] else "nothing that") in shown

    assert f"{len(runs)} run" in said(command, "diff", file, file, "--limit", "3")
    rows = json.loads(said(command, "info", file, "--json"))["rows"]
    assert sum(row["ops"] for row in rows) == ops

    for name in ("timeline", "merge"):
        assert "wrote" in said(command, name, file, "-o", "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        assert names <= {event["name"] for event in events if event["ph"] == "X"}
    said(command, "export", file, "--to", "csv", "-o", "ops.csv")
    assert len((tmp_path / "ops.csv").read_text().splitlines()) == ops + 1


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A user's cache, in which the machine is measured once."""
    return tmp_path_factory.mktemp("cache")


def test_work_is_counted_or_what_it_lacks_is_said(file, command, measured, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(measured))
    profile = json.loads(said(command, "top", file, "--json"))
    work = json.loads(said(command, "top", file, "--work", "--json"))
    for field in ("runs", "calls", "self_ns"):
        assert work[field] == profile[field]
    assert [row["key"] for row in work["rows"]] == [row["key"] for row in profile["rows"]]
    assert sum(lack["calls"] for lack in work["lacking"]) == work["uncounted"]
    shown = said(command, "top", file, "--work")
    assert "this machine reaches" in shown
    assert ("not counted" in shown) == bool(work["uncounted"])


def test_memory_and_oom_answer_or_say_what_is_missing(file, command):
    runs = [run.metadata for run in iter_runs(file)]
    known = max(run.peak_bytes(d) for run in runs for d in set(run.ops.device))
    code, out, err = command("memory", file)
    if known:
        assert code == 0
        assert "peak" in out
    else:
        assert code == 2
        assert "no memory was recorded" in err
    grown = json.loads(said(command, "memory", file, "--growth", "--json"))
    assert grown["steps"] or grown["lacking"]
    assert said(command, "memory", file, "--growth")
    code, out, err = command("memory", file, "--at", "peak")
    if any(len(run.allocations) for run in runs):
        assert code == 0, err
        assert "its peak is" in out
    else:
        assert code == 2
        assert "no single allocations were recorded" in err
    code, out, err = command("why", "peak", file, "--json")
    if any(len(run.allocations) for run in runs):
        held = json.loads(out)
        assert sum(row["bytes"] for row in held["rows"]) == held["bytes"] == held["peak_bytes"]
    else:
        assert code == 2
        assert "no single allocations were recorded" in err
    code, _, err = command("oom", file)
    assert code == 2
    assert "out of memory" in err or "out-of-memory" in err


@pytest.mark.parametrize("name", ["account", "retraces"])
def test_what_is_of_a_whole_program_says_how_to_record_one(name, file, command):
    code, out, err = command(name, file)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "stepscope run SCRIPT" in err


@pytest.mark.parametrize("name", READS_RUNS)
def test_a_file_that_is_not_there_is_named(name, command):
    arguments = ["nowhere", "nowhere"] if name in ("diff", "why") else ["nowhere"]
    more = ["--to", "csv"] if name == "export" else []
    code, out, err = command(name, *arguments, *more)
    assert (code, out) == (2, "")
    assert "nowhere" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name, command):
    code, out, _ = command(name, "--help", columns=80)
    assert code == 0
    assert "Example: " in out
    assert "stepscope" in out.split("Example: ")[1]
