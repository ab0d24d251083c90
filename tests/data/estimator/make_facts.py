"""Writes facts.json beside this file: what TensorFlow 2.15's Estimator does.

.venv-tf215/bin/python tests/data/estimator/make_facts.py [OTHER_FILE]
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import tensorflow as tf

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "unit" / "programs"))

from estimator_programs import PROGRAMS  # noqa: E402


def main():
    assert tf.__version__.startswith("2.15."), tf.__version__
    facts = {"tensorflow": tf.__version__}
    for program in PROGRAMS:
        with tempfile.TemporaryDirectory() as directory, tf.Graph().as_default():
            facts[program.__name__] = program(tf.compat.v1, directory)
    text = json.dumps(facts, indent=1, sort_keys=True)
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "facts.json"
    target.write_text(text + "\n")
    os._exit(0)  # a thread of TensorFlow's input may still wait, and would abort a usual exit


main()
