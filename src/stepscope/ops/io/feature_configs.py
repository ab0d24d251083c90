"""How features of an Example are parsed: what programs say of each key, and what the op is told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import DType, as_dtype, int64, string
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape, as_shape
from stepscope.ops.arrays.constants import constant
from stepscope.ops.arrays.shaping import reshape

__all__ = [
    "FeaturePlan",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "VarLenFeature",
]


class VarLenFeature(NamedTuple):
    """As many values as there are: a `SparseTensor`."""

    dtype: Any


class FixedLenFeature(NamedTuple):
    """A dense tensor of that shape in each Example; missing ones are the default, or an error."""

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A row for each element of the list; batches are padded to the longest with the default."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class SparseFeature(NamedTuple):
    """A `SparseTensor` whose places and values are features of their own."""

    index_key: Any
    value_key: Any
    dtype: Any
    size: Any
    already_sorted: bool = False


class FeaturePlan:
    """The keys of features, sorted, as the parsing ops take them: sparse ones and dense ones."""

    def __init__(self, features: Mapping[str, Any] | None, allowed: Iterable[type]) -> None:
        self.sparse: dict[str, DType] = {}
        self.dense: dict[str, tuple[TensorShape, DType]] = {}
        self.defaults: dict[str, Any] = {}
        """By key of a dense feature that may be missing."""
        kinds = tuple(allowed)
        for key in sorted(features or {}):
            feature = (features or {})[key]
            if not isinstance(feature, kinds):
                raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'")
            self._add(key, feature)
        both = self.sparse.keys() & self.dense.keys()
        if both:
            raise ValueError(f"Dense and sparse keys must not intersect; both have {sorted(both)}")

    def _add(self, key: str, feature: Any) -> None:
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}. Received feature={feature}.")
        dtype = as_dtype(feature.dtype)
        if isinstance(feature, VarLenFeature):
            self._add_sparse(key, dtype)
        elif isinstance(feature, SparseFeature):
            keys = feature.index_key
            for index_key in sorted([keys] if isinstance(keys, str) else keys):
                self._add_sparse(index_key, int64)
            self._add_sparse(feature.value_key, dtype)
        else:
            self._add_dense(key, feature, dtype)

    def _add_sparse(self, key: str, dtype: DType) -> None:
        if self.sparse.setdefault(key, dtype) is not dtype:
            raise ValueError(
                f"Conflicting type {self.sparse[key].name} vs {dtype.name} for feature {key}."
            )

    def _add_dense(self, key: str, feature: Any, dtype: DType) -> None:
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
        shape = as_shape(feature.shape)
        if isinstance(feature, FixedLenFeature):
            if shape.axes and shape.axes[0] is None:
                raise ValueError(
                    f"First dimension of shape for feature {key} unknown. Consider using "
                    f"FixedLenSequenceFeature. Received feature={feature}."
                )
            if not shape.is_fully_defined():
                raise ValueError(
                    f"All dimensions of shape for feature {key} need to be known but received "
                    f"{feature.shape!s}."
                )
        elif feature.allow_missing:
            self.defaults[key] = None
        self.dense[key] = shape, dtype
        if feature.default_value is not None:
            self.defaults[key] = feature.default_value

    @property
    def shapes(self) -> list[TensorShape]:
        return [shape for shape, _ in self.dense.values()]

    @property
    def types(self) -> list[DType]:
        return [dtype for _, dtype in self.dense.values()]

    def default_tensors(self) -> list[Tensor]:
        """Per dense key the value where it is missing, or what rows are padded with; [] if none."""
        return [self._default(key, *found) for key, found in self.dense.items()]

    def _default(self, key: str, shape: TensorShape, dtype: DType) -> Tensor:
        value = self.defaults.get(key)
        plain = re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
        if shape.axes and shape.axes[0] is None:
            if value is None:
                return convert_to_tensor("" if dtype is string else 0, dtype)
            return reshape(convert_to_tensor(value, dtype, f"padding_{plain}"), [])
        if value is None:
            return constant([], dtype)
        if isinstance(value, Tensor):
            return value
        return reshape(convert_to_tensor(value, dtype, f"key_{plain}"), shape)
