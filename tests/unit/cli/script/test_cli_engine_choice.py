"""Which engine `stepscope run` takes: decided by what the program really imports.

Programs are laid out as people lay them out: a short main module, and the rest in others.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from stepscope.cli.script.program_imports import read
from stepscope.metadata import load

needs_tensorflow = pytest.mark.usefixtures("quiet_tensorflow")
FACTS = """
import sys, pickle
class Thing: pass
print(sys.argv)
print(sys.path[0])
print(__file__, __name__, __spec__.name, __package__, __cached__, __loader__ is not None)
print(pickle.loads(pickle.dumps(Thing())).__class__ is Thing)
print(sys.modules["__main__"].Thing is Thing)
"""
TF2_MODEL = """
import tensorflow as tf

@tf.function
def double(x):
    return tf.add(x, x, name="doubled")
"""
TF1_MODEL = """
import tensorflow as tf

def total():
    x = tf.placeholder(tf.float32)
    with tf.Session() as session:
        return session.run(tf.add(x, 2.0, name="total"), {x: 1.0})
"""
EMBEDDED_MODEL = """
import stepscope.tf1 as tf

def total():
    x = tf.placeholder(tf.float32)
    with tf.Session() as session:
        return session.run(tf.add(x, 2.0, name="total"), {x: 1.0})
"""
LOADED_LATE = """
import sys, threading

def is_there():
    return any(name in sys.modules for name in ("stepscope.runtime", "stepscope.ops"))

print(is_there())
thread = threading.Thread(target=lambda: __import__("model").total())
thread.start()
thread.join()
print(is_there())
"""


@pytest.fixture
def quiet_tensorflow(monkeypatch):
    if find_spec("tensorflow") is None:
        pytest.skip("needs the real TensorFlow")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")


def names(directory):
    return [name for run in load(directory) for name in run.ops.name]


@pytest.mark.tensorflow
@needs_tensorflow
def test_tensorflow_imported_by_another_module_of_the_program(stepscope, script, tmp_path):
    script(TF2_MODEL, "model.py")
    main = script("from model import double\nprint(float(double(2.0)))\n", "train.py")
    done = stepscope("run", "--out", "out", main)
    assert (done.returncode, done.stdout) == (0, "4.0\n"), done.stderr
    assert "engine: tensorflow 2." in done.stderr
    assert "as TensorFlow 1" not in done.stderr
    assert "doubled" in names(tmp_path / "out")


@pytest.mark.tensorflow
@needs_tensorflow
def test_names_of_tensorflow_1_in_another_module_of_the_program(stepscope, script, tmp_path):
    script("from .graph import total\n", "net/__init__.py")
    script(TF1_MODEL, "net/graph.py")
    main = script("import net\nprint(net.total())\n", "train.py")
    done = stepscope("run", "--out", "out", main)
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr
    assert "as TensorFlow 1, because of tf.placeholder in line 5 of graph.py" in done.stderr
    assert "total" in names(tmp_path / "out")


@pytest.mark.tensorflow
@needs_tensorflow
def test_a_module_imported_by_name_while_the_program_runs(stepscope, script):
    script(TF2_MODEL, "models/small.py")
    main = script(
        "import importlib, sys\nprint(float(importlib.import_module(sys.argv[1]).double(2.0)))\n",
        "train.py",
    )
    done = stepscope("run", main, "models.small")
    assert (done.returncode, done.stdout) == (0, "4.0\n"), done.stderr
    assert "engine: tensorflow 2." in done.stderr


@pytest.mark.tensorflow
@needs_tensorflow
def test_a_program_that_uses_both_engines_has_the_runs_of_both(stepscope, script, tmp_path):
    script(TF2_MODEL, "model.py")
    script(EMBEDDED_MODEL, "ours.py")
    main = script(
        "import model, ours\nprint(ours.total(), float(model.double(2.0)))\n", "compare.py"
    )
    done = stepscope("run", "--out", "out", main)
    assert (done.returncode, done.stdout) == (0, "3.0 4.0\n"), done.stderr
    assert "engine: tensorflow 2." in done.stderr
    assert "and embedded (NumPy" in done.stderr
    assert {"total", "doubled"} <= set(names(tmp_path / "out"))


def test_without_importing_tensorflow_the_embedded_engine_is_recorded(stepscope, script, tmp_path):
    script(EMBEDDED_MODEL, "ours.py")
    main = script("import sys, ours\nprint(ours.total(), 'tensorflow' in sys.modules)\n")
    done = stepscope("run", "--out", "out", main)
    assert (done.returncode, done.stdout) == (0, "3.0 False\n"), done.stderr
    assert "engine: embedded" in done.stderr
    assert "total" in names(tmp_path / "out")


@pytest.mark.tensorflow
@needs_tensorflow
@pytest.mark.parametrize("end", ["", "raise ValueError('before any import')\n"])
def test_a_program_that_comes_to_no_engine_has_none_named(stepscope, script, end):
    done = stepscope("run", script("print('hello')\n" + end))
    assert (done.returncode, done.stdout) == (bool(end), "hello\n"), done.stderr
    assert "engine: none was used · 0 runs" in done.stderr
    assert "--engine tensorflow" not in done.stderr, "that would change nothing"


@needs_tensorflow
def test_the_embedded_engine_is_loaded_when_the_program_asks_for_it(script, tmp_path):
    script(EMBEDDED_MODEL, "model.py")
    command = [sys.executable, "-m", "stepscope", "run", "--out", "out", script(LOADED_LATE)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\nTrue\n"), done.stderr
    assert "engine: embedded" in done.stderr
    assert "total" in names(tmp_path / "out")


@needs_tensorflow
def test_an_engine_that_is_loaded_after_the_last_recorded_run(stepscope, script, tmp_path):
    script(EMBEDDED_MODEL, "model.py")
    main = script("import model\nprint(model.total(), model.total())\n")
    done = stepscope("run", "--limit", "0", "--out", "out", main)
    assert (done.returncode, done.stdout) == (0, "3.0 3.0\n"), done.stderr
    assert "recording ended after 0" in done.stderr


@pytest.mark.tensorflow
@needs_tensorflow
def test_memory_asked_for_and_tensorflow_never_imported(stepscope, script):
    script(EMBEDDED_MODEL, "ours.py")
    done = stepscope("run", "--memory", script("import ours\nours.total()\n"))
    assert done.returncode == 0, done.stderr
    assert "allocations (--memory): the program did not import TensorFlow" in done.stderr


# -- modules -----------------------------------------------------------------------------------


def module_facts(arguments, tmp_path):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    plain = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return plain.stdout


@pytest.mark.parametrize("module", ["app.facts", "app"])
def test_a_module_sees_what_python_would_show_it(stepscope, script, tmp_path, module):
    script("print('the package')\n", "app/__init__.py")
    script(FACTS, "app/facts.py")
    script(FACTS, "app/__main__.py")
    arguments = ["--out", "theirs", "-m", "two words"]
    ours = stepscope("run", "-m", module, *arguments)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == module_facts([module, *arguments], tmp_path)
    assert f"stepscope -m {module}\n" in ours.stderr


@pytest.mark.tensorflow
@needs_tensorflow
def test_a_module_whose_package_imports_tensorflow(stepscope, script, tmp_path):
    script("from .model import double\n", "app/__init__.py")
    script(TF2_MODEL, "app/model.py")
    script("from . import double\nprint(float(double(2.0)))\n", "app/train.py")
    done = stepscope("run", "--out", "out", "-m", "app.train")
    assert (done.returncode, done.stdout) == (0, "4.0\n"), done.stderr
    assert "doubled" in names(tmp_path / "out")


def test_an_installed_module_runs_too(stepscope, script, tmp_path):
    (tmp_path / "data.json").write_text("[1]")
    done = stepscope("run", "-m", "json.tool", "--compact", "data.json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [1]), done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("app.missing", "-m app.missing: there is no module of that name"),
        ("nowhere", "-m nowhere: there is no module of that name"),
        ("app", "-m app: it is a package without a __main__"),
        ("main.py", "for a file leave out -m: main.py"),
    ],
)
def test_a_module_that_is_not_there_leaves_an_earlier_recording(
    embedded, script, tmp_path, name, said
):
    script("", "app/__init__.py")
    main = script("import tensorflow as tf\ntf.Session().run(tf.constant(1.0))\n", "main.py")
    embedded("--out", "out", main)
    done = embedded("--out", "out", "-m", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert list((tmp_path / "out").glob("*.stepscope"))


def test_a_traceback_begins_in_the_module(embedded, script, tmp_path):
    script("", "app/__init__.py")
    script("def inner():\n    raise ValueError('no')\ninner()\n", "app/fails.py")
    done = embedded("-m", "app.fails")
    assert done.returncode == 1
    first = done.stderr.splitlines()[1]
    assert first == f'  File "{tmp_path / "app" / "fails.py"}", line 3, in <module>'


# -- what a module's text says -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "version_1"),
    [
        ("import tensorflow as tf\ntf.Session()", "tf.Session in line 2"),
        ("from tensorflow import keras", ""),
        ("def f():\n    import tensorflow.compat.v1 as tf\n    tf.Session()", ""),
        ("import tensorflow as tf\ntf = tf.compat.v1\ntf.Session()", ""),
        ("from tensorflow import placeholder as p", "tensorflow.placeholder in line 1"),
        ("import tensorflow\ntensorflow.layers.dense", "tensorflow.layers in line 2"),
        ("import tensorflow as tf\ntf.function", ""),
        (
            "from tensorflow.examples.tutorials.mnist import input_data",
            "tensorflow.examples.tutorials.mnist in line 1",
        ),
        ("import tensorflowjs, numpy\nfrom . import tensorflow", ""),
        ("print 'Python 2'", ""),
    ],
)
def test_names_of_tensorflow_1_in_a_text(source, version_1):
    assert read(source.encode()).version_1 == version_1


@pytest.mark.parametrize(
    ("source", "imports"),
    [
        ("import a.b, c", ["a.b", "c"]),
        ("from . import x", ["app.net", "app.net.x"]),
        ("from .y import z", ["app.net.y", "app.net.y.z"]),
        ("from ..top import w", ["app.top", "app.top.w"]),
    ],
)
def test_imports_of_a_text(source, imports):
    assert read(source.encode(), "app.net").imports == imports
