"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape, broadcast
from stepscope.ops.arrays import indexing, joining, shaping
from stepscope.ops.cores import cores_here, spread
from stepscope.ops.math.broadcasting import conjugate
from stepscope.ops.math.reductions import reduce_prod
from stepscope.ops.math.unary import conj
from stepscope.ops.signatures import (
    NUMBERS,
    argument,
    at_least_rank,
    define_binary_operator,
    exactly_rank,
    limited,
    merge_dims,
    output_of,
)

_FLOPS_PER_NS = 40.0


def _cost_ns(a: TensorShape, b_columns: int | None) -> float | None:
    count = a.num_elements()
    return None if count is None or b_columns is None else 2.0 * count * b_columns / _FLOPS_PER_NS


def _axis(shape: TensorShape, index: int) -> int | None:
    return None if shape.axes is None else shape.axes[index]


# -- two matrices ------------------------------------------------------------------------------


def _matmul_shape(ctx: ShapeContext) -> TensorShape:
    a = exactly_rank(ctx.input(0), 2)
    b = exactly_rank(ctx.input(1), 2)
    assert a.axes is not None
    assert b.axes is not None
    rows, inner = reversed(a.axes) if ctx.attr("transpose_a") else a.axes
    other, columns = reversed(b.axes) if ctx.attr("transpose_b") else b.axes
    merge_dims(inner, other)
    return TensorShape((rows, columns))


def _in_single(call: Callable[..., Any]) -> Callable[..., Any]:
    """Half-precision products, summed in single precision as a matrix product should be."""

    def product(a: Array, b: Array) -> Any:
        return call(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)

    return product


_SPREAD_NS: Final = 4_000_000
"""From here on starting a thread for half of a product is nothing beside the product."""


def _spreading(plain: Callable[..., Any], *, flip_a: bool, flip_b: bool) -> Callable[..., Any]:
    """A product whose rows or columns are shared out where the op may use several cores."""

    def product(a: Array, b: Array, out: Array | None = None) -> Any:
        cores = cores_here()
        work = 2.0 * a.size * b.shape[0 if flip_b else 1] / _FLOPS_PER_NS
        if cores == 1 or work < _SPREAD_NS or a.dtype != b.dtype:
            return plain(a, b, out)
        x, y = a.T if flip_a else a, b.T if flip_b else b
        made = np.empty((x.shape[0], y.shape[1]), x.dtype) if out is None else out
        by_rows = x.shape[0] >= y.shape[1]
        each = -(-(x.shape[0] if by_rows else y.shape[1]) // cores)

        def part(n: int) -> None:
            where = slice(n * each, (n + 1) * each)
            if by_rows:
                np.matmul(x[where], y, out=made[where])
            else:
                np.matmul(x, y[:, where], out=made[:, where])

        spread(range(cores), part)
        return made

    return product


def _matmul_kernel(node: KernelNode) -> Kernel:
    flip_a, flip_b = node.attr("transpose_a"), node.attr("transpose_b")
    cost = _cost_ns(node.input_shapes[0], _axis(node.output_shapes[0], 1))
    # numpy.dot takes less time to start than numpy.matmul, and hands transposes on to BLAS.
    call: Callable[..., Any]
    if flip_a and flip_b:
        call = lambda a, b, out=None: np.dot(a.T, b.T, out)  # noqa: E731
    elif flip_a:
        call = lambda a, b, out=None: np.dot(a.T, b, out)  # noqa: E731
    elif flip_b:
        call = lambda a, b, out=None: np.dot(a, b.T, out)  # noqa: E731
    else:
        call = np.dot
    if cost is None or cost >= _SPREAD_NS:
        call = _spreading(call, flip_a=flip_a, flip_b=flip_b)
    if node.input_dtypes[0].numpy == np.float16:
        return Kernel(_in_single(call), cost_ns=cost, threaded=True)
    return Kernel(call, out="positional", cost_ns=cost, threaded=True)


register(
    "MatMul",
    inputs=("a: T", "b: T"),
    outputs=("product: T",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: type",
        "grad_a: bool = false",
        "grad_b: bool = false",
    ),
    shape=limited(_matmul_shape, NUMBERS),
    kernel=_matmul_kernel,
)


@gradient("MatMul")
def _matmul_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    a, b = (conjugate(t) for t in op.inputs)
    flip_a, flip_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")

    def product(x: Tensor, y: Tensor, flip_x: bool, flip_y: bool, which: str) -> Tensor:
        attrs: dict[str, Any] = {"transpose_a": flip_x, "transpose_b": flip_y, which: True}
        return output_of("MatMul", x, y, **attrs)

    if flip_a:
        for_a = product(b, grad, flip_b, True, "grad_a")
    else:
        for_a = product(grad, b, False, not flip_b, "grad_a")
    if flip_b:
        for_b = product(grad, a, True, flip_a, "grad_b")
    else:
        for_b = product(a, grad, not flip_a, False, "grad_b")
    return [for_a, for_b]


# -- batches of matrices -----------------------------------------------------------------------


def _batch_matmul_shape(ctx: ShapeContext) -> TensorShape:
    x = at_least_rank(ctx.input(0), 2)
    y = at_least_rank(ctx.input(1), 2)
    if x.axes is None or y.axes is None:
        return UNKNOWN
    rows, inner = reversed(x.axes[-2:]) if ctx.attr("adj_x") else x.axes[-2:]
    other, columns = reversed(y.axes[-2:]) if ctx.attr("adj_y") else y.axes[-2:]
    merge_dims(inner, other)
    batch = broadcast(TensorShape(x.axes[:-2]), TensorShape(y.axes[:-2]))
    return batch.concatenate((rows, columns))


def _adjoint(x: Array) -> Array:
    flipped: Array = np.swapaxes(x, -1, -2)
    return np.conjugate(flipped) if flipped.dtype.kind == "c" else flipped


def _batch_matmul_kernel(node: KernelNode) -> Kernel:
    adj_x, adj_y = node.attr("adj_x"), node.attr("adj_y")
    call: Callable[..., Any]
    if adj_x and adj_y:
        call = lambda x, y, out=None: np.matmul(_adjoint(x), _adjoint(y), out)  # noqa: E731
    elif adj_x:
        call = lambda x, y, out=None: np.matmul(_adjoint(x), y, out)  # noqa: E731
    elif adj_y:
        call = lambda x, y, out=None: np.matmul(x, _adjoint(y), out)  # noqa: E731
    else:
        call = np.matmul
    inner = _axis(node.input_shapes[0], -2 if adj_x else -1)
    cost = _cost_ns(node.output_shapes[0], inner)
    if node.input_dtypes[0].numpy == np.float16:
        return Kernel(_in_single(call), cost_ns=cost, threaded=True)
    return Kernel(call, out="positional", cost_ns=cost, threaded=True)


for _name in ("BatchMatMul", "BatchMatMulV2"):
    register(
        _name,
        inputs=("x: T", "y: T"),
        outputs=("output: T",),
        attrs=(
            "T: type",
            "adj_x: bool = false",
            "adj_y: bool = false",
            "grad_x: bool = false",
            "grad_y: bool = false",
        ),
        shape=limited(_batch_matmul_shape, NUMBERS),
        kernel=_batch_matmul_kernel,
    )


@gradient("BatchMatMul", "BatchMatMulV2")
def _batch_matmul_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, y = op.inputs
    flip_x, flip_y = op.get_attr("adj_x"), op.get_attr("adj_y")

    def product(a: Tensor, b: Tensor, flip_a: bool, flip_b: bool) -> Tensor:
        return output_of(op.type, a, b, adj_x=flip_a, adj_y=flip_b)

    for_x = product(y, grad, flip_y, True) if flip_x else product(grad, y, False, not flip_y)
    for_y = product(grad, x, True, flip_x) if flip_y else product(x, grad, not flip_x, False)
    if op.type == "BatchMatMul":
        return [for_x, for_y]
    return [_summed_over_batches(for_x, x, y), _summed_over_batches(for_y, y, x)]


def _summed_over_batches(grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """The gradient summed over the batch axes along which x was broadcast."""
    mine, others = x.shape.axes, other.shape.axes
    if mine is not None and others is not None:
        if mine[:-2] == others[:-2] and None not in mine[:-2]:
            return grad
        if len(mine) >= len(others) and all(n == 1 for n in others[:-2]):
            return grad
    shape = shaping.shape(x)
    axes = output_of("BroadcastGradientArgs", shape[:-2], shaping.shape(other)[:-2])
    return shaping.reshape(output_of("Sum", grad, axes), shape)


# -- functions ---------------------------------------------------------------------------------


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The matrix product, or one per matrix of a batch. The sparse flags are hints, not needed."""
    del a_is_sparse, b_is_sparse
    with name_scope(name, "MatMul", [a, b]) as scope:
        if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
            raise ValueError("Of transpose and adjoint only one can be asked for per argument.")
        a = argument(a, "a")
        b = argument(b, "b", a.dtype.base_dtype)
        if a.shape.rank is None or a.shape.rank > 2 or b.shape.rank is None or b.shape.rank > 2:
            return apply_op(
                "BatchMatMulV2",
                _conjugate(a, transpose_a),
                _conjugate(b, transpose_b),
                adj_x=bool(transpose_a or adjoint_a),
                adj_y=bool(transpose_b or adjoint_b),
                name=scope,
            ).values()[0]
        return apply_op(
            "MatMul",
            _conjugate(a, adjoint_a),
            _conjugate(b, adjoint_b),
            transpose_a=bool(transpose_a or adjoint_a),
            transpose_b=bool(transpose_b or adjoint_b),
            name=scope,
        ).values()[0]


def _conjugate(x: Tensor, wanted: bool) -> Tensor:
    return conj(x) if wanted else x


def _matmul_operator(x: Any, y: Any, name: str | None = None) -> Tensor:
    return matmul(x, y, name=name)


define_binary_operator("matmul", _matmul_operator)


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The product over the named axes: an int (the last of a with the first of b) or two lists.

    The ranks of both tensors must be known when the graph is built.
    """
    with name_scope(name, "Tensordot", [a, b]) as scope:
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, name="b")
        a_axes, b_axes = _contracted(a, b, axes)
        a_matrix, a_free = _as_matrix(a, a_axes, flipped=False)
        b_matrix, b_free = _as_matrix(b, b_axes, flipped=True)
        product = matmul(a_matrix, b_matrix)
        if isinstance(a_free, list) and isinstance(b_free, list):
            if product.shape.known == (*a_free, *b_free):
                return product
            return shaping.reshape(product, np.array(a_free + b_free, np.int32), name=scope)
        dims = [convert_to_tensor(d, "int32") for d in (a_free, b_free)]
        result = shaping.reshape(product, joining.concat(dims, 0), name=scope)
        static = [
            axis
            for tensor, taken in ((a, a_axes), (b, b_axes))
            for i, axis in enumerate(tensor.shape.as_list())
            if i not in taken
        ]
        result.set_shape(static)
        return result


def _contracted(a: Tensor, b: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    rank_a, rank_b = a.shape.rank, b.shape.rank
    if rank_a is None or rank_b is None:
        unknown = a if rank_a is None else b
        raise ValueError(
            f"tensordot needs tensors of known rank; {unknown.name} has shape {unknown.shape}. "
            "Use set_shape first."
        )
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ValueError(
                f"`axes` must lie between 0 and the ranks of both tensors ({rank_a} and {rank_b}); "
                f"got {axes}."
            )
        return list(range(rank_a - int(axes), rank_a)), list(range(int(axes)))
    if len(axes) != 2:
        raise ValueError(f"`axes` must be an integer or have length 2, not {axes!r}.")
    first, second = (list(np.atleast_1d(part)) for part in axes)
    if len(first) != len(second):
        raise ValueError(
            f"Different numbers of axes to contract: {len(first)} of a, {len(second)} of b."
        )
    return [int(i) % rank_a for i in first], [int(i) % rank_b for i in second]


def _as_matrix(x: Tensor, axes: list[int], flipped: bool) -> tuple[Tensor, list[int] | Tensor]:
    """The tensor as (free, contracted) or, flipped, (contracted, free); and the free lengths."""
    lengths = x.shape.as_list()
    free = [i for i in range(len(lengths)) if i not in axes]
    known = x.shape.known
    if known is not None:
        free_lengths = [known[i] for i in free]
        sides = [_product(free_lengths), _product([known[i] for i in axes])]
        order = axes + free if flipped else free + axes
        shape = sides[::-1] if flipped else sides
        if order != list(range(len(known))):
            x = shaping.transpose(x, order)
        if x.shape.known != tuple(shape):
            x = shaping.reshape(x, shape)
        return x, free_lengths
    taken = convert_to_tensor(axes, "int32", "axes")
    kept = convert_to_tensor(free, "int32", "free")
    lengths_now = shaping.shape(x)
    free_now, taken_now = (indexing.gather(lengths_now, i) for i in (kept, taken))
    sides_now = [reduce_prod(free_now), reduce_prod(taken_now)]
    parts = [taken, kept] if flipped else [kept, taken]
    perm = joining.concat(parts, 0)
    shape_now = joining.stack(sides_now[::-1] if flipped else sides_now)
    return shaping.reshape(shaping.transpose(x, perm), shape_now), free_now


def _product(lengths: Sequence[int]) -> int:
    return int(np.prod(lengths, dtype=np.int64))
