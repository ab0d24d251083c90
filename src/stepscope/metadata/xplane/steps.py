"""What executors did: one `ExecutorStep` per step of one, its executions and the steps it started.

A step is one call of a graph or function, under the number that the executor gave it.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stepscope.metadata.xplane.liveness import Liveness, is_no_op
from stepscope.metadata.xplane.shapes import Described

NO_NODES: Final[Mapping[str, Any]] = MappingProxyType({})
FOLDING_STEP: Final = -1
"""The step of whatever an optimizer evaluates while it prepares a graph: no part of any run."""


ANNOTATION: Final = "Annotation"
"""The op type of the user's own spans."""

FIRST_NODE: Final = "_SOURCE"
"""What every executor begins a step with: no op of the user's."""
COMPILED: Final = "XlaLaunch"
"""The op type of a function that XLA compiled as a whole."""


class Row(NamedTuple):
    """One execution of a node."""

    name: str
    op: str
    start_ns: int
    end_ns: int
    line: int
    shapes: str
    """The inputs' types and shapes as the profiler writes them, or ""."""
    device: str = ""
    ready_ns: int = 0
    """When it could have begun; 0 where nobody said."""
    outputs: tuple[Described | None, ...] = ()
    """What it put out, where that was seen; None for an output that stayed empty."""


@dataclass(slots=True)
class ExecutorStep:
    """One step of an executor: its nodes, and the steps they started."""

    rows: list[Row] = field(default_factory=list)
    """Executions with a kernel, and spans of the user's own."""
    pending: dict[str, list[Row]] = field(default_factory=dict)
    """By node, the kernels that no mark followed: asynchronous ones, which end elsewhere."""
    marks: list[Row] = field(default_factory=list)
    """The marks that no kernel was before."""
    outside: list[Row] = field(default_factory=list)
    """Kernels that ended outside any span of the executor."""
    python: list[Row] = field(default_factory=list)
    """Eager ops that Python functions executed inside nodes, each under its node's name."""
    children: list[int] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    """The nodes that came to their end."""
    unfinished: list[Row] = field(default_factory=list)
    """Of the rows, those of whose end there is no mark."""
    unmarked: list[Row] = field(default_factory=list)
    """Of these, those that nothing says are its, but that no other step is known to have been at
    work. Where executors leave marks they are another's if the step ended well."""
    left_open: set[tuple[str, int]] = field(default_factory=set)
    """Node and time of marks outside the step's own spans that are the last of their thread."""
    dead: dict[str, list[int]] = field(default_factory=dict)
    silent: dict[str, list[Row]] = field(default_factory=dict)
    beside: Callable[[], list[Row]] = list
    """Gives the executions that stay columns (see `ExecutionTrace`): no rows of the step's own."""

    def leave(self, rows: Iterable[Row]) -> None:
        """Kernels of its own that no mark followed on their thread."""
        for row in rows:
            self.pending.setdefault(row.name, []).append(row)

    def settle(self) -> None:
        """Give asynchronous kernels their end, and sort the other marks without a kernel."""
        pending = {
            name: deque(sorted(rows, key=lambda row: row.start_ns))
            for name, rows in self.pending.items()
        }
        none: deque[Row] = deque()
        beside = self.beside() if self.marks else ()
        kernels = {row.name for row in (*self.rows, *self.outside, *beside)}.union(pending)
        for mark in sorted(self.marks, key=lambda row: row.start_ns):
            begun = pending.get(mark.name, none)
            if begun and begun[0].start_ns <= mark.start_ns:
                row = begun.popleft()
                # Also where the call that began it returned later: its thread was held up then.
                self.rows.append(row._replace(end_ns=mark.start_ns))
            elif mark.name in kernels:
                self.dead.setdefault(mark.name, []).append(mark.start_ns)
            else:
                self.silent.setdefault(mark.name, []).append(mark)
        for row in self.outside:
            begun = pending.get(row.name, none)
            if begun and begun[0].start_ns <= row.start_ns:
                # The rest of an asynchronous kernel, under its name: as collectives have it.
                first = begun.popleft()
                row = first._replace(end_ns=row.end_ns)
            # Or else the profile was stopped before the executor's own span ended.
            self.rows.append(row)
        without_end = [row for begun in pending.values() for row in begun]
        self.unfinished += without_end
        self.rows += without_end
        self.marks.clear()
        self.outside.clear()
        self.pending.clear()

    def executions(self, nodes: Mapping[str, Any]) -> Iterator[Row]:
        """What executed, kernels first; `nodes` is what is known of the graph."""
        yield from self.of_graph(nodes)
        yield from self.python

    def cut_off(self, nodes: Mapping[str, Any]) -> list[str]:
        """The nodes whose execution may be lost, as the profiler stopped inside of it.

        A span is recorded when it ends. A thread may still be inside the span of a kernel, and of
        the executor around it, when the step is over: an asynchronous kernel that is done at once
        goes on with all that comes after it. What is left is the mark, outside any span, as the
        last thing that its thread did. It is not taken for a constant's where nobody knows better.
        """
        if not self.left_open:
            return []
        seen = {(row.name, row.start_ns) for row in self.of_graph(nodes)}
        marks = [(name, at) for name, times in self.dead.items() for at in times]
        marks += [(row.name, row.start_ns) for rows in self.silent.values() for row in rows]
        lost = (mark for mark in marks if mark in self.left_open and mark not in seen)
        return list(dict.fromkeys(name for name, _ in lost))

    def of_graph(self, nodes: Mapping[str, Any]) -> Iterator[Row]:
        """The same without what Python executed inside nodes."""
        yield from self.rows
        if not self.silent:
            return
        executed: dict[str, list[int]] = {}
        for row in (*self.rows, *self.beside()):
            executed.setdefault(row.name, []).append(row.end_ns)
        silent = {name: [row.start_ns for row in rows] for name, rows in self.silent.items()}
        liveness = Liveness(executed, silent, self.dead, nodes)
        for name, rows in self.silent.items():
            for row in itertools.compress(rows, liveness.of(name) or ()):
                if (name, row.start_ns) not in self.left_open or name in nodes or is_no_op(name):
                    yield row


class ExecutorSteps(dict[int, ExecutorStep]):
    """All steps of a profile by the executor's number, and who started them."""

    def __init__(self) -> None:
        super().__init__()
        self.pipelines: set[int] = set()
        """Those of input pipelines."""

    def __missing__(self, number: int) -> ExecutorStep:
        step = self[number] = ExecutorStep()
        return step

    def pipeline(self, number: int) -> None:
        """That step is one of an input pipeline."""
        self[number]
        self.pipelines.add(number)

    def with_children(self, numbers: Sequence[int]) -> Iterator[ExecutorStep]:
        """These steps and all that they started."""
        return (step for _, step in self.numbered_with_children(numbers))

    def numbered_with_children(self, numbers: Sequence[int]) -> Iterator[tuple[int, ExecutorStep]]:
        """The same, each with its number."""
        seen: set[int] = set()
        stack = list(numbers)
        while stack:
            number = stack.pop()
            step = self.get(number)
            if number in seen or step is None:
                continue
            seen.add(number)
            yield number, step
            stack.extend(step.children)

    def children(self) -> set[int]:
        """The steps that other steps started."""
        return {child for step in self.values() for child in step.children}
