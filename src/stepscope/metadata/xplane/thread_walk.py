"""One thread's line, event by event: what is not as nearly all executions are (see `host_events`).

Asynchronous kernels, whose mark comes later or elsewhere; marks of nodes without a kernel; kernels
with something inside: eager ops and spans of a Python function, steps that they started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.metadata.xplane.event_names import (
    DONE,
    EAGER_OP,
    KERNEL,
    PIPELINE_CALL,
    PROCESS,
    PYTHON_CALL,
    STARTS,
    USER_SPAN,
    unescaped,
)
from stepscope.metadata.xplane.host_events import HostEvents
from stepscope.metadata.xplane.steps import ANNOTATION, COMPILED, ExecutorStep, ExecutorSteps, Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_STRETCH: Final = 1 << 16
_DEEPEST: Final = 100
"""Kernels are looked at no deeper: inside of each other they are by calls of functions."""


class StepCall(NamedTuple):
    """A step that a thread asked for outside of any other step."""

    line: int
    start_ns: int
    step: int


@dataclass(slots=True)
class Outside:
    """What threads did outside of executors, by line and in order of time."""

    calls: list[StepCall] = field(default_factory=list)
    eager: list[Row] = field(default_factory=list)
    """Ops that were called one by one, compiled functions, and Python functions."""
    spans: list[Row] = field(default_factory=list)
    """The user's own."""
    unplaced: list[Row] = field(default_factory=list)
    """Kernels of executors that were at work when the profiler stopped: of which step is not said.
    """


class _Inner(NamedTuple):
    """What lies inside a kernel whose step is not known yet."""

    spans: list[Row]
    calls: list[StepCall]
    eager: list[Row]


class _Kernel(NamedTuple):
    """A kernel's span whose mark has not come yet."""

    row: Row
    step: ExecutorStep | None
    """None where the profiler was stopped before the executor's own span ended."""
    inner: _Inner | None
    """None where the step is known."""


class ThreadWalk:
    """Reads one thread's line into the steps of its profile, and what it did outside of them."""

    def __init__(
        self,
        line: int,
        steps: ExecutorSteps,
        outside: Outside,
        marked_nodes: AbstractSet[str] | None,
    ) -> None:
        """With `marked_nodes`, kernels of others count also where nothing says of which step."""
        self._line = line
        self._marked_nodes = marked_nodes
        self._steps = steps
        self._outside = outside
        self._open_steps: list[tuple[int, int, ExecutorStep]] = []
        """The end of the executor's span, in picoseconds and in nanoseconds, and its step."""
        self._kernels: list[_Kernel] = []
        self._open_nodes: Counter[str] = Counter()
        """How often each node is among them."""
        self._last_outside: tuple[ExecutorStep, str, int] | None = None
        """The last mark, if it is of no kernel that is known, outside any span of its step."""

    def read(self, events: HostEvents, rows: Ints, others: Ints) -> None:
        """The odd rows of the line; `others` are the kernels of the line that are no odd ones."""
        known = events.times_ns(others)[0]
        for begin in range(0, len(rows), _STRETCH):
            self._read_stretch(events, rows[begin : begin + _STRETCH], others, known)
        self._leave_pending(None)
        if self._last_outside is not None:
            step, node, start_ns = self._last_outside
            if not len(others) or start_ns > known[-1]:
                step.left_open.add((node, start_ns))

    def _read_stretch(self, events: HostEvents, rows: Ints, others: Ints, known: Ints) -> None:
        # When the last kernel before each event began, of those that are no odd ones.
        before = np.searchsorted(others, rows) - 1
        kernel_ns = np.where(before >= 0, known[before], 0) if len(known) else np.zeros(len(rows))
        columns = (
            rows,
            kernel_ns,
            events.start_ps[rows],
            events.end_ps[rows],
            *events.times_ns(rows),
            events.step[rows],
            events.in_function[rows],
        )
        for row, kernel, *event in zip(*(column.tolist() for column in columns), strict=True):
            if self._kernels:
                self._leave_pending(kernel)
            self._read_one(events, row, *event)

    def _read_one(
        self, events: HostEvents, place: int, start: int, end: int, start_ns: int, end_ns: int,
        number: int, in_function: bool,
    ) -> None:  # fmt: skip
        while self._open_steps and self._open_steps[-1][0] <= start:
            # A mark of a kernel that ran inside comes from elsewhere, even if on this thread.
            self._leave_pending(self._open_steps.pop()[1])
        kind, name, op = events.meaning(place)
        inside = self._open_steps[-1][2] if self._open_steps else None
        if kind == DONE:
            self._read_done(events.node[place], self._steps[number], start_ns, inside)
        elif kind == EAGER_OP:
            self._read_eager(name, start_ns, end_ns, inside)
        elif kind == KERNEL:
            if inside is None and in_function and name == op:
                # The call of a function that XLA compiled is one kernel, whose type is its name.
                self._outside.eager.append(Row(name, COMPILED, start_ns, end_ns, self._line, ""))
                return
            self._leave_pending(start_ns)
            row = Row(name, op, start_ns, end_ns, self._line, events.shapes[place])
            inner = _Inner([], [], []) if inside is None else None
            self._kernels.append(_Kernel(row, inside, inner))
            self._open_nodes[name] += 1
        elif kind == PROCESS:
            self._open_steps.append((end, end_ns, self._steps[number]))
        elif kind == STARTS:
            self._read_call(StepCall(self._line, start_ns, number), end_ns, inside)
        elif kind == PIPELINE_CALL:
            self._steps.pipeline(number)
        elif kind == USER_SPAN:
            row = Row(unescaped(name), ANNOTATION, start_ns, end_ns, self._line, "")
            around = self._around(end_ns) if inside is None else None
            if inside is not None:
                inside.rows.append(row)
            else:
                (self._outside if around is None else around).spans.append(row)
        elif kind == PYTHON_CALL:
            op, _, node = unescaped(name).partition(":")
            self._outside.eager.append(Row(node or op, op, start_ns, end_ns, self._line, ""))

    def _read_call(self, call: StepCall, end_ns: int, inside: ExecutorStep | None) -> None:
        self._steps[call.step]
        around = self._around(end_ns) if inside is None else None
        if inside is not None:
            inside.children.append(call.step)
        else:
            (self._outside if around is None else around).calls.append(call)

    def _read_eager(self, op: str, start_ns: int, end_ns: int, inside: ExecutorStep | None) -> None:
        """An eager op: of a thread's own, or of a Python function inside a node."""
        node = self._innermost(end_ns)
        row = Row(op, op, start_ns, end_ns, self._line, "")
        if inside is not None:
            inside.python.append(row if node is None else _under(node.row, row))
        elif node is not None and node.inner is not None:
            node.inner.eager.append(row)
        else:
            self._outside.eager.append(row)

    def _read_done(
        self, node: str, step: ExecutorStep, start_ns: int, inside: ExecutorStep | None
    ) -> None:
        """The executor's mark that a node is done."""
        step.done.add(node)
        kernels = self._kernels
        if not self._open_nodes[node]:
            self._last_outside = (step, node, start_ns) if inside is not step else None
            step.marks.append(Row(node, "", start_ns, start_ns, self._line, ""))
            return
        self._last_outside = None
        while kernels[-1].row.name != node:
            self._leave(kernels.pop())
        row, began_in, inner = kernels.pop()
        self._open_nodes[node] -= 1
        if inner is not None:
            step.rows += inner.spans
            step.python += (_under(row, eager) for eager in inner.eager)
            step.children += (call.step for call in inner.calls)
        # A mark inside the span: the kernel was done then, and went on with those after it.
        row = row._replace(end_ns=min(row.end_ns, start_ns))
        (step.outside if began_in is None else began_in.rows).append(row)

    def _leave_pending(self, before_ns: int | None) -> None:
        """Give up on the marks of kernels that ended before this time; None is the end."""
        kernels = self._kernels
        while kernels and (before_ns is None or kernels[-1].row.end_ns <= before_ns):
            self._leave(kernels.pop())

    def _leave(self, kernel: _Kernel) -> None:
        """The thread went on without a mark: the kernel is asynchronous, failed, or was none."""
        self._open_nodes[kernel.row.name] -= 1
        if kernel.step is not None:
            kernel.step.leave([kernel.row])
        elif self._marked_nodes is not None and kernel.row.name not in self._marked_nodes:
            self._outside.unplaced.append(kernel.row)
        if kernel.inner is not None:
            self._outside.spans += kernel.inner.spans
            self._outside.calls += kernel.inner.calls
            self._outside.eager += kernel.inner.eager

    def _around(self, end_ns: int) -> _Inner | None:
        """What lies inside the innermost kernel around what ends then, if its step is not known."""
        kernel = self._innermost(end_ns)
        return kernel.inner if kernel is not None else None

    def _innermost(self, end_ns: int) -> _Kernel | None:
        """The innermost kernel around what ends then."""
        nearest = islice(reversed(self._kernels), _DEEPEST)
        return next((kernel for kernel in nearest if kernel.row.end_ns >= end_ns), None)


def _under(node: Row, row: Row) -> Row:
    """An eager op of a Python function, under the name of the node that called it."""
    return row._replace(name=f"{node.name}/{row.op}")
