"""JSON text of many like objects, made a column at a time.

A trace is millions of small objects of few shapes. Making a Python dict of each and serialising it
costs microseconds; here every column becomes a list of texts and one `join` makes the document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Texts: TypeAlias = Sequence[str]

_NEEDS_ESCAPE = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')


def escaped(text: str) -> str:
    """The inside of a JSON string, without its quotes; "?" for what UTF-8 cannot hold."""
    return orjson.dumps(text.encode(errors="replace").decode())[1:-1].decode()


def needs_escape(texts: Sequence[str]) -> bool:
    """Whether any of the texts would be changed by `escaped`: one look at all of them."""
    joined = "".join(texts)
    if joined.isascii() and joined.isprintable():
        return '"' in joined or "\\" in joined
    return _NEEDS_ESCAPE.search(joined) is not None


def escape_all(texts: list[str]) -> list[str]:
    """`escaped` of each; the list itself where nothing is to be escaped."""
    return list(map(escaped, texts)) if needs_escape(texts) else texts


def int_texts(values: Ints) -> list[str]:
    """The decimal text of each whole number."""
    if not len(values):
        return []
    packed = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    return packed[1:-1].decode().split(",")


def thousandth_texts(values: Ints) -> list[str]:
    """The text of each number divided by 1,000, exact: 1500 is "1.5", 2000 is "2.0"."""
    if not len(values):
        return []
    # Beyond 2^53 a float cannot hold the thousandths; there the digits are cut by hand.
    if int(np.abs(values).max()) < 1 << 53:
        packed = orjson.dumps(values / 1000, option=orjson.OPT_SERIALIZE_NUMPY)
        return packed[1:-1].decode().split(",")
    return [f"{'-' * (v < 0)}{abs(v) // 1000}.{abs(v) % 1000:03d}" for v in values.tolist()]


def interleave(columns: Sequence[str | Texts], rows: int) -> list[str]:
    """The texts of `rows` objects in order of rows; a plain string stands in every row."""
    width = len(columns)
    flat: list[Any] = [None] * (rows * width)
    for place, column in enumerate(columns):
        flat[place::width] = [column] * rows if isinstance(column, str) else column
    return flat
