"""Strings taken apart: words of texts as sparse tensors, a row for each text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import string
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import TensorShape, unknown_shape
from stepscope.graph.sparse_tensor import SparseTensor
from stepscope.ops.arrays.shaping import expand_dims
from stepscope.ops.io.files import text_of
from stepscope.ops.signatures import exactly_rank, one_name

__all__ = ["split", "string_split"]

Splitter = Callable[[bytes, bytes], list[bytes]]


def _shape(c: ShapeContext) -> list[TensorShape]:
    exactly_rank(c.input(0), 1)
    exactly_rank(c.input(1), 0)
    return [TensorShape([None, 2]), unknown_shape(1), TensorShape([2])]


def _in_rows(splitter: Splitter) -> Kernel:
    def call(texts: Any, delimiter: Any) -> tuple[Any, Any, Any]:
        rows = [splitter(text, text_of(delimiter)) for text in texts]
        words = [word for row in rows for word in row]
        values = np.empty(len(words), dtype=object)
        values[:] = words
        places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
        shape = len(rows), max(map(len, rows), default=0)
        return np.array(places, np.int64).reshape(-1, 2), values, np.array(shape, np.int64)

    return Kernel(call)


def _kernel(node: KernelNode) -> Kernel:
    skip = node.attr("skip_empty")

    def words(text: bytes, delimiters: bytes) -> list[bytes]:
        if not text:
            return []
        if not delimiters:
            return [text[i : i + 1] for i in range(len(text))]
        parts = [text]
        for delimiter in delimiters:
            parts = [piece for part in parts for piece in part.split(bytes([delimiter]))]
        return [part for part in parts if part] if skip else parts

    return _in_rows(words)


def _kernel_v2(node: KernelNode) -> Kernel:
    most = node.attr("maxsplit")

    def words(text: bytes, separator: bytes) -> list[bytes]:
        return text.split(separator or None, most)

    return _in_rows(words)


for _name, _input, _attr, _make in (
    ("StringSplit", "delimiter", "skip_empty: bool = true", _kernel),
    ("StringSplitV2", "sep", "maxsplit: int = -1", _kernel_v2),
):
    register(
        _name,
        inputs=["input: string", f"{_input}: string"],
        outputs=["indices: int64", "values: string", "shape: int64"],
        attrs=[_attr],
        shape=_shape,
        kernel=_make,
    )
no_gradient("StringSplit")


def _check_result(result_type: str) -> None:
    if result_type != "SparseTensor":
        raise NotImplementedError(
            f"result_type={result_type!r}: there are no ragged tensors on Stepscope's embedded "
            "engine; use the sparse tensor (the default), or run the program on TensorFlow: "
            "`stepscope run --engine tensorflow`."
        )


def string_split(
    source: Any, sep: str | None = None, skip_empty: bool = True, delimiter: str | None = None,
    result_type: str = "SparseTensor", name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """The words of each text, between any of the characters of `sep` (a space).

    An empty `sep` takes a text apart into its bytes.
    """
    _check_result(result_type)
    between = one_name("sep", sep, "delimiter", delimiter)
    with name_scope(name, "StringSplit", [source]):
        limits = convert_to_tensor(" " if between is None else between, string)
        texts = convert_to_tensor(source, string)
        return SparseTensor(*apply_op("StringSplit", texts, limits, skip_empty=skip_empty).values())


def split(
    input: Any = None, sep: str | None = None, maxsplit: int = -1,
    result_type: str = "SparseTensor", source: Any = None, name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """The words of each text as `str.split` has them: between spaces, or by all of `sep`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.strings.split(["to be or", "not"])).values.tolist()
    [b'to', b'be', b'or', b'not']
    """
    _check_result(result_type)
    texts = one_name("input", input, "source", source)
    with name_scope(name, "StringSplit", [texts]):
        found = convert_to_tensor(texts, string, name="input")
        if found.shape.rank == 0:
            found = expand_dims(found, 0)
        exactly_rank(found.shape, 1)
        separator: Tensor = convert_to_tensor(sep or "", string)
        op = apply_op("StringSplitV2", found, separator, maxsplit=maxsplit)
        return SparseTensor(*op.values())
