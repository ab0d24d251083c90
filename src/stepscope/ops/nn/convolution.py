"""Convolutions in one and two dimensions, as matrix products over the windows of the images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.shaping import expand_dims, shape, squeeze
from stepscope.ops.cores import SCRATCH_BYTES, cores_here, scratch, spread
from stepscope.ops.nn.windows import (
    WindowAxis,
    lines_of,
    offsets,
    padded,
    refuse_channels_first,
    unpadded,
    windowed_shape,
)
from stepscope.ops.signatures import FLOATS, exactly_rank, limited, one_name, output_of

_FLOPS_PER_NS = 40.0
_Block = tuple[slice, slice, slice]
"""Images, lines of windows in them, and which windows these are."""


class _Windows:
    """All windows of images as rows (windows, elements of one), some at a time.

    Each matrix lies in memory that another one uses afterwards: small enough to stay in the
    processor's cache between being filled and being multiplied.
    """

    def __init__(self, x: Array, high: WindowAxis, wide: WindowAxis) -> None:
        x = padded(x, high, wide)
        count, depth = x.shape[0], x.shape[3]
        self._length = length = high.size * wide.size * depth
        self._dtype = x.dtype
        self._whole: Array | None = None
        if high.size == wide.size == high.stride == wide.stride == 1:
            self._whole = x.reshape(-1, depth)
        image, down, right, channel = x.strides
        self._windows = np.lib.stride_tricks.as_strided(
            x,
            (count, high.count or 0, wide.count or 0, high.size, wide.size, depth),
            (image, down * high.stride, right * wide.stride, down * high.dilation,
             right * wide.dilation, channel),
            writeable=False,
        )  # fmt: skip
        # Copying takes a loop per run of neighbours: those of a window, or those of a row of them.
        self._by_element = wide.stride == 1 and wide.size * depth < (wide.count or 0)
        self.blocks = list(_blocks(count, high, wide, length * x.itemsize))

    @contextmanager
    def laid_out(self, block: _Block) -> Iterator[Array]:
        """The windows of a block as rows."""
        images, lines, rows = block
        if self._whole is not None:
            yield self._whole[rows]
            return
        part, count = self._windows[images, lines], rows.stop - rows.start
        if self._by_element:
            with scratch((self._length, count), self._dtype) as matrix:
                np.copyto(matrix.reshape(part.shape[3:] + part.shape[:3]),
                          part.transpose(3, 4, 5, 0, 1, 2))  # fmt: skip
                yield matrix.T
        else:
            with scratch((count, self._length), self._dtype) as matrix:
                np.copyto(matrix.reshape(part.shape), part)
                yield matrix


def _blocks(count: int, high: WindowAxis, wide: WindowAxis, window_bytes: int) -> Iterator[_Block]:
    """Images, lines of windows in them, and the windows they are, a few megabytes at a time."""
    lines, per_line = high.count or 0, wide.count or 0
    fitting = max(1, SCRATCH_BYTES // max(1, per_line * window_bytes))
    images = max(1, fitting // max(1, lines))
    for first in range(0, count, images):
        last = min(first + images, count)
        for top in range(0, lines, fitting):
            bottom = min(top + fitting, lines)
            start = (first * lines + top) * per_line
            windows = (last - first) * (bottom - top) * per_line
            yield slice(first, last), slice(top, bottom), slice(start, start + windows)


def _convolve(x: Array, weights: Array, high: WindowAxis, wide: WindowAxis, out: Array) -> Array:
    """Filter images by a matrix of (elements of a window, features) into `out`."""
    flat = out.reshape(-1, weights.shape[1])
    windows = _Windows(x, high, wide)

    def one(block: _Block) -> None:
        with windows.laid_out(block) as matrix:
            np.dot(matrix, weights, flat[block[2]])

    spread(windows.blocks, one)
    return out


def _groups(depth: int, weights: Sequence[int]) -> list[tuple[slice, slice]]:
    """The channels and the features of each group: one, unless filters are of fewer channels."""
    each, features = weights[2], weights[3]
    if each == 0 or depth % each or features % (groups := max(1, depth // each)):
        raise InvalidArgumentError.without_op(
            f"input depth must be evenly divisible by filter depth: {depth} vs {each} "
            f"(and the {features} features by the groups)",
        )
    some = features // groups
    return [
        (slice(n * each, (n + 1) * each), slice(n * some, (n + 1) * some)) for n in range(groups)
    ]


def _part(x: Array, last: slice) -> Array:
    return np.ascontiguousarray(x[..., last])


def _cost(filter_shape: TensorShape, windows: TensorShape) -> float | None:
    weights, places = filter_shape.num_elements(), windows[:-1].num_elements()
    return None if weights is None or places is None else 2.0 * weights * places / _FLOPS_PER_NS


# -- Conv2D ------------------------------------------------------------------------------------


def _conv_shape(ctx: ShapeContext) -> TensorShape:
    images, weights = exactly_rank(ctx.input(0), 4), exactly_rank(ctx.input(1), 4)
    assert images.axes is not None
    assert weights.axes is not None
    high, wide, channels, depth = weights.axes
    if images.axes[3] is not None and channels:
        groups, rest = divmod(images.axes[3], channels)
        if rest or groups == 0:
            raise ValueError(
                f"Depth of input ({images.axes[3]}) is not a multiple of input depth of filter "
                f"({channels})"
            )
        if depth is not None and depth % groups:
            raise ValueError(
                f"Depth of output ({depth}) is not a multiple of the number of groups ({groups})"
            )
    if high is None or wide is None:
        return TensorShape((images.axes[0], None, None, depth))
    return windowed_shape(ctx, images, (high, wide), depth)


def _conv_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, weights: Array, out: Array | None = None) -> Array:
        groups = _groups(x.shape[3], weights.shape)
        high, wide = lines_of(node, x.shape[1:3], weights.shape[:2])
        depth = weights.shape[3]
        result = (x.shape[0], high.count or 0, wide.count or 0, depth)
        if out is None:
            out = np.empty(result, x.dtype)
        if len(groups) == 1:
            return _convolve(x, weights.reshape(-1, depth), high, wide, out)
        for channels, features in groups:
            some = _part(weights, features)
            matrix = some.reshape(-1, some.shape[3])
            made = np.empty((*result[:3], some.shape[3]), x.dtype)
            out[..., features] = _convolve(_part(x, channels), matrix, high, wide, made)
        return out

    cost = _cost(node.input_shapes[1], node.output_shapes[0])
    return Kernel(call, out="keyword", cost_ns=cost, threaded=True, spreads=True)


_ATTRS = (
    "T: type",
    "strides: list(int)",
    "use_cudnn_on_gpu: bool = true",
    "padding: string",
    "explicit_paddings: list(int) = []",
    "data_format: string = 'NHWC'",
    "dilations: list(int) = [1, 1, 1, 1]",
)
register(
    "Conv2D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=limited(_conv_shape, FLOATS),
    kernel=_conv_kernel,
)

# -- the way back ------------------------------------------------------------------------------


def _to_input_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(sizes: Array, weights: Array, grad: Array, out: Array | None = None) -> Array:
        count, height, width, depth = (int(n) for n in sizes)
        high, wide = lines_of(node, (height, width), weights.shape[:2])
        if out is None:
            out = np.empty((count, height, width, depth), grad.dtype)
        groups = _groups(depth, weights.shape)
        if len(groups) == 1:
            return _to_images(grad, weights, high, wide, out)
        for channels, features in groups:
            some = _part(weights, features)
            made = np.empty((count, height, width, some.shape[2]), grad.dtype)
            out[..., channels] = _to_images(_part(grad, features), some, high, wide, made)
        return out

    cost = _cost(node.input_shapes[1], node.input_shapes[2])
    return Kernel(call, out="keyword", cost_ns=cost, threaded=True, spreads=True)


def _to_images(
    grad: Array, weights: Array, high: WindowAxis, wide: WindowAxis, out: Array
) -> Array:
    """What the windows' gradients are to the images, into `out`."""
    height, width, depth = out.shape[1:]
    back = high.turned(height), wide.turned(width)
    if back[0] is None or back[1] is None or weights.shape[3] > 2 * depth:
        return _spread(grad, weights, high, wide, out)
    # Each element gets from the windows it was in, through the filter turned around.
    turned = weights[::-1, ::-1].transpose(0, 1, 3, 2).reshape(-1, depth)
    return _convolve(grad, turned, back[0], back[1], out)


def _spread(grad: Array, weights: Array, high: WindowAxis, wide: WindowAxis, out: Array) -> Array:
    """The gradient of every window added to the elements it was taken from."""
    count, height, width, depth = out.shape
    features = weights.shape[3]
    flat, matrix = grad.reshape(-1, features), weights.reshape(-1, features).T
    full = np.zeros(
        (count, height + high.before + high.after, width + wide.before + wide.after, depth),
        grad.dtype,
    )

    def one(block: _Block) -> None:
        images, lines, rows = block
        shape = images.stop - images.start, lines.stop - lines.start, -1
        some = replace(high, count=lines.stop - lines.start)
        below = full[images, lines.start * high.stride :]
        with scratch((rows.stop - rows.start, matrix.shape[1]), grad.dtype) as columns:
            np.dot(flat[rows], matrix, columns)
            places = columns.reshape((*shape, high.size, wide.size, depth))
            for (i, j), where in offsets(some, wide):
                below[where] += places[:, :, :, i, j]

    blocks = list(_blocks(count, high, wide, matrix.shape[1] * grad.itemsize))
    # Blocks of one image add to the same lines of it.
    apart = all(lines == slice(0, high.count) for _, lines, _ in blocks)
    spread(blocks, one, None if apart else 1)
    np.copyto(out, unpadded(full, (high, wide), (height, width)))
    return out


def _summed(windows: _Windows, blocks: Sequence[_Block], slopes: Array, total: Array) -> None:
    """What some of the windows give to the gradient of the filter, into `total`."""
    part = np.empty(total.shape, total.dtype) if len(blocks) > 1 else total
    if not blocks:
        total.fill(0)
    for n, block in enumerate(blocks):
        with windows.laid_out(block) as matrix:
            np.dot(matrix.T, slopes[block[2]], part if n else total)
        if n:
            np.add(total, part, total)


def _to_weights(x: Array, grad: Array, high: WindowAxis, wide: WindowAxis, out: Array) -> Array:
    """What the windows' gradients are to the filter, into `out`."""
    windows = _Windows(x, high, wide)
    flat, slopes = out.reshape(-1, out.shape[3]), grad.reshape(-1, out.shape[3])
    # Who takes which blocks is always the same, and so is the sum, to the last bit.
    shares = [windows.blocks[n :: cores_here()] for n in range(cores_here())]
    sums = [flat, *(np.empty(flat.shape, flat.dtype) for _ in shares[1:])]
    spread(range(len(shares)), lambda n: _summed(windows, shares[n], slopes, sums[n]))
    for other in sums[1:]:
        np.add(flat, other, flat)
    return out


def _to_filter_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, sizes: Array, grad: Array, out: Array | None = None) -> Array:
        wanted = tuple(int(n) for n in sizes)
        high, wide = lines_of(node, x.shape[1:3], wanted[:2])
        if out is None:
            out = np.empty(wanted, x.dtype)
        groups = _groups(x.shape[3], wanted)
        if len(groups) == 1:
            return _to_weights(x, grad, high, wide, out)
        for channels, features in groups:
            made = np.empty(out[..., features].shape, x.dtype)
            some = _part(x, channels), _part(grad, features)
            out[..., features] = _to_weights(*some, high, wide, made)
        return out

    cost = _cost(node.output_shapes[0], node.input_shapes[2])
    return Kernel(call, out="keyword", cost_ns=cost, threaded=True, spreads=True)


def _sized_by(index: int) -> Any:
    return lambda ctx: ctx.constant_as_shape(index).merge_with(TensorShape((None,) * 4))


register(
    "Conv2DBackpropInput",
    inputs=("input_sizes: int32", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_sized_by(0),
    kernel=_to_input_kernel,
)
register(
    "Conv2DBackpropFilter",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_sized_by(1),
    kernel=_to_filter_kernel,
)


def _like(op: Operation) -> dict[str, Any]:
    names = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
    return {name: op.get_attr(name) for name in names}


def _to_input(op: Operation, sizes: Tensor, weights: Tensor, grad: Tensor) -> Tensor:
    return output_of("Conv2DBackpropInput", sizes, weights, grad, **_like(op))


def _to_filter(op: Operation, x: Tensor, sizes: Tensor, grad: Tensor) -> Tensor:
    return output_of("Conv2DBackpropFilter", x, sizes, grad, **_like(op))


@gradient("Conv2D")
def _conv_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, weights = op.inputs
    return [_to_input(op, shape(x), weights, grad), _to_filter(op, x, shape(weights), grad)]


@gradient("Conv2DBackpropInput")
def _to_input_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    _sizes, weights, before = op.inputs
    again = output_of("Conv2D", grad, weights, **_like(op))
    return [None, _to_filter(op, grad, shape(weights), before), again]


@gradient("Conv2DBackpropFilter")
def _to_filter_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, _sizes, before = op.inputs
    again = output_of("Conv2D", x, grad, **_like(op))
    return [_to_input(op, shape(x), grad, before), None, again]


# -- functions ---------------------------------------------------------------------------------


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Images (batch, height, width, channels) filtered by (height, width, channels, features).

    `padding` is "SAME", "VALID" or the padding before and after each axis.
    """
    weights = one_name("filters", filters, "filter", filter)
    padding, explicit = paddings(padding, "conv2d")
    images = convert_to_tensor(input)
    return output_of(
        "Conv2D",
        images,
        weights,
        strides=on_all_axes(strides, 2, "strides"),
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit,
        data_format=data_format or "NHWC",
        dilations=on_all_axes(dilations, 2, "dilations"),
        name=name,
    )


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The gradient of `conv2d` for its images, of which `input_sizes` is the shape."""
    weights = one_name("filters", filters, "filter", filter)
    padding, explicit = paddings(padding, "conv2d_backprop_input")
    return output_of(
        "Conv2DBackpropInput", input_sizes, weights, out_backprop, strides=strides,
        padding=padding, use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit,
        data_format=data_format, dilations=list(dilations), name=name,
    )  # fmt: skip


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` for its filter, of which `filter_sizes` is the shape."""
    padding, explicit = paddings(padding, "conv2d_backprop_filter")
    return output_of(
        "Conv2DBackpropFilter", input, filter_sizes, out_backprop, strides=strides,
        padding=padding, use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit,
        data_format=data_format, dilations=list(dilations), name=name,
    )  # fmt: skip


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Images of `output_shape` from `value`: `conv2d` the other way round, as its gradient goes.

    The filter is (height, width, features of the result, channels of `value`).
    """
    images = one_name("input", input, "value", value)
    weights = one_name("filters", filters, "filter", filter)
    with name_scope(name, "conv2d_transpose", [images, weights, output_shape]) as scope:
        padding, explicit = paddings(padding, "conv2d_transpose")
        return output_of(
            "Conv2DBackpropInput", output_shape, weights, images,
            strides=on_all_axes(strides, 2, "strides"), padding=padding,
            explicit_paddings=explicit, data_format=data_format or "NHWC",
            dilations=on_all_axes(dilations, 2, "dilations"), name=scope,
        )  # fmt: skip


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Series (batch, length, channels) filtered by (width, channels, features)."""
    series = one_name("input", input, "value", value)
    if data_format not in (None, "NWC", "NHWC", "NCW", "NCHW"):
        raise ValueError(f"`data_format` must be 'NWC' or 'NCW', not {data_format!r}.")
    first = data_format in ("NCW", "NCHW")
    axis = -2 if first else -3
    with name_scope(name, "conv1d", [series, filters]) as scope:
        images, weights = expand_dims(series, axis), expand_dims(filters, 0)
        result = output_of(
            "Conv2D", images, weights, strides=_three(stride, first), padding=padding,
            use_cudnn_on_gpu=use_cudnn_on_gpu is not False,
            data_format="NCHW" if first else "NHWC", dilations=_three(dilations, first),
            name=scope,
        )  # fmt: skip
        return squeeze(result, [axis])


def _three(value: Any, channels_first: bool) -> list[int]:
    """One number, or all three axes of series, as the four axes of images."""
    given = [1] if value is None else [int(n) for n in np.atleast_1d(np.asarray(value))]
    if len(given) == 1:
        given = [1, 1, *given] if channels_first else [1, *given, 1]
    if len(given) != 3:
        raise ValueError(f"stride and dilations must be of length 1 or 3 but was {len(given)}")
    return [1, *given]


def paddings(padding: Any, what: str) -> tuple[str, list[int]]:
    """A padding as the attributes `padding` and `explicit_paddings`."""
    if padding is None:
        raise ValueError(f"{what} needs a padding: 'SAME', 'VALID' or a list.")
    if isinstance(padding, str):
        return padding, []
    return "EXPLICIT", [int(n) for pair in padding for n in pair]


def on_all_axes(value: Any, axes: int, what: str) -> list[int]:
    """One number for the axes that windows go along, one for each of them, or all axes, as all."""
    if value is None:
        return [1] * (axes + 2)
    given = [int(n) for n in np.atleast_1d(np.asarray(value))]
    if len(given) == 1:
        given *= axes
    if len(given) == axes:
        given = [1, *given, 1]
    if len(given) != axes + 2:
        raise ValueError(f"{what} must be of length 1, {axes} or {axes + 2} but was {len(given)}")
    return given
