"""The engines that the contract holds for, each behind the same few methods.

A test asks for `engine`, describes a program with TensorFlow 1's names for ops, and runs it:

    def build(ops):
        x = ops.placeholder(ops.float32, [], name="x")
        return {"x": x, "y": ops.add(x, 1.0, name="y")}

    program = engine.start(build)
    program.run("y", {"x": 2.0}, options=..., metadata=...)

`engine` is every engine in turn. A test of what only sessions have (a configuration, `close`)
asks for `session_engine`, of ops side by side for `parallel_engine`, of the embedded engine's own
threads and pools for `embedded`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from contract_cluster import GAPS
from contract_engines import EmbeddedEngine, SessionEngine
from contract_tensorflow import ENGINES

from patience import patient

_ALONE = "STEPSCOPE_TESTS_ALONE"
_outcomes: dict[str, dict[str, str]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test marked `own_process(engine)` runs for that engine in another process.

    All such tests of a file share one: the first of them starts it, the others look up how they
    went.
    """
    mark = pyfuncitem.get_closest_marker("own_process")
    if mark is None or os.environ.get(_ALONE) or mark.args[0] not in pyfuncitem.name:
        return None
    file = str(pyfuncitem.path)
    if file not in _outcomes:
        _outcomes[file] = _run_alone(pyfuncitem.path, mark.args[0])
    problem = _outcomes[file].get(pyfuncitem.name, "it did not run there")
    assert not problem, f"in a process of its own: {problem}"
    return True


def _run_alone(path: Path, engine: str) -> dict[str, str]:
    """Per test of a file on one engine what went wrong, "" for nothing."""
    report = Path(os.environ.get("TMPDIR", "/tmp")) / f"stepscope-alone-{os.getpid()}.xml"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path),
             "-k", engine.replace(" ", " and "), f"--junitxml={report}"],
            env=os.environ | {_ALONE: "1"}, capture_output=True, text=True, timeout=patient(250),
        )  # fmt: skip
        assert report.is_file(), done.stdout + done.stderr
        cases = ElementTree.parse(report).iter("testcase")
        return {c.get("name", ""): "".join(part.text or "failed" for part in c) for c in cases}
    finally:
        report.unlink(missing_ok=True)


def pytest_collection_modifyitems(config, items):
    """Leave out what an engine says that it cannot do; of thread pools only who has them knows."""
    left_out = []
    for item in items:
        if "tests/contract" not in item.path.as_posix() or not hasattr(item, "callspec"):
            continue
        params = item.callspec.params
        fixtures = ("engine", "session_engine", "parallel_engine")
        kind = next((ENGINES[params[name]] for name in fixtures if name in params), None)
        if kind is None:
            continue
        tests = set().union(*kind.gaps.values())
        if item.originalname in tests or (kind.gaps is GAPS and "_thread_pools" in item.path.stem):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]


def _started(kind):
    made = kind()
    yield made
    made.finish()


@pytest.fixture(params=ENGINES)
def engine(request):
    """Each engine in turn; what it started is closed afterwards."""
    yield from _started(ENGINES[request.param])


@pytest.fixture(params=[name for name, kind in ENGINES.items() if issubclass(kind, SessionEngine)])
def session_engine(request):
    """Each engine that has sessions."""
    yield from _started(ENGINES[request.param])


@pytest.fixture(params=[name for name, kind in ENGINES.items() if kind.parallel])
def parallel_engine(request):
    """Each engine where two ops of a run can be inside at once."""
    yield from _started(ENGINES[request.param])


@pytest.fixture
def embedded():
    """The embedded engine, for tests of what is inside it."""
    yield from _started(EmbeddedEngine)


class Stuck:
    """A Python function for a graph that stays inside until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()
        self.left = threading.Event()
        self.thread: threading.Thread | None = None
        self.ident = 0
        self.seen: list[Any] = []
        self._seconds: float | None = None

    def __call__(self, value):
        self.thread = threading.current_thread()
        self.ident = threading.get_ident()
        self.entered.set()
        try:
            self.let_go.wait(patient(30))
            self.seen.append(value)
        finally:
            self.left.set()
        return value

    def timing_out(self, program: Any, *asked: Any, **options: Any) -> tuple[Any, Any, float]:
        """What `program.failing` gives of a run whose time is over while it is in here.

        A run that did not come as far in time, as happens on a busy machine, is none of those.
        """
        for _ in range(20):
            found: tuple[Any, Any, float] = program.failing(*asked, **options)
            if not self.entered.is_set():
                continue
            if found[1].status.in_flight or found[1].status.outcomes:
                return found
            self.let_go.set()  # it was entered when the time was over
            assert self.left.wait(patient(30))
            for event in (self.entered, self.let_go, self.left):
                event.clear()
            if self._seconds is not None:
                self.let_go_after(self._seconds)
        raise AssertionError("20 runs came to their end before the op")

    def let_go_after(self, seconds: float) -> None:
        """Let it go this long after it was entered."""
        self._seconds = seconds

        def wait() -> None:
            if self.entered.wait(patient(30)):
                time.sleep(seconds)
            self.let_go.set()

        threading.Thread(target=wait, daemon=True).start()


@pytest.fixture
def stuck():
    function = Stuck()
    yield function
    function.let_go.set()
    if function.entered.is_set():
        assert function.left.wait(patient(30))
