"""Fixtures for the whole tree."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import random_examples  # noqa: F401 - its profiles hold for every random test
import session_outcome
from cluster_servers import Nursery, Servers
from shared_data import PERFETTO
from stepscope.graph import registry

DATA = Path(__file__).parent / "data"

CAPTURES = (
    "distributed_ps_worker",
    "mlp_adam_refvars",
    "py_function",
    "rnn_while_v1",
    "synthetic_rpc_oddlabels",
)


def pytest_configure(config: pytest.Config) -> None:
    """Signals reach the tests that send them, also when the suite runs in the background.

    A shell starts background commands with some ignored, and children inherit that. Runs on
    TensorFlow are profiled unless a test says otherwise, whatever this machine has compiled. On one
    core TensorFlow has one thread for ops: tests of ops that wait for one another need two.
    """
    session_outcome.register(config)
    os.environ["STEPSCOPE_EXECUTOR"] = "off"
    if len(os.sched_getaffinity(0)) == 1:
        os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def own_op_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that register op types: the registry is as before when the test is over."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can come to.

    Not below pytest's own: each of its sessions closes that one to others as it starts.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def tensorflow() -> Any:
    """The real TensorFlow, imported once and quietly; skips where it is not installed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # it renames MatMul to _MklMatMul
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("tensorflow", reason="needs the real TensorFlow")
    module.get_logger().setLevel("ERROR")
    return module


@pytest.fixture(scope="session")
def tf(tensorflow: Any) -> Any:
    """TensorFlow 1's names of the real TensorFlow."""
    return tensorflow.compat.v1


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """What servers of TensorFlow are started from."""
    # It imports TensorFlow while this process does, so nothing is imported here first.
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the real TensorFlow")
    made = Nursery(tmp_path_factory.mktemp("nursery"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def servers(nursery: Nursery, tensorflow: Any) -> Iterator[Servers]:
    """One parameter server and one worker, for all tests; what they are given is named apart."""
    with Servers(nursery, ps=1, worker=1) as running:
        yield running


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The sample files of the tests."""
    return DATA


@pytest.fixture(params=CAPTURES)
def capture(request: pytest.FixtureRequest) -> tuple[bytes, dict[str, Any]]:
    """Each sample of TensorFlow's own metadata: its bytes, and the facts found in them."""
    folder = DATA / request.param
    facts = json.loads((folder / "facts.json").read_text())
    return (folder / "run_metadata.pb").read_bytes(), facts["run_metadata"]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A function that gives what a command says as JSON."""

    from stepscope.cli.arguments.command_line import run_command_line

    def run(*arguments: str | Path) -> Any:
        code = run_command_line([*map(str, arguments), "--json"])
        out = capsys.readouterr().out
        assert code == 0
        return json.loads(out)

    return run


@pytest.fixture
def perfetto() -> Callable[..., list[dict[str, Any]]]:
    """A function that gives what Perfetto's importer says of files, and fails on its errors.

    Skips where the importer is not there.
    """
    if not PERFETTO.exists() or shutil.which("node") is None:
        pytest.skip("Perfetto's importer is not there")

    def check(*paths: Path) -> list[dict[str, Any]]:
        command = [str(PERFETTO), *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return check
