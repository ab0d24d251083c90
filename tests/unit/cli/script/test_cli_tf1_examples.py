"""The programs of `examples/tf1/`: the same on the embedded engine and on the real TensorFlow.

All of them run in one process per engine, which `stepscope run` starts.
"""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import started_python
from patience import patient

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[3] / "examples" / "tf1"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
UP_TO_215 = {"bidirectional_rnn", "estimator", "lstm_rows", "time_series"}
"""What later releases of TensorFlow cannot run: Estimator, and `tf.nn.rnn_cell`."""
BEFORE_1_0 = {"before_1_0"}
"""What no release since 1.0 can run."""
STEPS = 20
NUMBER = re.compile(r"-?\d+\.\d+")
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "-1",
    "COLUMNS": "120",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """`outputs(engine)`: the directory with what the programs wrote and printed there."""
    known = {}

    def run(engine):
        if engine not in known:
            directory = tmp_path_factory.mktemp(engine)
            programs = [*(EXAMPLES / f"{name}.py" for name in PROGRAMS), HERE / "flags_program.py"]
            options = ["--engine", engine, "--tf1", "--limit", "0"]
            driver = [HERE / "run_examples.py", "printed", *programs]
            done = started_python.run(
                [sys.executable, "-m", "stepscope", "run", *options, *map(str, driver)],
                cwd=directory,
                env={**os.environ, **QUIET},
                timeout=patient(180),
            )
            assert done.returncode == 0, done.stderr
            assert f"engine: {engine}" in done.stderr
            known[engine] = directory / "printed"
        return known[engine]

    return run


def lines(directory, program):
    found = (directory / f"{program}.txt").read_text().splitlines()
    assert found[-1] == "ended", "\n".join(found)
    return found[:-1]


def losses(printed):
    return [float(re.search(r"loss (\S+?)(,|$)", line)[1]) for line in printed if "loss" in line]


@pytest.mark.parametrize("program", PROGRAMS)
def test_on_the_embedded_engine(outputs, program):
    found = losses(lines(outputs("embedded"), program))
    assert len(found) == STEPS
    # Every program learns something, or comes closer to what it looks for.
    assert min(found[-5:]) < found[0]


@pytest.mark.tensorflow
@pytest.mark.skipif(not find_spec("tensorflow"), reason="needs the real TensorFlow")
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_on_tensorflow(outputs, program):
    if program in UP_TO_215 and not find_spec("tensorflow_estimator"):
        pytest.skip("2.15 is the last TensorFlow with Estimator and with cells of its own")
    if program in BEFORE_1_0:
        with pytest.raises(AssertionError, match="TypeError"):
            lines(outputs("tensorflow"), program)
        return
    ours, theirs = (lines(outputs(engine), program) for engine in ("embedded", "tensorflow"))
    assert losses(ours) == pytest.approx(losses(theirs), abs=1e-4)
    assert [NUMBER.sub("#", line) for line in ours] == [NUMBER.sub("#", line) for line in theirs]
    for our_line, their_line in zip(ours, theirs, strict=True):
        numbers = [float(n) for n in NUMBER.findall(our_line)]
        assert numbers == pytest.approx([float(n) for n in NUMBER.findall(their_line)], abs=2e-3)


def events(directory):
    """What TensorBoard shows of a directory."""
    log = EventAccumulator(str(directory)).Reload()
    tags = log.Tags()
    scalars = {
        tag: ([e.step for e in log.Scalars(tag)], [e.value for e in log.Scalars(tag)])
        for tag in tags["scalars"]
    }
    return tags["run_metadata"], tags["histograms"], scalars


@pytest.mark.tensorflow
@pytest.mark.skipif(not find_spec("tensorflow"), reason="needs the real TensorFlow")
def test_what_tensorboard_shows_of_them(outputs):
    both = [outputs(engine) for engine in ("embedded", "tensorflow")]
    ours, theirs = [events(directory / "summaries" / "train") for directory in both]
    assert ours[0] == theirs[0] == ["step004", "step009", "step014", "step019"]
    assert sorted(ours[1]) == sorted(theirs[1])
    assert ours[2].keys() == theirs[2].keys() > {"cross_entropy_1"}
    for tag, (steps, values) in ours[2].items():
        assert steps == theirs[2][tag][0] == list(range(STEPS)), tag
        # Those of weights are from before or after the step's update, as it happens.
        exact = tag == "cross_entropy_1"
        assert values == pytest.approx(theirs[2][tag][1], abs=1e-4 if exact else 0.05), tag
    profiled = [events(directory / "monitored_training")[0] for directory in both]
    assert profiled[0] == ["step_10", "step_20"]
    # TensorFlow's hook may read the step before or after it is counted up.
    assert len(profiled[1]) == 2


def test_flags_on_the_embedded_engine(outputs):
    found = (outputs("embedded") / "flags_program.txt").read_text().splitlines()
    assert found == [
        "['--unknown', 'a', 'b']",
        "x 4 0.5 False True test ['3', '4']",
        "9 True 9",
        "AttributeError absent",
        "DuplicateFlagError",
        "exit 3",
    ]


@pytest.mark.tensorflow
@pytest.mark.skipif(not find_spec("tensorflow"), reason="needs the real TensorFlow")
def test_flags_as_on_tensorflow(outputs):
    ours, theirs = (
        (outputs(engine) / "flags_program.txt").read_text() for engine in ("embedded", "tensorflow")
    )
    assert ours == theirs


def test_the_list_of_programs():
    text = (EXAMPLES / "README.md").read_text()
    assert re.findall(r"^\| `(\w+)\.py` \|", text, re.MULTILINE) == PROGRAMS


def test_each_runs_as_it_is(stepscope, tmp_path):
    """One of them by itself, as a user would: the flags are its own, and its runs are recorded."""
    program = EXAMPLES / "monitored_training.py"
    options = ["run", "--engine", "embedded", "--tf1", "--out", "out"]
    done = stepscope(*options, program, "--train_dir=here", "--max_steps=12")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 timelines, all with events: True"
    assert "Saving timeline for 10 into 'here/timeline-10.json'." in done.stderr
    assert re.search(r"ApplyRMSProp +CPU:0 +24 ", done.stderr)
