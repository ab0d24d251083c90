"""Elements by index: gathering, scattering, one-hot, and the distinct values of a list."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import as_dtype, float32, string
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
from stepscope.graph.shapes import UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.arrays.shaping import (
    expand_dims,
    reshape,
    resolve_axis,
    shape,
    size,
    transpose,
)
from stepscope.ops.signatures import output_of

# -- Gather, GatherV2 --------------------------------------------------------------------------


def _gather_axis(c: ShapeContext) -> int | None:
    if c.op_type == "Gather":
        return 0
    axis = c.constant(2)
    return None if axis is None else int(axis)


def _gather_shape(c: ShapeContext) -> TensorShape:
    params, indices = c.input(0), c.input(1)
    batch = int(c.attr("batch_dims")) if c.op_type == "GatherV2" else 0
    if params.axes is None or indices.axes is None:
        return UNKNOWN
    if batch < 0:
        batch += len(indices.axes)
    axis = _gather_axis(c)
    if axis is None:
        return unknown_shape(len(params.axes) - 1 + len(indices.axes) - batch)
    if not params.axes:
        raise ValueError("Cannot gather from a scalar: params must have at least one axis")
    axis = resolve_axis(axis, len(params.axes))
    if not 0 <= batch <= min(axis, len(indices.axes)):
        raise ValueError(
            f"batch_dims {batch} must be at most axis {axis} and the rank of indices "
            f"{indices.brief()}"
        )
    shared = params[:batch].merge_with(indices[:batch])
    return TensorShape(
        [
            *(shared.axes or ()),
            *params.axes[batch:axis],
            *indices.axes[batch:],
            *params.axes[axis + 1 :],
        ]
    )


def _check_indices(indices: Any, limit: int) -> None:
    bad = (indices < 0) | (indices >= limit)
    if np.any(bad):
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        at = ",".join(map(str, where))
        raise InvalidArgumentError.without_op(
            f"indices[{at}] = {np.asarray(indices)[where]} is not in [0, {limit})"
        )


def _gather_kernel(node: KernelNode) -> Kernel:
    versioned = node.op.type == "GatherV2"
    is_string = node.output_dtypes[0].base_dtype is string
    batch = int(node.attr("batch_dims")) if versioned else 0
    constant_axis = node.constants[2] if versioned else 0
    params_shape, known_indices = node.input_shapes[0].known, node.constants[1]
    checked = False
    if params_shape is not None and known_indices is not None and constant_axis is not None:
        limit = params_shape[int(constant_axis)]
        checked = not np.any((known_indices < 0) | (known_indices >= limit))

    def call(params: Any, indices: Any, axis: Any = 0, out: Any = None) -> Any:
        where = int(axis)
        if not checked:
            _check_indices(indices, params.shape[where])
        if batch:
            return _gather_batches(params, indices, where, batch)
        # Checked already: "clip" spares take() the copy it makes to undo a failed write.
        result = np.take(params, indices, where, out, "clip")
        return np.asarray(result, dtype=object) if is_string else result

    return Kernel(call, out="" if batch else "keyword")


def _gather_batches(params: Any, indices: Any, axis: int, batch: int) -> Any:
    batch = batch + indices.ndim if batch < 0 else batch
    axis = axis + params.ndim if axis < 0 else axis
    lead = params.shape[:batch]
    out = np.empty(
        (*lead, *params.shape[batch:axis], *indices.shape[batch:], *params.shape[axis + 1 :]),
        dtype=params.dtype,
    )
    for at in np.ndindex(*lead):
        out[at] = np.take(params[at], indices[at], axis - batch)
    return out


register(
    "Gather",
    inputs=["params: Tparams", "indices: Tindices"],
    outputs=["output: Tparams"],
    attrs=["validate_indices: bool = true", "Tparams: type", "Tindices: type"],
    shape=_gather_shape,
    kernel=_gather_kernel,
)
register(
    "GatherV2",
    inputs=["params: Tparams", "indices: Tindices", "axis: Taxis"],
    outputs=["output: Tparams"],
    attrs=["batch_dims: int = 0", "Tparams: type", "Tindices: type", "Taxis: type"],
    shape=_gather_shape,
    kernel=_gather_kernel,
)


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """The slices of `params` along `axis` at `indices`; an index out of range is an error."""
    del validate_indices
    axis = batch_dims if axis is None else axis
    return apply_op("GatherV2", params, indices, axis, batch_dims=batch_dims, name=name).values()[0]


# -- GatherNd, ScatterNd -----------------------------------------------------------------------


def _split_nd(c: ShapeContext, indices: int, data: TensorShape) -> TensorShape | None:
    """What indices of depth k leave of `data`: `data[k:]`; None where that is not known."""
    axes = c.input(indices).axes
    if axes is None:
        return None
    if not axes:
        raise ValueError("indices must have at least one axis")
    depth = axes[-1]
    if depth is None or data.axes is None:
        return None
    if depth > len(data.axes):
        raise ValueError(
            f"indices of shape {c.input(indices).brief()} index {depth} axes, but there are only "
            f"{len(data.axes)} in {data.brief()}"
        )
    return data[depth:]


def _gather_nd_shape(c: ShapeContext) -> TensorShape:
    rest = _split_nd(c, 1, c.input(0))
    return UNKNOWN if rest is None else c.input(1)[:-1].concatenate(rest)


def _nd_index(indices: Any, shape: tuple[int, ...], what: str) -> tuple[Any, ...]:
    depth = indices.shape[-1]
    bad = ((indices < 0) | (indices >= np.array(shape[:depth], dtype=np.int64))).any(axis=-1)
    if np.any(bad):
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        at = ",".join(map(str, where))
        raise InvalidArgumentError.without_op(
            f"indices[{at}] = {list(map(int, indices[where]))} does not index into {what} "
            f"{TensorShape(shape).brief()}",
        )
    return tuple(indices[..., i] for i in range(depth))


def _refuse_policy(node: KernelNode) -> None:
    policy = node.attr("bad_indices_policy")
    if policy not in (b"", b"DEFAULT", b"ERROR"):
        raise UnimplementedError.without_op(
            f"bad_indices_policy={policy.decode()!r} of {node.op.type}; use 'ERROR'."
        )


def _gather_nd_kernel(node: KernelNode) -> Kernel:
    _refuse_policy(node)

    def call(params: Any, indices: Any) -> Any:
        if indices.shape[-1] == 0:
            return np.broadcast_to(params, indices.shape[:-1] + params.shape).copy()
        result = params[_nd_index(indices, params.shape, "param shape")]
        return np.asarray(result, dtype=params.dtype)

    return Kernel(call)


register(
    "GatherNd",
    inputs=["params: Tparams", "indices: Tindices"],
    outputs=["output: Tparams"],
    attrs=["Tparams: type", "Tindices: type", "bad_indices_policy: string = ''"],
    shape=_gather_nd_shape,
    kernel=_gather_nd_kernel,
)


def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Tensor:
    """The slices of `params` at the index vectors along the last axis of `indices`."""
    if batch_dims:
        raise UnimplementedError.without_op("gather_nd(batch_dims=...) other than 0.")
    return apply_op("GatherNd", params, indices, name=name).values()[0]


def _scatter_nd_shape(c: ShapeContext) -> TensorShape:
    target = c.constant_as_shape(2)
    rest = _split_nd(c, 0, target)
    if rest is not None:
        wanted = c.input(0)[:-1].concatenate(rest)
        if not wanted.is_compatible_with(c.input(1)):
            raise ValueError(
                f"updates must have the shape {wanted.brief()}, but have {c.input(1).brief()}: "
                f"indices {c.input(0).brief()} into {target.brief()}"
            )
    return target


def _scatter_nd_kernel(node: KernelNode) -> Kernel:
    _refuse_policy(node)

    def call(indices: Any, updates: Any, shape: Any) -> Any:
        result = np.zeros(tuple(shape), dtype=updates.dtype)
        np.add.at(result, _nd_index(indices, result.shape, "shape"), updates)
        return result

    return Kernel(call)


register(
    "ScatterNd",
    inputs=["indices: Tindices", "updates: T", "shape: Tindices"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: type", "bad_indices_policy: string = ''"],
    shape=_scatter_nd_shape,
    kernel=_scatter_nd_kernel,
)


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Zeros of `shape`, with `updates` added at `indices`; duplicates add up."""
    return apply_op("ScatterNd", indices, updates, shape, name=name).values()[0]


# -- OneHot ------------------------------------------------------------------------------------


def _one_hot_shape(c: ShapeContext) -> TensorShape:
    axes, depth = c.input(0).axes, c.constant(1)
    if depth is not None and depth < 0:
        raise ValueError(f"depth must be non-negative, got: {depth}")
    if axes is None:
        return UNKNOWN
    axis = int(c.attr("axis"))
    at = len(axes) if axis == -1 else resolve_axis(axis, len(axes) + 1)
    return TensorShape((*axes[:at], None if depth is None else int(depth), *axes[at:]))


def _one_hot_kernel(node: KernelNode) -> Kernel:
    axis = int(node.attr("axis"))

    def call(indices: Any, depth: Any, on: Any, off: Any) -> Any:
        indices = np.asarray(indices)
        at = indices.ndim if axis == -1 else axis
        classes = np.arange(int(depth), dtype=np.int64)
        classes = classes.reshape((-1,) + (1,) * (indices.ndim - at))
        return np.where(np.expand_dims(indices, at) == classes, on, off)

    return Kernel(call)


register(
    "OneHot",
    inputs=["indices: TI", "depth: int32", "on_value: T", "off_value: T"],
    outputs=["output: T"],
    attrs=["axis: int = -1", "T: type", "TI: type = int64"],
    shape=_one_hot_shape,
    kernel=_one_hot_kernel,
)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """`on_value` at each index along a new axis of length `depth`, `off_value` elsewhere."""
    kind = None if dtype is None else as_dtype(dtype).base_dtype
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        given = [
            None if v is None else convert_to_tensor(v, preferred_dtype=kind)
            for v in (on_value, off_value)
        ]
        for tensor, what in zip(given, ("on_value", "off_value"), strict=True):
            if tensor is None:
                continue
            if kind is not None and tensor.dtype.base_dtype is not kind:
                raise TypeError(
                    f"dtype {tensor.dtype.name} of {what} does not match {kind.name}, the dtype "
                    "of the one-hot tensor"
                )
            kind = tensor.dtype.base_dtype
        kind = kind or float32
        on, off = (
            tensor if tensor is not None else convert_to_tensor(value, kind, what)
            for tensor, value, what in zip(
                given,
                (kind.numpy.type(1), kind.numpy.type(0)),
                ("on_value", "off_value"),
                strict=True,
            )
        )
        indices = convert_to_tensor(indices, name="indices")
        return apply_op(
            "OneHot", indices, depth, on, off, axis=-1 if axis is None else axis, name=scope
        ).values()[0]


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """`gather` along the last axis of `indices`, with all axes before it as batch axes."""
    indices = convert_to_tensor(indices, name="indices")
    if indices.shape.rank is None:
        raise ValueError("batch_gather() needs indices of a known rank.")
    last = indices.shape.rank - 1
    return gather(params, indices, name=name, axis=last, batch_dims=last)


# -- gradients ---------------------------------------------------------------------------------


@gradient("Gather", "GatherV2")
def _gather_gradient(op: Operation, grad: Tensor) -> list[Any]:
    params, indices, *axis = op.inputs
    where = constant_value(axis[0]) if axis else np.int32(0)
    batch = int(op.get_attr("batch_dims")) if axis else 0
    rest: list[None] = [None] * (len(op.inputs) - 1)
    if where is not None and int(where) == 0:
        return [rows_of(params, indices, grad), *rest]
    if where is None or params.shape.rank is None or indices.shape.rank is None:
        raise LookupError(
            f"The gradient of {op.name!r} (GatherV2) along an axis other than 0 needs a constant "
            "axis and inputs of known rank; set_shape gives them one."
        )
    batch = batch + indices.shape.rank if batch < 0 else batch
    at = resolve_axis(int(where), params.shape.rank)
    return [_gathered_along(params, indices, grad, at, batch), *rest]


def rows_of(params: Any, indices: Tensor, grad: Tensor) -> IndexedSlices:
    """The gradient of a lookup of rows of `params`: those rows alone."""
    dense = shape(params)
    count = reshape(size(indices), [1])
    values = reshape(grad, output_of("ConcatV2", [count, dense[1:]], 0))
    return IndexedSlices(values, reshape(indices, [-1]), dense)


def _gathered_along(params: Tensor, indices: Tensor, grad: Tensor, axis: int, batch: int) -> Tensor:
    """The gradient of params gathered along an axis, after axes shared with the indices.

    Batch axes and the gathered one become a single axis of rows, into which the slices of the
    gradient are added.
    """
    assert params.shape.rank is not None
    assert indices.shape.rank is not None
    lengths = shape(params)
    lead, gathered, outer = lengths[:batch], lengths[axis], params.shape.rank
    inner = indices.shape.rank - batch
    between = list(range(batch, axis))
    # From (batch, between, indices, after) to (batch, indices, between, after).
    moved = [
        *range(batch), *range(axis, axis + inner), *between,
        *range(axis + inner, outer - 1 + inner),
    ]  # fmt: skip
    tail = output_of("ConcatV2", [lengths[batch:axis], lengths[axis + 1 :]], 0)
    batches = output_of("Prod", lead, [0])
    rows = output_of("ConcatV2", [[-1], tail], 0)
    kind = indices.dtype.base_dtype
    starts = output_of("Range", 0, batches, 1) * gathered
    flat = reshape(indices, output_of("Pack", [batches, -1]))
    places = flat + output_of("Cast", expand_dims(starts, -1), DstT=kind)
    total = output_of(
        "UnsortedSegmentSum",
        reshape(transpose(grad, moved), rows),
        reshape(places, [-1]),
        batches * gathered,
    )
    full = output_of("ConcatV2", [lead, reshape(gathered, [1]), tail], 0)
    back = [*range(batch), *(batch + 1 + i for i in range(len(between))), batch]
    return transpose(reshape(total, full), [*back, *range(axis + 1, outer)])


@gradient("GatherNd")
def _gather_nd_gradient(op: Operation, grad: Tensor) -> list[Any]:
    params, indices = op.inputs
    dense = shape(params, out_type=indices.dtype.base_dtype)
    if indices.shape.rank == 2 and indices.shape.as_list()[-1] == 1:
        rows = output_of("Squeeze", indices, squeeze_dims=[-1])
        return [IndexedSlices(grad, rows, dense), None]
    return [scatter_nd(indices, grad, dense), None]


@gradient("ScatterNd")
def _scatter_nd_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [None, gather_nd(grad, op.inputs[0]), None]


no_gradient("OneHot")
