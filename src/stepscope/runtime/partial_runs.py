"""Partial runs: one run of a session, fed and fetched in several calls.

`partial_run_setup` says what will be fed and fetched; each `partial_run` then feeds some of it and
fetches what can be computed by now. All calls of a handle are one run: an op executes once, in the
first call that has all that the op depends on, and what later calls need of it is kept. So a random
number is the same in all of them, and an assignment happens once.

Where TensorFlow begins with the setup, nothing executes here before the first `partial_run`. A
handle is used up by its last fetch and by an error of an op; what is asked for wrongly leaves it as
it was. One handle is for one thread at a time.

>>> import stepscope.tf1 as tf
>>> with tf.Graph().as_default(), tf.Session() as session:
...     a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
...     first = a + 1
...     second = first * b
...     handle = session.partial_run_setup([first, second], [a, b])
...     found = session.partial_run(handle, first, {a: 2})
...     print(found, session.partial_run(handle, second, {b: found * 10}))
3.0 90.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import Operation, Tensor
from stepscope.graph.dtypes import resource, variant
from stepscope.ops.flow.switches import FLOW, MERGES
from stepscope.runtime.fetches import FeedSlot, FetchSpec

Run = Callable[[FetchSpec, tuple[Tensor, ...], Sequence[Any]], Sequence[Any]]
"""Runs part of a graph: what to execute, what is known, the values of that."""


class PartialRun:
    """What one handle has been fed and has computed.

    An op is *waiting* while something it depends on has not been fed, and *done* once it executed.
    """

    def __init__(self, spec: FetchSpec, feeds: Sequence[Tensor]) -> None:
        if not spec.tensors and not spec.targets:
            raise _wrong("Must specify at least one target to fetch or execute.")
        both = [tensor.name for tensor in spec.tensors if tensor in feeds]
        if both:
            raise _wrong(f"{both[0]} is both fed and fetched.")
        self._spec = spec
        self._fed = dict.fromkeys(feeds, False)
        self._fetched = dict.fromkeys(spec.tensors, False)
        self._known: dict[Tensor, Any] = {}
        self._done: frozenset[Operation] = frozenset()
        self._needed = self._ancestors([*(t.op for t in spec.tensors), *spec.targets])
        self._readers: dict[Operation, list[Operation]] = {}
        for op in self._needed:
            for before in {*(t.op for t in op.inputs if t not in self._fed), *op.control_inputs}:
                self._readers.setdefault(before, []).append(op)

    @property
    def over(self) -> bool:
        """Whether all has been fed and fetched."""
        return all(self._fed.values()) and all(self._fetched.values())

    def call(self, spec: FetchSpec, feeds: Sequence[tuple[Tensor, Any]], run: Run) -> list[Any]:
        """The values of the fetches, after executing all that these feeds make possible."""
        if spec.targets:
            raise RuntimeError(
                "partial_run() requires empty `target_list`. Received: "
                f"target_list={list(spec.targets)} (non-empty)"
            )
        for what, tensors, pending, past in (
            ("feed", [tensor for tensor, _ in feeds], self._fed, "fed"),
            ("fetch", spec.tensors, self._fetched, "fetched"),
        ):
            for tensor in tensors:
                if tensor not in pending:
                    raise _wrong(
                        f"The {what} {tensor.name} was not specified in partial_run_setup."
                    )
                if pending[tensor]:
                    raise _wrong(f"The {what} {tensor.name} has already been {past}.")
        given = {tensor: np.array(FeedSlot(tensor).accept(value)) for tensor, value in feeds}
        known = {**self._known, **given}
        waiting = self._waiting([tensor for tensor in self._fed if tensor not in known])
        for tensor in spec.tensors:
            if tensor.op in waiting and tensor not in known:
                missing = ", ".join(t.name for t in self._fed if t not in known)
                raise _wrong(
                    f"Fetch {tensor.name} can't be computed from the feeds that have been fed so "
                    f"far. Not fed yet: {missing}."
                )
        self._known = known
        self._fed.update(dict.fromkeys(given, True))
        self._execute(spec.tensors, waiting, run)
        self._fetched.update(dict.fromkeys(spec.tensors, True))
        return [np.array(self._known[tensor])[()] for tensor in spec.tensors]

    def _execute(self, fetches: Iterable[Tensor], waiting: set[Operation], run: Run) -> None:
        asked = self._ancestors(t.op for t in fetches if t not in self._known)
        now = [op for op in self._needed if op not in waiting and op not in self._done]
        now = self._without_cut_flow(now, asked)
        if not now:
            return
        executing = set(now)
        kept = [
            tensor
            for op in now
            for tensor in op.outputs
            if tensor not in self._known and _keepable(tensor) and (
                tensor in self._fetched
                or any(reader not in executing for reader in self._readers.get(op, ()))
            )
        ]  # fmt: skip
        known = [t for op in now for t in op.inputs if t in self._known]
        tensors = tuple(dict.fromkeys(known))
        part = FetchSpec.of(kept, now, self._spec.what, self._done)
        values = run(part, tensors, [self._known[t] for t in tensors])
        self._known.update(zip(kept, values, strict=True))
        self._done |= {op for op in now if not _again(op)}

    def _without_cut_flow(
        self, ops: Sequence[Operation], asked: Mapping[Operation, None]
    ) -> list[Operation]:
        """Without what is inside of a branch or a loop of which some is still waiting.

        What is asked for executes all the same.
        """
        now = set(ops)
        stack = list(ops)
        while stack:
            op = stack.pop()
            if op not in now or op in asked or _again(op) or all(map(_keepable, op.outputs)):
                continue
            if any(reader not in now for reader in self._readers.get(op, ())):
                now.discard(op)
                stack += [t.op for t in op.inputs]
        return [op for op in ops if op in now]

    def _ancestors(self, roots: Iterable[Operation]) -> dict[Operation, None]:
        found: dict[Operation, None] = {}
        stack = list(roots)
        while stack:
            op = stack.pop()
            if op in found or op in self._done:
                continue
            found[op] = None
            stack += [t.op for t in op.inputs if t not in self._fed]
            stack += [c for c in op.control_inputs if c.outputs[:1] not in [[t] for t in self._fed]]
        return found

    def _waiting(self, feeds: Sequence[Tensor]) -> set[Operation]:
        """The ops that depend on one of these feeds."""
        missing = set(feeds)
        found: set[Operation] = set()
        stack = [op for op in self._needed if not missing.isdisjoint(op.inputs)]
        while stack:
            op = stack.pop()
            if op not in found:
                found.add(op)
                stack += self._readers.get(op, ())
        return found


def _keepable(tensor: Tensor) -> bool:
    """Whether a later call can be given the value."""
    if tensor.dtype.base_dtype in (resource, variant) or _inside(tensor.op):
        return False
    return tensor.graph.is_fetchable(tensor) and tensor.graph.is_feedable(tensor)


def _inside(op: Operation) -> bool:
    """Whether the op is a part of branches or loops, not one that gives out what they found."""
    return op.type in FLOW and op.type not in MERGES and op.type not in ("Exit", "RefExit")


def _again(op: Operation) -> bool:
    """Whether the op only says what it stands for: a variable, a queue, a way into a branch."""
    if op.inputs:
        return _inside(op)
    kinds = [tensor.dtype for tensor in op.outputs]
    return any(kind._is_ref_dtype or kind in (resource, variant) for kind in kinds)


def _wrong(message: str) -> InvalidArgumentError:
    return InvalidArgumentError.without_op(message)
