"""Along one axis: the positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelFactory,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.signatures import NUMBERS, limited, one_name, same_shape

# -- kernels -----------------------------------------------------------------------------------


def _position(method: str, extreme: np.ufunc) -> KernelFactory:
    def factory(node: KernelNode) -> Kernel:
        dtype = node.output_dtypes[0].numpy
        may_be_nan = node.input_dtypes[0].is_floating
        worst = np.inf if method == "argmin" else -np.inf
        find = getattr(np.ndarray, method)
        known = node.constants[1]

        def locate(x: Array, dimension: Array) -> Any:
            rank = np.ndim(x)
            axis = int(dimension)
            if not -rank <= axis < rank:
                raise InvalidArgumentError.without_op(
                    f"Expected dimension in the range [{-rank}, {rank}), but got {axis}"
                )
            if x.shape[axis] == 0 and x.size == 0:
                if all(n for i, n in enumerate(x.shape) if i != axis % rank):
                    raise InvalidArgumentError.without_op(
                        f"Reduction axis {axis} is empty in shape {list(x.shape)}"
                    )
                return np.empty(x.shape[:axis] + x.shape[axis:][1:], dtype)
            if may_be_nan and x.size and np.isnan(extreme.reduce(x, None)):
                x = np.where(np.isnan(x), x.dtype.type(worst), x)
            found = find(x, axis)
            return found if found.dtype == dtype else found.astype(dtype)

        if known is not None:
            decided = int(known)
            return Kernel(lambda x, _dimension: locate(x, decided))  # type: ignore[arg-type]
        return Kernel(locate)

    return factory


def _position_shape(ctx: ShapeContext) -> TensorShape:
    shape, dimension = ctx.input(0), ctx.constant(1)
    if shape.axes is None:
        return UNKNOWN
    rank = len(shape.axes)
    if rank == 0:
        return SCALAR
    if dimension is None:
        return unknown_shape(rank - 1)
    axis = int(dimension)
    if not -rank <= axis < rank:
        raise ValueError(f"Dimension ({axis}) must be in the range [{-rank}, {rank})")
    return TensorShape([d for i, d in enumerate(shape.axes) if i != axis % rank])


def _scan_kernel(node: KernelNode, step: np.ufunc) -> Kernel:
    exclusive, backwards = node.attr("exclusive"), node.attr("reverse")
    dtype = node.output_dtypes[0].numpy
    start = dtype.type(0 if step is np.add else 1)

    def running(x: Array, axis: Array) -> Array:
        rank = np.ndim(x)
        index = int(axis)
        if not -rank <= index < max(rank, 1):
            raise InvalidArgumentError.without_op(
                f"Expected scan axis in the range [{-rank}, {rank}), but got {index}"
            )
        if rank == 0:
            return np.array(start) if exclusive else np.array(x)
        turned = np.moveaxis(x, index, 0)
        turned = turned[::-1] if backwards else turned
        result = np.empty(x.shape, dtype)
        target = np.moveaxis(result, index, 0)
        target = target[::-1] if backwards else target
        if not exclusive:
            step.accumulate(turned, 0, dtype, target)
        elif len(turned):
            target[0] = start
            step.accumulate(turned[:-1], 0, dtype, target[1:])
        return result

    return Kernel(running)


# -- op types ----------------------------------------------------------------------------------

for _name, _method, _extreme_of in (
    ("ArgMax", "argmax", np.maximum),
    ("ArgMin", "argmin", np.minimum),
):
    register(
        _name,
        inputs=("input: T", "dimension: Tidx"),
        outputs=("output: output_type",),
        attrs=("T: type", "Tidx: type = int32", "output_type: type = int64"),
        shape=_position_shape,
        kernel=_position(_method, _extreme_of),
    )
for _name, _step in (("Cumsum", np.add), ("Cumprod", np.multiply)):
    register(
        _name,
        inputs=("x: T", "axis: Tidx"),
        outputs=("out: T",),
        attrs=(
            "exclusive: bool = false",
            "reverse: bool = false",
            "T: type",
            "Tidx: type = int32",
        ),
        shape=limited(same_shape, NUMBERS),
        kernel=lambda node, step=_step: _scan_kernel(node, step),  # type: ignore[misc]
    )


# -- gradients ---------------------------------------------------------------------------------

no_gradient("ArgMax", "ArgMin")


@gradient("Cumsum")
def _cumsum_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    exclusive, backwards = op.get_attr("exclusive"), op.get_attr("reverse")
    return [cumsum(grad, op.inputs[1], exclusive, not backwards), None]


@gradient("Cumprod")
def _cumprod_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, axis = op.inputs
    exclusive, backwards = op.get_attr("exclusive"), op.get_attr("reverse")
    products = cumprod(x, axis, exclusive, backwards)
    return [cumsum(products * grad, axis, exclusive, not backwards) / x, None]


# -- functions ---------------------------------------------------------------------------------


def _position_function(op_type: str, doc: str) -> Callable[..., Tensor]:
    def call(
        input: Any,
        axis: Any = None,
        name: str | None = None,
        dimension: Any = None,
        output_type: Any = "int64",
    ) -> Tensor:
        axis = one_name("axis", axis, "dimension", dimension)
        return apply_op(
            op_type, input, 0 if axis is None else axis, output_type=output_type, name=name
        ).values()[0]

    call.__doc__ = doc
    call.__name__ = call.__qualname__ = op_type.lower()
    return call


argmax = _position_function("ArgMax", "The index of the largest element along the axis (0).")
argmin = _position_function("ArgMin", "The index of the smallest element along the axis (0).")


def _older_position_function(op_type: str, name: str, newer: str) -> Callable[..., Tensor]:
    def call(
        input: Any, dimension: Any, output_type: Any = "int64", name: str | None = None
    ) -> Tensor:
        return apply_op(op_type, input, dimension, output_type=output_type, name=name).values()[0]

    call.__doc__ = f"The older form of `{newer}`: the axis has to be given."
    call.__name__ = call.__qualname__ = name
    return call


arg_max = _older_position_function("ArgMax", "arg_max", "argmax")
arg_min = _older_position_function("ArgMin", "arg_min", "argmin")


def _scan_function(op_type: str, doc: str) -> Callable[..., Tensor]:
    def call(
        x: Any,
        axis: Any = 0,
        exclusive: bool = False,
        reverse: bool = False,
        name: str | None = None,
    ) -> Tensor:
        with name_scope(name, op_type, [x]) as scope:
            x = convert_to_tensor(x, name="x")
            return apply_op(
                op_type, x, axis, exclusive=exclusive, reverse=reverse, name=scope
            ).values()[0]

    call.__doc__ = doc
    call.__name__ = call.__qualname__ = op_type.lower()
    return call


_SELF = " along the axis; exclusive ones leave the element itself out."
cumsum = _scan_function("Cumsum", "Running sums" + _SELF)
cumprod = _scan_function("Cumprod", "Running products" + _SELF)
