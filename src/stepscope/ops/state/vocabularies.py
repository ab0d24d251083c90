"""Vocabularies: tables from words to numbers and back, with buckets for words they do not have."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import DType, as_dtype, int64, string
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays.constants import range as range_of
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.shaping import size
from stepscope.ops.arrays.strings import as_string
from stepscope.ops.flow.ordering import no_op
from stepscope.ops.math.comparison import not_equal, where_v2
from stepscope.ops.math.elementwise import add
from stepscope.ops.state.table_initializers import (
    KeyValueTensorInitializer,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)
from stepscope.ops.state.tables import HashTable, LookupInterface, StaticHashTable, as_given
from stepscope.ops.text.hash_buckets import (
    string_to_hash_bucket,
    string_to_hash_bucket_fast,
    string_to_hash_bucket_strong,
)

__all__ = [
    "FastHashSpec", "HasherSpec", "IdTableWithHashBuckets", "StaticVocabularyTable",
    "StrongHashSpec", "index_table_from_file", "index_table_from_tensor",
    "index_to_string_table_from_file", "index_to_string_table_from_tensor",
]  # fmt: skip


class HasherSpec(NamedTuple):
    """How strings that a table does not have get their bucket."""

    hasher: str
    key: tuple[int, int] | None


FastHashSpec = HasherSpec("fasthash", None)


def StrongHashSpec(key: Any) -> HasherSpec:
    """Buckets by SipHash with a key of two numbers."""
    if len(key) != 2:
        raise ValueError(f"`key` must have size 2, received {len(key)}")
    if not all(isinstance(part, int | np.integer) for part in key):
        raise TypeError(f"Invalid key {key}. Must be unsigned integer values.")
    return HasherSpec("stronghash", (int(key[0]), int(key[1])))


def _bucket_function(spec: HasherSpec) -> Any:
    if not isinstance(spec, HasherSpec):
        raise TypeError(f"`hasher_spec` must be of type HasherSpec, got {type(spec)}.")
    if spec.key is not None:
        return functools.partial(string_to_hash_bucket_strong, key=spec.key)
    found = {"fasthash": string_to_hash_bucket_fast, "legacy": string_to_hash_bucket}
    if spec.hasher not in found:
        raise ValueError(f"Found unknown hasher {spec.hasher} in `hasher_spec`")
    return found[spec.hasher]


class IdTableWithHashBuckets(LookupInterface):
    """A table of numbers that gives keys it does not have one of some more numbers, by hash."""

    def __init__(
        self, table: Any, num_oov_buckets: int, hasher_spec: HasherSpec = FastHashSpec,
        name: str | None = None, key_dtype: Any = None,
    ) -> None:  # fmt: skip
        if table is None and num_oov_buckets <= 0:
            raise ValueError("`oov_buckets` must be > 0 if no `table` is supplied.")
        own = string if table is None else table.key_dtype
        wanted = own if key_dtype is None else as_dtype(key_dtype)
        if own not in (int64, string) or own.is_integer != wanted.is_integer:
            raise TypeError(f"Invalid `key_dtype`, expected int64 or string, got {wanted!r}")
        if table is not None and table.value_dtype is not int64:
            raise TypeError(f"Invalid `value_dtype`: expected int64 but got {table.value_dtype!r}.")
        self._table, self._buckets = table, num_oov_buckets
        self._bucket = _bucket_function(hasher_spec)
        known = name.rstrip("/") if name else "hash_bucket" if table is None else table.name
        super().__init__(wanted, int64, known.rpartition("/")[2])

    @property
    def resource_handle(self) -> Tensor | None:
        return None if self._table is None else self._table.resource_handle

    @property
    def initializer(self) -> Any:
        if self._table is not None:
            return self._table.initializer
        with name_scope(None, "init"):
            return no_op()

    init = initializer

    def size(self, name: str | None = None) -> Tensor:
        """How many numbers it gives: those of the table and those of the buckets."""
        with name_scope(name, f"{self.name}_Size"):
            known = convert_to_tensor(0, int64) if self._table is None else self._table.size()
            return known + self._buckets

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The numbers of the keys; sparse keys have sparse numbers."""
        values = self._checked(keys)
        if self._table is not None and self._table.key_dtype is int64:
            values = cast(values, int64)
        if not self._buckets:
            return as_given(keys, self._table.lookup(values, name=name))
        with name_scope(name, f"{self.name}_Lookup"):
            texts = values if values.dtype.base_dtype is string else as_string(values)
            ids = self._bucket(texts, num_buckets=self._buckets, name="hash_bucket")
            if self._table is not None:
                found = self._table.lookup(values)
                others = add(ids, self._table.size())
                there = not_equal(found, self._table.default_value)
                ids = where_v2(there, found, others)
        return as_given(keys, ids)


class StaticVocabularyTable(IdTableWithHashBuckets):
    """A vocabulary, with buckets for all other words."""

    def __init__(
        self, initializer: Any, num_oov_buckets: int, lookup_key_dtype: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        table = None if initializer is None else HashTable(initializer, -1)
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)


# -- tables of vocabularies --------------------------------------------------------------------


def _check_vocabulary(file: Any, count: int | None, buckets: int = 0) -> None:
    if file is None or (isinstance(file, str) and not file):
        raise ValueError("`vocabulary_file` must be specified and must not be empty.")
    if buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {buckets}.")
    if count is not None and count < 1:
        raise ValueError(f"`vocab_size` must be greater than 0, got {count}.")


def _with_buckets(table: Any, buckets: int, hasher_spec: HasherSpec, key_dtype: DType) -> Any:
    if not buckets:
        return table
    return IdTableWithHashBuckets(table, buckets, hasher_spec, key_dtype=key_dtype)


def index_table_from_file(
    vocabulary_file: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None,
    default_value: int = -1, hasher_spec: HasherSpec = FastHashSpec, key_dtype: Any = string,
    name: str | None = None, key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER, delimiter: str = "\t",
) -> Any:  # fmt: skip
    """From the lines of a file to their numbers; other words go to buckets, or are the default."""
    _check_vocabulary(vocabulary_file, vocab_size, num_oov_buckets)
    wanted = as_dtype(key_dtype)
    if not wanted.is_integer and wanted is not string:
        raise TypeError("Dtype for `keys` should be either integer or string.")
    with name_scope(name, "string_to_index"):
        with name_scope(None, "hash_table"):
            init = TextFileIdTableInitializer(
                vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter,
                "table_init", int64 if wanted.is_integer else wanted,
            )  # fmt: skip
            table = StaticHashTable(init, default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, wanted)


def index_table_from_tensor(
    vocabulary_list: Any, num_oov_buckets: int = 0, default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec, dtype: Any = string, name: str | None = None,
) -> Any:  # fmt: skip
    """From words to their places in a list; other words go to buckets, or are the default.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     table = tf.contrib.lookup.index_table_from_tensor(["red", "blue"], num_oov_buckets=3)
    ...     session.run(tf.tables_initializer())
    ...     session.run(table.lookup(tf.constant(["blue", "red", "mauve"]))).tolist()
    [1, 0, 4]
    """
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` must be specified.")
    if num_oov_buckets < 0:
        raise ValueError(
            f"`num_oov_buckets` must be greater or equal than 0, got {num_oov_buckets}."
        )
    wanted = as_dtype(dtype)
    if not wanted.is_integer and wanted is not string:
        raise TypeError("`dtype` must either be integer or string.")
    with name_scope(name, "string_to_index"):
        keys = convert_to_tensor(vocabulary_list)
        own = keys.dtype.base_dtype
        if own.is_integer != wanted.is_integer or not (own.is_integer or own is wanted):
            raise ValueError(f"Invalid `dtype`: Expected {wanted!r}, got {own!r}.")
        values = cast(range_of(size(keys)), int64)
        with name_scope(None, "hash_table"):
            keys = cast(keys, int64) if own.is_integer else keys
            init = KeyValueTensorInitializer(keys, values, name="table_init")
            table = StaticHashTable(init, default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, wanted)


def index_to_string_table_from_file(
    vocabulary_file: Any, vocab_size: int | None = None, default_value: Any = "UNK",
    name: str | None = None, key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE, delimiter: str = "\t",
) -> StaticHashTable:  # fmt: skip
    """From the numbers of the lines of a file to the lines."""
    _check_vocabulary(vocabulary_file, vocab_size)
    with name_scope(name, "index_to_string"):
        init = TextFileStringTableInitializer(
            vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter,
            "table_init",
        )  # fmt: skip
        return StaticHashTable(init, default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: Any = "UNK", name: str | None = None
) -> StaticHashTable:
    """From places in a list of words to the words."""
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` argument must be specified.")
    with name_scope(name, "index_to_string"):
        words = convert_to_tensor(vocabulary_list, string)
        keys = cast(range_of(size(words)), int64)
        init = KeyValueTensorInitializer(keys, words, name="table_init")
        return StaticHashTable(init, default_value)
