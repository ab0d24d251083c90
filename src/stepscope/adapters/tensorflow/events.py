"""From the profiler's events to what each run executed.

The structure, on the line of each thread: an executor works off a step inside spans
`ExecutorState::Process` (stat `id`); in them there is a span `node:Op` per kernel, and after every
node, also those without a kernel of their own, a mark `ExecutorPropagateOutputs` that names it. The
thread that asked for the step has `SessionRun` or `FunctionRun` with the same id. Eager ops are
spans on the thread that called them. Our own marks (`MARK` + number) say what belongs to which run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stepscope.adapters.tensorflow.devices import lanes
from stepscope.adapters.tensorflow.liveness import Liveness
from stepscope.metadata.xplane import Plane, Space

MARK: Final = "stepscope:run:"
CLOCK: Final = "stepscope:clock"
CLOCK_STAT: Final = "epoch_ns"
"""Our first event of every profile says when it was made: some versions do not say it."""
SPAN: Final = "stepscope:span:"
PYTHON_OP: Final = "stepscope:op:"
NO_NODES: Final[Mapping[str, Any]] = MappingProxyType({})
_STEP_STARTS: Final = frozenset({"SessionRun", "FunctionRun"})
_PROCESS: Final = "ExecutorState::Process"
_DONE: Final = "ExecutorPropagateOutputs"
_EAGER: Final = "EagerLocalExecute: "
_EAGER_CALL: Final = "EagerExecute"
_FOLDING_STEP: Final = -1
"""The step of whatever an optimizer evaluates while it prepares a graph: no part of any run."""


def unspoken(name: str) -> str:
    """A name as an event's name: there a # begins arguments."""
    return name.replace("%", "%25").replace("#", "%23")


def spoken(name: str) -> str:
    """The name that `unspoken` was given."""
    return name.replace("%23", "#").replace("%25", "%")


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


@dataclass(slots=True)
class Marked:
    """What lies under one mark: a run as its own thread saw it."""

    line: int
    start_ns: int
    end_ns: int
    steps: list[int] = field(default_factory=list)
    eager: list[Row] = field(default_factory=list)
    spans: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """One step of an executor: its nodes, and the steps they started."""

    rows: list[Row] = field(default_factory=list)
    """Executions with a kernel, and spans of the user's own."""
    pending: dict[str, list[int]] = field(default_factory=dict)
    """By node, the rows that no mark followed: asynchronous kernels, which end elsewhere."""
    marks: list[Row] = field(default_factory=list)
    """The marks that no kernel was before."""
    children: list[int] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    """The nodes that came to their end."""
    dead: dict[str, list[int]] = field(default_factory=dict)
    silent: dict[str, list[Row]] = field(default_factory=dict)

    def settle(self) -> None:
        """Give asynchronous kernels their end, and sort the other marks without a kernel."""
        kernels = {row.name for row in self.rows}
        for begun in self.pending.values():
            begun.sort(key=lambda i: self.rows[i].start_ns)
        for mark in sorted(self.marks, key=lambda row: row.start_ns):
            begun = self.pending.get(mark.name, [])
            if begun and self.rows[begun[0]].start_ns <= mark.start_ns:
                row = self.rows[begun[0]]
                self.rows[begun.pop(0)] = row._replace(end_ns=max(row.end_ns, mark.start_ns))
            elif mark.name in kernels:
                self.dead.setdefault(mark.name, []).append(mark.start_ns)
            else:
                self.silent.setdefault(mark.name, []).append(mark)
        self.marks.clear()

    def executions(self, nodes: Mapping[str, Any]) -> Iterator[Row]:
        """What executed, kernels first; `nodes` is what is known of the graph."""
        yield from self.rows
        executed: dict[str, list[int]] = {}
        for row in self.rows:
            executed.setdefault(row.name, []).append(row.end_ns)
        silent = {name: [row.start_ns for row in rows] for name, rows in self.silent.items()}
        liveness = Liveness(executed, silent, self.dead, nodes)
        for name, rows in self.silent.items():
            yield from itertools.compress(rows, liveness.of(name) or ())


class Profile:
    """A batch's data, taken apart once."""

    def __init__(self, data: bytes) -> None:
        self.marked: dict[str, Marked] = {}
        self.steps: dict[int, Step] = {}
        self.line_names: dict[int, str] = {}
        self.device_rows: list[Row] = []
        self.untraced: set[int] = set()
        """Steps that a thread started outside any run of ours."""
        self.saw_executor_marks = False
        if not data:
            return
        space = Space(data)
        space.fallback_base_ns = _base_from_clock(space)
        for plane in space.planes:
            if plane.name == "/host:CPU":
                for number, line in enumerate(plane.lines):
                    self._read_line(space, plane, number, line)
        for plane in space.devices():
            self._read_device(space, plane)
        for step in self.steps.values():
            step.settle()

    def of_run(self, mark: str) -> Marked | None:
        return self.marked.get(mark)

    def is_alone(self, run: Marked) -> bool:
        """Whether no run but those inside it was profiled with it."""
        return all(
            run.line == other.line and run.start_ns <= other.start_ns <= run.end_ns
            for other in self.marked.values()
        )

    def rows_of(self, steps: list[int], nodes: Mapping[str, Any] = NO_NODES) -> Iterator[Row]:
        """The executions of these steps and of all steps they started."""
        for step in self._with_children(steps):
            yield from step.executions(nodes)

    def names_in(self, steps: list[int]) -> Iterator[set[str]]:
        """For each of these steps and of those they started, the names of the nodes that ran."""
        for step in self._with_children(steps):
            yield {row.name for row in step.executions(NO_NODES)}

    def done_in(self, steps: list[int]) -> set[str]:
        """The nodes of these steps that came to their end."""
        return {name for step in self._with_children(steps) for name in step.done}

    def unfinished_in(self, steps: list[int]) -> list[Row]:
        """The kernels of these steps that began and of whose end there is no mark."""
        return [
            step.rows[place]
            for step in self._with_children(steps)
            for places in step.pending.values()
            for place in places
        ]

    def _with_children(self, steps: list[int]) -> Iterator[Step]:
        seen: set[int] = set()
        stack = list(steps)
        while stack:
            number = stack.pop()
            step = self.steps.get(number)
            if number in seen or step is None:
                continue
            seen.add(number)
            yield step
            stack.extend(step.children)

    def unclaimed(self, claimed: set[int]) -> Iterator[int]:
        """Steps that no thread is known to have started: those of input pipelines."""
        started = {c for step in self.steps.values() for c in step.children}
        known = claimed | started | self.untraced | {_FOLDING_STEP}
        return (n for n in self.steps if n not in known)

    # -- one line ------------------------------------------------------------------------------

    def _read_line(self, space: Space, plane: Plane, number: int, line: Any) -> None:
        base = space.line_base_ns(line) * 1000
        self.line_names[number] = line.display_name or line.name
        names = plane.names
        events = sorted(
            ((e.offset_ps, -e.duration_ps, e) for e in line.events), key=lambda item: item[:2]
        )
        open_steps: list[tuple[int, int]] = []
        open_marks: list[tuple[int, Marked]] = []
        eager_is_op = True
        kernels: list[_Kernel] = []
        for offset, negative, event in events:
            end = offset - negative
            name = names.get(event.metadata_id, "")
            while open_steps and open_steps[-1][0] <= offset:
                open_steps.pop()
            while open_marks and open_marks[-1][0] <= offset:
                open_marks.pop()
            start_ns, end_ns = (base + offset) // 1000, (base + end) // 1000
            if name == _PROCESS:
                open_steps.append((end, self._step_of(plane, event)))
            elif name in _STEP_STARTS:
                started = self._step_of(plane, event)
                if open_steps:
                    self.steps[open_steps[-1][1]].children.append(started)
                for _, marked in () if open_steps else open_marks:
                    marked.steps.append(started)
                if not open_steps and not open_marks:
                    self.untraced.add(started)
            elif name.startswith(MARK):
                marked = Marked(number, start_ns, end_ns)
                self.marked[name] = marked
                open_marks.append((end, marked))
            elif name.startswith(PYTHON_OP):
                op, _, node = spoken(name[len(PYTHON_OP) :]).partition(":")
                row = Row(node or op, op, start_ns, end_ns, number, "")
                for _, marked in open_marks:
                    marked.eager.append(row)
            elif name.startswith(SPAN):
                row = Row(spoken(name[len(SPAN) :]), "Annotation", start_ns, end_ns, number, "")
                for _, marked in open_marks:
                    marked.spans.append(row)
                if not open_marks and open_steps:
                    self.steps[open_steps[-1][1]].rows.append(row)
            elif name == _EAGER_CALL:
                eager_is_op = not plane.stats(event).get("is_func")
            elif name == _DONE:
                self._read_done(plane, event, start_ns, number, kernels)
            elif open_steps or not open_marks:
                kernel = _kernel(plane, event, name, start_ns, end_ns, number)
                if kernel is not None:
                    _leave_pending(kernels, start_ns)
                    kernels.append(
                        _begin(kernel, self.steps[open_steps[-1][1]] if open_steps else None)
                    )
            elif open_marks and name.startswith(_EAGER) and eager_is_op:
                op = name[len(_EAGER) :]
                row = Row(op, op, start_ns, end_ns, number, "")
                for _, marked in open_marks:
                    marked.eager.append(row)
        _leave_pending(kernels, None)

    def _step_of(self, plane: Plane, event: Any) -> int:
        number = int(plane.stats(event).get("id", 0))
        self.steps.setdefault(number, Step())
        return number

    def _read_done(
        self, plane: Plane, event: Any, start_ns: int, line: int, kernels: list[_Kernel]
    ) -> None:
        """The executor's mark that a node is done: it names node and step."""
        self.saw_executor_marks = True
        found = plane.stats(event)
        step = self.steps.setdefault(int(found.get("id", 0)), Step())
        node = str(found.get("kernel_name", ""))
        step.done.add(node)
        depth = len(kernels) - 1
        while depth >= 0 and kernels[depth].row.name != node:
            depth -= 1
        if depth < 0:
            step.marks.append(Row(node, "", start_ns, start_ns, line, ""))
            return
        kernel = kernels[depth]
        for inner in kernels[depth + 1 :]:
            inner.leave_pending()
        del kernels[depth:]
        # A mark inside the span: the kernel was done then, and went on with those after it.
        row = kernel.row._replace(end_ns=min(kernel.row.end_ns, start_ns))
        if kernel.step is None:
            # The profile was stopped before the executor's own span ended.
            step.rows.append(row)
        else:
            kernel.step.rows[kernel.place] = row

    def _read_device(self, space: Space, plane: Plane) -> None:
        """An accelerator's own lines (streams, cores) as devices and lanes of their own."""
        for name, executions in lanes(space, plane):
            number = len(self.line_names)
            self.line_names[number] = name
            for node, op, start_ns, end_ns, device in executions:
                self.device_rows.append(Row(node, op, start_ns, end_ns, number, "", device))


def _base_from_clock(space: Space) -> int:
    """The wall-clock time of the profile's start, from the event that tells the time."""
    host = space.plane("/host:CPU")
    clock = {key for key, name in host.names.items() if name == CLOCK} if host is not None else ()
    if host is not None and clock:
        for line in host.lines:
            for event in line.events:
                if event.metadata_id in clock:
                    made = int(host.stats(event).get(CLOCK_STAT, 0))
                    return made - int(line.timestamp_ns) - int(event.offset_ps) // 1000
    return 0


class _Kernel(NamedTuple):
    """A kernel's span whose mark has not come yet."""

    row: Row
    step: Step | None
    place: int
    """Where among the step's rows."""

    def leave_pending(self) -> None:
        """The thread went on without a mark: the kernel is asynchronous, or failed."""
        if self.step is not None:
            self.step.pending.setdefault(self.row.name, []).append(self.place)


def _begin(row: Row, step: Step | None) -> _Kernel:
    if step is None:
        return _Kernel(row, None, -1)
    step.rows.append(row)
    return _Kernel(row, step, len(step.rows) - 1)


def _leave_pending(kernels: list[_Kernel], before_ns: int | None) -> None:
    """Give up on the marks of kernels that ended before this time; None is the end."""
    while kernels and (before_ns is None or kernels[-1].row.end_ns <= before_ns):
        kernels.pop().leave_pending()


def _kernel(
    plane: Plane, event: Any, name: str, start_ns: int, end_ns: int, line: int
) -> Row | None:
    """The execution that a span `node:Op` stands for; None for any other event."""
    node, colon, op = name.rpartition(":")
    if (
        not colon
        or not op
        or node.endswith(":")
        or " " in op
        or (not op[0].isalnum() and op[0] != "_")
    ):
        return None
    return Row(node, op, start_ns, end_ns, line, str(plane.stats(event).get("shape", "")))
