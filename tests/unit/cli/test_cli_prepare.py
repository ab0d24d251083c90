"""`stepscope prepare`."""

import shutil

import pytest

from stepscope.adapters.tensorflow.node_log import build


@pytest.fixture
def prepare(tensorflow, command):
    """Runs the command; nothing of it is in use afterwards."""
    yield lambda: command("prepare")
    build.turn_off()


@pytest.mark.skipif(shutil.which("g++") is None, reason=build.NO_COMPILER)
def test_it_says_for_which_tensorflow_it_is_ready(prepare, tensorflow):
    code, out, err = prepare()
    assert code == 0, err
    assert f"of TensorFlow {tensorflow.__version__} are traced by Stepscope's own" in out
    assert build.executor_type().startswith("STEPSCOPE-")


def test_without_a_compiler_it_says_what_to_do(prepare, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_loaded", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    code, out, err = prepare()
    assert (code, out) == (2, "")
    assert "stay with TensorFlow's profiler: there is no C++ compiler: install g++" in err
