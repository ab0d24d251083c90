"""Plans whose only control flow is loops, written out as one Python function with `while` in it.

`frames` hands every tensor on by counting who still waits for it: some microseconds per node and
iteration, more than most nodes of a recurrent network take. Where the plan shows beforehand what
happens in an iteration, nothing has to be counted. For

    n, x = 0, x0                    with a loop condition `n < 3` and a body `x = f(x, w)`
    while n < 3: ...

the function is, in short,

    v7_0 = v3_0; v8_0 = v2_0                    what comes into the loop (Enter, Merge)
    while True:
        token.cancelled and stop()
        v9_0 = k9(v7_0, c4)                     the condition
        if not v9_0: break                      LoopCond and the Switches
        v12_0 = k12(v8_0, v5_0)                 the body
        v7_0, v8_0 = v11_0, v12_0               NextIteration
    v15_0 = v8_0                                Exit

Every node executes as often as with `frames`, and in the same order: iteration after iteration, and
within one the condition, then the body, in the order of the plan. What of them only hands a tensor
on (Enter, Merge, Switch, NextIteration, Exit, Identity) is not called: it is a name for it. In a
trace it is there, and takes no time. Where an op may write over an input that nobody else reads, it
does: what an iteration works with stays in the processor's cache.

`loop_program` makes one of a plan, or says that it cannot: with a conditional (a Switch that is no
loop's) it depends on values which nodes execute, and several devices run on a pool.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any, Final

from stepscope.ops.flow.switches import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from stepscope.ops.state.variable_cells import current
from stepscope.runtime.plan.exec_graph import dependencies
from stepscope.runtime.plan.plan import Plan, PlanStep, is_pure

_FILENAME: Final = "<stepscope loops>"
_ITS_OWN: Final = (
    "TensorArray", "Stack", "VariableV2", "VarHandleOp", "ReadVariableOp", "_Arg", "_Retval",
)  # fmt: skip
"""Op types that are stateful and leave no traces outside of the run."""
_INDENT: Final = "    "
_DEEPEST: Final = 15
"""Python nests no more than twenty blocks."""


class _Irregular(Exception):  # noqa: N818 - a finding, not an error
    """The plan does not say beforehand which nodes an iteration executes."""


class _Loop:
    """One frame: what is in it, by the part that it plays."""

    def __init__(self, name: bytes, around: _Loop | None, first: int) -> None:
        self.name = name
        self.around = around
        self.first = first
        """The first of its Enters: before it, all that comes into the loop is there."""
        self.depth: int = 0 if around is None else around.depth + 1
        self.enters: list[int] = []
        self.merges: list[int] = []
        self.exits: list[int] = []
        self.early: list[int] = []
        """Enters that execute where the loop does not: the condition around it is false there."""
        self.condition = -1
        self.members: list[int] = []
        """All nodes in it but its Enters and Exits, and those of loops inside of it."""
        self.loops: dict[int, _Loop] = {}
        """The loops in it, by their first Enter."""

    def switches(self, steps: Sequence[PlanStep]) -> list[int]:
        """The Switches in it."""
        return [i for i in self.members if steps[i].node.op_type in SWITCHES]


class LoopProgram:
    """The functions of one plan. One for nodes outside of loops, one for each loop."""

    def __init__(self, plan: Plan, silent: Sequence[bool]) -> None:
        """Raises `_Irregular`; use `loop_program`. `silent` are steps that are there already."""
        self._plan = plan
        self._silent = silent
        self._root = _Frames(plan).root
        self._globals = self._namespace()
        self._functions: dict[bool, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._lines: dict[CodeType, list[int]] = {}
        """Per function, the step of each line; -1 where it is no step's."""
        self.retvals = [node.index for node in plan.graph.retvals]
        """The steps whose inputs a function returns."""

    @property
    def is_repeatable(self) -> bool:
        """Whether a run of it that broke off can be begun anew: what it changes is its own."""
        return all(
            is_pure(step) or step.node.op_type.startswith(_ITS_OWN) for step in self._plan.steps
        )

    def function(self, *, traced: bool) -> Callable[..., Any]:
        """The function of one run: (context, feeds, token, stop, clock, add, thread) to a list.

        The list has what the plan's retvals were given. With `traced`, `add` is given (step, ready,
        began, ended, thread, (), -1) for each execution.
        """
        function = self._functions.get(traced)
        if function is None:
            with self._lock:
                function = self._functions.setdefault(traced, self._compile(traced=traced))
        return function

    def step_at(self, traceback: TracebackType | None) -> PlanStep | None:
        """The step whose line an exception came from."""
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code in self._lines:
                number = self._lines[code][traceback.tb_lineno - 1]
                return self._plan.steps[number] if number >= 0 else None
            traceback = traceback.tb_next
        return None

    def _namespace(self) -> dict[str, Any]:
        names: dict[str, Any] = {"current": current, "__name__": __name__}
        for i, step in enumerate(self._plan.steps):
            if step.kernel.value is not None:
                names[f"c{i}"] = step.kernel.value
            elif step.executes:
                names[f"k{i}"] = step.kernel.call
        return names

    def _compile(self, *, traced: bool) -> Callable[..., Any]:
        lines, steps = _Writer(self._plan, self._silent, self._root, traced=traced).written()
        local: dict[str, Any] = {}
        exec(compile("\n".join(lines), _FILENAME, "exec"), self._globals, local)
        function: Callable[..., Any] = local["run"]
        self._lines[function.__code__] = steps
        return function


def loop_program(plan: Plan, silent: Sequence[bool]) -> LoopProgram | None:
    """The program of a plan; None where it takes `frames` to run it."""
    if plan.partitions != 1:
        return None
    try:
        return LoopProgram(plan, silent)
    except _Irregular:
        return None


class _Frames:
    """Which node of a plan is in which loop; raises `_Irregular`."""

    def __init__(self, plan: Plan) -> None:
        self._steps = plan.steps
        self.root = _Loop(b"", None, -1)
        self._of: list[_Loop] = []
        for i, step in enumerate(plan.steps):
            self._of.append(self._place(i, step))
        kinds = {plan.steps[i].node.op_type for i in self.root.members}
        if kinds & (SWITCHES | MERGES):
            raise _Irregular
        for loop in self._all(self.root):
            if loop is not self.root:
                self._check(loop)
                _parts(plan.steps, loop)
                self._check_early(loop)

    def _all(self, loop: _Loop) -> Iterator[_Loop]:
        yield loop
        for inner in loop.loops.values():
            yield from self._all(inner)

    def _place(self, i: int, step: PlanStep) -> _Loop:
        """The loop that what a node makes is in."""
        node = step.node
        kind = node.op_type
        before = [s.index for s, _ in node.inputs] + [c.index for c in node.controls]
        loops = {self._of[n] for n in before if n < i}
        if any(n >= i for n in before) and kind not in MERGES:
            raise _Irregular
        deepest = max(loops, key=lambda loop: loop.depth, default=self.root)
        if any(loop is not deepest for loop in loops):
            raise _Irregular
        if kind in ENTERS:
            return self._entered(i, step, deepest)
        if kind in EXITS:
            if deepest.around is None:
                raise _Irregular
            deepest.exits.append(i)
            return deepest.around
        if kind in MERGES:
            deepest.merges.append(i)
        elif kind == "LoopCond":
            if deepest.condition >= 0:
                raise _Irregular
            deepest.condition = i
        deepest.members.append(i)
        return deepest

    def _entered(self, i: int, step: PlanStep, around: _Loop) -> _Loop:
        assert step.node.op is not None
        name = step.node.op.get_attr("frame_name")
        loop = next((x for x in around.loops.values() if x.name == name), None)
        if loop is None:
            if around.depth >= _DEEPEST:
                raise _Irregular
            loop = around.loops[i] = _Loop(name, around, i)
        loop.enters.append(i)
        return loop

    def _check(self, loop: _Loop) -> None:
        """That its Merges and Switches are those of a `while` loop, and nothing else's."""
        steps = self._steps
        if loop.condition < 0 or not loop.merges:
            raise _Irregular
        for i in loop.merges:
            node = steps[i].node
            kinds = [source.op_type for source, _ in node.inputs]
            if len(kinds) != 2 or kinds[0] not in ENTERS or kinds[1] not in NEXT_ITERATIONS:
                raise _Irregular
            if node.controls or self._of[node.inputs[1][0].index] is not loop:
                raise _Irregular
        inner = [i for x in loop.loops.values() for i in x.enters]
        for i in (*loop.members, *loop.exits, *inner):
            node = steps[i].node
            if node.op_type in SWITCHES:
                data, condition = (source.index for source, _ in node.inputs)
                if condition != loop.condition or data not in loop.merges:
                    raise _Irregular
            for source, slot in node.inputs:
                of_switch = source.op_type in SWITCHES and slot == 0
                if of_switch != (node.op_type in EXITS) or (source.op_type in MERGES and slot):
                    raise _Irregular

    def _check_early(self, loop: _Loop) -> None:
        """That nothing in the loops of a body executes where the body does not."""
        for inner in loop.loops.values():
            entered = [e for x in inner.loops.values() for e in x.enters]
            for i in (*inner.members, *entered) if inner.early else ():
                sources = list(dependencies(self._steps[i].node))
                if all(source.index in inner.early for source in sources):
                    raise _Irregular


class _Writer:
    """Writes one function."""

    def __init__(self, plan: Plan, silent: Sequence[bool], root: _Loop, *, traced: bool) -> None:
        self._plan = plan
        self._steps = plan.steps
        self._silent = silent
        self._root = root
        self._traced = traced
        self._lines: list[_Line] = []
        self._names: dict[tuple[int, int], str] = {}
        self._at = root
        self._made: dict[str, _Loop] = {}
        """Names that kernels give their outputs, and the loop that they do it in."""

    def written(self) -> tuple[list[str], list[int]]:
        """The lines, and the step of each; -1 where it is no step's."""
        self._line("def run(context, feeds, token, stop, clock, add, thread):", indent=0)
        for n, node in enumerate(self._plan.graph.args.values()):
            self._names[node.index, 0] = f"v{node.index}_0"
            self._line(f"v{node.index}_0 = feeds[{n}]", indent=1)
        if self._traced:
            self._line("began = clock()", indent=1)
        self._nodes(self._root, [*self._root.members, *self._root.loops])
        retvals = [self._names[node.index, 0] for node in self._plan.graph.retvals]
        self._line(f"return [{', '.join(retvals)}]", indent=1)
        self._release()
        return [line.text for line in self._lines], [line.step for line in self._lines]

    def _line(self, text: str, step: int = -1, indent: int = -1) -> None:
        depth = self._at.depth + 1 if indent < 0 else indent
        self._lines.append(_Line(_INDENT * depth + text, step, self._at))

    def _release(self) -> None:
        """What kernels made is let go after its last use, where that is in the same block."""
        last: dict[str, _Line] = {}
        for line in self._lines:
            for name in _NAME.findall(line.text):
                last[name] = line
        for name, line in last.items():
            if self._made.get(name) is line.loop and line.step >= 0 and line.ends:
                line.text += f"; {name} = None"

    def _nodes(self, loop: _Loop, members: Sequence[int]) -> None:
        """The nodes in the order of the plan, and the loops among them."""
        for i in sorted(members):
            if i in loop.loops:
                self._loop(loop.loops[i])
            elif self._steps[i].node.op_type in ENTERS:
                self._name(i)
                self._noted(i)
            else:
                self._node(i)

    def _node(self, i: int) -> None:
        step = self._steps[i]
        kind = step.node.op_type
        if kind == "_Arg":
            return
        if step.kernel.value is not None:
            self._names[i, 0] = f"c{i}"
        elif kind == "_Retval" or (kind == "Identity" and not step.reads[0]):
            self._name(i)
        else:
            self._call(i, step)
        self._noted(i)

    def _name(self, i: int) -> None:
        """The outputs are the first input; it gets a name of its own where it is an expression."""
        source = self._inputs(self._steps[i])[0]
        if not source.isidentifier():
            self._line(f"v{i}_0 = {source}", i)
            source = f"v{i}_0"
        self._names[i, 0] = self._names[i, 1] = source

    def _call(self, i: int, step: PlanStep) -> None:
        if step.expensive:
            self._line("token.cancelled and stop()")
        arguments = ["context"] if step.kernel.context else []
        arguments += self._inputs(step)
        over = self._overwritten(step)
        if over:
            arguments.append(over if step.kernel.out == "positional" else f"out={over}")
        call = f"k{i}({', '.join(arguments)})"
        names = [f"v{i}_{slot}" for slot in range(len(step.node.output_dtypes))]
        for slot, name in enumerate(names):
            self._names[i, slot] = name
            self._made[name] = self._at
        self._line(f"{', '.join(names)} = {call}" if names else call, i)

    def _overwritten(self, step: PlanStep) -> str:
        """An input that the output may be written over: nobody else sees it, now or later."""
        # Without axes it may be a NumPy scalar, which nothing can be written to.
        if not step.kernel.out or len(step.shapes) != 1 or not step.shapes[0].known:
            return ""
        for position in step.kernel.forwards:
            source, slot = step.node.inputs[position]
            made_by = self._steps[source.index]
            name = self._names[source.index, slot]
            memory = self._plan.memories[made_by.groups[slot]]
            alone = len(memory.members) == 1 and memory.uses == 1 and not made_by.given
            private = not (memory.foreign or memory.escapes or memory.fetched)
            alike = (
                made_by.shapes[slot].known == step.shapes[0].known
                and source.output_dtypes[slot] == step.node.output_dtypes[0]
            )
            if alone and private and alike and self._made.get(name) is self._at:
                return name
        return ""

    def _inputs(self, step: PlanStep) -> list[str]:
        """The inputs as a kernel gets them."""
        return [
            self._as_wanted(step, position, self._names[source.index, slot])
            for position, (source, slot) in enumerate(step.node.inputs)
        ]

    def _as_wanted(self, step: PlanStep, position: int, port: str) -> str:
        if step.reads[position]:
            port += ".read()"
        elif step.late and step.late[position]:
            port = f"current({port})"
        return f"{port}.copy()" if step.copies(self._plan, position) else port

    def _noted(self, i: int) -> None:
        if self._traced and not self._silent[i]:
            self._line(
                f"ended = clock(); add(({i}, began, began, ended, thread, (), -1)); began = ended",
                i,
            )

    # -- loops ---------------------------------------------------------------------------------

    def _loop(self, loop: _Loop) -> None:
        for i in loop.enters:
            if i not in loop.early:
                self._name(i)
                self._noted(i)
        for i in loop.merges:
            step = self._steps[i]
            entered, slot = step.node.inputs[0]
            value = self._as_wanted(step, 0, self._names[entered.index, slot])
            self._line(f"v{i}_0 = {value}", i)
            self._names[i, 0] = f"v{i}_0"
        self._line("while True:")
        around, self._at = self._at, loop
        self._line("token.cancelled and stop()")
        for i in loop.merges:
            self._noted(i)
        condition, body = _parts(self._steps, loop)
        self._nodes(loop, condition)
        for i in (loop.condition, *loop.switches(self._steps)):
            self._name(i)
            self._noted(i)
        self._line(f"if not {self._names[loop.condition, 0]}: break", loop.condition)
        self._nodes(loop, body)
        self._next(loop)
        self._at = around
        for i in loop.exits:
            self._name(i)
            self._noted(i)

    def _next(self, loop: _Loop) -> None:
        """What the next iteration begins with, all at once: one may be another's before."""
        back = [self._steps[i].node.inputs[1][0].index for i in loop.merges]
        values = {i: self._inputs(self._steps[i])[0] for i in back}
        names = ", ".join(f"v{i}_0" for i in loop.merges)
        given = [
            self._as_wanted(self._steps[i], 1, values[n])
            for i, n in zip(loop.merges, back, strict=True)
        ]
        self._line(f"{names} = {', '.join(given)}", loop.merges[0])
        for i in sorted(values):
            self._noted(i)


@dataclass(eq=False, slots=True)
class _Line:
    text: str
    step: int
    loop: _Loop

    @property
    def ends(self) -> bool:
        """Whether something may follow on the line."""
        return not self.text.endswith(("break", ":")) and "return" not in self.text


_NAME: Final = re.compile(r"\bv\d+_\d+\b")


def _parts(steps: Sequence[PlanStep], loop: _Loop) -> tuple[list[int], list[int]]:
    """What executes before the condition is known, and what only where it holds."""
    body: set[int] = set()
    structure = {*loop.merges, loop.condition}
    for i in sorted({*loop.members, *loop.loops}):
        inner = loop.loops.get(i)
        if inner is None:
            if _is_dead(steps[i], body):
                body.add(i)
            continue
        dead = [e for e in inner.enters if _is_dead(steps[e], body)]
        if dead:
            inner.early = [e for e in inner.enters if e not in dead]
            body.update((i, *dead, *inner.exits))
    early = [e for inner in loop.loops.values() for e in inner.early]
    chosen = [
        i
        for i in {*loop.members, *loop.loops}
        if i not in structure and steps[i].node.op_type not in SWITCHES | NEXT_ITERATIONS
    ]
    return [*early, *(i for i in chosen if i not in body)], [i for i in chosen if i in body]


def _is_dead(step: PlanStep, body: set[int]) -> bool:
    """Whether it does not execute where the condition is false, as what is in `body`."""
    if any(source.op_type in SWITCHES and slot == 1 for source, slot in step.node.inputs):
        return True
    return any(source.index in body for source in dependencies(step.node))
