"""Element types, with TensorFlow's names, enum numbers and conversions.

A `DType` is interned: `as_dtype` always returns the same object for the same type, so `is` and
`==` agree. Reference types (what a `VariableV2` puts out) are the base type plus 100 on the wire,
as in TensorFlow.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""A tensor's value. NumPy scalars stand in for rank-0 arrays inside the engine."""

_REF_OFFSET: Final = 100


class DType:
    """One element type. Use the instances of this module or `as_dtype`; never construct one."""

    __slots__ = ("_enum", "_name", "_numpy")

    def __init__(self, enum: int, name: str, numpy: npt.DTypeLike | None) -> None:
        self._enum = enum
        self._name = name
        self._numpy: np.dtype[Any] | None = None if numpy is None else np.dtype(numpy)

    @property
    def name(self) -> str:
        return self._name

    @property
    def as_datatype_enum(self) -> int:
        return self._enum

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """The NumPy scalar type (`numpy.float32`), as TensorFlow gives it."""
        return self.numpy.type

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays that hold this type; strings are object arrays of bytes."""
        if self._numpy is None:
            raise TypeError(f"{self._name} tensors hold handles, not NumPy values.")
        return self._numpy

    @property
    def size(self) -> int:
        """Bytes per element; 1 for types without a fixed size, as in TensorFlow."""
        if self._numpy is None or self._numpy.hasobject:
            return 1
        return self._numpy.itemsize

    @property
    def is_fixed_size(self) -> bool:
        return self._numpy is not None and not self._numpy.hasobject

    @property
    def _is_ref_dtype(self) -> bool:
        return self._enum > _REF_OFFSET

    @property
    def base_dtype(self) -> DType:
        return _BY_ENUM[self._enum - _REF_OFFSET] if self._is_ref_dtype else self

    @property
    def as_ref(self) -> DType:
        return self if self._is_ref_dtype else _BY_ENUM[self._enum + _REF_OFFSET]

    @property
    def real_dtype(self) -> DType:
        return {complex64: float32, complex128: float64}.get(self.base_dtype, self)

    @property
    def is_floating(self) -> bool:
        return self._kind() == "f"

    @property
    def is_integer(self) -> bool:
        return self._kind() in ("i", "u")

    @property
    def is_unsigned(self) -> bool:
        return self._kind() == "u"

    @property
    def is_complex(self) -> bool:
        return self._kind() == "c"

    @property
    def is_bool(self) -> bool:
        return self.base_dtype is bool_

    @property
    def is_numpy_compatible(self) -> bool:
        return self._numpy is not None

    @property
    def min(self) -> Any:
        return np.finfo(self.numpy).min if self.is_floating else np.iinfo(self.numpy).min

    @property
    def max(self) -> Any:
        return np.finfo(self.numpy).max if self.is_floating else np.iinfo(self.numpy).max

    def is_compatible_with(self, other: Any) -> bool:
        return self.base_dtype is as_dtype(other).base_dtype

    def _kind(self) -> str:
        return self._numpy.kind if self._numpy is not None else ""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None or isinstance(other, DType):
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self._enum

    def __int__(self) -> int:
        return self._enum

    def __repr__(self) -> str:
        return f"tf.{self._name}"

    def __str__(self) -> str:
        return f"<dtype: {self._name!r}>"

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return as_dtype, (self._enum,)


float32 = DType(1, "float32", np.float32)
float64 = DType(2, "float64", np.float64)
int32 = DType(3, "int32", np.int32)
uint8 = DType(4, "uint8", np.uint8)
int16 = DType(5, "int16", np.int16)
int8 = DType(6, "int8", np.int8)
string = DType(7, "string", np.object_)
complex64 = DType(8, "complex64", np.complex64)
int64 = DType(9, "int64", np.int64)
bool_ = DType(10, "bool", np.bool_)
uint16 = DType(17, "uint16", np.uint16)
complex128 = DType(18, "complex128", np.complex128)
float16 = DType(19, "float16", np.float16)
resource = DType(20, "resource", None)
variant = DType(21, "variant", None)
uint32 = DType(22, "uint32", np.uint32)
uint64 = DType(23, "uint64", np.uint64)

BASE_TYPES: Final = (
    float32, float64, int32, uint8, int16, int8, string, complex64, int64, bool_,
    uint16, complex128, float16, resource, variant, uint32, uint64,
)  # fmt: skip
_BY_ENUM: dict[int, DType] = {t.as_datatype_enum: t for t in BASE_TYPES}
_BY_ENUM |= {
    t.as_datatype_enum + _REF_OFFSET: DType(
        t.as_datatype_enum + _REF_OFFSET, f"{t.name}_ref", t._numpy
    )
    for t in BASE_TYPES
}
_BY_NAME: Final = {t.name: t for t in _BY_ENUM.values()} | {
    "float": float32,
    "double": float64,
    "half": float16,
}
_BY_NUMPY: Final = {t._numpy: t for t in BASE_TYPES if t._numpy is not None}
_BY_PYTHON: Final[dict[type, DType]] = {
    float: float32,
    int: int32,
    bool: bool_,
    complex: complex128,
    str: string,
    bytes: string,
}


def as_dtype(type_value: Any) -> DType:
    """The `DType` of a name, enum number, NumPy dtype, Python type or TensorFlow's own DType."""
    value = type_value
    if isinstance(value, DType):
        return value
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, int) and not isinstance(value, bool):
        if value in _BY_ENUM:
            return _BY_ENUM[value]
        raise TypeError(f"Data type number {value} is not supported; known: {sorted(_BY_ENUM)}.")
    enum = getattr(value, "as_datatype_enum", None)
    if isinstance(enum, int) and enum in _BY_ENUM:
        return _BY_ENUM[enum]
    try:
        numpy = np.dtype(value)
    except TypeError:
        numpy = None
    if numpy is not None:
        if numpy.kind in "SUO":
            return string
        if numpy in _BY_NUMPY:
            return _BY_NUMPY[numpy]
    known = ", ".join(t.name for t in BASE_TYPES)
    raise TypeError(f"Cannot convert {value!r} to a data type; pass one of: {known}.")
