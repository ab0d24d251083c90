"""What `import stepscope` and `stepscope --help` load, and which names there are."""

import ast
import doctest
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import stepscope
from stepscope import analysis, lazy_imports, metadata
from stepscope.cli.arguments.command_line import COMMANDS

NAMES = {
    "Action", "ClusterDef", "ConfigProto", "DebugOptions", "DebugTensorWatch", "GPUOptions",
    "Graph",
    "GraphOptions", "InteractiveSession", "Operation", "OptimizerOptions", "Recorder",
    "RewriterConfig",
    "RunMetadata", "RunOptions", "Session", "Tensor", "TensorShape", "ThreadPoolOptionProto",
    "TraceHook", "annotate", "debug_callback", "errors", "every", "extract_allocation_log",
    "import_graph_def", "load", "merge", "observe",
    "register_op", "run", "schedule", "show",
}  # fmt: skip


def modules_of(statement):
    """Every module, by its full name, that a fresh interpreter has after it."""
    code = f"{statement}\nimport sys\nprint(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.splitlines()[-1].split())


def loaded_by(statement):
    """The packages of these modules."""
    return {module.partition(".")[0] for module in modules_of(statement)}


def test_the_package_loads_nothing_that_is_optional():
    loaded = modules_of("import stepscope")
    assert {name for name in loaded if name.startswith("stepscope")} == {
        "stepscope", "stepscope.lazy_imports"
    }  # fmt: skip
    assert not {name.partition(".")[0] for name in loaded} & {
        "tensorflow", "numpy", "google", "tensorboard", "pandas", "pyarrow", "rich", "click",
        "email", "asyncio", "sqlite3",
    }  # fmt: skip


HELP = (
    "from stepscope.cli.arguments.command_line import run_command_line\n"
    "run_command_line(['--help'])"
)


def test_the_list_of_commands_imports_none_of_them():
    loaded = modules_of(HELP)
    assert not loaded & {f"stepscope.cli.{name}" for name in COMMANDS}
    assert not loaded & {f"stepscope.{room}" for room in ("analysis", "export", "runtime", "web")}
    assert not {name.partition(".")[0] for name in loaded} & {
        "tensorflow", "numpy", "google", "tensorboard", "pandas", "pyarrow", "rich", "sqlite3",
    }  # fmt: skip


def test_what_is_said_of_a_command_is_one_line_of_its_own():
    assert len(set(COMMANDS.values())) == len(COMMANDS)
    assert all(said.endswith(".") and len(said) < 70 for said in COMMANDS.values())


def test_a_public_name_works_by_itself():
    for use in (
        "with stepscope.Graph().as_default() as graph:\n"
        "    graph.create_op('NoOp', [], [], name='nothing')\n"
        "    stepscope.Session().run('nothing')",
        "stepscope.analysis.op_profile([])",
        "stepscope.export.chrome",
        "stepscope.register_op",
    ):
        assert "numpy" in loaded_by(f"import stepscope\n{use}")


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'stepscope' has no attribute 'sesion'"):
        _ = stepscope.sesion


def test_a_traced_run_loads_nothing_that_is_optional():
    loaded = loaded_by(
        "import stepscope.tf1 as tf\n"
        "m = tf.RunMetadata()\n"
        "with tf.Session() as s:\n"
        "    s.run(tf.constant(1.0), options=tf.RunOptions(trace_level=3), run_metadata=m)\n"
        "m.SerializeToString(), len(m.ops), m.overhead"
    )
    assert not loaded & {"tensorflow", "pandas", "pyarrow"}


def test_a_recorded_script_without_tensorflow_loads_nothing_that_records_it_there(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(*sys.modules)\n")
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", "--out", tmp_path / "out", script],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.splitlines()[-1].split())
    adapter = "stepscope.adapters.tensorflow"
    assert "stepscope.cli.script.engines" in loaded
    assert {name for name in loaded if name.startswith(f"{adapter}.")} <= {
        f"{adapter}.script", f"{adapter}.script.importing"
    }  # fmt: skip
    assert "tensorflow" not in loaded


def test_the_version_is_that_of_the_installed_package():
    assert stepscope.__version__ == version("stepscope")


@pytest.mark.parametrize("package", [stepscope, metadata, analysis])
def test_type_checkers_see_the_names_that_there_are(package):
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            module = import_module(node.module)
            for name in node.names:
                # `from stepscope import errors` is a module, which nobody may have imported yet.
                seen[name.name] = getattr(module, name.name)
    assert set(seen) == set(package.__all__)
    for name, value in seen.items():
        assert getattr(package, name) is value, name


def test_one_question_loads_what_answers_it():
    loaded = modules_of("from stepscope.analysis import op_profile")
    assert not loaded & {f"stepscope.analysis.{room}" for room in ("advice", "why", "replay")}
    # The function and not the room of the same name, whatever was imported before.
    assert callable(analysis.coverage)


def test_the_example_of_lazy_names():
    assert doctest.testmod(lazy_imports).failed == 0


def test_the_public_names_are_what_the_package_says():
    assert set(stepscope.__all__) == NAMES
    for name in stepscope.__all__:
        assert hasattr(stepscope, name)


def test_nothing_else_is_public():
    import types

    public = {
        name
        for name, value in vars(stepscope).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public <= NAMES - {"errors"}
    assert {name for name in dir(stepscope) if name in NAMES} == NAMES
