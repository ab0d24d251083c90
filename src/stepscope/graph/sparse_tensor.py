"""Tensors of which only some elements are there: where they are, and what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.constants import constant_as_shape
from stepscope.graph.dtypes import int64
from stepscope.graph.graph import name_scope

if TYPE_CHECKING:
    from stepscope.graph.dtypes import DType
    from stepscope.graph.graph import Graph
    from stepscope.graph.operation import Operation, Tensor
    from stepscope.graph.shapes import TensorShape

__all__ = ["SparseTensor", "SparseTensorValue"]


class SparseTensorValue(NamedTuple):
    """What a run gives for a `SparseTensor`, and what may be fed for one: arrays."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """`values[i]` is the element at `indices[i]` of a tensor of `dense_shape`; others are absent.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     diagonal = tf.SparseTensor([[0, 0], [1, 1]], [3.0, 4.0], [2, 2])
    ...     session.run(tf.sparse_tensor_to_dense(diagonal)).tolist()
    [[3.0, 0.0], [0.0, 4.0]]
    """

    __slots__ = ("__weakref__", "_dense_shape", "_indices", "_shape", "_values")

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert_to_tensor(indices, int64, name="indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, int64, name="dense_shape")
        rows = self._indices.shape.with_rank(2)
        count = self._values.shape.with_rank(1)
        axes = self._dense_shape.shape.with_rank(1)
        rows[:1].assert_is_compatible_with(count)
        rows[1:].assert_is_compatible_with(axes)
        self._shape: TensorShape = constant_as_shape(self._dense_shape)

    @classmethod
    def from_value(cls, value: Any) -> SparseTensor:
        """The same, or a `SparseTensorValue` (any triple of its parts) as one."""
        if isinstance(value, SparseTensor):
            return value
        if isinstance(value, tuple) and len(value) == 3:
            return cls(*value)
        raise TypeError(
            f"Argument sparse_tensor_value={value!r} is neither a SparseTensor nor "
            "SparseTensorValue."
        )

    @property
    def indices(self) -> Tensor:
        return self._indices

    @property
    def values(self) -> Tensor:
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The dense shape as far as it is known when the graph is built."""
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._values.dtype

    @property
    def op(self) -> Operation:
        return self._values.op

    @property
    def graph(self) -> Graph:
        return self._indices.graph

    @property
    def name(self) -> str:
        return self._values.name

    def get_shape(self) -> TensorShape:
        """As `shape`."""
        return self._shape

    def parts(self) -> list[Tensor]:
        """Its tensors, in order."""
        return [self._indices, self._values, self._dense_shape]

    def with_values(self, values: Any) -> SparseTensor:
        """Other values in the same places."""
        return SparseTensor(self._indices, values, self._dense_shape)

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Its value, by a run of the session or the default one."""
        indices, values, shape = (
            part.eval(feed_dict=feed_dict, session=session) for part in self.parts()
        )
        return SparseTensorValue(indices, values, shape)

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self._indices}, values={self._values}, "
            f"dense_shape={self._dense_shape})"
        )
