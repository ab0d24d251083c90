"""TensorFlow 1's names, against the real TensorFlow's `compat.v1`."""

import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import stepscope.tf1 as tf1
from patience import patient
from stepscope.errors import UnimplementedError

SUBMODULES = [
    *("nn", "math", "random", "linalg", "queue", "debugging"),
    *("errors", "summary", "train", "test", "dtypes"),
    *("app", "flags", "gfile", "io", "logging"),
    *("losses", "metrics", "initializers", "profiler"),
]
OURS_ALONE = {
    *("examples", "contrib", "core", "python", "timeline", "ThreadPoolOptionProto"),
    "estimator",  # TensorFlow's until 2.15
}


# Names that TensorFlow had before 1.0 only; what they do is tested in test_old_names.py.
BEFORE_1_0 = {
    *("audio_summary", "batch_matmul", "complex_abs", "histogram_summary", "image_summary", "inv"),
    *("merge_all_summaries", "merge_summary", "mul", "neg", "pack", "scalar_summary", "select"),
    *("sub", "unpack", "SummaryWriter", "SummaryWriterCache"),
}
# These also take the arguments in the order of then.
BOTH_ORDERS = {"concat", "split"}

# Arguments that have another name than TensorFlow's; they can be passed by position alone.
OTHER_ARGUMENT_NAMES = {"convert_to_tensor", "is_variable_initialized"}
# TensorFlow takes these from its **kwargs, so it has no names for them.
BY_KEYWORD_ALONE = {"einsum", "group", "meshgrid"}


def functions(module):
    return {n: getattr(module, n) for n in module.__all__ if inspect.isfunction(getattr(module, n))}


@pytest.mark.tensorflow
@pytest.mark.parametrize("place", ["", *SUBMODULES])
def test_every_name_is_one_of_tensorflows(tf, place):
    ours = getattr(tf1, place) if place else tf1
    theirs = getattr(tf.compat.v1, place) if place else tf.compat.v1
    unknown = {name for name in ours.__all__ if not hasattr(theirs, name)}
    assert unknown - OURS_ALONE - BEFORE_1_0 - {"Event", "TaggedRunMetadata", "resource"} == set()


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "place", ["", "nn", "math", "random", "losses", "metrics", "summary", "profiler"]
)
def test_functions_take_tensorflows_arguments(tf, place):
    """Every argument of ours has TensorFlow's name, in TensorFlow's order."""
    ours = getattr(tf1, place) if place else tf1
    theirs = getattr(tf.compat.v1, place) if place else tf.compat.v1
    wrong = {}
    for name, function in functions(ours).items():
        if name in BEFORE_1_0 | BOTH_ORDERS:
            continue
        try:
            wanted = list(inspect.signature(getattr(theirs, name)).parameters)
        except ValueError:
            continue
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        parameters = inspect.signature(function).parameters.values()
        found = [p.name for p in parameters if p.kind not in kinds]
        if found != [argument for argument in wanted if argument in found]:
            wrong[name] = (found, wanted)
    known = OTHER_ARGUMENT_NAMES | BY_KEYWORD_ALONE
    assert {n: w for n, w in wrong.items() if n not in known} == {}


EXPECTED = """
    Graph GraphDef Session InteractiveSession ConfigProto GraphOptions OptimizerOptions GPUOptions
    ThreadPoolOptionProto RunOptions RunMetadata DType TensorShape Dimension DeviceSpec GraphKeys
    Variable placeholder constant global_variables_initializer import_graph_def get_default_graph
    reset_default_graph get_default_session name_scope device control_dependencies float32 int32
    bool string random_normal matmul add_n FIFOQueue py_func group no_op assign_add Print Assert
    set_random_seed slice
"""


@pytest.mark.parametrize("name", EXPECTED.split())
def test_what_programs_of_runs_and_traces_use(name):
    assert name in tf1.__all__
    assert hasattr(tf1, name)


def test_all_is_there_and_sorted_out():
    for name in tf1.__all__:
        assert hasattr(tf1, name), name
    public = {n for n, v in vars(tf1).items() if not n.startswith("_")}
    helpers = {"absent", "import_module", "modes", "names", "operations", "paths", "shim"}
    assert public - set(tf1.__all__) <= helpers
    assert isinstance(tf1.nn, ModuleType)


def test_modes():
    tf1.disable_eager_execution()
    tf1.disable_v2_behavior()
    assert tf1.executing_eagerly() is False
    with pytest.raises(UnimplementedError, match=r"no eager execution.*tf\.Session"):
        tf1.enable_eager_execution()
    assert tf1.test.is_gpu_available() is False


def test_compat_text():
    assert tf1.compat.as_bytes("é") == b"\xc3\xa9"
    assert tf1.compat.as_text(b"\xc3\xa9") == "é"
    assert tf1.compat.as_str_any(3) == "3"
    with pytest.raises(TypeError, match="expected text or bytes, found int 3"):
        tf1.compat.as_bytes(3)


def test_top_level_values():
    assert tf1.bool.name == "bool"
    assert tf1.half is tf1.float16
    assert tf1.newaxis is None
    assert tf1.__version__ == tf1.VERSION


IMPORTED_FIRST = """
import stepscope.tf1 as tf
graph_def = tf.GraphDef()
graph_def.node.add(name="nothing", op="NoOp")
tf.import_graph_def(graph_def, name="")
print([op.type for op in tf.get_default_graph().get_operations()])
"""


def test_a_graph_can_be_imported_before_any_name_was_used():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED_FIRST], capture_output=True, text=True, timeout=patient(60)
    )
    assert (done.stdout, done.stderr) == ("['NoOp']\n", "")
