"""What fills a lookup table once: tensors of keys and values, or the lines of a file."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype, int64, string
from stepscope.graph.graph import GraphKeys, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.flow.ordering import group, no_op
from stepscope.ops.state import table_ops

__all__ = [
    "KeyValueTensorInitializer", "TableInitializerBase", "TextFileIdTableInitializer",
    "TextFileIndex", "TextFileInitializer", "TextFileStringTableInitializer",
    "initialize_all_tables", "tables_initializer",
]  # fmt: skip


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An op that fills all tables made so far."""
    found = get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(*found, name=name) if found else no_op(name=name)


def initialize_all_tables(name: str = "init_all_tables") -> Operation:
    """`tables_initializer` by its old name."""
    return tables_initializer(name)


class TableInitializerBase:
    """What fills a table, once."""

    _shared_name = ""

    def __init__(self, key_dtype: DType, value_dtype: DType) -> None:
        self._key_dtype, self._value_dtype = key_dtype, value_dtype

    @property
    def key_dtype(self) -> DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        return self._value_dtype

    def initialize(self, table: Any) -> Operation:
        """Add the op that fills the table to the graph."""
        raise NotImplementedError

    def _check_types(self, table: Any) -> None:
        for what in ("key_dtype", "value_dtype"):
            own, wanted = getattr(self, what), getattr(table, what)
            if own is not wanted:
                kind = what.partition("_")[0]
                raise TypeError(f"Invalid {kind} dtype, expected {wanted!r} but got {own!r}.")


def _noted(initializer: Operation) -> Operation:
    get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, initializer)
    return initializer


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table with keys and values that are tensors."""

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        # Outside of branches and loops, as the table is.
        with get_default_graph().control_dependencies(None):
            self._keys = convert_to_tensor(keys, key_dtype, name="keys")
            self._values = convert_to_tensor(values, value_dtype, name="values")
        self._scope = name if name is not None else "key_value_init"
        super().__init__(self._keys.dtype.base_dtype, self._values.dtype.base_dtype)

    def initialize(self, table: Any) -> Operation:
        self._check_types(table)
        with name_scope(self._scope, None, [table.resource_handle]):
            return _noted(
                apply_op("LookupTableImportV2", table.resource_handle, self._keys, self._values)
            )


class TextFileIndex:
    """What a key or a value is, in place of a column of a line."""

    WHOLE_LINE = table_ops.WHOLE_LINE
    LINE_NUMBER = table_ops.LINE_NUMBER


class TextFileInitializer(TableInitializerBase):
    """Fills a table from a text file, an entry a line.

    Keys and values are columns (from 0), the whole line, or its number.
    """

    def __init__(
        self, filename: Any, key_dtype: Any, key_index: int, value_dtype: Any, value_index: int,
        vocab_size: int | None = None, delimiter: str = "\t", name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:  # fmt: skip
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        super().__init__(as_dtype(key_dtype), as_dtype(value_dtype))
        for what, index, dtype in (
            ("key", key_index, self._key_dtype),
            ("value", value_index, self._value_dtype),
        ):
            _check_column(what, index, dtype)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._filename = filename
        self._columns = key_index, value_index
        self._count = -1 if vocab_size is None else vocab_size
        self._delimiter, self._offset = delimiter, value_index_offset
        self._scope = name
        parts = [filename, *([vocab_size] if vocab_size else []), *self._columns]
        parts += [value_index_offset] if value_index_offset else []
        self._shared_name = f"hash_table_{'_'.join(map(str, parts))}"

    def initialize(self, table: Any) -> Operation:
        self._check_types(table)
        with name_scope(self._scope, "text_file_init", [table.resource_handle]):
            filename = convert_to_tensor(self._filename, string, name="asset_filepath")
            done = apply_op(
                "InitializeTableFromTextFileV2", table.resource_handle, filename,
                key_index=self._columns[0], value_index=self._columns[1], vocab_size=self._count,
                delimiter=self._delimiter, offset=self._offset,
            )  # fmt: skip
        if constant_value(filename) is not None:
            get_default_graph().add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return _noted(done)


def _check_column(what: str, index: int, dtype: DType) -> None:
    if index < -2:
        raise ValueError(f"`{what}_index` should be >= -2, received: {index}.")
    if index == TextFileIndex.LINE_NUMBER and dtype is not int64:
        raise ValueError(
            f"`{what}_dtype` must be int64 for `{what}_index` {index}, received: {dtype!r}"
        )
    if index == TextFileIndex.WHOLE_LINE and not dtype.is_integer and dtype is not string:
        raise ValueError(
            f"`{what}_dtype` should be either integer or string for `{what}_index` {index}, "
            f"received: {dtype!r}"
        )


class TextFileStringTableInitializer(TextFileInitializer):
    """From the number of a line to the line."""

    def __init__(
        self, filename: Any, key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE, vocab_size: int | None = None,
        delimiter: str = "\t", name: str = "text_file_string_table_init",
    ) -> None:  # fmt: skip
        super().__init__(
            filename, int64, key_column_index, string, value_column_index, vocab_size, delimiter,
            name,
        )  # fmt: skip


class TextFileIdTableInitializer(TextFileInitializer):
    """From a line to its number."""

    def __init__(
        self, filename: Any, key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER, vocab_size: int | None = None,
        delimiter: str = "\t", name: str = "text_file_id_table_init", key_dtype: Any = string,
    ) -> None:  # fmt: skip
        super().__init__(
            filename, key_dtype, key_column_index, int64, value_column_index, vocab_size, delimiter,
            name,
        )  # fmt: skip
