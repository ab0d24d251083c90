"""What each event of the profiler's host plane means, and the reading of one thread's line.

What an event means follows from its name, and names are few beside events: each is looked at once
per profile (`Meanings`), and events are told apart by the number of their name. Events that mean
nothing here are left out before anything else is done with them, and the executions that look as
nearly all do are read at once, as columns; what is left is walked through in order of time.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.adapters.tensorflow.capture.steps import (
    ANNOTATION,
    COMPILED,
    Marked,
    Row,
    Step,
    Steps,
)
from stepscope.metadata.xplane import Line, Plane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

MARK: Final = "stepscope:run:"
SPAN: Final = "stepscope:span:"
PYTHON_OP: Final = "stepscope:op:"
_EAGER: Final = "EagerLocalExecute: "
_PIPELINE: Final = "InstantiatedCapturedFunction::"
"""How the events begin with which an input pipeline calls one of its functions."""

_NO_KIND, _KERNEL_KIND, _DONE_KIND, _PROCESS_KIND, _START_KIND, _EAGER_CALL_KIND = range(6)
_MARK_KIND, _PYTHON_KIND, _SPAN_KIND, _EAGER_KIND, _PIPELINE_KIND = range(6, 11)
_FIXED: Final = {
    "ExecutorPropagateOutputs": _DONE_KIND, "ExecutorState::Process": _PROCESS_KIND,
    "SessionRun": _START_KIND, "FunctionRun": _START_KIND, "EagerExecute": _EAGER_CALL_KIND,
}  # fmt: skip
_PREFIXES: Final = {
    MARK: _MARK_KIND, PYTHON_OP: _PYTHON_KIND, SPAN: _SPAN_KIND, _EAGER: _EAGER_KIND,
    _PIPELINE: _PIPELINE_KIND,
}  # fmt: skip
_OURS: Final = "stepscope:"


def unspoken(name: str) -> str:
    """A name as an event's name: there a # begins arguments."""
    return name.replace("%", "%25").replace("#", "%23")


def spoken(name: str) -> str:
    """The name that `unspoken` was given."""
    return name.replace("%23", "#").replace("%25", "%")


_Meaning = tuple[int, str, str]
"""The kind; the node of a kernel, or of events of our own and of eager ops what follows their
prefix; the op type of a kernel.
"""
_NOTHING: Final[_Meaning] = (_NO_KIND, "", "")


class Meanings:
    """The names of a plane's events and stats, each looked at once."""

    def __init__(self, plane: Plane) -> None:
        self.step_stat = plane.stat_number("id")
        self.node_stat = plane.stat_number("kernel_name")
        self.shape_stat = plane.stat_number("shape")
        self.is_function_stat = plane.stat_number("is_func")
        self._of = [_NOTHING] * (max(plane.names, default=0) + 1)
        for number, name in plane.names.items():
            self._of[number] = _meaning(name)
        self._kinds = np.array([meaning[0] for meaning in self._of], np.int8)

    def kinds(self, numbers: Ints) -> NDArray[np.int8]:
        """The kind of each event, by the number of its name."""
        return self._kinds[numbers]

    def of(self, numbers: Ints) -> list[_Meaning]:
        known = self._of
        return [known[number] for number in numbers.tolist()]


def _meaning(name: str) -> _Meaning:
    node, colon, op = name.rpartition(":")
    if colon and op.isidentifier() and not node.endswith(":") and not node.startswith(_OURS):
        return _KERNEL_KIND, node, op
    fixed = _FIXED.get(name)
    if fixed is not None:
        return fixed, name, ""
    for prefix, kind in _PREFIXES.items():
        if name.startswith(prefix):
            return kind, name if kind == _MARK_KIND else name[len(prefix) :], ""
    if not colon or not op or node.endswith(":") or " " in op:
        return _NOTHING
    return (_KERNEL_KIND, node, op) if op[0].isalnum() or op[0] == "_" else _NOTHING


class _Events:
    """The events of a line that mean something, in order of time: outer ones first."""

    def __init__(self, meanings: Meanings, line: Line, base_ns: int) -> None:
        kinds = meanings.kinds(line.metadata_id)
        places = np.flatnonzero(kinds)
        places = places[np.lexsort((-line.duration_ps[places], line.offset_ps[places]))]
        self.kind = kinds[places]
        self.meaning = meanings.of(line.metadata_id[places])
        self.start_ps = line.offset_ps[places]
        self.end_ps = self.start_ps + line.duration_ps[places]
        self.start_ns = base_ns + self.start_ps // 1000
        self.end_ns = base_ns + self.end_ps // 1000
        self.step = line.stat_numbers(meanings.step_stat)[places]
        self.node = line.stat_texts(meanings.node_stat)[places]
        """Which node the executor says is done."""
        self.shapes = line.stat_texts(meanings.shape_stat)[places]
        self.is_function = line.stat_numbers(meanings.is_function_stat)[places]

    def pairs(self) -> Ints:
        """Where a kernel is that ended before the executor's mark of it, which comes next.

        That is how nearly all executions look. A mark that comes after the executor has left the
        thread is another matter: the kernel was asynchronous, and its end is the mark.
        """
        kind = self.kind
        found = (kind[:-1] == _KERNEL_KIND) & (kind[1:] == _DONE_KIND)
        found &= self.end_ns[:-1] <= self.start_ns[1:]
        left = np.sort(self.end_ps[kind == _PROCESS_KIND])
        found &= np.searchsorted(left, self.end_ps[:-1]) == np.searchsorted(left, self.end_ps[1:])
        places = np.flatnonzero(found)
        named = zip(places.tolist(), self.node[places + 1].tolist(), strict=True)
        return places[[self.meaning[place][1] == node for place, node in named]]


class _Kernel(NamedTuple):
    """A kernel's span whose mark has not come yet."""

    row: Row
    step: Step | None
    """None where the profiler was stopped before the executor's own span ended."""
    spans: list[Row]
    started: list[int]
    python: list[Row]
    """Of a kernel whose step is not known, the user's spans, the steps and the eager ops inside."""


class ThreadLine:
    """Reads one thread's line into the steps and marks of its profile."""

    def __init__(self, number: int, steps: Steps, marked: dict[str, Marked]) -> None:
        self._number = number
        self._steps = steps
        self._marked = marked
        self._open_steps: list[tuple[int, int, Step]] = []
        """The end of the executor's span, in picoseconds and in nanoseconds, and its step."""
        self._open_marks: list[tuple[int, Marked]] = []
        self._kernels: list[_Kernel] = []
        self._eager_is_op = True
        self._last_outside: tuple[Step, str, int] | None = None
        """The last mark, if it is of no kernel that is known, outside any span of its step."""

    def read(self, meanings: Meanings, line: Line, base_ns: int) -> None:
        """All events of the line."""
        events = _Events(meanings, line, base_ns)
        pairs = events.pairs()
        self._read_pairs(events, pairs)
        others = np.ones(len(events.kind), bool)
        others[pairs] = others[pairs + 1] = False
        # When the last kernel before each event began, of those that are read already.
        before = np.zeros(len(others), np.int64)
        before[pairs] = events.start_ns[pairs]
        before = np.maximum.accumulate(before)
        places = np.flatnonzero(others)
        columns = (
            before, events.start_ps, events.end_ps, events.start_ns, events.end_ns, events.step,
            events.node, events.shapes, events.is_function,
        )  # fmt: skip
        rows = zip(*(column[places].tolist() for column in columns), strict=True)
        for place, (kernel_ns, *event) in zip(places.tolist(), rows, strict=True):
            if self._kernels:
                self._leave_pending(kernel_ns)
            self._read_one(events.meaning[place], *event)
        self._leave_pending(None)
        if self._last_outside is not None:
            step, node, start_ns = self._last_outside
            if not len(pairs) or start_ns > events.start_ns[pairs[-1]]:
                step.left_open.add((node, start_ns))

    def _read_pairs(self, events: _Events, pairs: Ints) -> None:
        steps = events.step[pairs + 1]
        for number in np.unique(steps).tolist():
            places = pairs[steps == number]
            known = [events.meaning[place] for place in places.tolist()]
            names = [meaning[1] for meaning in known]
            columns = (column[places] for column in (events.start_ns, events.end_ns, events.shapes))
            starts, ends, shapes = (column.tolist() for column in columns)
            ops, line = (meaning[2] for meaning in known), repeat(self._number)
            step = self._steps[number]
            same = repeat(""), repeat(0), repeat(())
            rows = zip(names, ops, starts, ends, line, shapes, *same, strict=False)
            step.rows += map(Row._make, rows)
            step.done.update(names)

    def _read_one(
        self, meaning: _Meaning, start: int, end: int, start_ns: int, end_ns: int, number: int,
        done: str, shapes: str, is_function: int,
    ) -> None:  # fmt: skip
        while self._open_steps and self._open_steps[-1][0] <= start:
            # A mark of a kernel that ran inside comes from elsewhere, even if on this thread.
            self._leave_pending(self._open_steps.pop()[1])
        while self._open_marks and self._open_marks[-1][0] <= start:
            self._open_marks.pop()
        kind, name, op = meaning
        inside = self._open_steps[-1][2] if self._open_steps else None
        runs = self._open_marks
        if kind == _DONE_KIND:
            self._read_done(done, self._steps[number], start_ns, inside)
        elif kind == _EAGER_KIND:
            if self._eager_is_op:
                self._read_eager(name, start_ns, end_ns, inside)
        elif kind == _EAGER_CALL_KIND:
            self._eager_is_op = not is_function
        elif kind == _KERNEL_KIND:
            if inside is not None or not runs:
                self._leave_pending(start_ns)
                row = Row(name, op, start_ns, end_ns, self._number, shapes)
                self._kernels.append(_Kernel(row, inside, [], [], []))
            elif name == op and not self._eager_is_op:
                # The call of a function that XLA compiled is one kernel, whose type is its name.
                row = Row(name, COMPILED, start_ns, end_ns, self._number, "")
                for _, run in runs:
                    run.eager.append(row)
        elif kind == _PROCESS_KIND:
            self._open_steps.append((end, end_ns, self._steps[number]))
        elif kind == _MARK_KIND:
            marked = self._marked[name] = Marked(self._number, start_ns, end_ns)
            self._open_marks.append((end, marked))
        elif kind == _START_KIND:
            around = None if inside is not None or runs else self._around(end_ns)
            if around is not None:
                around.started.append(number)
            else:
                self._steps.started(number, inside, [run for _, run in runs])
        elif kind == _PIPELINE_KIND:
            self._steps.pipeline(number)
        elif kind == _SPAN_KIND:
            row = Row(spoken(name), ANNOTATION, start_ns, end_ns, self._number, "")
            for _, run in runs:
                run.spans.append(row)
            if not runs and inside is not None:
                inside.rows.append(row)
            elif not runs and (around := self._around(end_ns)) is not None:
                around.spans.append(row)
        elif kind == _PYTHON_KIND:
            op, _, node = spoken(name).partition(":")
            row = Row(node or op, op, start_ns, end_ns, self._number, "")
            for _, run in runs:
                run.eager.append(row)

    def _read_eager(self, op: str, start_ns: int, end_ns: int, inside: Step | None) -> None:
        """An eager op: of a run's own thread, or of a Python function inside a node."""
        node = next((k for k in reversed(self._kernels) if k.row.end_ns >= end_ns), None)
        name = op if node is None else f"{node.row.name}/{op}"
        row = Row(name, op, start_ns, end_ns, self._number, "")
        if inside is not None:
            inside.python.append(row)
        elif self._open_marks:
            for _, run in self._open_marks:
                run.eager.append(row._replace(name=op))
        elif node is not None and node.step is None:
            node.python.append(row)

    def _read_done(self, node: str, step: Step, start_ns: int, inside: Step | None) -> None:
        """The executor's mark that a node is done."""
        step.done.add(node)
        kernels = self._kernels
        depth = len(kernels) - 1
        while depth >= 0 and kernels[depth].row.name != node:
            depth -= 1
        if depth < 0:
            self._last_outside = (step, node, start_ns) if inside is not step else None
            step.marks.append(Row(node, "", start_ns, start_ns, self._number, ""))
            return
        self._last_outside = None
        row, began_in, spans, started, python = kernels[depth]
        for inner in kernels[depth + 1 :]:
            self._leave(inner)
        del kernels[depth:]
        step.rows += spans
        step.python += python
        for number in started:
            self._steps.started(number, step, ())
        # A mark inside the span: the kernel was done then, and went on with those after it.
        row = row._replace(end_ns=min(row.end_ns, start_ns))
        (step.outside if began_in is None else began_in.rows).append(row)

    def _leave_pending(self, before_ns: int | None) -> None:
        """Give up on the marks of kernels that ended before this time; None is the end."""
        kernels = self._kernels
        while kernels and (before_ns is None or kernels[-1].row.end_ns <= before_ns):
            self._leave(kernels.pop())

    def _leave(self, kernel: _Kernel) -> None:
        """The thread went on without a mark: the kernel is asynchronous, or failed."""
        if kernel.step is not None:
            kernel.step.pending.setdefault(kernel.row.name, []).append(kernel.row)
        for number in kernel.started:
            self._steps.started(number, None, ())

    def _around(self, end_ns: int) -> _Kernel | None:
        """The innermost kernel around what ends then, if its step is not known."""
        for kernel in reversed(self._kernels):
            if kernel.row.end_ns >= end_ns:
                return kernel if kernel.step is None else None
        return None
