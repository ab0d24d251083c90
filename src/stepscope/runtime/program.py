"""The inline executor's program: a plan written out as one straight-line Python function.

A run of many small ops is decided by what happens between the ops, so nothing does: the generated
function holds one line per step, `b1 = k7(b0, c3, b1)`, with kernels and constants as globals and
buffers as locals. A traced variant notes the clock after each line; it is a function of its own,
so that an untraced run pays nothing. The line a program stands at says which op is executing: a
traceback or the frame of another thread is enough to name the op in flight.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, Literal

import numpy as np

from stepscope.graph.dtypes import Array
from stepscope.runtime.buffers import (
    assign_buffers,
    fetch_policy,
    hand_out,
    own,
    poison,
    poisoning,
)
from stepscope.runtime.plan import Plan, Step

Check = Literal["", "token", "deadline"]
_FIRST_LINE: Final = 4
_MAX_KEPT_ARENAS: Final = 4


@dataclass(frozen=True, slots=True)
class Variant:
    """Which of a plan's programs: what it records, and how often it looks whether to stop.

    `check` is "" (before expensive ops only), "token" (before each op, the run's stop signal) or
    "deadline" (before each op, the clock).
    """

    trace_level: int = 0
    check: Check = ""
    poison: bool = False
    watched: frozenset[tuple[int, int]] = frozenset()
    """The (step, slot)s whose values are shown to the run's watcher."""


class Program:
    """A plan's generated functions, and the buffers they run in."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.buffers = assign_buffers(plan)
        self.steps: list[Step] = [s for s in plan.steps if s.executes]
        """The steps that have a line, in order."""
        self.step_numbers = np.array([s.node.index for s in self.steps], dtype=np.intp)
        self._globals = self._namespace()
        self._functions: dict[Variant, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._arenas: deque[tuple[Array, ...]] = deque()

    def function(
        self, trace_level: int, check: Check, watched: frozenset[tuple[int, int]] = frozenset()
    ) -> Callable[..., Any]:
        """The function of one run: `(context, feeds, arena, token, ...)` to the fetched values."""
        variant = Variant(trace_level, check, poisoning(), watched)
        function = self._functions.get(variant)
        if function is None:
            with self._lock:
                function = self._functions.setdefault(variant, self._compile(variant))
        return function

    def take_arena(self) -> tuple[Array, ...]:
        """Buffers for one run; give them back when nothing of the run can touch them."""
        try:
            return self._arenas.pop()
        except IndexError:
            return self.buffers.allocate()

    def give_arena(self, arena: tuple[Array, ...]) -> None:
        if len(self._arenas) < _MAX_KEPT_ARENAS:
            self._arenas.append(arena)

    def step_before(self, traceback: TracebackType | None, back: int) -> Step | None:
        """The step whose line an exception came from (back=0), or the one before it (back=1)."""
        while traceback is not None:
            if traceback.tb_frame.f_globals is self._globals:
                return self._step_at(traceback.tb_lineno - back)
            traceback = traceback.tb_next
        return None

    def current_step(self, thread_ident: int) -> Step | None:
        """The step another thread is executing right now, if it is in this program."""
        frame: FrameType | None = sys._current_frames().get(thread_ident)
        while frame is not None:
            if frame.f_globals is self._globals:
                return self._step_at(frame.f_lineno)
            frame = frame.f_back
        return None

    def _step_at(self, line: int) -> Step | None:
        index = line - _FIRST_LINE
        return self.steps[index] if 0 <= index < len(self.steps) else None

    # -- writing the function ------------------------------------------------------------------

    def _namespace(self) -> dict[str, Any]:
        names: dict[str, Any] = {
            "own": own, "hand_out": hand_out, "poison": poison, "shape_of": np.shape,
        }  # fmt: skip
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
            f"    {arena}, = arena" if arena else "    pass",
        ]
        releases = self._releases()
        for line, step in enumerate(self.steps):
            lines.append("    " + "; ".join(self._statements(line, step, variant, releases)))
        if variant.check == "deadline":
            lines.append("    clock() > deadline and stop()")
        lines.append(f"    return ({self._results()})")
        return lines

    def _statements(
        self, line: int, step: Step, variant: Variant, releases: dict[int, list[str]]
    ) -> list[str]:
        i = step.node.index
        statements = []
        if variant.check == "deadline":
            statements.append("clock() > deadline and stop()")
        elif variant.check == "token" or step.expensive:
            statements.append("token.cancelled and stop()")
        statements.append(self._call(i, step))
        if variant.trace_level:
            statements.append(f"marks[{line}] = clock()")
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

    def _call(self, i: int, step: Step) -> str:
        arguments = ["context"] if step.kernel.context else []
        for position, (source, slot) in enumerate(step.node.inputs):
            port = self._port(source.index, slot)
            if step.reads[position]:
                port += ".read()"
            elif step.copies(self.plan, position):
                port += ".copy()"
            arguments.append(port)
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
            parts.append(f"{'own' if copy else 'hand_out'}({port}),")
        return " ".join(parts)


_FILENAME: Final = "<stepscope plan>"
