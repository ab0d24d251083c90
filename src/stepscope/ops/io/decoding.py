"""Strings as numbers, numbers as strings: DecodeCSV, DecodeRaw, tensors as messages and such."""

from __future__ import annotations

import base64
import binascii
import csv
import itertools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope._messages import DecodeError, TensorProto
from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array, DType, as_dtype
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape
from stepscope.graph.tensor_proto import make_ndarray, make_tensor_proto
from stepscope.ops.signatures import one_name, output_of, same_shape

__all__ = [
    "decode_base64",
    "decode_compressed",
    "decode_csv",
    "decode_raw",
    "encode_base64",
    "parse_tensor",
    "serialize_tensor",
]


def _texts(values: Any) -> Array:
    return np.asarray(values, dtype=object).reshape(-1)


def _shaped(texts: Sequence[bytes], shape: tuple[int, ...]) -> Array:
    out = np.empty(len(texts), dtype=object)
    out[:] = texts
    return out.reshape(shape)


# -- DecodeCSV ---------------------------------------------------------------------------------


def _csv_shape(c: ShapeContext) -> list[TensorShape]:
    return [c.input(0)] * len(c.attr("OUT_TYPE"))


def _csv_kernel(node: KernelNode) -> Kernel:
    types, chosen = node.attr("OUT_TYPE"), node.attr("select_cols")
    missing = node.attr("na_value").decode("latin-1")
    quoted = node.attr("use_quote_delim")
    delimiter = node.attr("field_delim").decode("latin-1")

    def fields(record: bytes, number: int) -> list[str]:
        # Latin-1 keeps every byte as it is.
        text = record.decode("latin-1")
        if not quoted:
            found = text.split(delimiter)
        else:
            found = next(csv.reader([text], delimiter=delimiter, strict=False), [""])
        if chosen:
            found = [found[i] for i in chosen if i < len(found)]
        if len(found) != len(types):
            raise InvalidArgumentError.without_op(
                f"Expect {len(types)} fields but have {len(found)} in record {number}"
            )
        return found

    def call(records: Any, *defaults: Any) -> Any:
        rows = [fields(record, i) for i, record in enumerate(_texts(records))]
        columns = []
        for i, (dtype, default) in enumerate(zip(types, defaults, strict=True)):
            values = [_field(row[i], dtype, default, missing, (i, n)) for n, row in enumerate(rows)]
            column = np.empty(len(rows), dtype.numpy)
            column[:] = values
            columns.append(column.reshape(np.shape(records)))
        return columns[0] if len(columns) == 1 else tuple(columns)

    return Kernel(call)


def _field(text: str, dtype: DType, default: Any, missing: str, at: tuple[int, int]) -> Any:
    column, record = at
    if text in ("", missing):
        if np.size(default) == 0:
            raise InvalidArgumentError.without_op(
                f"Field {column} is required but missing in record {record}!"
            )
        return np.reshape(default, -1)[0]
    if dtype is dt.string:
        return text.encode("latin-1")
    number = _number(text, dtype)
    if number is None:
        raise InvalidArgumentError.without_op(
            f"Field {column} in record {record} is not a valid {dtype.name}: {text}"
        )
    return number


def _number(text: str, dtype: DType) -> Any:
    """The number that a text says; None if it says none that fits the type."""
    plain = text.strip()
    if "_" in plain:
        return None
    try:
        if dtype.is_floating:
            return float(plain)
        number = int(plain)
    except ValueError:
        return None
    limits = np.iinfo(dtype.numpy)
    return number if limits.min <= number <= limits.max else None


register(
    "DecodeCSV",
    inputs=("records: string", "record_defaults: OUT_TYPE"),
    outputs=("output: OUT_TYPE",),
    attrs=("OUT_TYPE: list(type)", "field_delim: string = ','", "use_quote_delim: bool = true",
           "na_value: string = ''", "select_cols: list(int) = []"),
    shape=_csv_shape,
    kernel=_csv_kernel,
)  # fmt: skip


def decode_csv(
    records: Any, record_defaults: Sequence[Any], field_delim: str = ",",
    use_quote_delim: bool = True, name: str | None = None, na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:  # fmt: skip
    """The columns of CSV records; a default says a column's type, and what a missing field is.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.decode_csv(["1,a", ",b"], [[-1], [""]]))
    [array([ 1, -1], dtype=int32), array([b'a', b'b'], dtype=object)]
    """
    if select_cols is not None and any(a >= b for a, b in itertools.pairwise(select_cols)):
        raise ValueError("select_cols is not strictly increasing.")
    if select_cols is not None and select_cols and select_cols[0] < 0:
        raise ValueError("select_cols contains negative values.")
    if select_cols is not None and len(select_cols) != len(record_defaults):
        raise ValueError("Length of select_cols and record_defaults do not match.")
    return apply_op(
        "DecodeCSV", records, list(record_defaults), field_delim=field_delim,
        use_quote_delim=use_quote_delim, na_value=na_value, select_cols=list(select_cols or []),
        name=name,
    ).outputs  # fmt: skip


# -- DecodeRaw, DecodePaddedRaw ----------------------------------------------------------------


def _raw_kernel(node: KernelNode) -> Kernel:
    dtype = node.attr("out_type").numpy
    source = dtype.newbyteorder("<" if node.attr("little_endian") else ">")

    def decoded(texts: Any, shape: tuple[int, ...], length: int) -> Array:
        if length % dtype.itemsize:
            raise InvalidArgumentError.without_op(
                f"Input to DecodeRaw has length {length} that is not a multiple of "
                f"{dtype.itemsize}, the size of {dtype.name}"
            )
        flat = np.frombuffer(b"".join(texts), source).astype(dtype)
        return flat.reshape((*shape, length // dtype.itemsize))

    def call(values: Any) -> Array:
        texts = _texts(values)
        lengths = {len(text) for text in texts}
        if len(lengths) > 1:
            sizes = sorted(lengths)
            raise InvalidArgumentError.without_op(
                "DecodeRaw requires input strings to all be the same size, but element sizes "
                f"differ: {sizes[0]} and {sizes[-1]}"
            )
        return decoded(texts, np.shape(values), max(lengths, default=0))

    def call_padded(values: Any, fixed: Any) -> Array:
        length = int(fixed)
        texts = [text[:length].ljust(length, b"\0") for text in _texts(values)]
        return decoded(texts, np.shape(values), length)

    return Kernel(call if node.op.type == "DecodeRaw" else call_padded)


def _padded_shape(c: ShapeContext) -> TensorShape:
    length = c.constant(1)
    size = c.attr("out_type").size
    return c.input(0).concatenate(TensorShape([None if length is None else int(length) // size]))


register(
    "DecodeRaw",
    inputs=("bytes: string",),
    outputs=("output: out_type",),
    attrs=("out_type: type", "little_endian: bool = true"),
    shape=lambda c: c.input(0).concatenate(TensorShape([None])),
    kernel=_raw_kernel,
)
register(
    "DecodePaddedRaw",
    inputs=("input_bytes: string", "fixed_length: int32"),
    outputs=("output: out_type",),
    attrs=("out_type: type", "little_endian: bool = true"),
    shape=_padded_shape,
    kernel=_raw_kernel,
)


def decode_raw(
    input_bytes: Any = None, out_type: Any = None, little_endian: bool = True,
    name: str | None = None, bytes: Any = None,
) -> Tensor:  # fmt: skip
    """The bytes of strings as numbers, along a new last axis.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.decode_raw("AB", tf.uint8)).tolist()
    [65, 66]
    """
    texts = one_name("input_bytes", input_bytes, "bytes", bytes)
    if out_type is None:
        raise ValueError("decode_raw needs an out_type.")
    return output_of(
        "DecodeRaw", texts, out_type=as_dtype(out_type), little_endian=little_endian, name=name
    )


# -- DecodeCompressed, EncodeBase64, DecodeBase64 ----------------------------------------------


def _decompress_kernel(node: KernelNode) -> Kernel:
    kind = node.attr("compression_type").decode()
    if kind not in ("", "ZLIB", "GZIP"):
        raise InvalidArgumentError.without_op(
            f"Only ZLIB, GZIP or NONE are supported compressions, not {kind!r}"
        )

    def call(values: Any) -> Array:
        if not kind:
            return np.asarray(values, dtype=object)
        wbits = 31 if kind == "GZIP" else 15
        try:
            texts = [zlib.decompress(text, wbits) for text in _texts(values)]
        except zlib.error as error:
            raise InvalidArgumentError.without_op(f"Cannot decompress as {kind}: {error}") from None
        return _shaped(texts, np.shape(values))

    return Kernel(call, opaque=True)


register(
    "DecodeCompressed",
    inputs=("bytes: string",),
    outputs=("output: string",),
    attrs=("compression_type: string = ''",),
    shape=same_shape,
    kernel=_decompress_kernel,
)


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """The strings decompressed: "ZLIB", "GZIP" or "" for as they are."""
    return output_of("DecodeCompressed", bytes, compression_type=compression_type, name=name)


def _encode64_kernel(node: KernelNode) -> Kernel:
    pad = node.attr("pad")

    def call(values: Any) -> Array:
        texts = [base64.urlsafe_b64encode(text) for text in _texts(values)]
        return _shaped(texts if pad else [t.rstrip(b"=") for t in texts], np.shape(values))

    return Kernel(call)


def _decode64_kernel(_node: KernelNode) -> Kernel:
    def decoded(text: bytes) -> bytes:
        bare = text.rstrip(b"=")
        try:
            found = base64.b64decode(bare + b"=" * (-len(bare) % 4), altchars=b"-_", validate=True)
        except binascii.Error:
            raise InvalidArgumentError.without_op(
                f"Invalid character found in base64: {text!r}"
            ) from None
        return found

    return Kernel(lambda values: _shaped([decoded(t) for t in _texts(values)], np.shape(values)))


register(
    "EncodeBase64",
    inputs=("input: string",),
    outputs=("output: string",),
    attrs=("pad: bool = false",),
    shape=same_shape,
    kernel=_encode64_kernel,
)
register(
    "DecodeBase64",
    inputs=("input: string",),
    outputs=("output: string",),
    shape=same_shape,
    kernel=_decode64_kernel,
)


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Strings in web-safe base64."""
    return output_of("EncodeBase64", input, pad=pad, name=name)


def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """Strings of web-safe base64."""
    return output_of("DecodeBase64", input, name=name)


# -- ParseTensor, SerializeTensor --------------------------------------------------------------


def _parse_kernel(node: KernelNode) -> Kernel:
    wanted = node.attr("out_type")

    def call(serialized: Any) -> Array:
        try:
            message = TensorProto.FromString(np.asarray(serialized, dtype=object).item())
            found: Array = make_ndarray(message)
        except DecodeError as error:
            raise InvalidArgumentError.without_op(
                "Could not parse `serialized` as TensorProto"
            ) from error
        if as_dtype(found.dtype) is not wanted:
            raise InvalidArgumentError.without_op(
                f"Type mismatch between parsed tensor ({as_dtype(found.dtype).name}) and dtype "
                f"({wanted.name})"
            )
        return found

    return Kernel(call)


register(
    "ParseTensor",
    inputs=("serialized: string",),
    outputs=("output: out_type",),
    attrs=("out_type: type",),
    shape=lambda _c: UNKNOWN,
    kernel=_parse_kernel,
)


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor of a serialized TensorProto."""
    return output_of("ParseTensor", serialized, out_type=as_dtype(out_type), name=name)


def _serialize_kernel(node: KernelNode) -> Kernel:
    dtype = node.input_dtypes[0].base_dtype

    def call(tensor: Any) -> Array:
        message = make_tensor_proto(np.asarray(tensor), dtype)
        return np.array(message.SerializeToString(), dtype=object)

    return Kernel(call)


register(
    "SerializeTensor",
    inputs=("tensor: T",),
    outputs=("serialized: string",),
    attrs=("T: type",),
    shape=lambda _c: SCALAR,
    kernel=_serialize_kernel,
)


def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor as a serialized TensorProto."""
    return output_of("SerializeTensor", tensor, name=name)


no_gradient(
    "DecodeBase64", "DecodePaddedRaw", "DecodeRaw", "EncodeBase64", "ParseTensor", "SerializeTensor"
)
