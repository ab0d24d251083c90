"""TensorProto to NumPy and back, as TensorFlow writes and reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope._messages import TensorProto
from stepscope.graph.dtypes import Array, DType, as_dtype, string
from stepscope.graph.shapes import TensorShape

_VALUE_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "uint8": "int_val",
    "int16": "int_val", "int8": "int_val", "int64": "int64_val", "bool": "bool_val",
    "uint16": "int_val", "float16": "half_val", "uint32": "uint32_val", "uint64": "uint64_val",
}  # fmt: skip


def make_ndarray(tensor: Any) -> Array:
    """The array of a TensorProto; fewer values than elements repeat the last one."""
    dtype = as_dtype(tensor.dtype)
    shape = TensorShape(tensor.tensor_shape).known
    if shape is None:
        raise ValueError(f"A tensor value needs a full shape, not {tensor.tensor_shape}.")
    if tensor.tensor_content:
        flat = np.frombuffer(tensor.tensor_content, dtype=dtype.numpy.newbyteorder("<"))
        return flat.astype(dtype.numpy).reshape(shape)
    if dtype is string:
        values = np.empty(len(tensor.string_val), dtype=object)
        values[:] = list(tensor.string_val)
        return _fill(values, shape, np.dtype(object), b"")
    if dtype.is_complex:
        raw = tensor.scomplex_val if dtype.name == "complex64" else tensor.dcomplex_val
        pairs = np.array(raw, dtype=np.float64).reshape(-1, 2)
        return _fill((pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype.numpy), shape, dtype.numpy, 0)
    raw = getattr(tensor, _VALUE_FIELDS[dtype.name])
    if dtype.name == "float16":
        return _fill(np.array(raw, dtype=np.uint16).view(np.float16), shape, dtype.numpy, 0)
    return _fill(np.array(raw, dtype=dtype.numpy), shape, dtype.numpy, 0)


def _fill(values: Array, shape: tuple[int, ...], dtype: np.dtype[Any], zero: Any) -> Array:
    size = int(np.prod(shape, dtype=np.int64))
    out = np.empty(size, dtype=dtype)
    n = min(len(values), size)
    out[:n] = values[:n]
    if n < size:
        out[n:] = values[-1] if n else zero
    return out.reshape(shape)


def make_tensor_proto(value: Array, dtype: DType) -> Any:
    """The TensorProto of an array: raw little-endian content, or typed values for small ones."""
    proto = TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=TensorShape(value.shape).as_proto()
    )
    if dtype is string:
        proto.string_val.extend(as_bytes(v) for v in value.reshape(-1))
    elif value.size == 1 and dtype.name in _VALUE_FIELDS and dtype.name != "float16":
        getattr(proto, _VALUE_FIELDS[dtype.name]).append(value.reshape(-1)[0].item())
    else:
        little = np.ascontiguousarray(value, dtype=dtype.numpy.newbyteorder("<"))
        proto.tensor_content = little.tobytes()
    return proto


def as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return bytes(value)  # not NumPy's kind of bytes
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"Expected bytes or str in a string tensor, found {type(value).__name__}.")
