"""Shape rules and dtype limits that op families share, and how operators are defined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import DType
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor, define_operator
from stepscope.graph.registry import ShapeContext, ShapeRule
from stepscope.graph.shapes import TensorShape, broadcast

FLOATS = (dt.float16, dt.float32, dt.float64)
COMPLEX = (dt.complex64, dt.complex128)
SIGNED = (dt.int8, dt.int16, dt.int32, dt.int64)
UNSIGNED = (dt.uint8, dt.uint16, dt.uint32, dt.uint64)
REALS = FLOATS + SIGNED + UNSIGNED
NUMBERS = REALS + COMPLEX


def same_shape(ctx: ShapeContext) -> TensorShape:
    """The output is shaped as the first input."""
    return ctx.input(0)


def broadcast_shape(ctx: ShapeContext) -> TensorShape:
    """The output is shaped as the two inputs broadcast against each other."""
    return broadcast(ctx.input(0), ctx.input(1))


def limited(rule: ShapeRule, allowed: Iterable[DType]) -> ShapeRule:
    """The rule, preceded by a TypeError for a first input of another dtype."""
    types = frozenset(allowed)
    listed = ", ".join(t.name for t in dt.BASE_TYPES if t in types)

    def check(ctx: ShapeContext) -> Any:
        found = ctx.dtypes[0].base_dtype
        if found not in types:
            raise TypeError(
                f"{ctx.op_type} was given {found.name} values, which are not in the list of "
                f"allowed types: {listed}."
            )
        return rule(ctx)

    return check


def at_least_rank(shape: TensorShape, rank: int) -> TensorShape:
    """The shape itself; ValueError if it is known to have fewer axes."""
    if shape.rank is not None and shape.rank < rank:
        raise ValueError(
            f"Shape must be at least rank {rank} but is rank {shape.rank}: {shape.brief()}"
        )
    return shape


def exactly_rank(shape: TensorShape, rank: int) -> TensorShape:
    """The shape with that rank; ValueError if it is known to have another."""
    if shape.rank is not None and shape.rank != rank:
        raise ValueError(f"Shape must be rank {rank} but is rank {shape.rank}: {shape.brief()}")
    return shape.with_rank(rank)


def merge_dims(a: int | None, b: int | None) -> int | None:
    """The length both axes must have; ValueError naming both where they differ."""
    if a is not None and b is not None and a != b:
        raise ValueError(f"Dimensions must be equal, but are {a} and {b}")
    return b if a is None else a


def output_of(op_type: str, *args: Any, name: str | None = None, **attrs: Any) -> Tensor:
    """The first output of a new node (`graph.build.apply_op`)."""
    return apply_op(op_type, *args, name=name, **attrs).values()[0]


def argument(value: Any, name: str, dtype: DType | None = None) -> Tensor:
    """The argument as a tensor; a plain value becomes a constant of that name and dtype.

    The dtype is a wish for plain values (an int where floats are wanted); a tensor keeps its own.
    """
    return convert_to_tensor(value, None, name, preferred_dtype=dtype)


def tensor_dtype(value: Any) -> DType | None:
    """The dtype of a tensor; None for a plain value, which takes that of its neighbour."""
    return value.dtype.base_dtype if isinstance(value, Tensor) else None


def define_binary_operator(name: str, function: Callable[..., Any]) -> None:
    """Make `function(x, y, name=...)` the operator `__name__` and its reflection."""

    def forward(x: Any, y: Any) -> Any:
        with name_scope(None, name, [x, y]) as scope:
            return function(x, y, name=scope)

    def reflected(y: Any, x: Any) -> Any:
        with name_scope(None, name, [y, x]) as scope:
            return function(argument_like(x, y, "x"), y, name=scope)

    define_operator(f"__{name}__", forward)
    define_operator(f"__r{name}__", reflected)


def argument_like(value: Any, tensor: Any, name: str) -> Tensor:
    """A plain value as a constant of the tensor's own dtype."""
    return convert_to_tensor(value, tensor.dtype.base_dtype, name)


def one_name(new: str, value: Any, old: str, old_value: Any) -> Any:
    """The value of an argument that has an older name too; ValueError if both were given."""
    if old_value is not None:
        if value is not None:
            raise ValueError(f"Cannot specify both {old!r} and {new!r}; pass {new!r} alone.")
        return old_value
    return value
