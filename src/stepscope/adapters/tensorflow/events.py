"""From the profiler's events to what each run executed.

The structure, on the line of each thread: an executor works off a step inside spans
`ExecutorState::Process` (stat `id`); in them there is a span `node:Op` per kernel, and after every
node, also those without a kernel of their own, a mark `ExecutorPropagateOutputs` that names it. The
thread that asked for the step has `SessionRun` or `FunctionRun` with the same id. Eager ops are
spans on the thread that called them. Our own marks (`MARK` + number) say what belongs to which run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stepscope.metadata.xplane import Plane, Space

MARK: Final = "stepscope:run:"
SPAN: Final = "stepscope:span:"
PYTHON_OP: Final = "stepscope:op:"
_STEP_STARTS: Final = frozenset({"SessionRun", "FunctionRun"})
_PROCESS: Final = "ExecutorState::Process"
_DONE: Final = "ExecutorPropagateOutputs"
_EAGER: Final = "EagerLocalExecute: "
_EAGER_CALL: Final = "EagerExecute"


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
    children: list[int] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    """The nodes that came to their end."""

    def settle(self) -> None:
        """Give asynchronous kernels their end: their mark came later, from another thread."""
        kernels: dict[str, list[int]] = {}
        for i, row in enumerate(self.rows):
            if row.op:
                kernels.setdefault(row.name, []).append(i)
        settled: dict[int, Row] = {}
        kept = []
        for i, row in enumerate(self.rows):
            begun = kernels.get(row.name)
            if row.op or not begun:
                kept.append(i)
                continue
            kernel = next((k for k in begun if k not in settled), begun[-1])
            known = self.rows[kernel]
            settled[kernel] = known._replace(end_ns=max(known.end_ns, row.start_ns))
        self.rows = [settled.get(i, self.rows[i]) for i in kept]


class Profile:
    """A batch's data, taken apart once."""

    def __init__(self, data: bytes) -> None:
        self.marked: dict[str, Marked] = {}
        self.steps: dict[int, Step] = {}
        self.line_names: dict[int, str] = {}
        self.device_rows: list[Row] = []
        self.saw_executor_marks = False
        if not data:
            return
        space = Space(data)
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

    def rows_of(self, steps: list[int]) -> Iterator[Row]:
        """The executions of these steps and of all steps they started."""
        for step in self._with_children(steps):
            yield from step.rows

    def done_in(self, steps: list[int]) -> set[str]:
        """The nodes of these steps that came to their end."""
        return {name for step in self._with_children(steps) for name in step.done}

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
        """Steps that no step and no mark started: input pipelines and other threads' work."""
        started = {c for step in self.steps.values() for c in step.children}
        return (n for n in self.steps if n not in claimed and n not in started)

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
        last_op: Row | None = None
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
                elif open_marks:
                    open_marks[-1][1].steps.append(started)
            elif name.startswith(MARK):
                marked = Marked(number, start_ns, end_ns)
                self.marked[name] = marked
                open_marks.append((end, marked))
            elif name.startswith(PYTHON_OP):
                op, _, node = name[len(PYTHON_OP) :].partition(":")
                for _, marked in open_marks[-1:]:
                    marked.eager.append(Row(node or op, op, start_ns, end_ns, number, ""))
            elif name.startswith(SPAN):
                row = Row(name[len(SPAN) :], "Annotation", start_ns, end_ns, number, "")
                for _, marked in open_marks:
                    marked.spans.append(row)
                if not open_marks and open_steps:
                    self.steps[open_steps[-1][1]].rows.append(row)
            elif name == _EAGER_CALL:
                eager_is_op = not plane.stats(event).get("is_func")
            elif name == _DONE:
                self._read_done(plane, event, start_ns, number, last_op)
                last_op = None
            elif open_steps or not open_marks:
                kernel = _kernel(plane, event, name, start_ns, end_ns, number)
                if kernel is not None:
                    last_op = kernel
                    if open_steps:
                        self.steps[open_steps[-1][1]].rows.append(kernel)
            elif open_marks and name.startswith(_EAGER) and eager_is_op:
                op = name[len(_EAGER) :]
                open_marks[-1][1].eager.append(Row(op, op, start_ns, end_ns, number, ""))

    def _step_of(self, plane: Plane, event: Any) -> int:
        number = int(plane.stats(event).get("id", 0))
        self.steps.setdefault(number, Step())
        return number

    def _read_done(
        self, plane: Plane, event: Any, start_ns: int, line: int, last_op: Row | None
    ) -> None:
        """The executor's mark that a node is done: it names node and step."""
        self.saw_executor_marks = True
        found = plane.stats(event)
        step = self.steps.setdefault(int(found.get("id", 0)), Step())
        rows = step.rows
        node = str(found.get("kernel_name", ""))
        step.done.add(node)
        if last_op is None or last_op.name != node:
            rows.append(Row(node, "", start_ns, start_ns, line, ""))
        elif last_op not in rows[-2:]:
            # The profile was stopped before the executor's own span ended.
            rows.append(last_op)

    def _read_device(self, space: Space, plane: Plane) -> None:
        """An accelerator's own lines (streams, cores) as devices of their own."""
        for line in plane.lines:
            base = space.line_base_ns(line) * 1000
            lane = line.display_name or line.name
            device = f"{plane.name}/{lane}" if lane else plane.name
            for event in line.events:
                start = base + event.offset_ps
                name = plane.names.get(event.metadata_id, "")
                found = plane.stats(event)
                node, colon, op = str(found.get("tf_op", name)).rpartition(":")
                end = start + event.duration_ps
                name = node if colon else name
                self.device_rows.append(Row(name, op, start // 1000, end // 1000, -1, "", device))


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
