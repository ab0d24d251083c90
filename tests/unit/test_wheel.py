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
