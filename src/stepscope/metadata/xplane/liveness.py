"""Which of the executor's marks stand for an execution, and which for a node passed over.

After every node the executor leaves a mark, and a kernel's span before it. Two kinds of marks have
no span: *silent* nodes, which need no kernel (constants, handles, NoOps), and *dead* nodes, those
of a branch not taken and of a loop's body after its last round. A dead node did not execute, and
TensorFlow's own step stats do not have it. A node that has a kernel is dead wherever its span is
missing. A silent one is dead where what it waits for is: its control inputs, where the graph is
known, or else the pivot of the branch or body that its name puts it in (functional control flow is
lowered under fixed names).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_ADDED_NAME: Final = "/_"
"""In all names that lowering makes; looked for first, as most names have nothing of it."""
_SCOPE: Final = re.compile(r"^(.*)/(then|else|body|cond|branch\d+)/_\d+/")
_PIVOT: Final = re.compile(r"^(.*)/(pivot_\w+|loop_body_control|LoopCond)/_\d+$")
_PIVOT_OF: Final = {
    "then": "pivot_t",
    "else": "pivot_f",
    "body": "loop_body_control",
    "cond": "LoopCond",
}
_LOWERED: Final = re.compile(
    r"^(.*)/(?:pivot_\w+|loop_body_control|LoopCond|LoopExecuted|branch_executed)/_\d+$"
)
_NO_OP: Final = re.compile(
    r"(?:^|/)(?:_SOURCE|NoOp|group_deps|(?:Stateful)?PartitionedCall)(?:_\d+)?$"
    r"|/(?:LoopExecuted|branch_executed|(?:in|out)put_control_node)/_\d+$"
)
_ADDED: Final = re.compile(r"^(?:Func|ConstantFolding)/")
_DEEPEST: Final = 200
"""So many nodes are followed one behind the other; what those beyond waited for is not known."""


class Liveness:
    """The nodes of one step: for each of their marks in turn, whether the node executed."""

    def __init__(
        self,
        executed: Mapping[str, Sequence[int]],
        silent: Mapping[str, Sequence[int]],
        dead: Mapping[str, Sequence[int]],
        nodes: Mapping[str, Any],
    ) -> None:
        """Times by node of: executions with a kernel, marks without one, and known dead marks."""
        self._executed = executed
        self._silent = silent
        self._dead = dead
        self._nodes = nodes
        self._known: dict[str, list[bool] | None] = {}
        self._depth = 0
        self._pivots: dict[tuple[str, str], str] = {}
        for name in (*executed, *silent):
            match = _PIVOT.match(name) if _ADDED_NAME in name else None
            if match:
                self._pivots[match[1], match[2]] = name
        self._lively = {scope[0] for scope in map(_scope, executed) if scope}

    def of(self, name: str) -> list[bool] | None:
        """Per mark of a node, in order of time, whether it executed; None for an unknown node."""
        if name in self._known:
            return self._known[name]
        if self._depth == _DEEPEST:
            return None
        self._known[name] = None
        self._depth += 1
        self._known[name] = self._find(name)
        self._depth -= 1
        return self._known[name]

    def _find(self, name: str) -> list[bool] | None:
        if name in self._executed:
            marks = [(at, True) for at in self._executed[name]]
            marks += [(at, False) for at in self._dead.get(name, ())]
            return [executed for _, executed in sorted(marks)]
        if name not in self._silent:
            return None
        count = len(self._silent[name])
        info = self._nodes.get(name)
        if info is not None:
            # What needs no kernel is a value that is there already, and takes no inputs.
            return [False] * count if info.inputs else self._after(count, info.controls)
        scope = _scope(name)
        if _PIVOT.match(name):
            return [False] * count
        if scope is None:
            return [True] * count
        prefix, parent, kind = scope
        pivot = self._pivots.get((parent, _PIVOT_OF.get(kind, kind.replace("branch", "pivot_"))))
        if pivot is not None:
            return self._after(count, [pivot])
        return [prefix in self._lively] * count

    def _after(self, count: int, waits_for: Iterable[str]) -> list[bool]:
        """Alive where all of these are; of a node with marks of another number, where it ever is.

        The numbers differ where a value from outside a loop is needed in every round of it.
        """
        found = [True] * count
        for name in waits_for:
            flags = self.of(name)
            if flags is None:
                continue
            if len(flags) != count:
                flags = [any(flags)] * count
            found = [a and b for a, b in zip(found, flags, strict=True)]
        return found


def _scope(name: str) -> tuple[str, str, str] | None:
    """(prefix, the node that was lowered, the kind of branch) of the innermost branch."""
    match = _SCOPE.match(name) if _ADDED_NAME in name else None
    if match is None:
        return None
    parent = _ADDED.sub("", match[1])
    return f"{parent}/{match[2]}", parent, match[2]


def lowered_nodes(names: Iterable[str]) -> set[str]:
    """The conditionals and loops that were lowered, from the names of what took their place."""
    added = (name for name in names if _ADDED_NAME in name)
    return {match[1] for match in map(_LOWERED.match, added) if match}


def silent_op(name: str, lowered: set[str]) -> str:
    """The op type of a silent node of a graph that is not known: inlining and lowering leave NoOps
    under fixed names, and one in the place of the call itself; all else is a constant.
    """
    return "NoOp" if name in lowered or is_no_op(name) else "Const"


def is_no_op(name: str) -> bool:
    """Whether a name is one of those that TensorFlow gives to NoOps."""
    return _NO_OP.search(name) is not None
