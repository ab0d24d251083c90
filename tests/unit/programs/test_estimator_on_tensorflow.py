"""The Estimator beside TensorFlow's own, live: for the TensorFlow 2.15 of `make test-tf215`."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from estimator_programs import PROGRAMS, batches, data, layers
from near_values import near

import stepscope.tf1 as tf1

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(
        not find_spec("tensorflow_estimator"), reason="2.15 is the last TensorFlow with Estimator"
    ),
]


@pytest.fixture(scope="module")
def theirs(data_dir, tmp_path_factory):
    """What TensorFlow does, found out now, in a process of its own."""
    target = tmp_path_factory.mktemp("facts") / "facts.json"
    script = data_dir / "estimator" / "make_facts.py"
    done = subprocess.run(
        [sys.executable, str(script), str(target)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(target.read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_now(program, theirs, graph, tmp_path):
    ours = program(tf1, str(tmp_path))
    assert {name: near(value) for name, value in ours.items()} == theirs[program.__name__]


def test_the_facts_that_are_kept_are_these(theirs, data_dir):
    kept = json.loads((data_dir / "estimator" / "facts.json").read_text())
    kept["tensorflow"] = theirs["tensorflow"]  # which of 2.15 it was
    assert near(kept) == theirs


def test_a_model_trained_here_goes_on_there(tf, tmp_path):
    """Checkpoints are the same: what one engine trained the other evaluates, and trains on."""
    x, y = data()
    found = []
    for engine in (tf1, tf, tf1):
        config = engine.estimator.RunConfig(model_dir=str(tmp_path), save_summary_steps=None)
        estimator = engine.estimator.Estimator(layers(engine), config=config)
        results = estimator.evaluate(batches(engine, x, y, 1))
        found.append((int(results["global_step"]), float(results["loss"])))
        # Five epochs of twelve rows, five at a time.
        estimator.train(batches(engine, x, y, 5))
    alone = tf1.estimator.Estimator(layers(tf1), model_dir=str(tmp_path / "alone"))
    steps = [0, 12, 24]
    expected = []
    for step in steps:
        results = alone.evaluate(batches(tf1, x, y, 1))
        expected.append((step, pytest.approx(float(results["loss"]), abs=1e-4)))
        alone.train(batches(tf1, x, y, 5))
    assert found == expected
