"""Pools: the largest element, or the mean, of every window of an image.

The largest may also be taken of neighbouring channels (a window over the depth, which as in
TensorFlow is as long as the stride and divides the depth). No pool goes over the batch, and the
gradient over the depth is not there; that is UnimplementedError, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stepscope.errors import UnimplementedError
from stepscope.graph.dtypes import Array, float16, float32
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
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.shaping import shape
from stepscope.ops.cores import spread_over_first_axis
from stepscope.ops.nn.convolution import on_all_axes
from stepscope.ops.nn.windows import (
    WindowAxis,
    line,
    lines_of,
    offsets,
    padded,
    refuse_channels_first,
    unpadded,
    windowed_shape,
)
from stepscope.ops.signatures import FLOATS, REALS, argument, exactly_rank, limited, output_of

_Axes = Sequence[WindowAxis]


def _sizes(node: Any) -> list[int]:
    return [int(n) for n in node.attr("ksize")[1:-1]]


def _mean_shape(ctx: ShapeContext) -> TensorShape:
    images = exactly_rank(ctx.input(0), len(ctx.attr("ksize")))
    assert images.axes is not None
    return windowed_shape(ctx, images, _sizes(ctx), images.axes[-1])


def _max_shape(ctx: ShapeContext) -> TensorShape:
    images = exactly_rank(ctx.input(0), 4)
    assert images.axes is not None
    size, stride, padding = (ctx.attr(name) for name in ("ksize", "strides", "padding"))
    over = line(images.axes[3], int(size[3]), int(stride[3]), padding)
    depth = over.count if size[3] != 1 else images.axes[3]
    return windowed_shape(ctx, images, _sizes(ctx), depth)


def _refuse(node: KernelNode, *, depth: bool = True) -> None:
    """UnimplementedError for windows that go where no pool does."""
    refuse_channels_first(node)
    size, stride = node.attr("ksize"), node.attr("strides")
    if size[0] != 1 or stride[0] != 1:
        raise _unimplemented(node, "Pooling is not yet supported on the batch dimension.")
    if depth and size[-1] != 1:
        raise _unimplemented(node, "Pooling is not yet supported on the depth dimension.")


def _unimplemented(node: KernelNode, why: str) -> UnimplementedError:
    size, stride = list(node.attr("ksize")), list(node.attr("strides"))
    return UnimplementedError.without_op(
        f"{node.op.type} {node.name!r} with ksize={size}, strides={stride}: {why}"
    )


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _result(x: Array, axes: _Axes, out: Array | None) -> Array:
    if out is not None:
        return out
    return np.empty((x.shape[0], *(axis.count or 0 for axis in axes), x.shape[-1]), x.dtype)


def _counts(x: Array, axes: _Axes) -> Array:
    """How many elements of the image each window holds."""
    ones = np.ones((1, *x.shape[1:-1], 1), x.dtype)
    inside = padded(ones, *axes)
    total = np.zeros((1, *(axis.count or 0 for axis in axes), 1), x.dtype)
    for _, where in offsets(*axes):
        total += inside[where]
    return total


# -- the largest -------------------------------------------------------------------------------


def _max_kernel(node: KernelNode) -> Kernel:
    _refuse(node, depth=False)
    if node.attr("ksize")[-1] != 1:
        return _max_of_channels(node)
    sizes = _sizes(node)

    def call(x: Array, out: Array | None = None) -> Array:
        axes = lines_of(node, x.shape[1:-1], sizes)
        result = _result(x, axes, out)

        def some(images: Array, largest: Array) -> None:
            inside = padded(images, *axes, value=_lowest(x.dtype))
            for place, where in offsets(*axes):
                if not any(place):
                    np.copyto(largest, inside[where])
                else:
                    np.maximum(largest, inside[where], out=largest)

        spread_over_first_axis([x, result], some)
        return result

    return Kernel(call, out="keyword", spreads=True)


def _max_of_channels(node: KernelNode) -> Kernel:
    _, high, wide, size = (int(n) for n in node.attr("ksize"))
    _, down, right, stride = (int(n) for n in node.attr("strides"))
    if (high, wide, down, right) != (1, 1, 1, 1):
        raise _unimplemented(
            node, "MaxPooling supports exactly one of pooling across depth or pooling across "
            "width/height."
        )  # fmt: skip
    if size != stride:
        raise _unimplemented(
            node, "Depthwise max pooling requires the depth window to equal the depth stride."
        )

    def call(x: Array, out: Array | None = None) -> Array:
        if x.shape[3] % size:
            raise _unimplemented(
                node, "Depthwise max pooling requires the depth window to evenly divide the input "
                f"depth, which is {x.shape[3]}."
            )  # fmt: skip
        windows = x.reshape((*x.shape[:3], x.shape[3] // size, size))
        result: Array = np.max(windows, axis=4, out=out)
        return result

    return Kernel(call, out="keyword")


def _chosen(
    inside: Array, largest: Array, axes: _Axes, *, first: bool
) -> Iterator[tuple[Any, Array]]:
    """Per place in the windows, where it lies and which windows have their largest there.

    Of equal elements the first is it, or else all are.
    """
    free = np.ones(largest.shape, np.bool_)
    for _, where in offsets(*axes):
        chosen = np.equal(inside[where], largest)
        if first:
            np.logical_and(chosen, free, chosen)
            np.logical_xor(free, chosen, free)
        yield where, chosen


def _bits(chosen: Array, dtype: np.dtype[Any]) -> Array:
    """All bits set where chosen, none elsewhere: what is selected by them is not computed with."""
    return np.negative(chosen.view(np.int8)).astype(f"i{dtype.itemsize}")


def _max_back_kernel(node: KernelNode) -> Kernel:
    _refuse(node)
    sizes = _sizes(node)
    # TensorFlow's kernel for volumes gives the slope to every one of equal elements.
    first = node.op.type != "MaxPool3DGrad"

    def call(x: Array, largest: Array, grad: Array, out: Array | None = None) -> Array:
        axes = lines_of(node, x.shape[1:-1], sizes)
        result = np.empty(x.shape, grad.dtype) if out is None else out
        spread_over_first_axis(
            [x, largest, grad, result],
            lambda a, b, c, d: _back_to_largest(a, b, c, d, axes, first),
        )
        return result

    return Kernel(call, out="keyword", spreads=True)


def _back_to_largest(
    x: Array, largest: Array, grad: Array, result: Array, axes: _Axes, first: bool
) -> None:
    """The gradient of each window added to its largest element into `result`.

    Of equal elements the first gets it, or else all do.
    """
    inside = padded(x, *axes, value=_lowest(x.dtype))
    is_padded = inside is not x
    full = np.empty(inside.shape, grad.dtype) if is_padded else result
    whole = np.dtype(f"i{grad.itemsize}")
    bits, slopes = full.view(whole), grad.view(whole)
    apart = all(axis.stride >= axis.size for axis in axes)
    covered = (a.covers(n) for a, n in zip(axes, full.shape[1:-1], strict=True))
    if not (apart and all(covered)):
        full.fill(0)
    for where, chosen in _chosen(inside, largest, axes, first=first):
        if apart:
            np.bitwise_and(slopes, _bits(chosen, whole), bits[where])
        else:
            full[where] += np.bitwise_and(slopes, _bits(chosen, whole)).view(grad.dtype)
    if is_padded:
        np.copyto(result, unpadded(full, axes, x.shape[1:-1]))


def _max_second_kernel(node: KernelNode) -> Kernel:
    _refuse(node)
    sizes = _sizes(node)

    def call(x: Array, largest: Array, grad: Array) -> Array:
        axes = lines_of(node, x.shape[1:-1], sizes)
        inside, slopes = padded(x, *axes, value=_lowest(x.dtype)), padded(grad, *axes)
        result = np.zeros(largest.shape, grad.dtype)
        for where, chosen in _chosen(inside, largest, axes, first=True):
            result += np.multiply(slopes[where], chosen)
        return result

    return Kernel(call)


# -- the mean ----------------------------------------------------------------------------------


def _mean_kernel(node: KernelNode) -> Kernel:
    _refuse(node)
    sizes = _sizes(node)

    def call(x: Array, out: Array | None = None) -> Array:
        axes = lines_of(node, x.shape[1:-1], sizes)
        inside = padded(x, *axes)
        result = _result(x, axes, out)
        result.fill(0)
        for _, where in offsets(*axes):
            np.add(result, inside[where], result)
        return np.divide(result, _counts(x, axes), result)

    return Kernel(call, out="keyword")


def _mean_back_kernel(node: KernelNode) -> Kernel:
    _refuse(node)
    sizes = _sizes(node)

    def call(shape: Array, grad: Array) -> Array:
        count, *lengths, depth = (int(n) for n in shape)
        axes = lines_of(node, lengths, sizes)
        image = np.broadcast_to(np.zeros((), grad.dtype), (count, *lengths, depth))
        share = np.divide(grad, _counts(image, axes))
        full = np.zeros(padded(image, *axes).shape, grad.dtype)
        for _, where in offsets(*axes):
            full[where] += share
        return np.ascontiguousarray(unpadded(full, axes, lengths))

    return Kernel(call)


# -- op types ----------------------------------------------------------------------------------

_SHARED = ("ksize: list(int)", "strides: list(int)", "padding: string")
_FORMAT = "data_format: string = 'NHWC'"
_VOLUMES = (*_SHARED, "data_format: string = 'NDHWC'")
_EXPLICIT = "explicit_paddings: list(int) = []"
register(
    "MaxPool",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type = float32", *_SHARED, _EXPLICIT, _FORMAT),
    shape=limited(_max_shape, REALS),
    kernel=_max_kernel,
)
register(
    "AvgPool",
    inputs=("value: T",),
    outputs=("output: T",),
    attrs=(*_SHARED, _FORMAT, "T: type"),
    shape=limited(_mean_shape, FLOATS),
    kernel=_mean_kernel,
)
register(
    "AvgPoolGrad",
    inputs=("orig_input_shape: int32", "grad: T"),
    outputs=("output: T",),
    attrs=(*_SHARED, _FORMAT, "T: type"),
    shape=lambda ctx: ctx.constant_as_shape(0).merge_with(TensorShape((None,) * 4)),
    kernel=_mean_back_kernel,
)


def _of_max(
    name: str, kernel: KernelFactory, shaped_as: int, attrs: tuple[str, ...], given: str = "T"
) -> None:
    register(
        name,
        inputs=(f"orig_input: {given}", f"orig_output: {given}", "grad: T"),
        outputs=("output: T",),
        attrs=attrs,
        shape=limited(lambda ctx: ctx.input(shaped_as), REALS),
        kernel=kernel,
    )


_of_max("MaxPoolGrad", _max_back_kernel, 0, (*_SHARED, _EXPLICIT, _FORMAT, "T: type = float32"))
_of_max("MaxPoolGradGrad", _max_second_kernel, 1, (*_SHARED, _FORMAT, "T: type"))
register(
    "MaxPool3D",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(*_VOLUMES, "T: type"),
    shape=limited(_mean_shape, (float16, float32)),
    kernel=_max_kernel,
)
_of_max(
    "MaxPool3DGrad", _max_back_kernel, 0,
    (*_VOLUMES, "T: type = float32", "TInput: type = float32"), "TInput",
)  # fmt: skip
_of_max("MaxPool3DGradGrad", _max_second_kernel, 1, (*_VOLUMES, "T: type"))
register(
    "AvgPool3D",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(*_VOLUMES, "T: type"),
    shape=limited(_mean_shape, FLOATS),
    kernel=_mean_kernel,
)
register(
    "AvgPool3DGrad",
    inputs=("orig_input_shape: int32", "grad: T"),
    outputs=("output: T",),
    attrs=(*_VOLUMES, "T: type"),
    shape=lambda ctx: ctx.constant_as_shape(0).merge_with(TensorShape((None,) * 5)),
    kernel=_mean_back_kernel,
)

# -- gradients ---------------------------------------------------------------------------------


def _like(op: Operation, *more: str) -> dict[str, Any]:
    names = ("ksize", "strides", "padding", "data_format", *more)
    return {name: op.get_attr(name) for name in names}


@gradient("MaxPool")
def _max_gradient(op: Operation, grad: Tensor) -> Tensor:
    more = _like(op, "explicit_paddings")
    return output_of("MaxPoolGrad", op.inputs[0], op.outputs[0], grad, **more)


@gradient("MaxPool3D")
def _max_of_volumes_gradient(op: Operation, grad: Tensor) -> Tensor:
    return output_of("MaxPool3DGrad", op.inputs[0], op.outputs[0], grad, **_like(op))


@gradient("MaxPoolGrad", "MaxPool3DGrad")
def _max_second(op: Operation, grad: Tensor) -> list[Tensor]:
    return _of_third_input(op, f"{op.type}Grad", grad)


@gradient("MaxPoolGradGrad", "MaxPool3DGradGrad")
def _max_third(op: Operation, grad: Tensor) -> list[Tensor]:
    return _of_third_input(op, op.type.removesuffix("Grad"), grad)


def _of_third_input(op: Operation, op_type: str, grad: Tensor) -> list[Tensor]:
    """The slope goes through the largest elements; which these are does not change by a little."""
    x, largest, _before = op.inputs
    back = output_of(op_type, x, largest, grad, **_like(op))
    return [output_of("ZerosLike", x), output_of("ZerosLike", largest), back]


@gradient("AvgPool", "AvgPool3D")
def _mean_gradient(op: Operation, grad: Tensor) -> Tensor:
    return output_of(f"{op.type}Grad", shape(op.inputs[0]), grad, **_like(op))


@gradient("AvgPoolGrad", "AvgPool3DGrad")
def _mean_second(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [None, output_of(op.type.removesuffix("Grad"), grad, **_like(op))]


# -- functions ---------------------------------------------------------------------------------


def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The largest element of every window, channel by channel, or of neighbouring channels."""
    return _pool("MaxPool", value, ksize, strides, padding, data_format, name, input)


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The mean of every window, channel by channel; padding does not count."""
    return _pool("AvgPool", value, ksize, strides, padding, data_format, name, input)


def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The largest element of every window of volumes (batch, depth, height, width, channels).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.nn.max_pool3d(tf.zeros([1, 4, 6, 8, 3]), 2, 2, "SAME").shape)
    (1, 2, 3, 4, 3)
    """
    return _pool("MaxPool3D", input, ksize, strides, padding, data_format, name, None)


def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The mean of every window of volumes; padding does not count.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     cube = tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1])
    ...     print(session.run(tf.nn.avg_pool3d(cube, 2, 2, "VALID")).ravel())
    [3.5]
    """
    return _pool("AvgPool3D", input, ksize, strides, padding, data_format, name, None)


def _pool(
    op_type: str, value: Any, ksize: Any, strides: Any, padding: str, data_format: str,
    name: str | None, given: Any,
) -> Tensor:  # fmt: skip
    with name_scope(name, op_type, [value]) as scope:
        volumes = op_type.endswith("3D")
        axes = 3 if volumes else 2
        images = argument(value if given is None else given, "input" if volumes else "value")
        return output_of(
            op_type,
            images,
            ksize=on_all_axes(ksize, axes, "ksize"),
            strides=on_all_axes(strides, axes, "strides"),
            padding=padding,
            data_format=data_format,
            name=scope,
        )
