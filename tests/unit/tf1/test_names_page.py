"""What of TensorFlow 1's public names is here: the page, and the error of each name that is not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stepscope.tf1 as tf1
from patience import patient


@pytest.fixture(scope="module")
def names_page(tensorflow: Any) -> Any:
    del tensorflow
    path = Path(__file__).parents[3] / "docs" / "make_names_page.py"
    spec = importlib.util.spec_from_file_location("make_names_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.tensorflow
def test_the_page_is_not_stale(names_page: Any, tmp_path: Path) -> None:
    """In a process of its own: other tests put modules of theirs into TensorFlow."""
    done = subprocess.run(
        [sys.executable, names_page.__file__, "--check"],
        cwd=tmp_path, capture_output=True, text=True, timeout=patient(120),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.tensorflow
def test_every_missing_name_is_an_error_that_says_what_to_do(names_page: Any) -> None:
    missing = names_page.missing_names()
    assert sum(map(len, missing.values())) > 100
    for path, names in missing.items():
        for name in names:
            said = error_of([*filter(None, path.split(".")), name])
            assert "Stepscope's embedded engine" in said, (path, name)
            helped = "--engine tensorflow" in said or "close: " in said or "use " in said
            assert helped, (path, name, said)
            assert ".md lists the names that are there" in said, (path, name)


def error_of(names: list[str]) -> str:
    """What a program is told that uses `tf.a.b`: at the first of the names that is not there."""
    found: Any = tf1
    for name in names:
        try:
            found = getattr(found, name)
        except AttributeError as error:
            return str(error)
    raise AssertionError(f"tf.{'.'.join(names)} is there")
