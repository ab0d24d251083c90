"""Tensors out of nothing: constants, placeholders, fills, ranges."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.dtypes import DType, as_dtype, bool_, float32, int32, int64, string
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import TensorShape, as_shape, unknown_shape
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.shaping import shape_tensor_of

_LARGEST_INLINE = 1000
"""`zeros` and `ones` of fewer elements are a constant in the graph, larger ones a Fill."""

# -- Const, Placeholder ------------------------------------------------------------------------


def _const_kernel(node: KernelNode) -> Kernel:
    value = node.attr("value")
    return Kernel(lambda: value, value=value)


register(
    "Const",
    outputs=["output: dtype"],
    attrs=["value: tensor", "dtype: type"],
    shape=lambda c: TensorShape(c.attr("value").shape),
    kernel=_const_kernel,
)


def constant(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str | None = "Const",
    verify_shape: bool = False,
) -> Tensor:
    """A constant; with `shape` a single value is repeated, a shorter list extended by its last."""
    if verify_shape and shape is not None:
        found = TensorShape(np.shape(value))
        if found != as_shape(shape):
            raise TypeError(f"Expected a value of shape {as_shape(shape)}, got shape {found}.")
    return constant_op(value, dtype, shape, name or "Const")


def _placeholder_kernel(node: KernelNode) -> Kernel:
    name, dtype, shape = node.name, node.attr("dtype"), node.attr("shape")
    suffix = "" if shape.rank is None else f" and shape {shape.brief()}"

    def unfed() -> NoReturn:
        raise InvalidArgumentError.without_op(
            f"You must feed a value for placeholder tensor '{name}' with dtype "
            f"{dtype.name}{suffix}",
        )

    return Kernel(unfed)


register(
    "Placeholder",
    outputs=["output: dtype"],
    attrs=["dtype: type", "shape: shape = unknown"],
    shape=lambda c: as_shape(c.attr("shape")),
    kernel=_placeholder_kernel,
)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor whose value is fed to each run; running it unfed is an error."""
    return apply_op(
        "Placeholder", dtype=as_dtype(dtype).base_dtype, shape=as_shape(shape), name=name
    ).values()[0]


def _default_shape(c: ShapeContext) -> TensorShape:
    wanted = as_shape(c.attr("shape"))
    if not wanted.is_compatible_with(c.input(0)):
        raise ValueError(
            f"The default value has shape {c.input(0).brief()}, which does not fit the "
            f"placeholder's shape {wanted.brief()}"
        )
    return wanted


register(
    "PlaceholderWithDefault",
    inputs=["input: dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type", "shape: shape"],
    shape=_default_shape,
    kernel=lambda _node: Kernel(lambda x: x, views=(0,)),
)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """A placeholder that passes `input` on when nothing is fed."""
    return apply_op(
        "PlaceholderWithDefault", input, shape=as_shape(shape), name=name
    ).values()[0]  # fmt: skip


# -- fills -------------------------------------------------------------------------------------


def _like_kernel(zero_or_one: int) -> Any:
    def factory(node: KernelNode) -> Kernel:
        dtype = node.output_dtypes[0].base_dtype
        numpy = dtype.numpy
        value = b"" if dtype is string else numpy.type(zero_or_one)

        def call(x: Any, out: Any = None) -> Any:
            if out is None:
                return np.full(x.shape, value, dtype=numpy)
            out.fill(value)
            return out

        return Kernel(call, out="keyword")

    return factory


for _name, _value in (("ZerosLike", 0), ("OnesLike", 1)):
    register(
        _name,
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=["T: type"],
        shape=lambda c: c.input(0),
        kernel=_like_kernel(_value),
    )


def _fill_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].base_dtype.numpy
    known = node.output_shapes[0].known

    def call(dims: Any, value: Any, out: Any = None) -> Any:
        if out is not None:
            out[...] = value
            return out
        result = np.empty(tuple(dims) if known is None else known, dtype=dtype)
        result[...] = value
        return result

    return Kernel(call, out="keyword")


def _fill_shape(c: ShapeContext) -> TensorShape:
    c.input(0).assert_has_rank(1)
    if c.input(1).rank not in (None, 0):
        raise ValueError(f"value must be a scalar, but has shape {c.input(1).brief()}")
    return c.constant_as_shape(0)


register(
    "Fill",
    inputs=["dims: index_type", "value: T"],
    outputs=["output: T"],
    attrs=["T: type", "index_type: type = int32"],
    shape=_fill_shape,
    kernel=_fill_kernel,
)


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` with `value` everywhere."""
    return apply_op("Fill", dims, value, name=name).values()[0]


def _filled(value: int, shape: Any, dtype: Any, name: str | None, default_name: str) -> Tensor:
    kind = as_dtype(dtype).base_dtype
    element: Any = value
    if kind is bool_:
        element = bool(value)
    elif kind is string:
        if value:
            raise TypeError("There are no ones of type string; use fill().")
        element = ""
    with name_scope(name, default_name, [shape]) as scope:
        if not isinstance(shape, Tensor):
            static = _static_shape(shape)
            if static is None:
                shape = convert_to_tensor(shape, dtype=int32)
            else:
                count = static.num_elements()
                listed = not isinstance(shape, (int, np.integer))
                if listed and count is not None and count < _LARGEST_INLINE:
                    return constant_op(element, kind, static, scope)
                shape = shape_constant(static)
        if not shape.shape.axes:
            shape = apply_op("Reshape", shape, [-1]).values()[0]
        return fill(shape, constant_op(element, kind), name=scope)


def _static_shape(shape: Any) -> TensorShape | None:
    try:
        static = TensorShape(shape)
    except (TypeError, ValueError):
        return None
    return static if static.known is not None else None


def shape_constant(shape: TensorShape) -> Tensor:
    """A known static shape as a tensor: int32, or int64 where a length needs it."""
    known = shape.known
    if known is None:
        raise ValueError(f"Cannot convert a partially known shape {shape} to a tensor.")
    kind = int64 if any(d > 2**31 - 1 for d in known) else int32
    return constant_op(np.array(known, dtype=kind.numpy), kind, name="shape_as_tensor")


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Zeros (False, empty strings) of the given shape."""
    return _filled(0, shape, dtype, name, "zeros")


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Ones (True) of the given shape."""
    return _filled(1, shape, dtype, name, "ones")


def zeros_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Zeros of the shape of `tensor`; a constant where that is known and `optimize` allows it."""
    with name_scope(name, "zeros_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        kind = tensor.dtype.base_dtype if dtype is None else as_dtype(dtype).base_dtype
        if optimize and tensor.shape.is_fully_defined():
            return zeros(tensor.shape, kind, scope)
        if kind is not tensor.dtype.base_dtype:
            return zeros(_shape_of(tensor, optimize), kind, scope)
        return apply_op("ZerosLike", tensor, name=scope).values()[0]


def ones_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Ones of the shape of `tensor`."""
    with name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        kind = tensor.dtype.base_dtype if dtype is None else as_dtype(dtype).base_dtype
        result = ones(_shape_of(tensor, optimize), kind, scope)
        result.set_shape(tensor.shape)
        return result


def _shape_of(tensor: Tensor, optimize: bool) -> Tensor:
    with name_scope(None, "Shape", [tensor]) as scope:
        if optimize and tensor.shape.is_fully_defined():
            return shape_constant(tensor.shape)
        return shape_tensor_of(tensor, int32, scope)


# -- ranges ------------------------------------------------------------------------------------

_RANGE_TYPES = ("int32", "int64", "float16", "float32", "float64")


def _range_values(start: Any, limit: Any, delta: Any, dtype: np.dtype[Any]) -> Any:
    if delta == 0:
        raise InvalidArgumentError.without_op("Requires delta != 0: 0")
    if (delta > 0 and start > limit) or (delta < 0 and start < limit):
        sign = "<=" if delta > 0 else ">="
        raise InvalidArgumentError.without_op(
            f"Requires start {sign} limit when delta {sign[0]} 0: {start}/{limit}"
        )
    return np.arange(start, limit, delta, dtype=dtype)


def _range_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy
    return Kernel(lambda start, limit, delta: _range_values(start, limit, delta, dtype))


def _range_shape(c: ShapeContext) -> TensorShape:
    for i, what in enumerate(("start", "limit", "delta")):
        if c.input(i).rank not in (None, 0):
            raise ValueError(f"{what} must be a scalar, but has shape {c.input(i).brief()}")
    start, limit, delta = (c.constant(i) for i in (0, 1, 2))
    if start is None or limit is None or delta is None:
        return unknown_shape(1)
    try:
        return TensorShape(_range_values(start, limit, delta, start.dtype).shape)
    except InvalidArgumentError as error:
        raise ValueError(error.message) from None


register(
    "Range",
    inputs=["start: Tidx", "limit: Tidx", "delta: Tidx"],
    outputs=["output: Tidx"],
    attrs=["Tidx: type = int32"],
    shape=_range_shape,
    kernel=_range_kernel,
)


def range(
    start: Any,
    limit: Any = None,
    delta: Any = 1,
    dtype: Any = None,
    name: str | None = "range",
) -> Tensor:
    """The numbers from `start` (0 if only one bound is given) to before `limit`."""
    if limit is None:
        start, limit = 0, start
    wanted = None if dtype is None else as_dtype(dtype)
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        bounds = [
            value if isinstance(value, Tensor) else convert_to_tensor(value, wanted, what)
            for value, what in ((start, "start"), (limit, "limit"), (delta, "delta"))
        ]
        kind = wanted if wanted is not None else _widest(bounds)
        return apply_op("Range", *(cast(b, kind) for b in bounds), name=scope).values()[0]


def _widest(tensors: list[Tensor]) -> DType:
    for t in tensors:
        if t.dtype.base_dtype.name not in _RANGE_TYPES:
            raise TypeError(
                f"A range is of numbers; {t!r} is not one of {', '.join(_RANGE_TYPES)}."
            )
    return max((t.dtype.base_dtype for t in tensors), key=lambda d: _RANGE_TYPES.index(d.name))


def _linspace_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy

    def call(start: Any, stop: Any, num: Any) -> Any:
        if num <= 0:
            raise InvalidArgumentError.without_op(f"Requires num > 0: {num}")
        return np.linspace(start, stop, int(num), dtype=dtype)

    return Kernel(call)


def _linspace_shape(c: ShapeContext) -> TensorShape:
    num = c.constant(2)
    if num is None:
        return unknown_shape(1)
    if num <= 0:
        raise ValueError(f"Requires num > 0: {num}")
    return TensorShape([int(num)])


register(
    "LinSpace",
    inputs=["start: T", "stop: T", "num: Tidx"],
    outputs=["output: T"],
    attrs=["T: type", "Tidx: type = int32"],
    shape=_linspace_shape,
    kernel=_linspace_kernel,
)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, both included."""
    return apply_op("LinSpace", start, stop, num, name=name).values()[0]


lin_space = linspace


# -- gradients ---------------------------------------------------------------------------------


@gradient("Fill")
def _fill_gradient(_op: Operation, grad: Tensor) -> list[Tensor | None]:
    axes = range(0, apply_op("Rank", grad).values()[0])
    return [None, apply_op("Sum", grad, axes).values()[0]]


@gradient("PlaceholderWithDefault")
def _default_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return grad


no_gradient("Const", "LinSpace", "OnesLike", "Range", "ZerosLike")
