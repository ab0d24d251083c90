"""Values in order along an axis, and axes as grids; all of it is made of other ops."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays.constants import ones
from stepscope.ops.arrays.joining import stack
from stepscope.ops.arrays.shaping import reshape, shape, size, transpose
from stepscope.ops.math.unary import negative
from stepscope.ops.nn.layer_parts import TopK, top_k

__all__ = ["argsort", "meshgrid", "sort"]


def sort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """The values in order along an axis.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.sort([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    with name_scope(name, "sort"):
        return _ordered(values, axis, direction)[0]


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Where in an axis the values in order are.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.argsort([3.0, 1.0, 2.0], direction="DESCENDING")).tolist()
    [0, 2, 1]
    """
    del stable  # it always is
    with name_scope(name, "argsort"):
        return _ordered(values, axis, direction)[1]


def _ordered(values: Any, axis: int, direction: str) -> tuple[Tensor, Tensor]:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction must be ASCENDING or DESCENDING, not {direction!r}.")
    values = convert_to_tensor(values, name="values")
    ascending = direction == "ASCENDING"
    if ascending and values.dtype.base_dtype.is_unsigned:
        raise TypeError(
            f"Values of {values.dtype.base_dtype.name} are not sorted upwards: cast them to a "
            "signed type first."
        )
    count = values.shape.rank
    if count is None:
        raise ValueError("Values to be sorted need a known rank.")
    place = axis + count if axis < 0 else axis
    if not 0 <= place < count:
        raise ValueError(f"axis {axis} is not one of {count}.")
    # An axis is changed for the last one; the way back is the same.
    order = list(range(count))
    order[place], order[-1] = order[-1], order[place]
    moved = transpose(values, order) if place != count - 1 else values
    # Integers from below -1 on upwards: the smallest has no opposite.
    turned = _opposite(moved) if ascending else moved
    found: TopK = top_k(turned, shape(turned)[-1])
    kept = _opposite(found.values) if ascending else found.values
    results = (kept, found.indices)
    if place != count - 1:
        results = (transpose(results[0], order), transpose(results[1], order))
    for result in results:
        result.set_shape(values.shape)
    return results


def _opposite(values: Tensor) -> Tensor:
    """In the order reversed, without a value that has no opposite: -1 - x for integers."""
    if values.dtype.base_dtype.is_integer:
        result: Tensor = -1 - values
        return result
    return negative(values)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """For each of several axes what it is everywhere in the grid of all of them.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     x, y = session.run(tf.meshgrid([1, 2, 3], [7, 8]))
    >>> x.tolist(), y.tolist()
    ([[1, 2, 3], [1, 2, 3]], [[7, 7, 7], [8, 8, 8]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` must be 'xy' or 'ij', not {indexing!r}.")
    with name_scope(name, "meshgrid", list(args)):
        axes = [convert_to_tensor(arg) for arg in args]
        count = len(axes)
        if not count:
            return []
        places = list(range(count))
        if indexing == "xy" and count > 1:
            places[0], places[1] = 1, 0
        lengths = [size(axis) for axis in axes]
        whole = stack([lengths[place] for place in places])
        kind = axes[0].dtype.base_dtype
        everywhere = ones(whole, kind)
        known = [axis.shape.num_elements() for axis in axes]
        everywhere.set_shape([known[place] for place in places])
        return [
            reshape(axis, [-1 if at == place else 1 for at in range(count)]) * everywhere
            for axis, place in zip(axes, places, strict=True)
        ]
