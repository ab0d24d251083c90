"""Tensors as the profiler writes them: an op's event says its inputs, `(float[2,4];float[4,3])`."""

from __future__ import annotations

import functools
import math
import re
from typing import Final

from stepscope._messages import DataType

Described = tuple[int, tuple[int, ...], int]
"""A tensor: dtype number, shape, bytes."""

_TEXT: Final = re.compile(r"^(\w+)\[([\d,?]*)\]$")
_SIZES: Final = {
    "float": 4, "double": 8, "int32": 4, "uint8": 1, "int16": 2, "int8": 1, "complex64": 8,
    "int64": 8, "bool": 1, "uint16": 2, "complex128": 16, "half": 2, "bfloat16": 2, "uint32": 4,
    "uint64": 8,
}  # fmt: skip


@functools.lru_cache(4096)
def input_tensors(text: str) -> tuple[Described | None, ...]:
    """The inputs an event describes; None for one it does not (dead inputs).

    >>> input_tensors("(float[2,4];)")
    ((1, (2, 4), 32), None)
    """
    if not text.startswith("(") or text == "()":
        return ()
    return tuple(_described(part) for part in text[1:-1].split(";"))


def _described(text: str) -> Described | None:
    match = _TEXT.match(text.strip())
    if match is None:
        return None
    kind, axes = match.groups()
    shape = tuple(-1 if a == "?" else int(a) for a in axes.split(",") if a)
    size = math.prod(shape) * _SIZES.get(kind, 0) if -1 not in shape else 0
    try:
        return DataType.Value(f"DT_{kind.upper()}"), shape, size
    except ValueError:
        return None
