"""The ops of lookup tables; `table_cells` says what the calls may rely on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError, OutOfRangeError
from stepscope.graph.dtypes import DType, int32, string
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape
from stepscope.ops.io.files import opened, text_of
from stepscope.ops.signatures import merge_dims
from stepscope.ops.state.table_cells import KIND, TableCell

# -- the tables themselves ---------------------------------------------------------------------

_OWNER: Final = (
    "container: string = ''",
    "shared_name: string = ''",
    "use_node_name_sharing: bool = false",
    "key_dtype: type",
    "value_dtype: type",
)


def _table_kernel(node: KernelNode) -> Kernel:
    container, shared = node.attr("container").decode(), node.attr("shared_name").decode()
    name = shared or node.name
    keys, values = node.attr("key_dtype"), node.attr("value_dtype")
    inner = node.attr("value_shape") if node.op.type.startswith("MutableHashTableOf") else SCALAR
    changes = node.op.type.startswith("Mutable")
    cell: TableCell = node.resources.get_or_create(
        KIND,
        f"{container}/{name}" if container else name,
        lambda: TableCell(name, keys, values, inner, changes),
    )
    cell.check_types(keys, values)
    return Kernel(lambda: cell, cost_ns=50)


for _name, _more in (
    ("HashTableV2", ()),
    ("MutableHashTableV2", ()),
    ("MutableHashTableOfTensorsV2", ("value_shape: shape = []",)),
):
    register(
        _name,
        outputs=["table_handle: resource"],
        attrs=(*_OWNER, *_more),
        shape=lambda _c: SCALAR,
        kernel=_table_kernel,
        stateful=True,
    )

# -- what goes in ------------------------------------------------------------------------------


def _no_outputs(_c: ShapeContext) -> list[TensorShape]:
    return []


def _filled_shape(c: ShapeContext) -> list[TensorShape]:
    keys, values = c.input(1), c.input(2)
    if keys.axes and values.axes:
        merge_dims(keys.axes[0], values.axes[0])
    return []


def _entry_kernel(node: KernelNode) -> Kernel:
    keys, values = (d.base_dtype for d in node.input_dtypes[1:])
    insert = node.op.type == "LookupTableInsertV2"

    def call(table: TableCell, found: Any, rows: Any) -> None:
        table.check_types(keys, values)
        (table.insert if insert else table.fill)(found, rows)

    return Kernel(call)


for _name, _key, _value in (
    ("InitializeTableV2", "Tkey", "Tval"),
    ("LookupTableImportV2", "Tin", "Tout"),
    ("LookupTableInsertV2", "Tin", "Tout"),
):
    register(
        _name,
        inputs=["table_handle: resource", f"keys: {_key}", f"values: {_value}"],
        attrs=[f"{_key}: type", f"{_value}: type"],
        shape=_no_outputs if _name == "LookupTableInsertV2" else _filled_shape,
        kernel=_entry_kernel,
        stateful=True,
    )


def _remove_kernel(node: KernelNode) -> Kernel:
    keys = node.input_dtypes[1].base_dtype

    def call(table: TableCell, gone: Any) -> None:
        table.check_types(keys)
        table.remove(gone)

    return Kernel(call)


register(
    "LookupTableRemoveV2",
    inputs=["table_handle: resource", "keys: Tin"],
    attrs=["Tin: type"],
    shape=_no_outputs,
    kernel=_remove_kernel,
    stateful=True,
)

# -- files of entries --------------------------------------------------------------------------

WHOLE_LINE: Final = -2
LINE_NUMBER: Final = -1


def _file_kernel(node: KernelNode) -> Kernel:
    columns = node.attr("key_index"), node.attr("value_index")
    count, offset = node.attr("vocab_size"), node.attr("offset")
    delimiter: bytes = node.attr("delimiter")

    def call(table: TableCell, filename: Any) -> None:
        if len(delimiter) != 1:
            raise InvalidArgumentError.without_op("delimiter should be only 1 char")
        name = os.fsdecode(text_of(filename))
        parsers = _Field(columns[0], table.key_dtype, 0), _Field(
            columns[1], table.value_dtype, offset
        )  # fmt: skip
        entries: tuple[list[Any], list[Any]] = ([], [])
        for number, line in enumerate(_lines(name, count)):
            fields = line.split(delimiter)
            if max(columns) >= len(fields):
                raise InvalidArgumentError.without_op(
                    f"Invalid number of columns in {name} line {number} ({_text(line)}) : "
                    f"expected at least {max(columns) + 1} got {len(fields)}"
                )
            for parser, found in zip(parsers, entries, strict=True):
                found.append(parser.of(number, line, fields))
        table.fill(
            np.array(entries[0], table.key_dtype.numpy),
            np.array(entries[1], table.value_dtype.numpy),
        )

    return Kernel(call, blocking=True)


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _lines(name: str, count: int) -> Iterator[bytes]:
    """The first `count` lines of a file, all of them for -1."""
    number = position = 0
    with opened(name) as file:
        for line in file:
            position += len(line)
            if number == count:
                return
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            if not text:
                raise InvalidArgumentError.without_op(
                    f"Invalid content in {name}: empty line found at position {position}."
                )
            yield text
            number += 1
    if count < 0 and not number:
        raise OutOfRangeError.without_op(f"There is no line in {name}")
    if number < count:
        raise InvalidArgumentError.without_op(
            f"Invalid vocab_size in {name}: expected {count} but got {number}"
        )


class _Field:
    """What one column of the lines says: the key or the value."""

    def __init__(self, column: int, dtype: DType, offset: int) -> None:
        self._column, self._dtype, self._offset = column, dtype, offset

    def of(self, number: int, line: bytes, fields: list[bytes]) -> Any:
        if self._column == LINE_NUMBER:
            return number + self._offset
        text = line if self._column == WHOLE_LINE else fields[self._column]
        if self._dtype is string:
            return text
        try:
            value = int(text) if self._dtype.is_integer else float(text)
        except ValueError:
            raise InvalidArgumentError.without_op(
                f"Field {_text(text)} in line {number} is not a valid {self._dtype.name}."
            ) from None
        # As TensorFlow does it: numbers of 32 bits are moved, longer ones and floats are not.
        return value + self._offset if self._dtype is int32 else value


register(
    "InitializeTableFromTextFileV2",
    inputs=["table_handle: resource", "filename: string"],
    attrs=[
        "key_index: int",
        "value_index: int",
        "vocab_size: int = -1",
        "delimiter: string = '\\t'",
        "offset: int = 0",
    ],
    shape=_no_outputs,
    kernel=_file_kernel,
    stateful=True,
)

# -- what comes out ----------------------------------------------------------------------------


def _find_shape(c: ShapeContext) -> TensorShape:
    """One value for each key. Of others than scalars the default may be one for each key, too."""
    return c.input(1) if c.input(2).rank == 0 else UNKNOWN


def _find_kernel(node: KernelNode) -> Kernel:
    keys, values = (d.base_dtype for d in node.input_dtypes[1:])

    def call(table: TableCell, wanted: Any, default: Any) -> Any:
        table.check_types(keys, values)
        return table.find(wanted, default)

    return Kernel(call)


register(
    "LookupTableFindV2",
    inputs=["table_handle: resource", "keys: Tin", "default_value: Tout"],
    outputs=["values: Tout"],
    attrs=["Tin: type", "Tout: type"],
    shape=_find_shape,
    kernel=_find_kernel,
    stateful=True,
)
register(
    "LookupTableSizeV2",
    inputs=["table_handle: resource"],
    outputs=["size: int64"],
    shape=lambda _c: SCALAR,
    kernel=lambda _node: Kernel(lambda table: np.int64(table.size), cost_ns=200),
    stateful=True,
)
register(
    "LookupTableExportV2",
    inputs=["table_handle: resource"],
    outputs=["keys: Tkeys", "values: Tvalues"],
    attrs=["Tkeys: type", "Tvalues: type"],
    shape=lambda _c: [UNKNOWN, UNKNOWN],
    kernel=lambda _node: Kernel(lambda table: table.export()),
    stateful=True,
)
no_gradient(
    "HashTableV2", "InitializeTableV2", "InitializeTableFromTextFileV2", "LookupTableFindV2",
    "LookupTableInsertV2", "LookupTableSizeV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2",
)  # fmt: skip
