"""Sums of products over named axes: Einsum.

An equation gives each axis of the inputs a letter, as "ij,jk->ik": the products of elements with
the same letters at the same places, summed over the letters that the output does not have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape, broadcast
from stepscope.ops.arrays import joining, shaping
from stepscope.ops.math.broadcasting import conjugate
from stepscope.ops.math.reductions import reduce_sum
from stepscope.ops.signatures import NUMBERS, limited, merge_dims, output_of

_ELLIPSIS: Final = "..."
_REST: Final = "."
"""Stands for the axes of an ellipsis where one character is one label."""

Axes = tuple[str | int, ...]
"""The label of each axis; those of an ellipsis are numbers, counted from the last: -1, -2."""


def _sides(equation: bytes) -> tuple[list[str], str]:
    """The labels of each input and of the output, with one character for an ellipsis."""
    inputs, output = equation.decode().replace(_ELLIPSIS, _REST).split("->")
    return inputs.split(","), output


def _spelled(labels: str, rank: int) -> Axes:
    """The label of each of so many axes; ValueError where the labels do not fit them."""
    named = len(labels) - (_REST in labels)
    if rank < named or (rank > named and _REST not in labels):
        least = "at least " if _REST in labels else ""
        asked = labels.replace(_REST, _ELLIPSIS)
        raise ValueError(
            f"Shape must be {least}rank {named} but is rank {rank} for the input {asked!r} "
            "of an equation"
        )
    before, _, after = labels.partition(_REST)
    return (*before, *range(named - rank, 0), *after)


# -- shapes ------------------------------------------------------------------------------------


def _einsum_shape(ctx: ShapeContext) -> TensorShape:
    inputs, output = _sides(ctx.attr("equation"))
    if len(inputs) != len(ctx.inputs):
        raise ValueError(f"Expected {len(inputs)} inputs for the equation, got {len(ctx.inputs)}")
    lengths: dict[str, int | None] = {}
    rest: TensorShape = TensorShape(())
    for labels, shape in zip(inputs, ctx.inputs, strict=True):
        if shape.axes is None:
            if _REST in labels:
                rest = UNKNOWN
            continue
        spelled = _spelled(labels, len(shape.axes))
        for label, length in zip(spelled, shape.axes, strict=True):
            if isinstance(label, str):
                lengths[label] = merge_dims(lengths.get(label), length)
        wide = [n for label, n in zip(spelled, shape.axes, strict=True) if isinstance(label, int)]
        rest = broadcast(rest, TensorShape(wide))
    if rest.rank and _REST not in output:
        raise ValueError(
            f"The axes {rest.brief()} of an ellipsis are not in the output of the equation "
            f"{ctx.attr('equation').decode()!r}; write ... there too, or sum them with reduce_sum."
        )
    if rest.axes is None and _REST in output:
        return UNKNOWN
    before, _, after = output.partition(_REST)
    middle = rest.axes if _REST in output and rest.axes is not None else ()
    return TensorShape(
        [*(lengths.get(n) for n in before), *middle, *(lengths.get(n) for n in after)]
    )


# -- kernel ------------------------------------------------------------------------------------


def _lengths_of(operands: Sequence[tuple[Axes, Array]]) -> dict[str | int, int]:
    """The length of each axis in the result; InvalidArgumentError where two do not fit."""
    found: dict[str | int, int] = {}
    for axes, x in operands:
        for at, (label, length) in enumerate(zip(axes, x.shape, strict=True)):
            known = found.setdefault(label, length)
            if known == length or (isinstance(label, int) and length == 1):
                continue
            if not isinstance(label, int) or known != 1:
                raise InvalidArgumentError.without_op(
                    f"Expected dimension {known} at axis {at} of the input shaped "
                    f"{list(x.shape)} but got dimension {length}"
                )
            found[label] = length
    return found


def _summed(x: Array, axes: Axes, kept: Axes) -> Array:
    """The elements on the diagonals of repeated labels, summed over those that are not kept."""
    if axes == kept:
        return x
    number = {label: n for n, label in enumerate(dict.fromkeys(axes))}
    result: Array = np.einsum(x, [number[a] for a in axes], [number[a] for a in kept])
    return result


def _product(x: tuple[Axes, Array], y: tuple[Axes, Array], wanted: Axes) -> tuple[Axes, Array]:
    """The product of two, as a batch of matrix products."""
    x_axes, y_axes = x[0], y[0]
    batch = tuple(a for a in wanted if isinstance(a, int) or (a in x_axes and a in y_axes))
    inner = tuple(a for a in dict.fromkeys(x_axes) if a in y_axes and a not in wanted)
    x_free = tuple(a for a in wanted if a in x_axes and a not in batch)
    y_free = tuple(a for a in wanted if a in y_axes and a not in batch)
    left = _as_matrices(x, batch, x_free, inner)
    right = _as_matrices(y, batch, inner, y_free)
    product = np.matmul(left, right)
    sizes = _lengths_of([x, y])
    shape = [*product.shape[: len(batch)], *(sizes[a] for a in (*x_free, *y_free))]
    return (*batch, *x_free, *y_free), product.reshape(shape)


def _as_matrices(x: tuple[Axes, Array], batch: Axes, rows: Axes, columns: Axes) -> Array:
    axes, values = x
    own = tuple(a for a in batch if a in axes)
    values = _summed(values, axes, (*own, *rows, *columns))
    lengths = dict(zip((*own, *rows, *columns), values.shape, strict=True))
    sides = [int(np.prod([lengths[a] for a in side])) for side in (rows, columns)]
    return values.reshape([*(lengths.get(a, 1) for a in batch), *sides])


def _placed(axes: Axes, x: Array, output: Axes, sizes: Mapping[str | int, int]) -> Array:
    """The result in the order of the output; repeated labels there make it zero off diagonals."""
    once = tuple(dict.fromkeys(output))
    x = np.transpose(np.asarray(x), [axes.index(a) for a in once])
    if once == output:
        return x if x.flags.c_contiguous else x.copy()
    result = np.zeros([sizes[a] for a in output], x.dtype)
    number = {label: n for n, label in enumerate(once)}
    np.einsum(result, [number[a] for a in output], list(range(len(once))))[...] = x
    return result


def _einsum_kernel(node: KernelNode) -> Kernel:
    inputs, output = _sides(node.attr("equation"))
    dtype = node.output_dtypes[0].numpy
    half = dtype == np.float16

    def call(*operands: Array) -> Array:
        try:
            spelled = [_spelled(a, np.ndim(x)) for a, x in zip(inputs, operands, strict=True)]
        except ValueError as error:
            raise InvalidArgumentError.without_op(f"{error}.") from None
        wide = [np.asarray(x, np.float32 if half else dtype) for x in operands]
        given = list(zip(spelled, wide, strict=True))
        sizes = _lengths_of(given)
        rest = sorted(a for a in sizes if isinstance(a, int))
        if rest and _REST not in output:
            raise InvalidArgumentError.without_op(
                "The axes of an ellipsis are not in the output of the equation "
                f"{node.attr('equation').decode()!r}."
            )
        before, _, after = output.partition(_REST)
        wanted: Axes = (*before, *rest, *after)
        once = tuple(dict.fromkeys(wanted))
        if len(given) == 1:
            axes, result = once, _summed(given[0][1], given[0][0], once)
        else:
            axes, result = _product(given[0], given[1], once)
        return _placed(axes, result, wanted, sizes).astype(dtype, copy=given[0][1] is result)

    return Kernel(call, threaded=True)


register(
    "Einsum",
    inputs=["inputs: N * T"],
    outputs=["output: T"],
    attrs=["equation: string", "N: int", "T: type"],
    shape=limited(_einsum_shape, NUMBERS),
    kernel=_einsum_kernel,
)


# -- gradient ----------------------------------------------------------------------------------


@gradient("Einsum")
def _einsum_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    inputs, output = _sides(op.get_attr("equation"))
    if len(inputs) == 1:
        return [_widened(grad, output, op.inputs[0], inputs[0])]
    x, y = op.inputs
    x_labels, y_labels = inputs
    if _REST in output:
        # The equation of the gradient needs the ellipsis wherever its output has one.
        x_labels, y_labels = (a if _REST in a else a + _REST for a in inputs)
    for_x = _of_one(grad, output, x, x_labels, conjugate(y), y_labels)
    for_y = _of_one(grad, output, y, y_labels, conjugate(x), x_labels)
    if _REST not in output or _same_rest(x, x_labels, y, y_labels):
        return [for_x, for_y]
    x_shape, y_shape = shaping.shape(x), shaping.shape(y)
    x_rest, y_rest = _rest_of(x_labels), _rest_of(y_labels)
    over_x, over_y = apply_op("BroadcastGradientArgs", x_shape[x_rest], y_shape[y_rest]).values()
    return [
        shaping.reshape(reduce_sum(for_x, over_x + x_rest.start), x_shape),
        shaping.reshape(reduce_sum(for_y, over_y + y_rest.start), y_shape),
    ]


def _of_one(
    grad: Tensor, output: str, x: Tensor, labels: str, other: Tensor, other_labels: str
) -> Tensor:
    """The gradient of one of two inputs, still as wide as both are together."""
    alone = set(labels) - set(output + other_labels + _REST)
    left = "".join(a for a in labels if a not in alone)
    reduced = _raw([grad, other], f"{output},{other_labels}->{left}")
    return _widened(reduced, left, x, labels) if alone else reduced


def _widened(grad: Tensor, has: str, x: Tensor, labels: str) -> Tensor:
    """The gradient repeated along the labels that were summed over."""
    missing = sorted(set(labels) - set(has + _REST))
    if not missing:
        return _raw([grad], f"{has}->{labels}")
    lengths = shaping.shape(x)
    added = joining.stack([lengths[_place(labels, a)] for a in missing])
    wide = shaping.broadcast_to(grad, joining.concat([added, shaping.shape(grad)], 0))
    return _raw([wide], f"{''.join(missing)}{has}->{labels}")


def _place(labels: str, label: str) -> int:
    """The axis of a label, from the end where it comes after an ellipsis."""
    at = labels.index(label)
    return at - len(labels) if _REST in labels[:at] else at


def _rest_of(labels: str) -> slice:
    at = labels.index(_REST)
    return slice(at, (at + 1 - len(labels)) or None)


def _same_rest(x: Tensor, x_labels: str, y: Tensor, y_labels: str) -> bool:
    mine, others = x.shape.known, y.shape.known
    if mine is None or others is None:
        return False
    return mine[_rest_of(x_labels)] == others[_rest_of(y_labels)]


def _raw(inputs: Sequence[Any], equation: str) -> Tensor:
    return output_of("Einsum", list(inputs), equation=equation.replace(_REST, _ELLIPSIS))


# -- function ----------------------------------------------------------------------------------


def einsum(
    equation: str, *inputs: Any, name: str | None = None, optimize: str = "greedy"
) -> Tensor:
    """The sum of products that the equation says; without "->" over all labels that come twice.

    More than two inputs are multiplied two at a time, in the order that NumPy finds cheap.

    >>> import stepscope.tf1 as tf
    >>> a, b = tf.constant([[1, 2], [3, 4]]), tf.constant([5, 6])
    >>> tf.Session().run(tf.einsum("ij,j->i", a, b)).tolist()
    [17, 39]
    """
    with name_scope(name, "einsum", [equation, inputs]):
        labels, output = _checked(equation, len(inputs))
        if len(inputs) <= 2:
            return _raw(inputs, f"{','.join(labels)}->{output}")
        left = list(zip(labels, (convert_to_tensor(x) for x in inputs), strict=True))
        for pair in _order(left, output, optimize):
            taken = [left.pop(i) for i in sorted(pair, reverse=True)]
            while len(taken) > 1:
                (a, x), (b, y) = taken.pop(0), taken.pop(0)
                others = "".join(n for n, _ in left + taken)
                kept = output if not others else _kept(a + b, others + output)
                taken.insert(0, (kept, _raw([x, y], f"{a},{b}->{kept}")))
            left += taken
        return left[0][1]


def _kept(labels: str, needed: str) -> str:
    return "".join(a for a in dict.fromkeys(labels) if a in needed)


def _checked(equation: str, count: int) -> tuple[list[str], str]:
    """The labels of the inputs and of the output; ValueError for what is no equation."""
    spelled = equation.replace(" ", "").replace(_ELLIPSIS, "0")
    match = re.fullmatch(r"([a-zA-Z0,]*)(->[a-zA-Z0]*)?", spelled)
    if match is None or ("0" in equation):
        raise ValueError(
            f"Subscripts have incorrect format: {equation!r}; write letters, commas, at most one "
            "ellipsis per input, and what is left after ->, as in 'ij,jk->ik'."
        )
    left, right = match.group(1), match.group(2)
    inputs = left.split(",")
    if len(inputs) != count:
        raise ValueError(f'Got {count} inputs for equation "{equation}", expecting {len(inputs)}')
    if right is None:
        times = Counter(left)
        output = "".join(a for a in sorted(times) if a != "," and times[a] == 1)
    else:
        output = right[2:]
    if len(set(output)) != len(output):
        raise ValueError(f"Output subscripts contain a label appearing more than once: {equation}")
    for label in output:
        if label != "0" and label not in left:
            raise ValueError(
                f"Output subscripts contain the label {label} not present in the input subscripts."
            )
    return [a.replace("0", _REST) for a in inputs], output.replace("0", _REST)


def _order(
    operands: Sequence[tuple[str, Tensor]], output: str, optimize: Any
) -> list[tuple[int, ...]]:
    """Which operands to multiply next, one after the other; an unknown length counts as one."""
    sizes: dict[str, int] = {}
    for labels, x in operands:
        axes = x.shape.axes
        if axes is None:
            continue
        named = _spelled(labels, len(axes))
        rest = [n or 1 for a, n in zip(named, axes, strict=True) if isinstance(a, int)]
        for label, length in zip(named, axes, strict=True):
            if isinstance(label, str):
                sizes[label] = max(sizes.get(label, 1), length or 1)
        sizes[_REST] = max(sizes.get(_REST, 1), int(np.prod(rest)))
    number = {a: n for n, a in enumerate(dict.fromkeys("".join(a for a, _ in operands)))}
    arguments: list[Any] = []
    for labels, _ in operands:
        like = np.broadcast_to(np.float32(0), [sizes.get(a, 1) for a in labels])
        arguments += [like, [number[a] for a in labels]]
    path = np.einsum_path(*arguments, [number[a] for a in output], optimize=optimize)[0]
    return [tuple(step) for step in path[1:]]
