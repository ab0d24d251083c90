"""What the command imports and the script imports as well is no cost of recording."""

import builtins
import subprocess
import sys
import types

import pytest

from stepscope.cli import run as run_command
from stepscope.cli.script import earlier_imports
from stepscope.cli.script.earlier_imports import EarlierImports, Load
from stepscope.metadata import programs
from stepscope.metadata.program_notes import IMPORT, RECORDING, SCRIPT, Note

BY_THE_PROGRAM = {"__name__": "__main__"}
BY_US = {"__name__": "stepscope.somewhere"}


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules that nobody else imports: `both` imports `inner`, `package.part` lies in a package,
    and `ours_alone` imports `deep`."""
    sources = {
        "both": "import inner",
        "inner": "",
        "ours_alone": "import deep",
        "deep": "",
        "package/__init__": "",
        "package/part": "",
    }
    (tmp_path / "package").mkdir()
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in sources:
        sys.modules.pop(name.replace("/__init__", "").replace("/", "."), None)


@pytest.fixture
def earlier(modules):
    """What a command loaded; the program has begun."""
    del modules
    machinery = sys.modules["_frozen_importlib"]
    before = machinery._find_and_load, builtins.__import__
    found = EarlierImports()
    found.watch()
    exec("import both, ours_alone, package.part", dict(BY_US))
    found.look_at_program()
    found.loaded()
    yield found
    found.stop()
    assert (machinery._find_and_load, builtins.__import__) == before


def names(loads):
    return [load.name for load in loads]


def test_what_the_program_imports_too_is_the_programs_with_all_that_it_loads(earlier):
    exec("import both", dict(BY_THE_PROGRAM))
    assert names(earlier.shared()) == ["both"]
    took = {load.name: load.took_ns for load in earlier.loads}
    assert took["both"] > took["inner"] > 0


def test_what_we_import_ourselves_is_ours(earlier):
    exec("import both, package.part", dict(BY_US))
    # Nor is it the program's because a module that we loaded asks for it again.
    exec("import deep", {"__name__": "ours_alone"})
    assert earlier.shared() == []


def test_a_module_inside_of_what_is_ours_is_the_programs_alone(earlier):
    exec("import deep", dict(BY_THE_PROGRAM))
    assert names(earlier.shared()) == ["deep"]


def test_a_package_is_imported_with_what_lies_in_it(earlier):
    exec("from package import part", dict(BY_THE_PROGRAM))
    # Python loads the package inside of the load of what lies in it.
    assert names(earlier.shared()) == ["package.part"]
    assert [load.name for load in earlier.loads if load.name.startswith("package")] == [
        "package.part", "package",
    ]  # fmt: skip


def test_imports_are_looked_at_until_tensorflow_is_there(earlier, monkeypatch):
    there = types.ModuleType("tensorflow")
    there.__spec__ = types.SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "tensorflow", there)
    exec("import tensorflow", {"__name__": "tensorflow.python"})
    exec("import both", {"__name__": "tensorflow.python"})  # TensorFlow imports it in turn
    there.__spec__._initializing = False
    exec("import tensorflow", dict(BY_THE_PROGRAM))
    exec("import deep", dict(BY_THE_PROGRAM))
    assert names(earlier.shared()) == ["both"]


def test_what_is_said_of_starting_is_without_it(monkeypatch):
    early = EarlierImports()
    early.loads += [
        Load("click", 0, 10, 10, -1),
        Load("numpy", 10, 60, 50, -1),
        Load("inspect", 20, 30, 10, 1),
        Load("google.protobuf", 60, 100, 40, -1),
    ]
    for name in ("inspect", "google.protobuf"):
        early.claim(name)
    monkeypatch.setattr(earlier_imports, "early", early)
    noted = []
    course = types.SimpleNamespace(shared=lambda loads: noted.extend(names(loads)))
    # By the clock that costs are measured by; of what was loaded before the command, by its note.
    needed = [Note(IMPORT, 10, 1_000, 1, "numpy"), Note(IMPORT, 1_000, 1_005, 1, "before")]
    assert run_command._starting_ns(run_command.Waiting(0, 120, needed), course) == 25
    assert noted == ["google.protobuf"]


@pytest.mark.parametrize("imported", ["click", "json"])
def test_a_script_that_imports_what_the_command_did(imported, script, tmp_path):
    source = f"import {imported}\nimport stepscope.tf1 as tf\ntf.Session().run(tf.constant(1))\n"
    command = [sys.executable, "-m", "stepscope", "run", "--engine", "embedded", "--out", "out"]
    done = subprocess.run(
        [*command, script(source)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (program,) = programs(tmp_path / "out")
    began = program.last(SCRIPT).started_ns
    early = {note.what: note for note in program.of(IMPORT) if note.started_ns < began}
    assert ("click" in early) == (imported == "click")
    if imported == "click":
        starting = program.of(RECORDING)[0]
        assert starting.started_ns <= early["click"].started_ns
        assert early["click"].ended_ns <= starting.ended_ns
