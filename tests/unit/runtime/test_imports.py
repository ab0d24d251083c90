"""What `import stepscope` loads, and which names it has."""

import subprocess
import sys

import pytest

import stepscope

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


def loaded_by(statement):
    code = f"{statement}\nimport sys\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_the_package_loads_nothing_that_is_optional():
    loaded = loaded_by("import stepscope")
    assert not loaded & {"tensorflow", "numpy", "pandas", "pyarrow", "rich", "click"}


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
