"""Gradients kept within bounds: by value, by norm, and by the norm of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays import constants, conversion, joining
from stepscope.ops.math import comparison, elementwise, reductions, unary
from stepscope.ops.signatures import argument


def _values(t: Any, name: str = "t") -> Tensor:
    return argument(t.values if isinstance(t, IndexedSlices) else t, name)


def _like(t: Any, values: Tensor) -> Any:
    """The values as what they were taken from: a tensor, or rows of one."""
    return (
        IndexedSlices(values, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else values
    )


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """The values limited to the range; ValueError if the limits would widen the shape."""
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = _values(t)
        below = elementwise.minimum(values, clip_value_max)
        values.shape.assert_is_compatible_with(below.shape)
        result = elementwise.maximum(below, clip_value_min, name=scope)
        values.shape.assert_is_compatible_with(result.shape)
        return _like(t, result)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scaled down, where it is larger, to the L2 norm `clip_norm` (over the axes)."""
    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = _values(t)
        if isinstance(clip_norm, (int, float)):
            clip_norm = max(clip_norm, 0)
        else:
            largest = elementwise.maximum(clip_norm, 0)
            clip_norm = conversion.cast(largest, values.dtype.base_dtype)
        squares = reductions.reduce_sum(values * values, axes, keepdims=True)
        positive = comparison.greater(squares, 0)
        # Ones stand in for zeros, so that the root has a gradient there.
        safe = comparison.where(positive, squares, constants.ones_like(squares))
        norm = comparison.where(positive, unary.sqrt(safe), squares)
        scaled = values * clip_norm
        values.shape.assert_is_compatible_with(scaled.shape)
        result = conversion.identity(scaled / elementwise.maximum(norm, clip_norm), name=scope)
        return _like(t, result)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """The L2 norm of all the tensors together; None entries count nothing."""
    items = _listed(t_list)
    with name_scope(name, "global_norm", [t for t in items if t is not None]):
        values = [_values(t, f"t_{i}") for i, t in enumerate(items) if t is not None]
        halves = joining.stack([reductions.l2_loss(v) for v in values])
        total = reductions.reduce_sum(halves)
        two = convert_to_tensor(2, total.dtype.base_dtype)
        return unary.sqrt(elementwise.multiply(total, two), name="global_norm")


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """All of them scaled by one factor so that their global norm is at most `clip_norm`.

    Returns the list and the global norm. A norm that is not finite makes NaNs of all.
    """
    items = _listed(t_list)
    norm = global_norm(items, name) if use_norm is None else use_norm
    with name_scope(name, "clip_by_global_norm", [t for t in items if t is not None]) as scope:
        kind = norm.dtype.base_dtype
        one = convert_to_tensor(1, kind)
        factor = clip_norm * elementwise.minimum(1.0 / norm, one / clip_norm)
        scale = factor + (norm - norm)
        clipped: list[Any] = []
        for i, t in enumerate(items):
            if t is None:
                clipped.append(None)
                continue
            values = _values(t, f"t_{i}")
            scaled = values * conversion.cast(scale, values.dtype.base_dtype)
            clipped.append(_like(t, conversion.identity(scaled, name=f"{scope}_{i}")))
        return clipped, norm


def _listed(t_list: Any) -> list[Any]:
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {type(t_list)}.")
    return list(t_list)
