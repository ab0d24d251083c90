"""The storage of variables in a session.

What a caller may rely on:

- `VariableCell.read()` returns the current value. The array is read-only and never changes: an
  assignment either stores another array, or changes the stored one in place when it can prove that
  nobody else holds it or a view of it.
- The proof is the reference count. An updater takes the array off the cell (so that no new reader
  can get hold of it) and then counts: its own local name, plus what the call of `getrefcount`
  itself holds. Every view holds its base, so any reader, view or memoryview counts too. The two
  together are measured once at import, as CPython versions differ in them; without the GIL the
  count proves nothing, and every update stores a fresh array.
- Updates of one cell happen one after the other, under its lock: `assign_add` from many threads is
  exact. A read takes no lock unless an update is under way, and then waits for it.
- A value that is assigned is copied: the array given may be a buffer that is reused.
- In TensorFlow what was read from a *reference* variable is the variable's own memory: whoever
  looks at it after an assignment sees what was assigned. Here it is an array that stays as it was,
  and `current` finds, for what was read before an assignment, what the variable holds now. The plan
  decides who asks (see `stepscope.runtime.plan.plan`). What was read from a resource variable is a
  value in TensorFlow too.
- What is stored counts as held on the cell's device from the moment it is stored.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from sys import getrefcount
from typing import Any, Final

import numpy as np

from stepscope.errors import FailedPreconditionError, InvalidArgumentError
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.shapes import UNKNOWN, TensorShape
from stepscope.ops.resources import HeldBytes, Holding, holding, made_now

KIND: Final = "variable"


def _references_of_a_local() -> int:
    array = np.empty(1)
    return getrefcount(array)


_has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
_ALONE: Final = _references_of_a_local() if _has_gil else -1


_superseded: Final[dict[int, tuple[weakref.ref[Array], weakref.ref[VariableCell]]]] = {}
"""By id: arrays that are still held, and the reference variable that has another one now."""


def current(value: Any) -> Any:
    """What a reference variable holds now, for a value that was read from it before.

    The value may have been given another shape since. Anything else comes back as it is: what is
    only a part of what was read (ops that make one copy in TensorFlow), and what was read before
    the variable got another number of elements (TensorFlow, too, gives it other memory then).
    """
    root = value
    while isinstance(base := getattr(root, "base", None), np.ndarray):
        root = base
    known = _superseded.get(id(root))
    cell = known[1]() if known is not None else None
    if cell is None:
        return value
    now = cell.read()
    if now.shape == value.shape and value is root:
        return now
    whole = now.size == root.size == value.size and value.flags.c_contiguous
    return now.reshape(value.shape) if whole and now.dtype == value.dtype else value


def brief_shape(shape: tuple[int, ...]) -> str:
    return TensorShape(shape).brief()


class VariableCell:
    """The storage of one variable in one session. What `read` gave never changes."""

    __slots__ = (
        "__weakref__", "_by_reference", "_held", "_holdings", "_lock", "_made", "_value",
        "declared_shape", "device", "dtype", "name", "op",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        dtype: DType,
        declared_shape: TensorShape = UNKNOWN,
        *,
        op: str = "",
        device: str = "",
        held: HeldBytes | None = None,
        by_reference: bool = False,
    ) -> None:
        """`op` is the node that stands for the variable; `held` counts what is stored.

        `by_reference` is whether those who read it ask for what is `current`.
        """
        self.name = name
        self._by_reference = by_reference
        self.op = op or name
        self.device = device
        self._held = held if held is not None else HeldBytes()
        self._made = (0, 0)
        self._holdings: list[Holding] | None = []
        """What `holdings` says of the stored array; None where it was not asked yet."""
        self.dtype = dtype.base_dtype
        self.declared_shape = declared_shape
        self._lock = threading.Lock()
        self._value: Array | None = None
        """None before the first assignment, and for as long as an update is under way."""

    def read(self) -> Array:
        """The current value, read-only; FailedPreconditionError if there is none yet."""
        value = self._value
        return value if value is not None else self._settled()

    def _settled(self) -> Array:
        with self._lock:
            value = self._value
        if value is None:
            raise self._uninitialized()
        return value

    def _uninitialized(self) -> FailedPreconditionError:
        return FailedPreconditionError.without_op(
            f"Attempting to use uninitialized value {self.name}"
        )

    @property
    def initialized(self) -> bool:
        if self._value is not None:
            return True
        with self._lock:
            return self._value is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the stored array; 0 before the first assignment."""
        with self._lock:
            return 0 if self._value is None else self._value.nbytes

    @property
    def stored(self) -> Array | None:
        """The stored array, or None; to be looked at, not to be kept."""
        return self._value

    def holdings(self) -> list[Holding]:
        """The stored array, as memory; empty before the first assignment. Not to be changed."""
        known = self._holdings
        if known is not None:
            return known
        with self._lock:
            value = self._value
            if value is None:
                return []
            known = [holding(value, self.dtype, self.op, 0, self.device, KIND, self._made)]
            self._holdings = known
        return known

    def assign(self, value: Any, same_shape: bool = False) -> VariableCell:
        """Store a copy of the value. With `same_shape` another shape is InvalidArgumentError."""
        given = np.asarray(value, dtype=self.dtype.numpy)
        with self._lock:
            old = self._value
            if same_shape:
                self._check_shape(given.shape, old)
            self._value = None
            try:
                if old is not None and old.shape == given.shape and getrefcount(old) == _ALONE:
                    old.setflags(write=True)
                    np.copyto(old, given)
                else:
                    new = np.array(given, order="C")
                    self._replaces(old, new)
                    old = new
            finally:
                if old is not None:
                    old.setflags(write=False)
                self._value = old
        return self

    def _replaces(self, old: Array | None, new: Array) -> None:
        """An array is about to be stored in the place of another."""
        difference = new.nbytes - (0 if old is None else old.nbytes)
        if difference:
            self._held.add(self.device, difference)
        self._is_another(old)

    def _is_another(self, old: Array | None) -> None:
        """The array that will be stored is not the old one."""
        self._made = made_now()
        self._holdings = None
        if old is not None and self._by_reference:
            key = id(old)
            gone = weakref.ref(old, lambda _gone: _superseded.pop(key, None))
            _superseded[key] = (gone, weakref.ref(self))

    def _check_shape(self, found: tuple[int, ...], old: Array | None) -> None:
        wanted = self.declared_shape if old is None else TensorShape(old.shape)
        if not wanted.is_compatible_with(found):
            raise InvalidArgumentError.without_op(
                "Assign requires shapes of both tensors to match. "
                f"lhs shape= {wanted.brief()} rhs shape= {brief_shape(found)}",
            )

    def assign_add(self, value: Any) -> VariableCell:
        """Add the value, of the same shape, to what is stored."""
        return self._update(np.add, value)

    def assign_sub(self, value: Any) -> VariableCell:
        """Subtract the value, of the same shape, from what is stored."""
        return self._update(np.subtract, value)

    def _update(self, ufunc: Callable[..., Array], value: Any) -> VariableCell:
        with self._lock:
            old = self._value
            if old is None:
                raise self._uninitialized()
            if old.shape != value.shape:
                raise InvalidArgumentError.without_op(
                    f"Cannot update variable with shape {brief_shape(old.shape)} using a Tensor "
                    f"with shape {brief_shape(value.shape)}, shapes must be equal.",
                )
            self._value = None
            try:
                if getrefcount(old) == _ALONE:
                    old.setflags(write=True)
                    ufunc(old, value, out=old)
                else:
                    new = ufunc(old, value, out=np.empty_like(old))
                    self._is_another(old)
                    old = new
            finally:
                old.setflags(write=False)
                self._value = old
        return self

    def modify(self, change: Callable[[Array], None]) -> VariableCell:
        """Let `change` write to the stored array, or to a copy where others hold that one.

        What `change` raises is passed on; it should look before it writes.
        """
        with self._lock:
            old = self._value
            if old is None:
                raise self._uninitialized()
            self._value = None
            try:
                if getrefcount(old) != _ALONE:
                    new = old.copy()
                    self._is_another(old)
                    old = new
                old.setflags(write=True)
                change(old)
            finally:
                old.setflags(write=False)
                self._value = old
        return self

    def __repr__(self) -> str:
        return f"<VariableCell {self.name!r} {self.dtype.name} initialized={self.initialized}>"
