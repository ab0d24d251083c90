"""What a profile says was executed: the one reading of it, for runs as for files.

    bytes -> `space` (planes, lines, columns of events)
          -> `host_events` (what each event is; executions that look as nearly all do, as columns)
          -> `thread_walk` (the others, event by event)
          -> `steps` (whose executions they are; `liveness` says which nodes executed at all)

The structure, on the line of each thread: an executor works off a step inside spans
`ExecutorState::Process` (stat `id`); in them there is a span `node:Op` per kernel, and after every
node, also those without a kernel of their own, a mark `ExecutorPropagateOutputs` that names it, if
the profiler's level was raised. The thread that asked for the step has `SessionRun` or
`FunctionRun` with the same id. Eager ops are spans on the thread that called them, which is an
executor's where a Python function inside a node calls them.

Who takes a profile of its own runs has their marks and graphs beside it (the adapter's `Profile`);
of a file there is nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.metadata.xplane.accelerators import AcceleratorLane, lanes
from stepscope.metadata.xplane.host_events import HostEvents
from stepscope.metadata.xplane.liveness import lowered_nodes, silent_op
from stepscope.metadata.xplane.space import Plane, Space
from stepscope.metadata.xplane.steps import FOLDING_STEP, ExecutorSteps, Row
from stepscope.metadata.xplane.thread_walk import Outside, ThreadWalk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Thread(NamedTuple):
    """A line of the profile: a thread, or a lane of an accelerator."""

    name: str
    id: int
    """The profiler's number of the thread."""

    @property
    def short_name(self) -> str:
        """Its name without the number that TensorFlow adds: `tf_Compute` for `tf_Compute/17`."""
        return self.name.partition("/")[0]


class ExecutionTrace:
    """The executions of a profile. They are rows of `steps` or lie `outside` of them.

    Most of them are read as columns. With `in_rows` these become rows as well, for who asks for
    single runs; else they are in `columns` only.
    """

    def __init__(self, space: Space, *, in_rows: bool) -> None:
        self.threads: list[Thread] = []
        """By the numbers that rows have in `line`."""
        self.steps = ExecutorSteps()
        self.outside = Outside()
        self.marks: dict[str, tuple[int, int, int]] = {}
        """Line, begin and end of the runs of Stepscope's that are marked."""
        self.started: set[int] = set()
        """The steps that threads asked for."""
        self.host_events = 0
        """How many events threads left, of whatever kind: what the runs were slowed down by."""
        self._hosts = [self._read_host(space, plane) for plane in space.hosts()]
        self.has_marks = any(host.has_marks for host in self._hosts)
        """Whether the executors' marks are there: not in profiles of TensorFlow's own."""
        self._in_rows = in_rows
        self.only_step = self._find_only_step()
        """The step that kernels of an unknown one are of (`Outside.unplaced`); None where any of
        several may have executed them."""
        for host in self._hosts:
            for number, places in _by_step(host.left, host.around(host.left)):
                self.steps[number].leave(_rows(host, places))
        if in_rows:
            self._make_rows()
        else:
            self._lend_rows()
        for step in self.steps.values():
            step.settle()
        self.lanes: list[tuple[int, AcceleratorLane]] = []
        """The executions on accelerators, with the numbers of their lines."""
        for plane in space.accelerators():
            for lane in lanes(space, plane):
                self.lanes.append((len(self.threads), lane))
                self.threads.append(Thread(lane.name, lane.id))
        self.damage = space.damage
        """Where the first damage of the bytes is; None for none."""

    def _read_host(self, space: Space, plane: Plane) -> HostEvents:
        origins = [space.origin_ns(line) for line in plane.lines]
        first = len(self.threads)
        events = HostEvents(plane, origins, first)
        self.threads += (Thread(line.name, line.id) for line in plane.lines)
        self.host_events += events.count
        self.marks.update(events.marks())
        self.started |= events.started()
        lines = events.line[events.odd]
        others = np.sort(np.concatenate((events.pairs, events.unmarked, events.left)))
        for line in np.unique(lines).tolist():
            begin, end = np.searchsorted(events.odd, events.line_bounds[line : line + 2])
            of_line = np.searchsorted(others, events.line_bounds[line : line + 2])
            marked = events.marked_nodes if events.on_pool[line] else None
            walk = ThreadWalk(first + line, self.steps, self.outside, marked)
            walk.read(events, events.odd[begin:end], others[slice(*of_line)])
        return events

    def columns(self) -> Iterator[tuple[HostEvents, Ints, Ints | None]]:
        """What was read as columns: events, rows of them, and their steps (None: not known).

        None with `in_rows`. Eager ops have the step 0.
        """
        if self._in_rows:
            return
        for host in self._hosts:
            yield host, host.pairs, host.step[host.pairs + 1]
            yield host, host.unmarked, host.around(host.unmarked)
            yield host, host.unplaced, None
            yield host, host.eager, np.zeros(len(host.eager), np.int64)

    def _find_only_step(self) -> int | None:
        """The step that threads asked for, if it is the only one that was at work.

        Who asked for a step leaves a span when that is over. One that is not when the profiler
        stops leaves none, only marks of its nodes: to have been asked for alone does not do.
        """
        at_work = set(self.steps)
        for host in self._hosts:
            for steps in (host.step[host.pairs + 1], host.around(host.unmarked)):
                at_work.update(np.unique(steps).tolist())
        at_work -= self.steps.children() | self.steps.pipelines | {FOLDING_STEP, 0}
        return (
            next(iter(self.started))
            if len(self.started) == 1 and not (at_work - self.started)
            else None
        )

    def _make_rows(self) -> None:
        for host in self._hosts:
            for number, places in _by_step(host.pairs, host.step[host.pairs + 1]):
                rows, step = _rows(host, places), self.steps[number]
                step.rows += rows
                step.done.update(row.name for row in rows)
            for number, places in _by_step(host.unmarked, host.around(host.unmarked)):
                rows, step = _rows(host, places), self.steps[number]
                step.rows += rows
                step.unfinished += rows
            self.outside.unplaced += _rows(host, host.unplaced)
            self.outside.eager += _rows(host, host.eager)
        if self.only_step is not None:
            step, rows = self.steps[self.only_step], self.outside.unplaced
            step.rows += rows
            step.unfinished += rows
            step.unmarked += rows
            self.outside.unplaced.clear()

    def _lend_rows(self) -> None:
        """Which nodes without a kernel executed is judged by those with one: steps may ask."""
        for host in self._hosts:
            kernels = np.concatenate((host.pairs, host.unmarked))
            steps = np.concatenate((host.step[host.pairs + 1], host.around(host.unmarked)))
            for number, places in _by_step(kernels, steps):
                if number in self.steps:
                    self.steps[number].beside = partial(_rows, host, places)


def _by_step(places: Ints, steps: Ints) -> Iterator[tuple[int, Ints]]:
    """The steps among these, each with its places."""
    order = np.argsort(steps, kind="stable")
    places, steps = places[order], steps[order]
    numbers, begins = np.unique(steps, return_index=True)
    bounds = [*begins.tolist(), len(places)]
    for number, (begin, end) in zip(numbers.tolist(), pairwise(bounds), strict=True):
        yield number, places[begin:end]


def _rows(host: HostEvents, places: Ints) -> list[Row]:
    """Rows of events as executions; an eager op has its type for a name."""
    if not len(places):
        return []
    known = [host.meanings[name] for name in host.name[places].tolist()]
    starts, ends = (times.tolist() for times in host.times_ns(places))
    lines = (host.first_line + host.line[places]).tolist()
    names = [name for _, name, _ in known]
    types = [op or name for _, name, op in known]
    shapes = host.shapes[places].tolist()
    same = repeat(""), repeat(0), repeat(())
    columns = (names, types, starts, ends, lines, shapes, *same)
    return list(map(Row._make, zip(*columns, strict=False)))


def op_types(names: Sequence[str], ops: Sequence[str], others: Iterable[str]) -> list[str]:
    """The op types, also of executions whose events do not say it (see `silent_op`).

    `others` are names of what executed beside them.
    """
    lowered = lowered_nodes(chain(names, others))
    pairs = zip(names, ops, strict=True)
    return [op or silent_op(name, lowered) for name, op in pairs]
