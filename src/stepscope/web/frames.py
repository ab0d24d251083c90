"""Values as bytes: JSON, with arrays of numbers beside it.

    0   4 bytes  "SSC1"
    4   uint32   the length n of the JSON, padded with spaces so that 8 + n is a multiple of 8
    8   n bytes  JSON in UTF-8
    8+n          the arrays, each beginning at a multiple of 8 from the start

All numbers are little-endian. Where an array belongs the JSON has `{"$": [type, offset, length]}`:
the type is one of `TYPES`, the offset counts bytes from the start, the length elements. A NumPy
array of any other type is sent as the least of these that holds all its values.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from stepscope.metadata.readable import writable
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["MAGIC", "TYPES", "as_json", "decoded", "encoded", "strings"]

MAGIC: Final = b"SSC1"
TYPES: Final = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "i32": "<i4", "f32": "<f4", "f64": "<f8"}
_NAMES: Final = {np.dtype(code): name for name, code in TYPES.items()}
_ALIGNED: Final = 8


def strings(column: StringColumn) -> dict[str, Any]:
    """Strings by table, as pages read them."""
    own = column.compact()
    return {"table": list(own.table), "codes": own.codes}


def encoded(value: Any) -> bytes:
    """The value as a frame.

    Dataclasses, tuples, mappings and NumPy's numbers are taken for what they hold. Text that UTF-8
    cannot hold has escapes.

    >>> frame = encoded({"ns": np.array([1, 2, 3]), "name": "x"})
    >>> decoded(frame)["ns"].tolist(), decoded(frame)["name"]
    ([1, 2, 3], 'x')
    """
    arrays: list[NDArray[Any]] = []
    offset = 0

    def place(array: NDArray[Any]) -> dict[str, Any]:
        nonlocal offset
        typed = _typed(array)
        arrays.append(typed)
        at = offset
        offset += -(-typed.nbytes // _ALIGNED) * _ALIGNED
        return {"$": [_NAMES[typed.dtype], at, len(typed)]}

    plain = _plain(value, place)
    text = _json(plain)
    # Offsets count from the start of the frame, so from behind the JSON in which they stand, which
    # has room for as many digits as any of them can have.
    digits = len(str(len(text) + 20 * len(arrays) + offset))
    head = 8 + -(-(len(text) + digits * len(arrays)) // _ALIGNED) * _ALIGNED
    moved = _json(_moved(plain, head)) if arrays else text
    padded = moved.ljust(head - 8)
    parts = [MAGIC, len(padded).to_bytes(4, "little"), padded]
    for array in arrays:
        parts += [array.tobytes(), b"\0" * (-array.nbytes % _ALIGNED)]
    return b"".join(parts)


def as_json(value: Any) -> bytes:
    """The value as JSON alone, for people and programs that read no frames."""
    return _json(
        _plain(value, lambda array: [_finite(number) for number in array.ravel().tolist()])
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def decoded(frame: bytes) -> Any:
    """The value in a frame, with NumPy arrays; `ValueError` where it is none."""
    if frame[:4] != MAGIC:
        raise ValueError(f"no frame: it begins with {frame[:4]!r}, not with {MAGIC!r}")
    length = int.from_bytes(frame[4:8], "little")

    def restored(item: Any) -> Any:
        if isinstance(item, list):
            return [restored(part) for part in item]
        if not isinstance(item, dict):
            return item
        if item.keys() == {"$"}:
            kind, offset, count = item["$"]
            return np.frombuffer(frame, TYPES[kind], count, offset)
        return {key: restored(part) for key, part in item.items()}

    return restored(orjson.loads(frame[8 : 8 + length]))


def _typed(array: NDArray[Any]) -> NDArray[Any]:
    """The array as one of the types there are."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype in _NAMES:
        return flat
    if flat.dtype.kind == "b":
        return flat.astype("<u1")
    if flat.dtype.kind in "iu":
        low, high = (int(flat.min()), int(flat.max())) if len(flat) else (0, 0)
        for name in ("u8", "u16", "u32", "i32"):
            known = np.iinfo(TYPES[name])
            if known.min <= low and high <= known.max:
                return flat.astype(TYPES[name])
    return flat.astype("<f8")


def _plain(value: Any, place: Callable[[NDArray[Any]], Any]) -> Any:
    if isinstance(value, str):
        return writable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return place(value)
    if isinstance(value, StringColumn):
        return _plain(strings(value), place)
    if isinstance(value, dict):
        if value.keys() == {"$"}:
            raise ValueError("a mapping with names for keys cannot be told from an array")
        return {writable(str(key)): _plain(item, place) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if hasattr(value, "_asdict"):
            return _plain(value._asdict(), place)
        return [_plain(item, place) for item in value]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name), place) for name in names}
    if isinstance(value, np.generic):
        return _plain(value.item(), place)
    if hasattr(value, "items"):
        return _plain(dict(value), place)
    raise TypeError(f"a page cannot be sent a {type(value).__qualname__}")


def _moved(value: Any, head: int) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"$"}:
            kind, offset, count = value["$"]
            return {"$": [kind, offset + head, count]}
        return {key: _moved(item, head) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, head) for item in value]
    return value


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # A number of more than 64 bits: JSON has them, orjson not.
        return json.dumps(value, separators=(",", ":")).encode()
