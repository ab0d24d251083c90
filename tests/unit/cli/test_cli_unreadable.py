"""Wrong usage and files that cannot be read: one line that says so, or a run that says so."""

import json
import shutil

import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.export import TensorBoardWriter, chrome
from stepscope.metadata import Overhead, Recording, RunMetadata, iter_runs


def saved_run(path):
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded"))
    metadata.save(path)


@pytest.mark.parametrize("steps", ["abc", "5:2", "1:9:0"])
def test_steps_that_are_none_end_with_one_line_and_2(steps, tmp_path, capsys):
    script = tmp_path / "s.py"
    script.write_text("x = 1")
    assert run_command_line(["run", "--steps", steps, str(script)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("stepscope: error: steps: ")
    assert said.count("\n") == 1


def test_a_damaged_event_file_in_a_directory_says_so(tmp_path):
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(RunMetadata(), 1)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:30])
    ((_, run),) = iter_runs(tmp_path)
    assert run.status.code == "DATA_LOSS"
    assert "damaged or cut at byte" in run.completeness.losses[0].reason


def test_random_bytes_are_no_good_run(tmp_path):
    (tmp_path / "rand_run_metadata.pb").write_bytes(bytes(range(255, 0, -1)))
    ((_, run),) = iter_runs(tmp_path)
    assert run.status.code == "DATA_LOSS"


def test_a_saved_run_is_found_under_any_name(tmp_path):
    saved_run(tmp_path / "step1.pb")
    graph = tf.Graph()
    with graph.as_default():
        tf.constant(1.0)
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    assert [name for name, _ in iter_runs(tmp_path)] == ["step1"]


def test_tensorflows_metadata_is_found_under_any_name(tmp_path, capture, data_dir):
    (tmp_path / "meta_7.pb").write_bytes(capture[0])
    for graph in (data_dir / "mlp_adam_refvars").glob("graph*.pb"):
        shutil.copy(graph, tmp_path)
    ((name, run),) = iter_runs(tmp_path)
    assert name == "meta_7"
    assert len(run.ops)


def test_a_file_that_cannot_be_read_is_no_run_of_the_answer(tmp_path, command, recorded):
    shutil.copytree(recorded / "classify", tmp_path / "runs")
    (tmp_path / "runs" / "run_000003" / "run_metadata.pb").write_bytes(bytes(range(255, 0, -1)))
    code, out, err = command("top", "runs")
    assert code == 0
    assert out.startswith("4 runs · ")
    assert "left out, as it cannot be read: " in err
    assert "run_000003" in err
    assert "5 runs in runs" in command("info", "runs")[1]
    code, out, err = command("diff", "runs", "runs")
    assert "4 runs against 4" in out
    assert err.count("left out") == 2
    for file in (tmp_path / "runs").rglob("run_metadata.pb"):
        file.write_bytes(b"\xff" * 300)
    code, out, err = command("top", "runs")
    assert (code, out) == (2, "")
    assert "cannot read any of the 5 runs in runs; the first: " in err


@pytest.mark.parametrize(
    ("field", "value", "takes"),
    [
        ("timeout_in_ms", "a", "a whole number"),
        ("report_allocations_on_oom", "yes", "True or False"),
        ("allocation_log_address", 3, "text"),
        ("allocation_log_sampling_rate", "x", "a number"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_field(field, value, takes):
    with pytest.raises(TypeError, match=rf"RunOptions\.\w+ takes {takes}, not {value!r}"):
        stepscope.RunOptions(**{field: value})


@pytest.mark.parametrize("kind", ["run_metadata.pb", "events.out.tfevents.1", "trace.json"])
def test_a_file_that_is_read_in_part_is_named(kind, tmp_path, command):
    session_run = RunMetadata()
    x = tf.constant([1.0, 2.0])
    with tf.Session() as session:
        session.run(x + x, options=tf.RunOptions(trace_level=3), run_metadata=session_run)
    whole = tmp_path / kind
    if kind.startswith("events"):
        with TensorBoardWriter(tmp_path / "logs") as writer:
            writer.add_run(session_run, 1)
            writer.add_run(session_run, 2)
        (made,) = (tmp_path / "logs").iterdir()
        made.rename(whole)
    elif kind.endswith(".json"):
        chrome(session_run, whole)
    else:
        session_run.save(whole)
    assert command("top", whole)[2] == ""
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    for chosen in ([], ["--run", "0"]):
        code, _, said = command("top", whole, *chosen)
        assert code == 0
        assert said.startswith("stepscope: not all could be read: ")
        assert kind in said
        assert said.count("\n") == 1


@pytest.mark.parametrize("of_tensorflow", [False, True])
def test_how_a_cut_run_ended_is_not_known(of_tensorflow, tmp_path, command, recorded, capture):
    """Neither a good run nor a failed one: what says so is in the part that is missing."""
    if of_tensorflow:
        data = capture[0]
    else:
        data = (recorded / "classify" / "run_000003" / "run_metadata.pb").read_bytes()
    (tmp_path / "run_metadata.pb").write_bytes(data[: len(data) // 2])
    said = "not known (file is cut)"
    assert f"status        {said}\n" in command("info", "run_metadata.pb")[1]
    assert f"\nstatus {said}; not every op may be here\n" in command("top", "run_metadata.pb")[1]
    (row,) = json.loads(command("info", "run_metadata.pb", "--json")[1])["rows"]
    assert row["status"] == said
    assert json.loads(command("top", "run_metadata.pb", "--json")[1])["not_ok"] == {said: 1}
    assert f"how it ended is {said}" in command("oom", "run_metadata.pb")[2]
    run = stepscope.load(tmp_path / "run_metadata.pb")
    assert said in run._repr_html_()
    assert said in repr(run)
    run.save(tmp_path / "again.pb")
    again = stepscope.load(tmp_path / "again.pb")
    assert (again.status.ok, again.status.known, again.status.code) == (False, False, "UNKNOWN")


def test_of_several_files_the_one_that_is_cut_is_named(tmp_path, command, recorded):
    shutil.copytree(recorded / "classify", tmp_path / "runs")
    file = tmp_path / "runs" / "run_000003" / "run_metadata.pb"
    file.write_bytes(file.read_bytes()[:3000])
    said = command("top", "runs")[2]
    assert said.startswith("stepscope: not all could be read: run_000003: run_metadata.pb is ")
    assert said.count("\n") == 1


def test_how_a_whole_run_ended_is_known(command, recorded, capture):
    whole = stepscope.load(recorded / "classify" / "run_000003" / "run_metadata.pb")
    assert whole.status.ok
    assert "not_ok" in json.loads(command("top", recorded / "classify", "--json")[1])
    assert "status" not in command("top", recorded / "classify")[1]
    assert "1 of 4 runs: status RESOURCE_EXHAUSTED" in command("top", recorded / "batches")[1]
    assert RunMetadata.FromString(capture[0]).status.ok


def test_what_a_cut_record_lacks_is_not_called_pruned(tmp_path, command, recorded):
    data = (recorded / "classify" / "run_000003" / "run_metadata.pb").read_bytes()
    (tmp_path / "run_metadata.pb").write_bytes(data[:3000])
    shutil.copy(recorded / "classify" / "graph.pb", tmp_path)
    cut = json.loads(command("coverage", "run_metadata.pb", "--json")[1])["counts"]
    whole = json.loads(command("coverage", recorded / "classify", "--run", 2, "--json")[1])[
        "counts"
    ]
    assert "pruned" not in cut
    assert cut["measured"] < whole["measured"]
    assert cut["unknown"] == whole["pruned"] + whole["measured"] - cut["measured"]


def test_a_cut_file_says_how_much_of_it_is_missing(tmp_path, recorded):
    data = (recorded / "classify" / "run_000003" / "run_metadata.pb").read_bytes()
    (tmp_path / "run_metadata.pb").write_bytes(data[:3000])
    (loss,) = stepscope.load(tmp_path / "run_metadata.pb").completeness.damage
    assert f"of {len(data)}, of which 3000 are there" in loss.reason
    assert len(data) - 3000 <= loss.count < len(data)


def test_recording_that_cost_more_than_the_run_is_said_in_times(tmp_path, command):
    short, long = RunMetadata(), RunMetadata()
    short.record(Recording(engine="embedded", overhead=Overhead(1_211_000, 9.69)))
    long.record(Recording(engine="embedded", overhead=Overhead(1_211_000, 0.031)))
    for run, said in ((short, "1.21 ms (the run itself took 125 µs)"), (long, "1.21 ms (3.1%)")):
        run.save(tmp_path / "run_metadata.pb")
        assert f"overhead      {said}\n" in command("info", "run_metadata.pb")[1]
        assert said in run._repr_html_()


def test_a_command_that_is_none(command):
    code, _, said = command("tpo", "somewhere")
    assert code == 2
    assert "tpo is no command; did you mean top?" in said
    assert "there are account, advise, completion, coverage" in command("zzz")[2]


def test_eager_code_has_no_graph_to_account_for(tmp_path, command):
    metadata = RunMetadata()
    metadata.record(Recording(engine="tensorflow eager"))
    metadata.save(tmp_path / "run_metadata.pb")
    code, _, said = command("coverage", "run_metadata.pb")
    assert code == 2
    assert "run_metadata.pb is eager code, which has no graph" in said
