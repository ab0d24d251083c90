"""The engines that the contract holds for, each behind the same few methods.

A test asks for `engine`, describes a program with the engine's own names for ops, and runs it:

    def build(ops):
        x = ops.placeholder(ops.float32, [], name="x")
        return {"x": x, "y": ops.add(x, 1.0, name="y")}

    program = engine.start(build)
    program.run("y", {"x": 2.0}, options=..., metadata=...)

An engine that comes later adds an `Engine` to `ENGINES`; no test changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from stepscope import errors
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions


class Program:
    """A program that was started on an engine: tensors and ops by the names a test gave them."""

    def __init__(self, session: Any, named: Mapping[str, Any]) -> None:
        self._session = session
        self.named = dict(named)

    def run(
        self,
        fetches: Any,
        feeds: Mapping[str, Any] | None = None,
        options: Any = None,
        metadata: Any = None,
    ) -> Any:
        wanted = (
            self.named[fetches]
            if isinstance(fetches, str)
            else [self.named[name] for name in fetches]
        )
        fed = {self.named[name]: value for name, value in (feeds or {}).items()}
        return self._session.run(wanted, fed, options=options, run_metadata=metadata)

    def traced(self, fetches: Any, feeds: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The metadata of a run at FULL_TRACE, unless the options say otherwise."""
        options.setdefault("trace_level", RunOptions.FULL_TRACE)
        metadata = RunMetadata()
        self.run(fetches, feeds, RunOptions(**options), metadata)
        return metadata

    def failing(self, error: type[BaseException], fetches: Any, feeds: Any = None, **options: Any):
        """(error, metadata, seconds) of a run that has to fail, at FULL_TRACE by default."""
        options.setdefault("trace_level", RunOptions.FULL_TRACE)
        metadata = RunMetadata()
        began = time.monotonic()
        with pytest.raises(error) as caught:
            self.run(fetches, feeds, RunOptions(**options), metadata)
        return caught.value, metadata, time.monotonic() - began

    def close(self) -> None:
        self._session.close()


class EmbeddedEngine:
    """Stepscope's own engine."""

    name = "embedded"
    errors = errors

    def __init__(self) -> None:
        import stepscope.tf1 as ops
        from stepscope.runtime.support import SUPPORT

        self.ops = ops
        self.support = SUPPORT
        self._programs: list[Program] = []

    def start(self, build: Callable[[Any], Mapping[str, Any]], config: Any = None) -> Program:
        graph = self.ops.Graph()
        with graph.as_default():
            named = build(self.ops)
        program = Program(self.ops.Session(graph=graph, config=config), named)
        self._programs.append(program)
        return program

    def config(self, **fields: Any) -> ConfigProto:
        return ConfigProto(**fields)

    def pool_of(self, thread_name: str) -> str:
        """The pool that a thread belongs to, "caller" for none."""
        parts = thread_name.split("/")
        return parts[1] if parts[0] == "stepscope" else "caller"

    def workers(self) -> list[threading.Thread]:
        """The engine's threads that are alive."""
        return [t for t in threading.enumerate() if self.pool_of(t.name) != "caller"]

    def finish(self) -> None:
        for program in self._programs:
            program.close()


ENGINES = {"embedded": EmbeddedEngine}


@pytest.fixture(params=ENGINES)
def engine(request):
    """Each engine in turn; what it started is closed afterwards."""
    made = ENGINES[request.param]()
    yield made
    made.finish()


class Stuck:
    """A Python function for a graph that stays inside until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()
        self.left = threading.Event()
        self.thread: threading.Thread | None = None
        self.seen: list[Any] = []

    def __call__(self, value):
        self.thread = threading.current_thread()
        self.entered.set()
        try:
            self.let_go.wait(30)
            self.seen.append(value)
        finally:
            self.left.set()
        return value


@pytest.fixture
def stuck():
    function = Stuck()
    yield function
    function.let_go.set()
    if function.entered.is_set():
        assert function.left.wait(30)
