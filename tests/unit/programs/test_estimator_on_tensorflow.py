"""The Estimator beside TensorFlow's own, live: for the TensorFlow 2.15 of `make test-tf215`."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from estimator_programs import PROGRAMS
from test_estimator import near

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
