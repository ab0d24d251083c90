"""Lookup tables as programs see them: one that is filled once, and one that changes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype
from stepscope.graph.graph import GraphKeys, colocate_with, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.shapes import SCALAR
from stepscope.graph.sparse_tensor import SparseTensor
from stepscope.ops.signatures import output_of
from stepscope.ops.state import table_ops
from stepscope.ops.state.saveables import SaveableObject, SaveSpec

__all__ = ["HashTable", "LookupInterface", "MutableHashTable", "StaticHashTable", "table_ops"]


class LookupInterface:
    """A table in a graph. Its content belongs to the session."""

    def __init__(self, key_dtype: DType, value_dtype: DType, name: str | None) -> None:
        self._key_dtype, self._value_dtype = key_dtype, value_dtype
        self._name = name

    @property
    def key_dtype(self) -> DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        return self._value_dtype

    @property
    def name(self) -> str | None:
        return self._name

    def size(self, name: str | None = None) -> Tensor:
        raise NotImplementedError

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        raise NotImplementedError

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def _checked(self, keys: Any) -> Any:
        """Keys of the table's type: a tensor, or the values of a sparse one."""
        keys = keys if isinstance(keys, SparseTensor) else convert_to_tensor(keys)
        if keys.dtype.base_dtype is not self._key_dtype:
            raise TypeError(
                f"Dtype of argument `keys` must be {self._key_dtype!r}, received: {keys.dtype!r}"
            )
        return keys.values if isinstance(keys, SparseTensor) else keys


def as_given(keys: Any, values: Tensor) -> Any:
    """What was found: sparse where the keys are."""
    if isinstance(keys, SparseTensor):
        return SparseTensor(keys.indices, values, keys.dense_shape)
    return values


class StaticHashTable(LookupInterface):
    """A table that an initializer fills once, and that has a default for all other keys.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     words = tf.lookup.KeyValueTensorInitializer(["one", "two"], [1, 2])
    ...     table = tf.lookup.StaticHashTable(words, -1)
    ...     session.run(tf.tables_initializer())
    ...     session.run(table.lookup(tf.constant(["two", "ten"]))).tolist()
    [2, -1]
    """

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(initializer.key_dtype, initializer.value_dtype, name)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        self._default_value.shape.merge_with(SCALAR)
        shared = shared_name or initializer._shared_name or f"hash_table_{uuid.uuid4()}"
        # Outside of branches and loops: the table is one, wherever it is asked.
        with get_default_graph().control_dependencies(None):
            self._handle = output_of(
                "HashTableV2", shared_name=shared, key_dtype=self._key_dtype,
                value_dtype=self._value_dtype, name=name or "hash_table",
            )  # fmt: skip
            self._name = self._handle.op.name.rpartition("/")[2]
            self._initializer: Operation = initializer.initialize(self)

    @property
    def resource_handle(self) -> Tensor:
        return self._handle

    table_ref = resource_handle

    @property
    def initializer(self) -> Operation:
        return self._initializer

    init = initializer

    @property
    def default_value(self) -> Tensor:
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """How many entries it has."""
        with name_scope(name, f"{self.name}_Size", [self._handle]):
            return output_of("LookupTableSizeV2", self._handle)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of the keys; sparse keys have sparse values."""
        found = self._checked(keys)
        with name_scope(name, f"{self.name}_Lookup", [self._handle, found]):
            values = output_of("LookupTableFindV2", self._handle, found, self._default_value)
        return as_given(keys, values)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and their values, in any order."""
        with name_scope(name, f"{self.name}_Export", [self._handle]):
            keys, values = apply_op(
                "LookupTableExportV2", self._handle, Tkeys=self._key_dtype,
                Tvalues=self._value_dtype,
            ).values()  # fmt: skip
        values.set_shape(keys.shape)
        return keys, values


class HashTable(StaticHashTable):
    """`StaticHashTable` by the name that `tf.contrib.lookup` has."""


class MutableHashTable(LookupInterface):
    """A table that is filled while the graph runs.

    With `checkpoint` a saver saves its entries with the variables, as `name-keys` and
    `name-values`: of several tables of one name only the last one, which the saver says.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    ...     session.run(table.insert(["a", "b"], tf.constant([7, 8], tf.int64)))
    ...     session.run(table.lookup(tf.constant(["b", "c"]))).tolist()
    [8, -1]
    """

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, shared_name: str | None = None,
        name: str = "MutableHashTable", checkpoint: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(as_dtype(key_dtype), as_dtype(value_dtype), name)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        inner = self._default_value.shape
        more = {} if inner.rank == 0 else {"value_shape": inner}
        self._handle = output_of(
            "MutableHashTableOfTensorsV2" if more else "MutableHashTableV2",
            shared_name=shared_name or "", use_node_name_sharing=checkpoint and not shared_name,
            key_dtype=self._key_dtype, value_dtype=self._value_dtype, name=name, **more,
        )  # fmt: skip
        self._name = self._handle.op.name.rpartition("/")[2]
        if checkpoint:
            get_default_graph().add_to_collection(
                GraphKeys.SAVEABLE_OBJECTS, _SavedTable(self, name)
            )

    @property
    def resource_handle(self) -> Tensor:
        return self._handle

    @property
    def default_value(self) -> Tensor:
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """How many entries it has."""
        with name_scope(name, f"{self.name}_Size", [self._handle]), colocate_with(self._handle.op):
            return output_of("LookupTableSizeV2", self._handle)

    def lookup(  # type: ignore[override] # TensorFlow's order of arguments
        self, keys: Any, dynamic_default_values: Any = None, name: str | None = None
    ) -> Tensor:
        """The values of the keys; `dynamic_default_values` has a default for each of them."""
        with name_scope(name, f"{self.name}_lookup_table_find", [self._handle]):
            keys = convert_to_tensor(keys, self._key_dtype, name="keys")
            default = self._default_value
            if dynamic_default_values is not None:
                default = convert_to_tensor(dynamic_default_values, self._value_dtype)
            with colocate_with(self._handle.op):
                values = output_of("LookupTableFindV2", self._handle, keys, default)
        values.set_shape(keys.shape.concatenate(self._default_value.shape))
        return values

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Let the keys have these values, in place of any they had."""
        with name_scope(name, f"{self.name}_lookup_table_insert", [self._handle, keys, values]):
            keys = convert_to_tensor(keys, self._key_dtype, name="keys")
            values = convert_to_tensor(values, self._value_dtype, name="values")
            with colocate_with(self._handle.op):
                return apply_op("LookupTableInsertV2", self._handle, keys, values)

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Forget the keys."""
        found = self._checked(keys)
        with name_scope(name, f"{self.name}_lookup_table_remove", [self._handle, found]):
            return apply_op("LookupTableRemoveV2", self._handle, found)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and their values, in any order."""
        scope = name_scope(name, f"{self.name}_lookup_table_export_values", [self._handle])
        with scope, colocate_with(self._handle.op):
            keys, values = apply_op(
                "LookupTableExportV2", self._handle, Tkeys=self._key_dtype,
                Tvalues=self._value_dtype,
            ).values()  # fmt: skip
        return keys, values


class _SavedTable(SaveableObject):
    """All entries of a table that changes."""

    def __init__(self, table: MutableHashTable, name: str) -> None:
        keys, values = table.export()
        super().__init__(
            table,
            [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")],
            name,
        )

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Operation:
        """Make these the table's entries, in place of all it has."""
        del restored_shapes
        handle = self.op.resource_handle
        with name_scope(f"{self.name}_table_restore"), colocate_with(handle.op):
            return apply_op("LookupTableImportV2", handle, *restored_tensors)
