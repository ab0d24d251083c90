"""Strings one by one: their length, parts, case, the numbers they are, and tensors as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array, as_dtype, float32
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import SCALAR, TensorShape, broadcast
from stepscope.ops.flow.ordering import element_text
from stepscope.ops.signatures import one_name, output_of, same_shape

__all__ = [
    "string_format", "string_length", "string_lower", "string_strip", "string_to_number",
    "string_upper", "substr",
]  # fmt: skip


def _of_each(change: Callable[[bytes], Any], dtype: Any = object) -> Kernel:
    def call(texts: Any) -> Array:
        source = np.asarray(texts, dtype=object)
        out = np.empty(source.size, dtype=dtype)
        for i, text in enumerate(source.ravel()):
            out[i] = change(text)
        return out.reshape(source.shape)

    return Kernel(call)


def _as_text(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _counts_characters(node: KernelNode) -> bool:
    return bool(node.attr("unit") == b"UTF8_CHAR")


# -- length, case, ends ------------------------------------------------------------------------

_SPACE: Final = b" \t\n\v\f\r"


def _length_kernel(node: KernelNode) -> Kernel:
    if _counts_characters(node):
        return _of_each(lambda text: len(_as_text(text)), np.int32)
    return _of_each(len, np.int32)


def _case_kernel(node: KernelNode) -> Kernel:
    lower = node.op.type == "StringLower"
    encoding = node.attr("encoding")
    if encoding not in (b"", b"utf-8"):
        raise InvalidArgumentError.without_op(
            f"only utf-8 or '' (no encoding) is supported, received {encoding.decode()}"
        )
    if not encoding:
        return _of_each(bytes.lower if lower else bytes.upper)
    change = str.lower if lower else str.upper
    return _of_each(lambda text: change(_as_text(text)).encode("utf-8", "surrogateescape"))


register(
    "StringLength",
    inputs=["input: string"],
    outputs=["output: int32"],
    attrs=["unit: string = 'BYTE'"],
    shape=same_shape,
    kernel=_length_kernel,
)
for _name in ("StringLower", "StringUpper"):
    register(
        _name,
        inputs=["input: string"],
        outputs=["output: string"],
        attrs=["encoding: string = ''"],
        shape=same_shape,
        kernel=_case_kernel,
    )
register(
    "StringStrip",
    inputs=["input: string"],
    outputs=["output: string"],
    shape=same_shape,
    kernel=lambda _node: _of_each(lambda text: text.strip(_SPACE)),
)


def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """How many bytes each text has, or characters with the unit "UTF8_CHAR"."""
    return output_of("StringLength", input, unit=unit, name=name)


def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Each text in small letters: those of ASCII, or of all with the encoding "utf-8"."""
    return output_of("StringLower", input, encoding=encoding, name=name)


def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Each text in capital letters: those of ASCII, or of all with the encoding "utf-8"."""
    return output_of("StringUpper", input, encoding=encoding, name=name)


def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Each text without the white space at its ends."""
    return output_of("StringStrip", input, name=name)


# -- parts -------------------------------------------------------------------------------------


def _part_shape(c: ShapeContext) -> TensorShape:
    text, at, count = (c.input(i) for i in range(3))
    if at.rank is not None and count.rank is not None and at.rank != count.rank:
        raise ValueError(f"Shape must be rank {at.rank} but is rank {count.rank}")
    return broadcast(text, at.merge_with(count))


def _part_kernel(node: KernelNode) -> Kernel:
    characters = _counts_characters(node)

    def part(text: Any, at: int, count: int) -> Any:
        source = _as_text(text) if characters else text
        if not -len(source) <= at <= len(source):
            raise InvalidArgumentError.without_op(
                f"pos {at} out of range for string b'{_as_text(text)}' of length {len(source)}"
            )
        start = at + len(source) if at < 0 else at
        end = start + count if count >= 0 else len(source)
        found = source[start:end]
        return found.encode("utf-8", "surrogateescape") if characters else found

    def call(texts: Any, at: Any, count: Any) -> Array:
        arrays = np.broadcast_arrays(np.asarray(texts, dtype=object), at, count)
        out = np.empty(arrays[0].size, dtype=object)
        for i, (text, start, length) in enumerate(zip(*map(np.ravel, arrays), strict=True)):
            out[i] = part(text, int(start), int(length))
        return out.reshape(arrays[0].shape)

    return Kernel(call)


register(
    "Substr",
    inputs=["input: string", "pos: T", "len: T"],
    outputs=["output: string"],
    attrs=["T: type", "unit: string = 'BYTE'"],
    shape=_part_shape,
    kernel=_part_kernel,
)


def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Of each text `len` bytes (or characters) from `pos` on; a negative `pos` is from its end.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.substr(["hello", "world"], [1, -3], [2, 2])).tolist()
    [b'el', b'rl']
    """
    return output_of("Substr", input, pos, len, unit=unit, name=name)


# -- numbers -----------------------------------------------------------------------------------

_REAL: Final = re.compile(
    rb"[+-]?(?:inf(?:inity)?|nan|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.IGNORECASE
)
_HEXADECIMAL: Final = re.compile(rb"[+-]?0x[0-9a-f]+\.?[0-9a-f]*(?:p[+-]?\d+)?", re.IGNORECASE)
_WHOLE: Final = re.compile(rb"[+-]?\d+")


def _number_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0]
    bounds = np.iinfo(dtype.numpy) if dtype.is_integer else None

    def number(text: bytes) -> Any:
        found = text.strip(_SPACE)
        if bounds is None:
            if _REAL.fullmatch(found):
                return float(found)
            if _HEXADECIMAL.fullmatch(found):
                return float.fromhex(found.decode())
        elif _WHOLE.fullmatch(found) and bounds.min <= int(found) <= bounds.max:
            return int(found)
        raise InvalidArgumentError.without_op(
            f"StringToNumberOp could not correctly convert string: {_as_text(text)}"
        )

    return _of_each(number, dtype.numpy)


register(
    "StringToNumber",
    inputs=["string_tensor: string"],
    outputs=["output: out_type"],
    attrs=["out_type: type = float32"],
    shape=same_shape,
    kernel=_number_kernel,
)
no_gradient("StringToNumber")


def string_to_number(
    string_tensor: Any = None, out_type: Any = float32, name: str | None = None, input: Any = None
) -> Tensor:
    """The number that each text is; InvalidArgumentError for one that is none."""
    texts = one_name("string_tensor", string_tensor, "input", input)
    return output_of("StringToNumber", texts, out_type=as_dtype(out_type), name=name)


# -- tensors as text ---------------------------------------------------------------------------


def _shown(array: Any, ends: int, depth: int, ndim: int) -> str:
    """The first and last `ends` of every axis, in brackets."""
    if depth == ndim:
        value = array[()] if isinstance(array, np.ndarray) else array
        text = element_text(value)
        return f'"{text}"' if isinstance(value, (bytes, str)) else text
    count = len(array)
    parts = [_shown(part, ends, depth + 1, ndim) for part in array[:ends]]
    if count > 2 * ends:
        parts.append("...")
    parts += [_shown(part, ends, depth + 1, ndim) for part in array[max(ends, count - ends) :]]
    inner = depth == ndim - 1
    between = " " if inner else "\n" * (ndim - depth - 1) + " " * (depth + 1)
    return f"[{between.join(parts)}]"


def _format_kernel(node: KernelNode) -> Kernel:
    parts = node.attr("template").split(node.attr("placeholder"))
    ends = node.attr("summarize")

    def call(*values: Any) -> Array:
        arrays = [np.asarray(value) for value in values]
        texts = [
            _shown(a, max(a.shape, default=0) if ends < 0 else ends, 0, a.ndim) for a in arrays
        ]
        written = [text.encode() for text in texts]
        pairs = zip(parts, [*written, b""], strict=True)
        return np.array(b"".join(piece for pair in pairs for piece in pair), dtype=object)

    return Kernel(call)


register(
    "StringFormat",
    inputs=["inputs: T"],
    outputs=["output: string"],
    attrs=["T: list(type)", "template: string = '%s'", "placeholder: string = '%s'",
           "summarize: int = 3"],
    shape=lambda _c: SCALAR,
    kernel=_format_kernel,
)  # fmt: skip


def string_format(
    template: str, inputs: Sequence[Any] | Tensor, placeholder: str = "{}", summarize: int = 3,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """A text with tensors in it: the first and last `summarize` elements of every axis.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.strings.format("x = {}", tf.range(9), summarize=2))
    b'x = [0 1 ... 7 8]'
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if template.count(placeholder) != len(given):
        raise ValueError(
            f"The template expects {template.count(placeholder)} tensors, but the inputs only has "
            f"{len(given)}. Please ensure the number of placeholders in template matches inputs "
            "length."
        )
    return apply_op(
        "StringFormat", given, template=template, placeholder=placeholder, summarize=summarize,
        name=name,
    ).values()[0]  # fmt: skip
