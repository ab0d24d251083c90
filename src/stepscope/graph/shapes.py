"""Static shapes: `TensorShape` and `Dimension`, as TensorFlow 1 has them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload


class Dimension:
    """One axis length: an int or unknown (`value is None`).

    Arithmetic with an unknown is unknown; comparison with an unknown is None, as in TensorFlow 1.
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        if value is None:
            self._value: int | None = None
            return
        self._value = value.value if isinstance(value, Dimension) else int(value)
        if self._value is not None and self._value < 0:
            raise ValueError(f"Dimension {self._value} must be >= 0; use None for unknown.")

    @property
    def value(self) -> int | None:
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        other = Dimension(other)
        return self._value is None or other.value is None or self._value == other.value

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        self.assert_is_compatible_with(other)
        return Dimension(other) if self._value is None else self

    def __int__(self) -> int:
        if self._value is None:
            raise TypeError("This dimension is unknown; it has no integer value.")
        return self._value

    __index__ = __int__

    def _compare(self, other: object, op: Callable[[int, int], bool]) -> Any:
        if not isinstance(other, (int, Dimension)) and other is not None:
            return NotImplemented
        other_value = other.value if isinstance(other, Dimension) else other
        if self._value is None or other_value is None:
            return None
        return op(self._value, other_value)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: object) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: object) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: object) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: object) -> Any:
        return self._compare(other, operator.ge)

    def __hash__(self) -> int:
        return hash(self._value)

    def _combine(self, other: Any, op: Any) -> Dimension:
        other = Dimension(other)
        if self._value is None or other.value is None:
            return Dimension(None)
        return Dimension(op(self._value, other.value))

    def __add__(self, other: Any) -> Dimension:
        return self._combine(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dimension:
        return self._combine(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Dimension:
        return Dimension(other) - self

    def __mul__(self, other: Any) -> Dimension:
        return self._combine(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dimension:
        return self._combine(other, lambda a, b: a // b)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return Dimension(other) // self

    def __mod__(self, other: Any) -> Dimension:
        return self._combine(other, lambda a, b: a % b)

    def __rmod__(self, other: Any) -> Dimension:
        return Dimension(other) % self

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)


def dimension_value(dimension: Any) -> int | None:
    """The int or None of a Dimension, an int-like or None."""
    if dimension is None:
        return None
    if isinstance(dimension, Dimension):
        return dimension.value
    return int(dimension)


class TensorShape:
    """A static shape: known, partly known, or of unknown rank. Immutable."""

    __slots__ = ("_dims",)

    def __init__(self, dims: Any = None) -> None:
        if dims is None:
            self._dims: tuple[int | None, ...] | None = None
        elif isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif hasattr(dims, "unknown_rank") and hasattr(dims, "dim"):
            self._dims = (
                None
                if dims.unknown_rank
                else tuple(None if d.size < 0 else int(d.size) for d in dims.dim)
            )
        elif hasattr(dims, "as_list") and not isinstance(dims, (list, tuple)):
            self._dims = None if dims.rank is None else tuple(dims.as_list())
        else:
            items = dims if isinstance(dims, Iterable) else (dims,)
            self._dims = tuple(
                None if (v := dimension_value(d)) is None or v == -1 else v for d in items
            )
            if any(d is not None and d < 0 for d in self._dims):
                raise ValueError(f"Shape {list(self._dims)} has a negative dimension.")

    @property
    def rank(self) -> int | None:
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self) -> list[Dimension] | None:
        return None if self._dims is None else [Dimension(d) for d in self._dims]

    @property
    def known(self) -> tuple[int, ...] | None:
        """The shape as a tuple of ints where every axis is known, else None."""
        if self._dims is None or None in self._dims:
            return None
        return self._dims  # type: ignore[return-value]

    @property
    def axes(self) -> tuple[int | None, ...] | None:
        """The axis lengths (None = unknown), or None where the rank is unknown."""
        return self._dims

    def as_list(self) -> list[int | None]:
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def num_elements(self) -> int | None:
        known = self.known
        if known is None:
            return None
        total = 1
        for d in known:
            total *= d
        return total

    def is_fully_defined(self) -> bool:
        return self.known is not None

    def assert_is_fully_defined(self) -> None:
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other: Any) -> bool:
        other = TensorShape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a is None or b is None or a == b for a, b in zip(self._dims, other._dims, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def assert_has_rank(self, rank: int) -> None:
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank: int) -> TensorShape:
        self.assert_has_rank(rank)
        return self if self._dims is not None else unknown_shape(rank)

    def merge_with(self, other: Any) -> TensorShape:
        """What is known from both; ValueError naming both where they disagree."""
        that = TensorShape(other)
        self.assert_is_compatible_with(that)
        if self._dims is None:
            return that
        if that._dims is None:
            return self
        return TensorShape(
            tuple(b if a is None else a for a, b in zip(self._dims, that._dims, strict=True))
        )

    def concatenate(self, other: Any) -> TensorShape:
        other = TensorShape(other)
        if self._dims is None or other._dims is None:
            return TensorShape(None)
        return TensorShape(self._dims + other._dims)

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of a shape with unknown rank.")
        return len(self._dims)

    def __bool__(self) -> bool:
        return self._dims is not None

    def __iter__(self) -> Iterator[Dimension]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return (Dimension(d) for d in self._dims)

    @overload
    def __getitem__(self, key: int) -> Dimension: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: int | slice) -> Dimension | TensorShape:
        if isinstance(key, slice):
            return TensorShape(None) if self._dims is None else TensorShape(self._dims[key])
        return Dimension(None) if self._dims is None else Dimension(self._dims[key])

    def __eq__(self, other: object) -> bool:
        try:
            return self._dims == TensorShape(other)._dims
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return hash(self._dims)

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __repr__(self) -> str:
        if self._dims is None:
            return "TensorShape(None)"
        return f"TensorShape({[d if d is not None else None for d in self._dims]})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        if len(self._dims) == 1:
            return f"({'?' if self._dims[0] is None else self._dims[0]},)"
        return "(" + ", ".join("?" if d is None else str(d) for d in self._dims) + ")"

    def brief(self) -> str:
        """As TensorFlow's error messages write it: `[2,?]`, or `<unknown>`."""
        if self._dims is None:
            return "<unknown>"
        return "[" + ",".join("?" if d is None else str(d) for d in self._dims) + "]"

    def as_proto(self) -> Any:
        from stepscope._messages import TensorShapeProto

        proto = TensorShapeProto()
        if self._dims is None:
            proto.unknown_rank = True
        else:
            for d in self._dims:
                proto.dim.add(size=-1 if d is None else d)
        return proto


UNKNOWN = TensorShape(None)
SCALAR = TensorShape(())


def unknown_shape(rank: int | None = None) -> TensorShape:
    """A shape of the given rank with every axis unknown, or of unknown rank."""
    return UNKNOWN if rank is None else TensorShape((None,) * rank)


def as_shape(value: Any) -> TensorShape:
    return value if isinstance(value, TensorShape) else TensorShape(value)


def broadcast(a: TensorShape, b: TensorShape) -> TensorShape:
    """The shape of an elementwise op on the two; ValueError naming both where they clash."""
    if a.axes is None or b.axes is None:
        return UNKNOWN
    longer, shorter = (a.axes, b.axes) if len(a.axes) >= len(b.axes) else (b.axes, a.axes)
    pad = len(longer) - len(shorter)
    out: list[int | None] = list(longer[:pad])
    for x, y in zip(longer[pad:], shorter, strict=True):
        if x == 1:
            out.append(y)
        elif y == 1:
            out.append(x)
        elif x is None or y is None:
            out.append(y if x is None else x)
        elif x == y:
            out.append(x)
        else:
            raise ValueError(
                f"Dimensions must be equal, but are {x} and {y}: shapes {a.brief()} and "
                f"{b.brief()} do not broadcast"
            )
    return TensorShape(tuple(out))
