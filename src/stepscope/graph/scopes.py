"""Scopes of a graph: how operations made inside a block are named, where they go, what they await.

Guarantees. Name, device, control-dependency and colocation scopes belong to the thread that entered
them; names stay unique among all threads. Leaving a block puts back what was there when it was
entered, whatever happened inside.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from stepscope.graph import device as device_names
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor

_VALID_NAME: Final = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_VALID_SCOPE: Final = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


class _ControlScope:
    """One `control_dependencies` block: its inputs, and the ops made inside it."""

    __slots__ = ("inputs", "members")

    def __init__(self, inputs: Sequence[Operation] | None) -> None:
        self.inputs = inputs
        self.members: set[Operation] = set()


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.name = ""
        self.devices: list[Callable[[Operation], str] | str | None] = []
        self.control: list[_ControlScope] = []
        self.colocation: list[Operation] = []
        self.context: FlowContext | None = None
        self.gradient_source = ""


class FlowContext(Protocol):
    """The branch of a conditional, or the loop, that operations are being made in."""

    def add_op(self, op: Operation) -> None:
        """Make an operation that was just made part of it: its inputs and what it waits for."""
        ...


Entered_co = TypeVar("Entered_co", covariant=True)


class Reentrant(AbstractContextManager[Entered_co]):
    """A block that may be entered any number of times, as TensorFlow's scopes may.

    `block()` makes what is entered each time; blocks that are open at once end in turn.
    """

    def __init__(self, block: Callable[[], AbstractContextManager[Entered_co]]) -> None:
        self._block = block
        self._open: list[AbstractContextManager[Entered_co]] = []

    def __enter__(self) -> Entered_co:
        opened = self._block()
        entered = opened.__enter__()
        self._open.append(opened)
        return entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._open.pop().__exit__(kind, error, traceback)


class Scoped:
    """The scopes of a graph; `Graph` adds what is in it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._names_in_use: dict[str, int] = {}
        self._scopes = _Scopes()

    def as_graph_element(self, obj: Any) -> Tensor | Operation:
        """The tensor or operation of this graph that an object or a name means."""
        raise NotImplementedError

    # -- names ---------------------------------------------------------------------------------

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """The name, inside the current scope, made unique with `_1`, `_2`, ..., case ignored."""
        if not _VALID_NAME.match(name if self._scopes.name == "" else "x" + name):
            raise ValueError(f"{name!r} is not a valid scope or operation name.")
        with self._lock:
            full = f"{self._scopes.name}/{name}" if self._scopes.name else name
            key = full.lower()
            count = self._names_in_use.get(key, 0)
            if mark_as_used:
                self._names_in_use[key] = count + 1
            if count == 0:
                return full
            candidate = full
            while key in self._names_in_use:
                candidate = f"{full}_{count}"
                key = candidate.lower()
                count += 1
            if mark_as_used:
                self._names_in_use[key] = 1
                self._names_in_use[full.lower()] = count
            return candidate

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefix names with `name/`. A name ending in "/" re-enters it; None or "" leaves all."""
        if name is not None and not isinstance(name, str):
            raise TypeError(f"A scope's name is a string, not {name!r}.")
        if name:
            pattern = _VALID_SCOPE if self._scopes.name else _VALID_NAME
            if not pattern.match(name):
                raise ValueError(f"{name!r} is not a valid scope name.")
        previous = self._scopes.name
        if not name:
            new = ""
        elif name.endswith("/"):
            new = name[:-1]
        else:
            new = self.unique_name(name)
        self._scopes.name = new
        try:
            yield f"{new}/" if new else ""
        finally:
            self._scopes.name = previous

    def get_name_scope(self) -> str:
        return self._scopes.name

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        """Ask for a device (name, spec or function of the op) for the ops made inside."""
        entry = device if device is None or callable(device) else device_names.canonical(device)
        self._scopes.devices.append(entry)
        try:
            yield
        finally:
            self._scopes.devices.pop()

    @contextmanager
    def control_dependencies(self, inputs: Iterable[Any] | None) -> Iterator[None]:
        """Ops made inside wait for the given ops and tensors; None forgets the outer blocks.

        With None they are not part of a conditional or a loop either.
        """
        saved_name, saved = self._scopes.name, self._scopes.control
        saved_context = self._scopes.context
        if inputs is None:
            self._scopes.control = []
            self._scopes.context = None
        else:
            ops: list[Operation] = []
            for item in inputs:
                element = (
                    item.op if isinstance(item, IndexedSlices) else self.as_graph_element(item)
                )
                op = element.op if isinstance(element, Tensor) else element
                if op not in ops:
                    ops.append(op)
            self._scopes.control = [*saved, _ControlScope(ops)]
        try:
            yield
        finally:
            self._scopes.control = saved
            self._scopes.context = saved_context
            self._scopes.name = saved_name

    @contextmanager
    def flow_context(self, context: FlowContext | None) -> Iterator[None]:
        """Ops made inside are part of a branch or a loop; None: of none."""
        saved = self._scopes.context
        self._scopes.context = context
        try:
            yield
        finally:
            self._scopes.context = saved

    @contextmanager
    def gradient_source(self, name: str) -> Iterator[None]:
        """Ops made inside are part of the gradients of that name."""
        saved = self._scopes.gradient_source
        self._scopes.gradient_source = name
        try:
            yield
        finally:
            self._scopes.gradient_source = saved

    def get_gradient_source(self) -> str:
        """The name of the gradients that are being made; "" where none are."""
        return self._scopes.gradient_source

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Ops made inside go to the device of `op`; None, with `ignore_existing`, frees them."""
        if op is None and not ignore_existing:
            raise ValueError("colocate_with(None) needs ignore_existing=True.")
        saved = self._scopes.colocation
        targets: list[Operation] = []
        if op is not None:
            element = self.as_graph_element(op)
            targets = [element.op if isinstance(element, Tensor) else element]
        self._scopes.colocation = targets if ignore_existing else [*saved, *targets]
        try:
            yield
        finally:
            self._scopes.colocation = saved

    # -- what an operation gets from its scopes ------------------------------------------------

    def _implied_controls(
        self, inputs: Sequence[Tensor], explicit: Sequence[Operation]
    ) -> list[Operation]:
        producers = {t.op for t in inputs}
        result: list[Operation] = []
        for scope in self._scopes.control:
            if scope.inputs is None or producers & scope.members:
                continue
            result.extend(
                op
                for op in scope.inputs
                if op not in producers and op not in explicit and op not in result
            )
        return result

    def _waits_already(self, op: Operation) -> None:
        """What takes this op's outputs needs no control inputs of the blocks around it."""
        for scope in self._scopes.control:
            scope.members.add(op)

    def _device_for(self, op: Operation) -> str:
        if self._scopes.colocation:
            return self._scopes.colocation[-1].device
        # From the inside out, as TensorFlow does: an outer name fills what is still open, an
        # outer function sees what was decided so far and replaces it.
        device = ""
        for entry in reversed(self._scopes.devices):
            if entry is None:
                break
            if callable(entry):
                op._device = device
                device = device_names.canonical(entry(op))
            else:
                device = device_names.merge(device, entry)
        return device
