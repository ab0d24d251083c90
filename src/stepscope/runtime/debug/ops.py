"""The debug ops: what is computed of a watched tensor's value before it is handed on.

They compute what TensorFlow's ops of the same names compute, for the same types, and their
arguments are written as TensorFlow writes them: `DebugNumericSummary(lower_bound=0;upper_bound=5)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stepscope.graph.dtypes import Array, DType, float64, int64
from stepscope.graph.shapes import TensorShape

_INTEGERS: Final = frozenset(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
_COUNTABLE: Final = _INTEGERS | {"float16", "bfloat16", "float32", "float64"}
_SUMMABLE: Final = _INTEGERS | {"float32", "float64", "bool"}

_DEFAULTS: Final[Mapping[str, Mapping[str, float | bool]]] = {
    "DebugIdentity": {"gated_grpc": False},
    "DebugNanCount": {"gated_grpc": False},
    "DebugNumericSummary": {
        "gated_grpc": False,
        "lower_bound": -math.inf,
        "upper_bound": math.inf,
        "mute_if_healthy": False,
    },
}
NAMES: Final = tuple(_DEFAULTS)
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")


class BadDebugOpError(Exception):
    """A debug op that does not exist, or not with these arguments or for this type."""


@dataclass(frozen=True, slots=True)
class WatchedTensor:
    """A watched tensor as it is right now. `value` is None for an uninitialised variable.

    `value` may be memory that the engine is about to reuse: whoever keeps it makes a copy.
    """

    dtype: DType
    shape: tuple[int, ...]
    value: Array | None
    handle: str = ""
    """For a resource (a variable's or a queue's handle): the name of what it stands for."""


@dataclass(frozen=True, slots=True)
class DebugOp:
    """One debug op with its arguments."""

    name: str
    attrs: Mapping[str, float | bool]

    def refuse_type(self, dtype: DType) -> str:
        """Why the op cannot work on this type; empty when it can."""
        allowed = {"DebugNanCount": _COUNTABLE, "DebugNumericSummary": _SUMMABLE}.get(self.name)
        if allowed is None or dtype.base_dtype.name in allowed:
            return ""
        return (
            f"{self.name} has no kernel for {dtype.base_dtype.name}; "
            f"it takes {', '.join(sorted(allowed))}"
        )

    def compute(self, observed: WatchedTensor) -> WatchedTensor | None:
        """What the op makes of a value; None when it was told to keep quiet about this one."""
        if self.name == "DebugIdentity":
            return observed
        if self.name == "DebugNanCount":
            count = 0 if observed.value is None else int(np.count_nonzero(_nans(observed.value)))
            return _made(np.array([count], np.int64), int64)
        summary = _numeric_summary(
            observed, float(self.attrs["lower_bound"]), float(self.attrs["upper_bound"])
        )
        unhealthy = summary[2] or summary[3] or summary[7]
        if self.attrs["mute_if_healthy"] and not unhealthy:
            return None
        return _made(summary, float64)


def parse_debug_op(text: str) -> DebugOp:
    """A debug op as it is written in `debug_ops`; `BadDebugOpError` says what is wrong with it."""
    name, arguments = _split(text)
    if name not in _DEFAULTS:
        raise BadDebugOpError(f"there is no debug op {name!r}; known are {', '.join(NAMES)}")
    attrs = dict(_DEFAULTS[name])
    for key, value in arguments.items():
        if key not in attrs:
            raise BadDebugOpError(
                f"{name} has no attribute {key!r}; it takes {', '.join(sorted(attrs))}"
            )
        attrs[key] = _attr_value(name, key, value, attrs[key])
    return DebugOp(name, attrs)


def _split(text: str) -> tuple[str, dict[str, str]]:
    opening, closing = text.find("("), text.find(")")
    if opening < 0 and closing < 0:
        return text, {}
    if opening <= 0 or closing != len(text) - 1:
        raise BadDebugOpError(f"{text!r} is malformed; write Name(attribute=value;attribute=value)")
    arguments: dict[str, str] = {}
    for part in text[opening + 1 : closing].split(";"):
        if not part.strip():
            continue
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise BadDebugOpError(f"{part!r} in {text!r} is malformed; write attribute=value")
        if key in arguments:
            raise BadDebugOpError(f"{text!r} gives {key!r} twice")
        arguments[key] = value
    return text[:opening], arguments


def _attr_value(name: str, key: str, text: str, default: float | bool) -> float | bool:
    if isinstance(default, bool):
        lower = text.lower()
        if lower in _TRUE or lower in _FALSE:
            return lower in _TRUE
        raise BadDebugOpError(f"{key}={text!r} of {name} is not a truth value (true or false)")
    try:
        if "_" in text:
            raise ValueError
        # TensorFlow keeps it as a float32, so values are compared with the rounded bound.
        with np.errstate(over="ignore"):
            return float(np.float32(text))
    except ValueError:
        raise BadDebugOpError(f"{key}={text!r} of {name} is not a number") from None


def _made(value: Array, dtype: DType) -> WatchedTensor:
    return WatchedTensor(dtype, value.shape, value)


def _nans(value: Array) -> Any:
    # Integers have none; NumPy has no isnan for some of the small types either.
    return np.isnan(value) if value.dtype.kind not in "iub" else np.zeros(0, bool)


def _numeric_summary(observed: WatchedTensor, lower: float, upper: float) -> Array:
    """What is in a tensor, as numbers; values at or beyond a bound count as infinite.

    Initialised, elements, NaN, -inf, negative, zero, positive, +inf (all counts), min, max, mean,
    variance (of the finite values), dtype, rank, and the dimensions.
    """
    x = np.zeros(0) if observed.value is None else observed.value.astype(np.float64).reshape(-1)
    nan, infinite = np.isnan(x), np.isinf(x)
    finite = x[~(nan | infinite)]
    low = finite <= lower if not math.isinf(lower) else np.zeros(finite.size, bool)
    high = ~low & (finite >= upper) if not math.isinf(upper) else np.zeros(finite.size, bool)
    inside = finite[~(low | high)]
    moments = [math.inf, -math.inf, math.nan, math.nan]
    if finite.size:
        mean = finite.sum() / finite.size
        moments = [finite.min(), finite.max(), mean, ((finite - mean) ** 2).sum() / finite.size]
    return np.array([
        observed.value is not None, x.size, nan.sum(), (x == -math.inf).sum() + low.sum(),
        (inside < 0).sum(), (inside == 0).sum(), (inside > 0).sum(),
        (x == math.inf).sum() + high.sum(), *moments,
        observed.dtype.base_dtype.as_datatype_enum, len(observed.shape), *observed.shape,
    ], dtype=np.float64)  # fmt: skip


def observe(value: Any, dtype: DType, static_shape: TensorShape) -> WatchedTensor:
    """A value as an executor holds it: an array, a variable's cell, a handle."""
    base = dtype.base_dtype
    if dtype._is_ref_dtype and hasattr(value, "read"):
        if not value.initialized:
            declared = static_shape.known or ()
            return WatchedTensor(base, declared, None)
        value = value.read()
    elif not base.is_numpy_compatible or not isinstance(value, (np.ndarray, np.generic, *_PLAIN)):
        return WatchedTensor(base, (), None, getattr(value, "name", "") or type(value).__name__)
    array = np.asarray(value, dtype=base.numpy)
    return WatchedTensor(base, array.shape, array)


_PLAIN: Final = (bytes, str, int, float, bool, complex)
