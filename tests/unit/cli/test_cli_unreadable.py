"""Wrong usage and files that cannot be read: one line that says so, or a run that says so."""

import shutil

import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.cli.command_line import run_command_line
from stepscope.export import TensorBoardWriter, chrome
from stepscope.metadata import Recording, RunMetadata, iter_runs


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


def test_a_command_that_is_none(command):
    code, _, said = command("tpo", "somewhere")
    assert code == 2
    assert "tpo is no command; did you mean top?" in said
    assert "there are completion, coverage" in command("zzz")[2]


def test_eager_code_has_no_graph_to_account_for(tmp_path, command):
    metadata = RunMetadata()
    metadata.record(Recording(engine="tensorflow eager"))
    metadata.save(tmp_path / "run_metadata.pb")
    code, _, said = command("coverage", "run_metadata.pb")
    assert code == 2
    assert "run_metadata.pb is eager code, which has no graph" in said
