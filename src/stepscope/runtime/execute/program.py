"""The inline executor's program: a plan written out as one straight-line Python function.

A run of many small ops is decided by what happens between the ops, so nothing does: the generated
function holds one line per step, `b1 = k7(b0, c3, b1)`, with kernels and constants as globals and
buffers as locals. A traced variant notes the clock after each line; it is a function of its own,
so that an untraced run pays nothing; so is one that tells the run's `RunMemory` what each step
makes.

The line a program stands at says which op is executing: a traceback, or the frame of the program,
is enough to name the op in flight. A program that others may ask about (its `check` is "token")
leaves its frame with the run when it begins. `sys._current_frames` would find it without that, but
can stop the whole process for ever on CPython before 3.11.9 (gh-106883): it lets other threads run
while it has the list of all threads locked, and a thread that ends waits for that list.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from stepscope.graph.dtypes import Array
from stepscope.ops.resources import address_of
from stepscope.ops.state.variable_cells import current
from stepscope.runtime.memory.buffers import (
    MAX_IDLE_BUFFERS,
    assign_buffers,
    fetch_policy,
    poison,
    poisoning,
    ways_out,
)
from stepscope.runtime.plan.memory_table import MemoryTable
from stepscope.runtime.plan.plan import Plan, PlanStep, is_pure

if TYPE_CHECKING:
    from stepscope.runtime.memory.allocator import Allocator

Check = Literal["", "token", "deadline"]
_FIRST_LINE: Final = 4
_MAX_KEPT_ARENAS: Final = 4
Memory = Literal["", "notes", "counted"]


@dataclass(frozen=True, slots=True)
class Variant:
    """Which of a plan's programs: what it records, and how often it looks whether to stop.

    `check` is "" (before expensive ops only), "token" (before each op, the run's stop signal) or
    "deadline" (before each op, the clock). `memory` is "" (nobody asks), "notes" (the run's
    `RunMemory` is shown what the plan could not know) or "counted" (it is asked before each op).
    """

    trace_level: int = 0
    check: Check = ""
    poison: bool = False
    memory: Memory = ""
    lazy: bool = False
    """Whether buffers are allocated as steps come to need them."""
    watched: frozenset[tuple[int, int]] = frozenset()
    """The (step, slot)s whose values are shown to the run's watcher."""


class Arena:
    """The buffers of one run at a time, as the views its steps write to."""

    __slots__ = ("_addresses", "views")

    def __init__(self, views: tuple[Array, ...]) -> None:
        self.views = views
        self._addresses: list[int] | None = None

    def addresses(self) -> list[int]:
        """Where each view lies; worked out once."""
        if self._addresses is None:
            self._addresses = [address_of(array) for array in self.views]
        return self._addresses


class GeneratedProgram:
    """A plan's generated functions, and the buffers they run in."""

    def __init__(
        self,
        plan: Plan,
        table: Callable[[], MemoryTable] | None = None,
        allocator: Allocator | None = None,
    ) -> None:
        self.plan = plan
        self._table = table if table is not None else lambda: MemoryTable(plan)
        self._allocator = allocator
        self.last_used = 0
        """The number of the last run that took buffers."""
        self.buffers = assign_buffers(plan)
        self._arena_bytes = self.buffers.nbytes
        self.steps: list[PlanStep] = [s for s in plan.steps if s.executes]
        """The steps that have a line, in order."""
        self.step_numbers = np.array([s.node.index for s in self.steps], dtype=np.intp)
        self._globals = self._namespace()
        self._functions: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._arenas: deque[Arena] = deque()
        self._first: dict[int, list[int]] | None = None
        self._line_nodes: npt.NDArray[np.intp] | None = None

    def line_nodes(self, source_count: int) -> npt.NDArray[np.intp]:
        """The step of each line as a node of the plan's facts, which have so many before."""
        if self._line_nodes is None:
            self._line_nodes = self.step_numbers + source_count
        return self._line_nodes

    def function(
        self,
        trace_level: int,
        check: Check,
        watched: frozenset[tuple[int, int]] = frozenset(),
        memory: Memory = "",
        *,
        lazy: bool = False,
    ) -> Callable[..., Any]:
        """The function of one run: `(context, feeds, arena, token, ...)` to the fetched values.

        With `lazy`, the arena is a `LazyBuffers`.
        """
        # The fields of a Variant; as a tuple they are found faster.
        key = (trace_level, check, poisoning(), memory, lazy, watched)
        function = self._functions.get(key)
        if function is None:
            with self._lock:
                function = self._functions.setdefault(key, self._compile(Variant(*key)))
        return function

    def take_arena(self) -> Arena:
        """Buffers for one run; give them back when nothing of the run can touch them."""
        try:
            return self._arenas.pop()
        except IndexError:
            if self._allocator is not None and self.buffers.sizes:
                self._allocator.keeps_buffers(self, self._arena_bytes)
            return Arena(self.buffers.allocate())

    def give_arena(self, arena: Arena) -> None:
        kept = len(self._arenas)
        if not kept or (
            kept < _MAX_KEPT_ARENAS and (kept + 1) * self._arena_bytes <= MAX_IDLE_BUFFERS
        ):
            self._arenas.append(arena)

    def idle_bytes(self) -> int:
        """Bytes of buffers that no run uses."""
        return len(self._arenas) * self._arena_bytes

    def give_back(self) -> int:
        """Let go of the buffers that no run uses; how many bytes that were."""
        count = 0
        while self._arenas:
            try:
                self._arenas.popleft()
            except IndexError:
                break
            count += 1
        return count * self._arena_bytes

    def is_repeatable(self, last: PlanStep) -> bool:
        """Whether the steps up to this one can be run again as if they had not run."""
        return all(is_pure(step) for step in self.steps[: self.steps.index(last) + 1])

    def locals_of(self, traceback: TracebackType | None) -> dict[str, Any]:
        """The names of the function an exception came from; empty if it is not one of these."""
        while traceback is not None:
            if traceback.tb_frame.f_globals is self._globals:
                return dict(traceback.tb_frame.f_locals)
            traceback = traceback.tb_next
        return {}

    def step_before(self, traceback: TracebackType | None, back: int) -> PlanStep | None:
        """The step whose line an exception came from (back=0), or the one before it (back=1)."""
        while traceback is not None:
            if traceback.tb_frame.f_globals is self._globals:
                return self._step_at(traceback.tb_lineno, back)
            traceback = traceback.tb_next
        return None

    def current_step(self, frame: FrameType) -> PlanStep | None:
        """The step that a run is executing right now, by the frame that it left with its state."""
        return self._step_at(frame.f_lineno)

    def _step_at(self, line: int | None, back: int = 0) -> PlanStep | None:
        if line is None:
            # Before its first line, where a function can be interrupted as well.
            return None
        index = line - back - _FIRST_LINE
        return self.steps[index] if 0 <= index < len(self.steps) else None

    # -- writing the function ------------------------------------------------------------------

    def _namespace(self) -> dict[str, Any]:
        copied, handed_out = ways_out(self.plan)
        names: dict[str, Any] = {
            "own": copied,
            "hand_out": handed_out,
            "poison": poison,
            "shape_of": np.shape,
            "current": current,
            "this_frame": sys._getframe,
            "__name__": __name__,
        }
        for i, step in enumerate(self.plan.steps):
            if step.kernel.value is not None:
                names[f"c{i}"] = step.kernel.value
            elif step.executes:
                names[f"k{i}"] = step.kernel.call
        return names

    def _compile(self, variant: Variant) -> Callable[..., Any]:
        source = "\n".join(self._lines(variant))
        namespace = self._globals
        local: dict[str, Any] = {}
        exec(compile(source, _FILENAME, "exec"), namespace, local)
        function: Callable[..., Any] = local["run"]
        return function

    def _lines(self, variant: Variant) -> list[str]:
        feeds = ", ".join(f"v{node.index}_0" for node in self.plan.graph.args.values())
        arena = ", ".join(f"b{i}" for i in range(len(self.buffers.views)))
        lines = [
            "def run(context, feeds, arena, token, stop, marks, clock, note, deadline):",
            f"    {feeds}, = feeds" if feeds else "    pass",
            self._opening(variant, arena),
        ]
        releases = self._releases()
        for line, step in enumerate(self.steps):
            lines.append("    " + "; ".join(self._statements(line, step, variant, releases)))
        if variant.check == "deadline":
            lines.append("    clock() > deadline and stop()")
        lines.append(f"    return ({self._results()})")
        return lines

    def _statements(
        self, line: int, step: PlanStep, variant: Variant, releases: dict[int, list[str]]
    ) -> list[str]:
        i = step.node.index
        statements = []
        if variant.check == "deadline":
            statements.append("clock() > deadline and stop()")
        elif variant.check == "token" or step.expensive:
            statements.append("token.cancelled and stop()")
        if variant.memory:
            statements += self._before(i, step, variant)
        if variant.lazy:
            statements += [f"b{v} = take({v})" for v in self._first_users().get(i, ())]
        statements.append(self._call(i, step))
        if variant.trace_level:
            statements.append(f"marks[{line}] = clock()")
        if variant.memory:
            statements += self._after(i, step, variant)
        if variant.trace_level >= 3:
            statements += [
                f"note(({i}, {slot}, shape_of({self._port(i, slot)})))"
                for slot, (shape, dtype) in enumerate(
                    zip(step.shapes, step.node.output_dtypes, strict=True)
                )
                if shape.known is None and dtype.is_numpy_compatible and not dtype._is_ref_dtype
            ]
        statements += [
            f"context.watch({i}, {slot}, {self._port(i, slot)})"
            for slot in range(len(step.node.output_dtypes))
            if (i, slot) in variant.watched
        ]
        if variant.poison:
            statements += [f"poison(b{v})" for v in self.buffers.freed.get(i, ())]
        statements += releases.get(i, ())
        return statements

    def _opening(self, variant: Variant, arena: str) -> str:
        opening = []
        if variant.check == "token":
            opening.append("context.frame = this_frame()")
        if variant.lazy:
            opening.append("take = arena.take")
        elif arena:
            opening.append(f"{arena}, = arena")
        if variant.memory:
            first = "before" if variant.memory == "counted" else "remember"
            opening.append(f"{first} = context.memory.{first}; seen = context.memory.seen")
        return "    " + ("; ".join(opening) or "pass")

    def _first_users(self) -> dict[int, list[int]]:
        if self._first is None:
            self._first = self.buffers.first_users()
        return self._first

    def _before(self, i: int, step: PlanStep, variant: Variant) -> list[str]:
        """The memory is told that a step begins."""
        special, inputs = self._table().specials[i], self._inputs(step)
        if variant.memory == "counted":
            return [f"before({i}, ({', '.join(inputs)},))" if special else f"before({i})"]
        return [f"h = remember({inputs[0]})"] if special == "variable" else []

    def _after(self, i: int, step: PlanStep, variant: Variant) -> list[str]:
        """The memory is told what a step made."""
        table = self._table()
        if variant.memory != "counted" and not table.looks[i]:
            return []
        outputs = [self._port(i, s) for s in range(len(step.node.output_dtypes))]
        made, unless = table.made[i], ""
        arguments = [str(i), f"({''.join(f'{output}, ' for output in outputs)})"]
        if any(o.may_copy for o in made):
            source = self._inputs(step)[step.kernel.views[0]]
            arguments.append(f"source={source}")
            if len(outputs) == 1:
                # A view has what it is a view of as its base, or the same base.
                base = f"{outputs[0]}.base"
                unless = f"{base} is {source} or {base} is {source}.base is not None or "
        if table.specials[i] == "variable":
            cell = self._inputs(step)[0]
            arguments.append(f"cell={cell}")
            unless = "" if made else f"h is {cell}.holdings() or "
        call = f"seen({', '.join(arguments)})"
        return [call if variant.memory == "counted" else unless + call]

    def _inputs(self, step: PlanStep) -> list[str]:
        """The inputs as a kernel gets them."""
        ports = []
        for position, (source, slot) in enumerate(step.node.inputs):
            port = self._port(source.index, slot)
            if step.reads[position]:
                port += ".read()"
            elif step.late and step.late[position]:
                port = f"current({port})"
            if step.copies(self.plan, position):
                port += ".copy()"
            ports.append(port)
        return ports

    def _call(self, i: int, step: PlanStep) -> str:
        arguments = ["context"] if step.kernel.context else []
        arguments += self._inputs(step)
        view = self.buffers.view_of.get((i, 0))
        if view is not None:
            arguments.append(f"b{view}" if step.kernel.out == "positional" else f"out=b{view}")
            return f"k{i}({', '.join(arguments)})"
        call = f"k{i}({', '.join(arguments)})"
        count = len(step.node.output_dtypes)
        if count == 0:
            return call
        if count == 1:
            return f"v{i}_0 = {call}"
        return f"{', '.join(f'v{i}_{slot}' for slot in range(count))} = {call}"

    def _port(self, index: int, slot: int) -> str:
        if self.plan.steps[index].kernel.value is not None:
            return f"c{index}"
        view = self.buffers.view_of.get((index, slot))
        return f"v{index}_{slot}" if view is None else f"b{view}"

    def _releases(self) -> dict[int, list[str]]:
        """After which step which names are let go, so that fresh arrays end with their last use."""
        fetched = {
            (port[0].index, port[1]) for retval in self.plan.graph.retvals for port in retval.inputs
        }
        last: dict[str, int] = {}
        for i, step in enumerate(self.plan.steps):
            if not step.executes:
                continue
            for slot in range(len(step.node.output_dtypes)):
                name = self._port(i, slot)
                if name.startswith("v") and (i, slot) not in fetched:
                    last[name] = i
            for source, slot in step.node.inputs:
                name = self._port(source.index, slot)
                if name in last:
                    last[name] = i
        releases: dict[int, list[str]] = {}
        for name, i in last.items():
            releases.setdefault(i, []).append(f"{name} = None")
        return releases

    def _results(self) -> str:
        parts = []
        for tensor, copy in zip(self.plan.graph.fetches, fetch_policy(self.plan), strict=True):
            retval = self.plan.graph.retval_of[tensor]
            source, slot = retval.inputs[0]
            port = self._port(source.index, slot)
            if source.output_dtypes[slot]._is_ref_dtype:
                port += ".read()"
            elif self.plan.steps[retval.index].late:
                port = f"current({port})"
            parts.append(f"{'own' if copy else 'hand_out'}({port}),")
        return " ".join(parts)


_FILENAME: Final = "<stepscope plan>"
