"""`stepscope run` writes a store, other forms of it where asked, and every command reads it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from patience import patient
from stepscope.metadata import RunMetadata, iter_runs, load

TRAINING = """
import tensorflow as tf
x = tf.placeholder(tf.float32, [None, 4], name="x")
w = tf.Variable(tf.ones([4, 3]), name="w")
y = tf.matmul(x, w, name="y")
unused = tf.negative(x, name="unused")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for size in (1, 2, 3, 2, 2):
        session.run(y, {x: [[1.0] * 4] * size})
"""


@pytest.fixture(scope="module")
def recorded_store(tmp_path_factory):
    """A directory with the store of a training, and its files in other forms."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(TRAINING)
    options = ["--engine", "embedded", "--out", "out", "--pb", "--tensorboard", "logs"]
    subprocess.run(
        [sys.executable, "-m", "stepscope", "run", *options, "train.py"],
        cwd=folder, check=True, capture_output=True, timeout=patient(240),
    )  # fmt: skip
    return folder


def store_in(folder):
    (store,) = (folder / "out").glob("*.stepscope")
    return store


def test_other_forms_hold_the_same_runs(recorded_store):
    stored = load(store_in(recorded_store))
    assert len(stored) == 6
    # The files beside the store are copies of what is in it.
    assert load(recorded_store / "out") == stored
    for number, run in enumerate(stored, 1):
        saved = load(recorded_store / "out" / f"run_{number:06d}" / "run_metadata.pb")
        assert saved == run
        assert saved.sources == run.sources
        assert saved.placements == run.placements
        assert saved.completeness == run.completeness
        assert saved.overhead == run.overhead
        assert saved.run_options == run.run_options
        assert (recorded_store / "out" / f"run_{number:06d}" / "graph.pb").exists()
    logged = load(recorded_store / "logs")
    assert [len(run.ops) for run in logged] == [len(run.ops) for run in stored]


def test_files_of_an_export_are_those_of_the_recording(recorded_store, command, tmp_path):
    code, out, err = command("export", store_in(recorded_store), "--to", "pb", "-o", "files")
    assert (code, out) == (0, "wrote files\n"), err
    written = sorted(path.relative_to(tmp_path / "files") for path in tmp_path.rglob("*.pb"))
    assert len(written) == 12
    for path in written:
        again = (tmp_path / "files" / path).read_bytes()
        assert again == (recorded_store / "out" / path).read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["info"], ["top"], ["path"], ["parallelism"], ["memory"], ["placement"], ["coverage"],
        ["top", "--by", "source"], ["info", "--run", "-1"], ["path", "--run", "3"],
        ["timeline", "-o", "all.json"], ["timeline", "--tf1", "-o", "all.json"],
        ["merge", "-o", "all.json"],
        ["export", "--to", "csv"], ["export", "--to", "csv-allocations"],
        ["export", "--to", "chrome"], ["export", "--to", "tensorboard"],
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("what", ["directory", "file"])
def test_a_command_reads_a_store(recorded_store, command, arguments, what):
    place = recorded_store / "out" if what == "directory" else store_in(recorded_store)
    code, out, err = command(arguments[0], place, *arguments[1:])
    assert code == 0, err
    assert out
    assert err == ""


def test_commands_answer_as_they_do_for_files(recorded_store, command, tmp_path):
    command("export", store_in(recorded_store), "--to", "pb", "-o", "files")
    for arguments in (["top"], ["memory"], ["path", "--run", 3], ["coverage", "--run", 3]):
        answers = [
            command(arguments[0], place, *arguments[1:], "--json")[1]
            for place in (recorded_store / "out", tmp_path / "files")
        ]
        stored, saved = map(json.loads, answers)
        assert stored == saved, arguments


def test_two_recordings_are_compared(recorded_store, command):
    code, out, err = command("diff", recorded_store / "out", store_in(recorded_store))
    assert code == 0, err
    assert "MatMul" in out or "no " in out


def test_a_long_recording_has_no_timeline_and_says_how_to_make_one(embedded, script, tmp_path):
    source = (
        "import tensorflow as tf\ny = tf.constant(1.0)\n"
        "for _ in range(300):\n    y = tf.negative(y)\n"
        "with tf.Session() as session:\n    for _ in range(70):\n        session.run(y)\n"
    )
    done = embedded("--trace", "software", "--out", "my out", script(source))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "my out" / "timeline.json").exists()
    assert "as a Chrome trace: stepscope timeline 'my out'" in done.stderr
    assert len(load(tmp_path / "my out")) == 70


def test_a_script_that_kills_itself_leaves_every_run_that_was_stored(script, stepscope, tmp_path):
    source = TRAINING + (
        "    import os, stepscope\n"
        "    while True:\n"
        "        try:\n"
        "            if len(stepscope.load('out')) == 6:\n"
        "                break\n"
        "        except stepscope.errors.StepscopeError:\n"
        "            pass\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = stepscope("run", "--engine", "embedded", "--out", "out", script(source))
    assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    runs = load(tmp_path / "out")
    assert [run.status.code for run in runs] == ["OK"] * 6
    names = [run.name for run in iter_runs(tmp_path / "out")]
    assert names == [f"run_00000{number}" for number in range(1, 7)]


def test_exports_that_cannot_be_written_are_one_error(embedded, script, tmp_path):
    (tmp_path / "logs").write_text("a file")
    done = embedded("--out", "out", "--tensorboard", "logs", script(TRAINING))
    assert done.returncode == 2
    assert "stepscope: error: " in done.stderr
    assert "could not be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(load(tmp_path / "out")) == 6


def test_a_directory_of_an_earlier_version_is_read_and_replaced(embedded, script, tmp_path):
    for number in (1, 2):
        RunMetadata().save(tmp_path / "out" / f"run_00000{number}" / "run_metadata.pb")
    assert len(load(tmp_path / "out")) == 2
    embedded("--out", "out", script(TRAINING))
    assert [path.suffix for path in sorted((tmp_path / "out").iterdir())] == [".stepscope", ".json"]
    assert os.path.getsize(store_in(tmp_path)) < 100_000
