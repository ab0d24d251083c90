"""Which conditions a tensor hangs on: it is there where they hold, and dead where one does not.

Inside an iteration, each `Switch` on the way to a tensor adds one, and a `Merge` takes those away
that its inputs do not have in common: of `tf.cond`, that of the conditional itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.flow.flow_contexts import LoopContext
from stepscope.ops.flow.switches import ENTERS, EXITS, MERGES, SWITCHES

Guard = tuple[Tensor, int]
"""A condition, and whether it has to be true."""


def guards(tensor: Tensor, loop: LoopContext) -> list[Guard]:
    """The conditions of a tensor in an iteration of a loop.

    A condition that hangs on others comes after them.
    """
    found = _Guards(loop)
    own = found.of(tensor.op) | _added(tensor)
    return sorted(own, key=lambda guard: len(found.of(guard[0].op) | _added(guard[0])))


class _Guards:
    """Per op of a loop, what it hangs on."""

    def __init__(self, loop: LoopContext) -> None:
        self._loop = loop
        self._begins = {v.merged.op for v in loop.variables}
        self._known: dict[Operation, frozenset[Guard]] = {}

    def of(self, op: Operation) -> frozenset[Guard]:
        stack = [op]
        while stack:
            at = stack[-1]
            missing = [t.op for t in self._before(at) if t.op not in self._known]
            missing += [c for c in self._waited(at) if c not in self._known]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._known[at] = self._own(at)
        return self._known[op]

    def _own(self, op: Operation) -> frozenset[Guard]:
        ways = [self._known[t.op] | _added(t) for t in self._before(op)]
        if op.type in MERGES and ways:
            own = frozenset.intersection(*ways)
        else:
            own = frozenset().union(*ways)
        return own.union(*[self._known[c] for c in self._waited(op)])

    def _before(self, op: Operation) -> list[Tensor]:
        """What an op takes of its iteration; of a loop inside, what comes into that."""
        if op in self._begins or not self._inside(op):
            return []
        if op.type in EXITS:
            return [t.op.inputs[0] for t in _entering(op)]
        return list(op.inputs)

    def _waited(self, op: Operation) -> list[Operation]:
        if op in self._begins or not self._inside(op):
            return []
        return [c for c in op.control_inputs if self._inside(c)]

    def _inside(self, op: Operation) -> bool:
        if op.type in ENTERS and op._context is self._loop:
            return False
        return bool(op.values()) and self._loop.holds(op.values()[0])


def _entering(left: Operation) -> Iterator[Tensor]:
    inner = left._context
    assert isinstance(inner, LoopContext)
    yield from (v.entered for v in inner.variables)
    yield from inner.invariants


def _added(tensor: Tensor) -> frozenset[Guard]:
    """What an output of a Switch hangs on beyond its inputs."""
    if tensor.op.type not in SWITCHES or tensor.op.inputs[1].op.type == "LoopCond":
        return frozenset()
    pred = tensor.op.inputs[1]
    while pred.op.type == "Identity":
        pred = pred.op.inputs[0]
    return frozenset({(pred, tensor.value_index)})
