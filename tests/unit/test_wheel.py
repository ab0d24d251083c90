"""What is installed from a wheel, without the clone it was built from."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory for `PYTHONPATH` with the contents of the wheel."""
    made = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", made],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
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
