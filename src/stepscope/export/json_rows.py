"""JSON text of many like objects, made a column at a time.

A trace is millions of small objects of few shapes. Making a Python dict of each and serialising it
costs microseconds; here every column becomes a list of texts and one `join` makes the document.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson

from stepscope.metadata.readable import writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Texts: TypeAlias = Sequence[str]

_AT_ONCE = 1 << 16
_SMALL = 1 << 14
_SPACE = 0x20


def escaped(text: str) -> str:
    """The inside of a JSON string, without its quotes; escapes for what UTF-8 cannot hold."""
    return orjson.dumps(writable(text))[1:-1].decode()


def needs_escape(texts: Sequence[str]) -> bool:
    """Whether any of the texts would be changed by `escaped`: one look at all of them."""
    try:
        joined = "".join(texts).encode()
    except UnicodeEncodeError:
        return True
    if b'"' in joined or b"\\" in joined:
        return True
    return bool(joined) and int(np.frombuffer(joined, np.uint8).min()) < _SPACE


def escape_all(texts: list[str]) -> list[str]:
    """`escaped` of each; the list itself where nothing is to be escaped."""
    return list(map(escaped, texts)) if needs_escape(texts) else texts


def text_table(texts: Sequence[str]) -> NDArray[Any]:
    """`escaped` of each, as a table to pick from by number: `table[codes].tolist()`."""
    table = np.empty(len(texts), object)
    # In parts: escaping looks at one string made of all of them.
    for first in range(0, len(texts), _AT_ONCE):
        table[first : first + _AT_ONCE] = escape_all(list(texts[first : first + _AT_ONCE]))
    return table


def int_texts(values: Ints) -> list[str]:
    """The decimal text of each whole number."""
    if _are_small(values):
        return _small_ints()[values].tolist()  # type: ignore[no-any-return]
    packed = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    return packed[1:-1].decode().split(",")


def thousandth_texts(values: Ints) -> list[str]:
    """The text of each number divided by 1,000, exact: 1500 is "1.5", 2000 is "2.0"."""
    if _are_small(values):
        return _small_thousandths()[values].tolist()  # type: ignore[no-any-return]
    # Beyond 2^53 a float cannot hold the thousandths; there the digits are cut by hand.
    if int(values.min()) > -(1 << 53) and int(values.max()) < 1 << 53:
        packed = orjson.dumps(values / 1000, option=orjson.OPT_SERIALIZE_NUMPY)
        return packed[1:-1].decode().split(",")
    return [f"{'-' * (v < 0)}{abs(v) // 1000}.{abs(v) % 1000:03d}" for v in values.tolist()]


def _are_small(values: Ints) -> bool:
    """Whether the texts of all of them are picked from a table: durations and sizes often are."""
    return not len(values) or (int(values.min()) >= 0 and int(values.max()) < _SMALL)


@cache
def _small_ints() -> NDArray[Any]:
    return np.array([str(value) for value in range(_SMALL)], object)


@cache
def _small_thousandths() -> NDArray[Any]:
    return np.array([repr(value / 1000) for value in range(_SMALL)], object)


def interleave(columns: Sequence[str | Texts], rows: int) -> list[str]:
    """The texts of `rows` objects in order of rows; a plain string stands in every row."""
    width = len(columns)
    flat: list[Any] = [None] * (rows * width)
    for place, column in enumerate(columns):
        flat[place::width] = [column] * rows if isinstance(column, str) else column
    return flat
