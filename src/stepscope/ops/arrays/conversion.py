"""Ops that pass their input on: under another name, as another type, or checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import as_dtype, float32, float64, int32, int64
from stepscope.graph.graph import name_scope
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import TensorShape, as_shape
from stepscope.ops import structures


def _pass_on(x: Any) -> Any:
    return x


def _identity_kernel(_node: KernelNode) -> Kernel:
    return Kernel(_pass_on, views=(0,))


# -- Identity and its kin ----------------------------------------------------------------------

for _name, _attrs in (
    ("Identity", ["T: type"]),
    ("StopGradient", ["T: type"]),
    ("Snapshot", ["T: type"]),
    ("PreventGradient", ["T: type", "message: string = ''"]),
):
    register(
        _name,
        inputs=["input: T"],
        outputs=["output: T"],
        attrs=_attrs,
        shape=lambda c: c.input(0),
        kernel=_identity_kernel,
    )


def _identity_n_kernel(node: KernelNode) -> Kernel:
    count = len(node.output_dtypes)
    if count == 1:
        return Kernel(_pass_on, views=(0,))
    return Kernel(lambda *xs: xs, views=tuple(range(count)))


register(
    "IdentityN",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: list(type)"],
    shape=lambda c: c.inputs,
    kernel=_identity_n_kernel,
)


@gradient("Identity", "IdentityN")
def _pass_back(_op: Operation, *grads: Tensor) -> list[Tensor]:
    return list(grads)


no_gradient("StopGradient")


@gradient("PreventGradient")
def _refuse_gradient(op: Operation, _grad: Tensor) -> Tensor:
    message = op.get_attr("message").decode("utf-8", "replace")
    raise LookupError(f"Gradient explicitly disabled. Reason: {message!r} (at {op.name!r})")


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value under a name of its own; IndexedSlices of IndexedSlices."""
    if isinstance(input, IndexedSlices):
        return structures.mapped(lambda part: identity(part, name), input)  # type: ignore[no-any-return]
    return apply_op("Identity", input, name=name).values()[0]


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """The same values, all of them once all of them are there."""
    return list(apply_op("IdentityN", list(input), name=name).values())


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, taken for a constant when gradients are made."""
    return apply_op("StopGradient", input, name=name).values()[0]


def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    """The same value; asking for a gradient through it is an error."""
    return apply_op("PreventGradient", input, message=message, name=name).values()[0]


# -- Cast, Bitcast -----------------------------------------------------------------------------


def _cast_kernel(node: KernelNode) -> Kernel:
    source, target = (d.base_dtype for d in (node.input_dtypes[0], node.output_dtypes[0]))
    numpy = target.numpy
    if source is target:
        return _identity_kernel(node)
    if source.is_complex and not target.is_complex:
        return Kernel(lambda x: x.real.astype(numpy))

    def call(x: Any, out: Any = None) -> Any:
        if out is None:
            return x.astype(numpy)
        np.copyto(out, x, "unsafe")
        return out

    return Kernel(call, out="keyword")


register(
    "Cast",
    inputs=["x: SrcT"],
    outputs=["y: DstT"],
    attrs=["SrcT: type", "DstT: type", "Truncate: bool = false"],
    shape=lambda c: c.input(0),
    kernel=_cast_kernel,
)


@gradient("Cast")
def _cast_gradient(op: Operation, grad: Tensor) -> Tensor | None:
    source, target = op.inputs[0].dtype.base_dtype, grad.dtype.base_dtype
    if all(d.is_floating or d.is_complex for d in (source, target)):
        return cast(grad, source)
    return None


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """The values converted to another type; `x` itself if it has that type."""
    target = as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and x.dtype is target:
        return x
    with name_scope(name, "Cast", [x]) as scope:
        tensor = convert_to_tensor(x, name="x")
        if tensor.dtype is target:
            return tensor
        return apply_op("Cast", tensor, DstT=target, name=scope).values()[0]


def to_float(x: Any, name: str = "ToFloat") -> Tensor:
    """Cast to float32."""
    return cast(x, float32, name)


def to_double(x: Any, name: str = "ToDouble") -> Tensor:
    """Cast to float64."""
    return cast(x, float64, name)


def to_int32(x: Any, name: str = "ToInt32") -> Tensor:
    """Cast to int32."""
    return cast(x, int32, name)


def to_int64(x: Any, name: str = "ToInt64") -> Tensor:
    """Cast to int64."""
    return cast(x, int64, name)


def _bitcast_shape(c: ShapeContext) -> TensorShape:
    source, target = c.dtypes[0].size, as_dtype(c.attr("type")).size
    axes = c.input(0).axes
    if axes is None or source == target:
        return c.input(0)
    if source > target:
        return TensorShape((*axes, source // target))
    if not axes or axes[-1] not in (None, target // source):
        raise ValueError(
            f"Cannot bitcast {c.dtypes[0].name} of shape {c.input(0).brief()} to "
            f"{as_dtype(c.attr('type')).name}: the last dimension must be {target // source}"
        )
    return TensorShape(axes[:-1])


def _bitcast_kernel(node: KernelNode) -> Kernel:
    source, target = node.input_dtypes[0].numpy, node.output_dtypes[0].numpy

    def call(x: Any) -> Any:
        x = np.asarray(x, order="C")
        if source.itemsize > target.itemsize:
            return x.reshape((*x.shape, 1)).view(target)
        if source.itemsize < target.itemsize:
            return x.view(target).reshape(x.shape[:-1])
        return x.view(target)

    return Kernel(call, views=(0,))


register(
    "Bitcast",
    inputs=["input: T"],
    outputs=["output: type"],
    attrs=["T: type", "type: type"],
    shape=_bitcast_shape,
    kernel=_bitcast_kernel,
)


def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """The bytes read as another type."""
    return apply_op("Bitcast", input, type=as_dtype(type), name=name).values()[0]


# -- checks ------------------------------------------------------------------------------------


def _ensure_kernel(node: KernelNode) -> Kernel:
    wanted: TensorShape = node.attr("shape")
    name = node.name
    if node.input_shapes[0].known is not None and wanted.is_compatible_with(node.input_shapes[0]):
        return _identity_kernel(node)

    def call(x: Any) -> Any:
        found = TensorShape(x.shape)
        if not wanted.is_compatible_with(found):
            raise InvalidArgumentError.without_op(
                f"Shape of tensor {name} {found.brief()} is not compatible with expected shape "
                f"{wanted.brief()}.",
            )
        return x

    return Kernel(call, views=(0,))


register(
    "EnsureShape",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["shape: shape", "T: type"],
    shape=lambda c: c.input(0).merge_with(c.attr("shape")),
    kernel=_ensure_kernel,
)


@gradient("EnsureShape")
def _ensure_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return grad


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """The value, checked to have that shape when it runs."""
    return apply_op("EnsureShape", x, shape=as_shape(shape), name=name).values()[0]


def _check_numerics_kernel(node: KernelNode) -> Kernel:
    message = node.attr("message").decode()

    def call(x: Any) -> Any:
        if np.isfinite(x).all():
            return x
        found = [w for w, test in (("Inf", np.isinf), ("NaN", np.isnan)) if test(x).any()]
        raise InvalidArgumentError.without_op(
            f"{message} : Tensor had {' and '.join(found)} values"
        )

    return Kernel(call, views=(0,))


register(
    "CheckNumerics",
    inputs=["tensor: T"],
    outputs=["output: T"],
    attrs=["T: type", "message: string"],
    shape=lambda c: c.input(0),
    kernel=_check_numerics_kernel,
    stateful=True,
)


@gradient("CheckNumerics")
def _check_numerics_gradient(op: Operation, grad: Tensor) -> Tensor:
    message = op.get_attr("message").decode("utf-8", "replace")
    return check_numerics(grad, f"Not a number (NaN) or infinity in the gradient. {message}")


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """The value; InvalidArgumentError with `message` if it holds NaN or infinity."""
    return apply_op("CheckNumerics", tensor, message=message, name=name).values()[0]
