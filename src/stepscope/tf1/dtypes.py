"""`tf.dtypes`, and the types as top-level names have them."""

from stepscope.graph.dtypes import (
    DType,
    as_dtype,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from stepscope.graph.dtypes import bool_ as bool
from stepscope.tf1._absent import absent

half = float16
double = float64

__all__ = [
    "DType", "as_dtype", "bool", "complex64", "complex128", "double", "float16", "float32",
    "float64", "half", "int8", "int16", "int32", "int64", "resource", "string", "uint8", "uint16",
    "uint32", "uint64", "variant",
]  # fmt: skip

__getattr__ = absent(__name__)
