"""What is installed from a wheel, without the clone it was built from."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from patience import patient
from stepscope.adapters.tensorflow.node_log import build
from stepscope.cli.arguments.command_line import COMMANDS

ROOT = Path(__file__).parents[2]


def wheel_in(folder, **variables):
    """A wheel of this clone."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT, check=True, capture_output=True, timeout=patient(240),
        env={**os.environ, **variables},
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory for `PYTHONPATH` with the contents of the wheel."""
    made = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel_in(made)) as archive:
        archive.extractall(made / "installed")
    return made / "installed"


@pytest.mark.parametrize(
    "program",
    [
        "import stepscope.tf1 as tf; tf.read_fil",
        "from stepscope.graph.registry import lookup; lookup('NoSuchOp')",
    ],
)
def test_the_page_that_an_error_names_is_there(installed, tmp_path, program):
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )  # fmt: skip
    said = done.stderr.splitlines()[-1]
    page = next(Path(word) for word in said.split() if word.endswith("ops.md"))
    assert page.is_relative_to(installed), said
    assert page.read_text(encoding="utf-8").startswith("# Op types and names")


# -- every command, installed into an empty environment, in an empty folder ------------------------

SCRIPT = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [None], name="x")
table = tf.multiply(x[:, None], x[None], name="table")
with tf.Session(config=tf.ConfigProto(memory_limit_bytes=1 << 20)) as session:
    for size in (10, 20, 30, 1000):
        session.run(table, {x: np.ones(size)})
"""
RUN = "run --engine embedded --trace full --out {} script.py"
EVERY_COMMAND = {
    "account": "account out",
    "advise": "advise out",
    "completion": "completion bash",
    "coverage": "coverage out --run 1",
    "diff": "diff out out",
    "export": "export out --to pb -o exported",
    "info": "info out",
    "input": "input out",
    "memory": "memory out",
    "merge": "merge out -o merged.json",
    "network": "network out",
    "oom": "oom out",
    "parallelism": "parallelism out",
    "path": "path out",
    "placement": "placement out",
    "prepare": "prepare --help",
    "report": "report out -o report.html",
    "retraces": "retraces out",
    "run": RUN.format("again"),
    "steps": "steps out",
    "timeline": "timeline out -o timeline.json",
    "top": "top out",
    "view": "view --help",
    "why": "why table out",
}
ENDS_AS_ITS_SCRIPT = {"run"}


@pytest.fixture(scope="module")
def environment(installed, tmp_path_factory):
    """An environment that pip made of the wheel and what it depends on; the clone is not in it.

    The dependencies are those of this environment, seen through a path, as they are large.
    """
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (wheel,) = installed.parent.glob("*.whl")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-deps",
         "--no-index", wheel],
        check=True, timeout=patient(120),
    )  # fmt: skip
    # Lines of such a file are added as they are: the .pth files in there are not read again.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def stepscope(environment, tmp_path_factory):
    """The command, in a folder where nothing is but a script and what was recorded of it."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "script.py").write_text(SCRIPT)
    variables = {"PATH": f"{environment}:{os.environ['PATH']}", "HOME": str(folder)}

    def run(line):
        return subprocess.run(
            ["stepscope", *line.split()], cwd=folder, env=variables, check=False,
            capture_output=True, text=True, timeout=patient(240),
        )  # fmt: skip

    done = run(RUN.format("out"))
    assert "script.py" in done.stderr, done.stderr
    assert str(environment.parent) in done.stderr  # whose code the traceback of the script names
    return run


def test_no_command_is_left_out():
    assert set(EVERY_COMMAND) == set(COMMANDS)


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_a_command_works_as_installed(stepscope, name):
    done = stepscope(EVERY_COMMAND[name])
    assert done.returncode == (1 if name in ENDS_AS_ITS_SCRIPT else 0), done.stderr
    assert done.stdout or done.stderr
    assert "error of Stepscope's own" not in done.stderr


# -- a wheel that has the compiled executor --------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """One with the library for the TensorFlow that is here."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the real TensorFlow")
    if shutil.which("g++") is None:
        pytest.skip(build.NO_COMPILER)
    made = tmp_path_factory.mktemp("libraries")
    program = (
        "import sys; from pathlib import Path; "
        "from stepscope.adapters.tensorflow.node_log import build; "
        "build.build_into(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", program, made], check=True, timeout=patient(280))
    return wheel_in(made, STEPSCOPE_LIBRARIES=str(made))


@pytest.fixture
def ready(wheel, tmp_path):
    """A directory for `PYTHONPATH` that pip installed it into."""
    place = tmp_path / "ready"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", place, wheel], check=True, timeout=patient(240))
    return place


def on_a_bare_machine(installed, *command):
    """Run it with what is installed, where there is no compiler and nothing may be written."""
    variables = {name: value for name, value in os.environ.items() if name != build.SWITCH}
    variables |= {
        "PYTHONPATH": str(installed), "CXX": "/no/such/compiler", "HOME": "/dev/null",
        "XDG_CACHE_HOME": "/dev/null/cache", "CUDA_VISIBLE_DEVICES": "-1",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, *command], cwd="/", env=variables,
        capture_output=True, text=True, check=False, timeout=patient(250),
    )  # fmt: skip


def test_a_wheel_is_for_a_platform_only_if_it_has_libraries(wheel, tmp_path):
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-py3-none-{platform}.whl")
    assert wheel_in(tmp_path).name.endswith("-py3-none-any.whl")


PROGRAM = """
import sys
import tensorflow as tf
import stepscope

@tf.function
def product(x):
    return tf.matmul(x, x, name="squared")

x = tf.ones([4, 4])
product(x)
tf.profiler.experimental.start(sys.argv[1])  # so that Stepscope cannot have the profiler
try:
    metadata = stepscope.RunMetadata()
    stepscope.run(product, x, run_metadata=metadata)
finally:
    tf.profiler.experimental.stop()
print(stepscope.__file__)
print("squared" in list(metadata.ops.name))
print({line.split()[-1] for line in open("/proc/self/maps") if "node_log-" in line})
"""


def test_without_compiler_and_home_a_function_is_recorded_by_our_executor(ready, tmp_path):
    done = on_a_bare_machine(ready, "-W", "error::RuntimeWarning", "-c", PROGRAM, str(tmp_path))
    assert done.returncode == 0, done.stderr
    (library,) = ready.rglob("node_log-*.so")
    assert done.stdout.splitlines() == [
        str(ready / "stepscope" / "__init__.py"), "True", str({str(library)})
    ]  # fmt: skip


def test_prepare_says_that_it_came_with_the_package(ready):
    done = on_a_bare_machine(ready, "-m", "stepscope", "prepare")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "It came with Stepscope."


def test_a_library_that_cannot_be_loaded_is_said_and_another_looked_for(ready, tmp_path):
    (library,) = ready.rglob("node_log-*.so")
    library.write_bytes(b"for another system")
    done = on_a_bare_machine(ready, "-c", PROGRAM, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["False", "set()"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert f"the library that came with Stepscope cannot be loaded: {library}" in done.stderr
    done = on_a_bare_machine(ready, "-m", "stepscope", "prepare")
    assert done.returncode == 2
    assert f"{build.NO_COMPILER}; the library that came with Stepscope cannot" in done.stderr
