"""Reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelFactory,
    KernelNode,
    ShapeContext,
    gradient,
    register,
)
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.arrays import constants, shaping
from stepscope.ops.math.broadcasting import conjugate
from stepscope.ops.signatures import (
    FLOATS,
    NUMBERS,
    REALS,
    limited,
    one_name,
    output_of,
)

# -- axes --------------------------------------------------------------------------------------


def _normalised(axes: Any, rank: int) -> tuple[int, ...]:
    """The axes as a sorted tuple of indices from 0; ValueError for one outside of the rank."""
    result = []
    for axis in np.atleast_1d(axes):
        if not -rank <= axis < rank:
            raise ValueError(
                f"Invalid reduction dimension {int(axis)} for input with {rank} dimensions"
            )
        result.append(int(axis) % rank)
    return tuple(sorted(set(result)))


def _checked(axes: Any, rank: int) -> tuple[int, ...]:
    try:
        result = _normalised(axes, rank)
    except ValueError as error:
        raise InvalidArgumentError.without_op(f"{error}.") from None
    if len(result) != np.size(axes):
        raise InvalidArgumentError.without_op(
            f"Invalid reduction arguments: Axes contains duplicate dimension: {np.array(axes)}",
        )
    return result


def _reduction_shape(ctx: ShapeContext) -> TensorShape:
    shape, axes, keep = ctx.input(0), ctx.constant(1), ctx.attr("keep_dims")
    if axes is None or shape.axes is None:
        return unknown_shape(shape.rank) if keep and shape.rank is not None else UNKNOWN
    gone = _normalised(axes, len(shape.axes))
    if keep:
        return TensorShape([1 if i in gone else d for i, d in enumerate(shape.axes)])
    return TensorShape([d for i, d in enumerate(shape.axes) if i not in gone])


# -- kernels -----------------------------------------------------------------------------------

Reducer = Callable[..., Any]
"""`reduce(x, axes, out=None)`, made for given axes: it does not look at its second argument."""


def _over_axes(node: KernelNode, make: Callable[[tuple[int, ...]], Reducer]) -> Kernel:
    """The kernel that reduces over the axes of input 1, decided now where they are known."""
    rank, given = node.input_shapes[0].rank, node.constants[1]
    if given is not None and rank is not None:
        return Kernel(make(_checked(given, rank)), out="positional")

    def at_run_time(x: Array, axes: Array, out: Array | None = None) -> Any:
        return make(_checked(axes, np.ndim(x)))(x, axes, out)

    return Kernel(at_run_time, out="positional")


def _folding(ufunc: np.ufunc) -> KernelFactory:
    def factory(node: KernelNode) -> Kernel:
        fold: Callable[..., Any] = ufunc.reduce
        keep = node.attr("keep_dims")
        # Sums and products of narrow integers grow wider unless told otherwise; looking at a
        # dtype takes longer than not to.
        narrow = node.output_dtypes[0].is_integer
        dtype = node.output_dtypes[0].numpy if narrow else None
        return _over_axes(
            node, lambda axes: lambda x, _axes, out=None: fold(x, axes, dtype, out, keep)
        )

    return factory


def _extreme(ufunc: np.ufunc, lowest: bool) -> KernelFactory:
    def factory(node: KernelNode) -> Kernel:
        fold: Callable[..., Any] = ufunc.reduce
        keep = node.attr("keep_dims")
        if node.input_shapes[0].num_elements():
            return _over_axes(
                node, lambda axes: lambda x, _axes, out=None: fold(x, axes, None, out, keep)
            )
        start = _empty_extreme(node.output_dtypes[0], lowest)
        return _over_axes(
            node, lambda axes: lambda x, _axes, out=None: fold(x, axes, None, out, keep, start)
        )

    return factory


def _empty_extreme(dtype: DType, lowest: bool) -> Any:
    """What an extreme over nothing is: the end of the dtype's range."""
    if dtype.is_floating:
        return dtype.numpy.type(-np.inf if lowest else np.inf)
    return dtype.numpy.type(dtype.min if lowest else dtype.max)


def _mean_kernel(node: KernelNode) -> Kernel:
    dtype, keep = node.output_dtypes[0].numpy, node.attr("keep_dims")
    fold: Callable[..., Any] = np.add.reduce
    if dtype.kind in "iu" or dtype == np.float16:
        return _over_axes(node, lambda axes: _wide_mean(axes, keep, dtype))
    shape = node.input_shapes[0].known

    def make(axes: tuple[int, ...]) -> Reducer:
        if shape is not None:
            known = np.array(_count(shape, axes), dtype)
            return lambda x, _axes, out=None: np.true_divide(
                fold(x, axes, None, out, keep), known, out
            )
        return lambda x, _axes, out=None: np.true_divide(
            fold(x, axes, None, out, keep), dtype.type(_count(x.shape, axes)), out
        )

    return _over_axes(node, make)


def _wide_mean(axes: tuple[int, ...], keep: bool, dtype: np.dtype[Any]) -> Reducer:
    """Means of types too narrow to hold the sum: integers (rounded towards zero) and halves."""
    whole = dtype.kind in "iu"
    wide = np.dtype(np.int64 if whole else np.float32)
    fold: Callable[..., Any] = np.add.reduce

    def mean(x: Array, _axes: Array, out: Array | None = None) -> Any:
        total = np.asarray(fold(x, axes, wide, None, keep))
        count = _count(np.shape(x), axes)
        result = np.zeros(total.shape, dtype) if out is None else out
        if not whole:
            result[...] = total / wide.type(count)
        elif count:
            result[...] = (total - np.fmod(total, count)) // count
        else:
            result[...] = 0
        return result

    return mean


def _count(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return math.prod(shape[axis] for axis in axes)


def _l2_loss_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    half = wide.type(0.5)

    def half_of_squares(t: Array) -> Any:
        flat = t.reshape(-1).astype(wide, copy=False)
        return dtype.type(np.dot(flat, flat) * half)

    return Kernel(half_of_squares)


# -- op types ----------------------------------------------------------------------------------


def _reduction(name: str, kernel: KernelFactory, allowed: tuple[DType, ...]) -> None:
    register(
        name,
        inputs=("input: T", "reduction_indices: Tidx"),
        outputs=("output: T",),
        attrs=("keep_dims: bool = false", "T: type", "Tidx: type = int32"),
        shape=limited(_reduction_shape, allowed),
        kernel=kernel,
    )


_reduction("Sum", _folding(np.add), NUMBERS)
_reduction("Prod", _folding(np.multiply), NUMBERS)
_reduction("Mean", _mean_kernel, NUMBERS)
_reduction("Max", _extreme(np.maximum, lowest=True), REALS)
_reduction("Min", _extreme(np.minimum, lowest=False), REALS)

for _name, _call in (("All", np.logical_and), ("Any", np.logical_or)):
    register(
        _name,
        inputs=("input: bool", "reduction_indices: Tidx"),
        outputs=("output: bool",),
        attrs=("keep_dims: bool = false", "Tidx: type = int32"),
        shape=_reduction_shape,
        kernel=_folding(_call),
    )
register(
    "L2Loss",
    inputs=("t: T",),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=limited(lambda _ctx: SCALAR, FLOATS),
    kernel=_l2_loss_kernel,
)


# -- gradients ---------------------------------------------------------------------------------


def _kept_shape(op: Operation) -> Tensor:
    """The shape of a reduction's result with the reduced axes left at length 1."""
    x, axes = op.inputs
    known, decided = x.shape.axes, constant_value(axes)
    if known is not None and decided is not None:
        gone = _normalised(decided, len(known))
        if all(n is not None or i in gone for i, n in enumerate(known)):
            kept = [1 if i in gone else n for i, n in enumerate(known)]
            return constant_op(np.array(kept, np.int32))
    # Ones scattered over the shape at the reduced axes: position by position, 1 or the length.
    rank = shaping.rank(x)
    places = output_of("FloorMod", output_of("Cast", axes, DstT="int32") + rank, rank)
    places = shaping.reshape(places, [-1, 1])
    marks = output_of(
        "ScatterNd", places, constants.ones_like(shaping.reshape(places, [-1])),
        shaping.reshape(rank, [1]),
    )  # fmt: skip
    reduced = output_of("Greater", marks, 0)
    lengths = shaping.shape(x)
    return output_of("Select", reduced, constants.ones_like(lengths), lengths)


def _spread(op: Operation, value: Tensor) -> Tensor:
    """A reduction's result, or its gradient, repeated over what was reduced."""
    x = op.inputs[0]
    kept = value if op.get_attr("keep_dims") else shaping.reshape(value, _kept_shape(op))
    result = shaping.broadcast_to(kept, shaping.shape(x))
    result.set_shape(x.shape)
    return result


@gradient("Sum")
def _sum_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [_spread(op, grad), None]


@gradient("Mean")
def _mean_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    before, after = op.inputs[0].shape.num_elements(), op.outputs[0].shape.num_elements()
    kind = grad.dtype.base_dtype
    if before is not None and after is not None:
        count = constant_op(before // max(after, 1), kind)
    else:
        sizes = [output_of("Size", t) for t in (op.inputs[0], op.outputs[0])]
        whole = output_of("FloorDiv", sizes[0], output_of("Maximum", sizes[1], 1))
        count = output_of("Cast", whole, DstT=kind)
    # Divided before it is spread: there is less to divide.
    return [_spread(op, output_of("RealDiv", grad, count)), None]


@gradient("Max", "Min")
def _extreme_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, axes = op.inputs
    kept = _kept_shape(op)
    y, grad = (shaping.reshape(t, kept) for t in (op.outputs[0], grad))
    # Where several elements are the extreme, they share the gradient.
    chosen = output_of("Cast", output_of("Equal", y, x), DstT=grad.dtype.base_dtype)
    count = shaping.reshape(output_of("Sum", chosen, axes), kept)
    return [chosen / count * grad, None]


@gradient("Prod")
def _product_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, axes = op.inputs
    if x.shape.rank == 0:
        return [grad, None]
    rank = shaping.rank(x)
    axes = shaping.reshape(output_of("Cast", axes, DstT="int32"), [-1])
    axes = output_of("FloorMod", axes + rank, rank)
    # The reduced axes go to the front and become one, along which each element's gradient is the
    # product of all the others: of those before it and of those after it.
    others = output_of("ListDiff", constants.range(rank), axes)
    order = output_of("ConcatV2", [axes, others], 0)
    lengths = shaping.shape(x)
    sizes = [
        output_of("Prod", output_of("GatherV2", lengths, part, 0), [0]) for part in (axes, others)
    ]
    turned = shaping.transpose(x, order)
    flat = shaping.reshape(turned, output_of("Pack", sizes))
    before = output_of("Cumprod", flat, 0, exclusive=True)
    after = output_of("Cumprod", flat, 0, exclusive=True, reverse=True)
    rest = shaping.reshape(conjugate(before) * conjugate(after), shaping.shape(turned))
    back = shaping.transpose(rest, output_of("InvertPermutation", order))
    return [shaping.reshape(_spread(op, grad) * back, lengths), None]


@gradient("L2Loss")
def _l2_loss_gradient(op: Operation, grad: Tensor) -> Tensor:
    return op.inputs[0] * grad


# -- functions ---------------------------------------------------------------------------------


def _axes_argument(x: Any, axis: Any) -> Any:
    if axis is not None:
        return axis
    rank = x.shape.rank if isinstance(x, Tensor) else None
    if rank:
        return constant_op(np.arange(rank, dtype=np.int32))
    return constants.range(0, shaping.rank(x))


def _reducer(op_type: str, doc: str) -> Callable[..., Tensor]:
    def call(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        axis = one_name("axis", axis, "reduction_indices", reduction_indices)
        keep = bool(one_name("keepdims", keepdims, "keep_dims", keep_dims))
        if hasattr(input_tensor, "_as_tensor"):
            input_tensor = convert_to_tensor(input_tensor)
        axes = _axes_argument(input_tensor, axis)
        result = apply_op(op_type, input_tensor, axes, keep_dims=keep, name=name).values()[0]
        if axis is None and not keep and not result.shape.is_fully_defined():
            result.set_shape(())
        return result

    call.__doc__ = doc
    call.__name__ = call.__qualname__ = f"reduce_{op_type.lower()}"
    return call


_AXES = " over the axes (all if None); `keepdims` leaves them with length 1."
reduce_sum = _reducer("Sum", "The sum" + _AXES)
reduce_mean = _reducer("Mean", "The mean" + _AXES)
reduce_prod = _reducer("Prod", "The product" + _AXES)
reduce_max = _reducer("Max", "The largest element" + _AXES)
reduce_min = _reducer("Min", "The smallest element" + _AXES)
reduce_all = _reducer("All", "Whether all are true" + _AXES)
reduce_any = _reducer("Any", "Whether any is true" + _AXES)


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """log(sum(exp(x))) over the axes (all if None), without overflow."""
    axis = one_name("axis", axis, "reduction_indices", reduction_indices)
    keep = bool(one_name("keepdims", keepdims, "keep_dims", keep_dims))
    with name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        raw = reduce_max(input_tensor, axis, True)
        finite = apply_op("IsFinite", raw).values()[0]
        safe = apply_op("SelectV2", finite, raw, 0).values()[0]
        top = apply_op("StopGradient", safe).values()[0]
        exponentials = apply_op("Exp", apply_op("Sub", input_tensor, top).values()[0]).values()[0]
        result = apply_op("Log", reduce_sum(exponentials, axis, keep)).values()[0]
        if not keep:
            shape = apply_op("Shape", result).values()[0]
            top = apply_op("Reshape", top, shape).values()[0]
        result = apply_op("AddV2", result, top, name=scope).values()[0]
        if axis is None and not keep and not result.shape.is_fully_defined():
            result.set_shape(())
        return result


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of the squares."""
    return apply_op("L2Loss", t, name=name).values()[0]


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = "int64",
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """How many elements are not zero (for strings: not empty)."""
    axis = one_name("axis", axis, "reduction_indices", reduction_indices)
    keep = one_name("keepdims", keepdims, "keep_dims", keep_dims)
    with name_scope(name, "count_nonzero", [input_tensor]):
        tensor = convert_to_tensor(input_tensor, name="input")
        base = tensor.dtype.base_dtype
        zero = constant_op(np.zeros((), base.numpy) if base.name != "string" else "", base,
                           name="zeros")  # fmt: skip
        differs = apply_op("NotEqual", tensor, zero).values()[0]
        counted = apply_op("Cast", differs, DstT="int64").values()[0]
        total = reduce_sum(counted, axis, keep)
        if total.dtype == dtype:
            return total
        return apply_op("Cast", total, DstT=dtype).values()[0]
