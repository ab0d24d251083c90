"""The map of the code: folders and functions of a size, and names that mean one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import stepscope

MOST_LINES = 60
SOURCE = Path(stepscope.__file__).parent
ROOT = Path(__file__).parents[2]
MOST_FILES = 25
BY_CONTRACT = {"Estimator", "ModeKeys", "RunConfig", "Session", "TraceHook"}
"""TensorFlow has `tf.estimator`'s and `tf.contrib.learn`'s under one name, and users of either
engine find its session and its hook under the same."""


def trees():
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_a_folder_has_at_most_25_python_files():
    rooms = ("src", "tests", "benchmarks", "examples", "docs", "tools")
    files = defaultdict(int)
    for room in rooms:
        for path in (ROOT / room).rglob("*.py"):
            files[path.parent.relative_to(ROOT).as_posix()] += 1
    assert files, "run from a checkout"
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}


def test_a_public_class_has_a_name_of_its_own():
    places = defaultdict(list)
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(SOURCE).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {n: found for n, found in twice.items() if n not in BY_CONTRACT} == {}
    assert twice.keys() == BY_CONTRACT, "a name that is no longer there twice needs no exception"


def test_a_function_has_at_most_60_lines_or_a_reason_beside_it():
    """Its docstring is not counted; the reason is a comment above `def` that begins `# Long:`."""
    unexplained = []
    for path, tree in trees():
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            explained = lines[node.lineno - 2].lstrip().startswith("# Long:")
            if length > MOST_LINES and not explained:
                place = path.relative_to(SOURCE).as_posix()
                unexplained.append(f"{place}:{node.lineno} {node.name}: {length}")
    assert unexplained == []


def test_no_docstring_sends_the_reader_elsewhere():
    sent = [
        f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and "See the module's text" in (ast.get_docstring(node) or "")
    ]
    assert sent == []


def test_no_module_imports_a_private_name_of_another():
    """A name with an underscore is its module's own; a module with one is its package's."""
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            package, _, rest = (node.module or "").partition(".")
            if package != SOURCE.name:
                continue
            place = SOURCE.joinpath(*filter(None, rest.split(".")))
            found += [
                f"{path.relative_to(SOURCE).as_posix()}:{node.lineno} {alias.name}"
                for alias in node.names
                if alias.name.startswith("_")
                and not alias.name.startswith("__")
                and not (place / f"{alias.name}.py").exists()
            ]
    assert found == []


def test_tensorflow_1_names_are_written_once():
    """The tables say where each is; no file lists what it imports once more."""
    twice = {}
    for path in sorted((SOURCE / "tf1").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported, listed = set(), set()
        for node in tree.body:
            if isinstance(node, ast.ImportFrom | ast.Import):
                imported.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                listed.update(ast.literal_eval(node.value))
        modules = {found.stem for found in (*path.parent.iterdir(), path)}
        twice[path.relative_to(SOURCE).as_posix()] = (imported & listed) - modules
    assert {path: names for path, names in twice.items() if names} == {}


def test_no_test_imports_another():
    """What tests share is in a module beside them: each file of tests can be run alone."""
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith(("from test_", "import test_"))
    ]
    assert found == []
