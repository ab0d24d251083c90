"""What a contract test sees of an engine, and the embedded engine.

Programs are described once, with TensorFlow 1's names for ops, and run on every engine. Where the
contract itself lets engines differ, an attribute of the engine says what holds there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from stepscope import errors
from stepscope.metadata import Loss, RunMetadata
from stepscope.options import ConfigProto, RunOptions, as_run_options, run_option_fields


def fields_set(options: Any) -> list[str]:
    """The dotted names of the options that are not their defaults."""
    default, found = RunOptions(), []
    options = as_run_options(options)
    for field in run_option_fields():
        mine, theirs = options, default
        for name in field.split("."):
            if name == "debug_tensor_watch_opts":
                mine, theirs = len(mine.debug_tensor_watch_opts), 0
                break
            mine, theirs = getattr(mine, name), getattr(theirs, name)
        if mine != theirs:
            found.append(field)
    return found


LEFT_LATE = "the profiler was stopped before threads had left them"


class Program:
    """A program that was started on an engine: tensors and ops by the names a test gave them."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.named = dict(named)

    def run(
        self,
        fetches: Any,
        feeds: Mapping[str, Any] | None = None,
        options: Any = None,
        metadata: Any = None,
    ) -> Any:
        """The value of a name, or those of several."""
        single = isinstance(fetches, str)
        names = (fetches,) if single else tuple(fetches)
        values = self._values(names, feeds or {}, options, metadata)
        return values[0] if single else values

    def _values(
        self, names: tuple[str, ...], feeds: Mapping[str, Any], options: Any, metadata: Any
    ) -> list[Any]:
        raise NotImplementedError

    def traced(
        self, fetches: Any, feeds: Mapping[str, Any] | None = None, **options: Any
    ) -> RunMetadata:
        """The metadata of a run at FULL_TRACE, unless the options say otherwise."""
        options.setdefault("trace_level", RunOptions.FULL_TRACE)
        metadata = RunMetadata()
        self.run(fetches, feeds, RunOptions(**options), metadata)
        return metadata

    def failing(
        self, error: type[BaseException], fetches: Any, feeds: Any = None, **options: Any
    ) -> tuple[Any, RunMetadata, float]:
        """(error, metadata, seconds) of a run that has to fail, at FULL_TRACE by default."""
        options.setdefault("trace_level", RunOptions.FULL_TRACE)
        metadata = RunMetadata()
        began = time.monotonic()
        with pytest.raises(error) as caught:
            self.run(fetches, feeds, RunOptions(**options), metadata)
        return caught.value, metadata, time.monotonic() - began

    def rows(self, metadata: RunMetadata) -> dict[str, int]:
        """By the program's nodes that ran, the row of the record that shows each."""
        return {name: row for row, name in enumerate(metadata.ops.name)}

    def ran(self, metadata: RunMetadata) -> set[str]:
        """The program's nodes that the record shows."""
        return set(self.rows(metadata))

    def outcomes(self, metadata: RunMetadata) -> dict[str, Any]:
        """By the program's nodes that were in flight when it ended, what became of each."""
        return {found.name: found for found in metadata.status.outcomes}

    def close(self) -> None:
        """Give up what the program holds."""


class SessionProgram(Program):
    """A program that runs in a session."""

    def __init__(self, session: Any, named: Mapping[str, Any]) -> None:
        super().__init__(named)
        self._session = session

    def _values(
        self, names: tuple[str, ...], feeds: Mapping[str, Any], options: Any, metadata: Any
    ) -> list[Any]:
        wanted = [self.named[name] for name in names]
        fed = {self.named[name]: value for name, value in feeds.items()}
        found: list[Any] = self._session.run(wanted, fed, options=options, run_metadata=metadata)
        return found

    def close(self) -> None:
        self._session.close()


class Engine:
    """One engine behind the methods that the tests use."""

    name = ""
    key = ""
    """What it is chosen by, where there are two of its name."""
    errors = errors
    python_op_at_deadline = "abandoned"
    """What becomes of a Python function that is inside when the time is up."""
    stops_between_ops = True
    """Whether a run that stays on the caller's thread ends with the op that was too long."""
    parallel = True
    """Whether two ops of a run can be inside at once."""
    names_the_failing_op = True
    """Whether an error has `op` and `node_def`, as those of sessions have."""
    names_a_dequeue_without_a_trace = True
    """Whether a run that timed out knows that a dequeue waited though nothing was traced."""
    names_a_step_in_flight = True
    """Whether an op in flight is named that has executed before, in an earlier iteration."""
    counts_losses = True
    """Whether the nodes that an early end kept from running are counted."""
    knows_sources = True
    has_partitions = True
    traces_without_options = False
    """Whether a call with metadata and no options is traced: `run` of a callable is."""
    stress = 500, 50
    """How many runs a thread does in the stress test, and every how many one is out of time."""
    cause_after_a_stuck_op = "at the deadline"
    """When an error is raised while another op of its run does not end; "never" for the cause."""
    always_lost: frozenset[str] = frozenset()
    """What FULL_TRACE never has on this engine, and says so in each record."""
    may_be_lost: frozenset[str] = frozenset()
    """What it has of some programs, and says where it has not."""
    lost_of_times: frozenset[str] = frozenset()
    """What a later run at SOFTWARE_TRACE does not have, and says so."""
    gaps: Mapping[str, set[str]] = {}
    """By reason the tests of what this engine cannot do, and says that it cannot."""

    def __init__(self) -> None:
        self.support: Mapping[str, tuple[str, str]] = {}
        self._programs: list[Program] = []

    def start(self, build: Callable[[Any], Mapping[str, Any]], config: Any = None) -> Program:
        raise NotImplementedError

    def refuses(self, field: str) -> bool:
        return self.support[field][0] == "refused"

    def raised(self, error: BaseException, kind: str) -> type[BaseException]:
        """What the caller sees when a Python function in the program raises."""
        del error
        found: type[BaseException] = getattr(self.errors, kind)
        return found

    def losses(self, metadata: RunMetadata) -> list[Loss]:
        """The losses of a run, but for what the engine never has, and what is `left_late`."""
        known = self.always_lost | self.may_be_lost
        return [
            loss for loss in metadata.completeness.losses
            if loss.what not in known and not loss.reason.startswith(LEFT_LATE)
        ]  # fmt: skip

    def left_late(self, metadata: RunMetadata) -> int:
        """How many executions may be missing, as threads were inside when the profiler stopped.

        Whether there are any is chance, above all on a busy machine; they are declared.
        """
        losses = metadata.completeness.losses
        return sum(loss.count for loss in losses if loss.reason.startswith(LEFT_LATE))

    def refusal(self, program: Program, fetches: Any, feeds: Any, options: Any) -> bool:
        """Whether the support table refuses one of these options; the run is tried and has to fail.

        A test that gets True has nothing more to look at on this engine.
        """
        refused = [field for field in fields_set(options) if self.refuses(field)]
        if not refused:
            return False
        with pytest.raises(self.errors.UnimplementedError) as caught:
            program.run(fetches, feeds, options, RunMetadata())
        assert any(field in caught.value.message for field in refused)
        assert self.name in caught.value.message
        assert caught.value.error_code == 12
        return True

    def interrupts(self, options: Mapping[str, Any], *, python: bool = True) -> bool:
        """Whether control-C comes through at once while an op (in Python or not) is inside."""
        return True

    def names_what_was_interrupted(self) -> bool:
        """Whether a traced run that control-C ended says which Python op it was in."""
        return self.interrupts({})

    def interrupted(self, options: Mapping[str, Any]) -> tuple[type[BaseException], str]:
        """What control-C inside a Python op is to the caller, and the status of the run."""
        return KeyboardInterrupt, "CANCELLED"

    def devices(self, count: int) -> Any:
        """The configuration of a program on so many devices, or on one in place of many."""
        del count

    def partitions(self, count: int) -> int:
        """How many partition graphs a program on so many devices has here."""
        del count
        return 1 if self.has_partitions else 0

    def untraced(self) -> RunOptions | None:
        """Options of a run that records nothing."""
        return RunOptions() if self.traces_without_options else None

    def workers(self) -> list[threading.Thread]:
        """The threads that are alive and that Stepscope made for runs."""
        # The thread that is told of Control-C is made once and stays as long as the process.
        return [
            t
            for t in threading.enumerate()
            if t.name.startswith("stepscope/") and t.name != "stepscope/control_c"
        ]

    def finish(self) -> None:
        for program in self._programs:
            program.close()


class SessionEngine(Engine):
    """An engine whose programs run in sessions, which have a configuration and can be closed."""

    def config(self, **fields: Any) -> Any:
        return ConfigProto(**fields)

    def devices(self, count: int) -> Any:
        return self.config(device_count={"CPU": count}, allow_soft_placement=count == 1)

    def partitions(self, count: int) -> int:
        return count

    def new_session(self, graph: Any, config: Any) -> Any:
        raise NotImplementedError

    def new_graph(self) -> Any:
        raise NotImplementedError

    ops: Any = None

    def start(self, build: Callable[[Any], Mapping[str, Any]], config: Any = None) -> Program:
        graph = self.new_graph()
        with graph.as_default():
            named = build(self.ops)
        program = SessionProgram(self.new_session(graph, config), named)
        self._programs.append(program)
        return program


class EmbeddedEngine(SessionEngine):
    """Stepscope's own engine."""

    name = "embedded"

    def __init__(self) -> None:
        super().__init__()
        import stepscope.tf1 as ops
        from stepscope.runtime.support import SUPPORT

        self.ops = ops
        self.support = SUPPORT

    def new_graph(self) -> Any:
        return self.ops.Graph()

    def new_session(self, graph: Any, config: Any) -> Any:
        return self.ops.Session(graph=graph, config=config)

    def pool_of(self, thread_name: str) -> str:
        """The pool that a thread belongs to, "caller" for none."""
        parts = thread_name.split("/")
        return parts[1] if parts[0] == "stepscope" else "caller"
