"""TensorFlow's names of its element types, by number."""

from __future__ import annotations

import functools

from stepscope._messages import DataType

__all__ = ["dtype_name"]

_UNLIKE_THE_ENUM = {"FLOAT": "float32", "DOUBLE": "float64", "HALF": "float16"}


@functools.cache
def dtype_name(number: int) -> str:
    """`1` gives `"float32"`, `101` gives `"float32_ref"`; `""` for 0, which is "not known"."""
    if number == 0:
        return ""
    try:
        name: str = DataType.Name(number)
    except ValueError:
        return f"DataType({number})"
    base, ref, _ = name.removeprefix("DT_").partition("_REF")
    return _UNLIKE_THE_ENUM.get(base, base.lower()) + ref.lower()
