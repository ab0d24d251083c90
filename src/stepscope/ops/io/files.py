"""Files as tensors: read, write and find them."""

from __future__ import annotations

import fnmatch
import glob
import gzip
import io
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import SCALAR, TensorShape
from stepscope.local_files import as_tensorflow, local_path

__all__ = ["matching_files", "opened", "read_file", "text_of", "write_file"]


def text_of(value: Any) -> bytes:
    """The bytes of a string tensor of rank 0."""
    found: bytes = np.asarray(value, dtype=object).item()
    return found


def opened(path: str, compression: str = "") -> BinaryIO:
    """A file to read from, decompressed: "", "GZIP" or "ZLIB"."""
    with as_tensorflow(path):
        if compression == "":
            return Path(local_path(path)).open("rb")
        if compression == "GZIP":
            return gzip.open(local_path(path), "rb")  # type: ignore[return-value]
        if compression == "ZLIB":
            return io.BytesIO(zlib.decompress(Path(local_path(path)).read_bytes()))
    raise InvalidArgumentError.without_op(
        f"Unsupported compression_type {compression!r}: there is '', 'GZIP' and 'ZLIB'."
    )


# -- ReadFile, WriteFile -----------------------------------------------------------------------


def _read_kernel(_node: KernelNode) -> Kernel:
    def call(filename: Any) -> Any:
        with opened(os.fsdecode(text_of(filename))) as file:
            return np.array(file.read(), dtype=object)

    return Kernel(call)


register(
    "ReadFile",
    inputs=["filename: string"],
    outputs=["contents: string"],
    shape=lambda _c: SCALAR,
    kernel=_read_kernel,
)


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The content of a file.

    >>> import os, tempfile
    >>> import stepscope.tf1 as tf
    >>> path = os.path.join(tempfile.mkdtemp(), "greeting")
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.write_file(path, "hello"))
    ...     session.run(tf.read_file(path))
    b'hello'
    """
    return apply_op("ReadFile", filename, name=name).values()[0]


def _write_kernel(_node: KernelNode) -> Kernel:
    def call(filename: Any, contents: Any) -> None:
        path = Path(local_path(os.fsdecode(text_of(filename))))
        with as_tensorflow(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text_of(contents))

    return Kernel(call)


def _no_outputs(_context: ShapeContext) -> list[TensorShape]:
    return []


register(
    "WriteFile",
    inputs=["filename: string", "contents: string"],
    shape=_no_outputs,
    kernel=_write_kernel,
    stateful=True,
)


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """An op that writes a file, and the folders to it."""
    return apply_op("WriteFile", filename, contents, name=name)


# -- MatchingFiles -----------------------------------------------------------------------------


def _matching_kernel(_node: KernelNode) -> Kernel:
    def call(pattern: Any) -> Any:
        patterns = [os.fsdecode(p) for p in np.asarray(pattern, dtype=object).reshape(-1)]
        found: list[str] = []
        for one in patterns:
            names = glob.glob(local_path(one), include_hidden=True)  # noqa: PTH207
            found += sorted(n for n in names if fnmatch.fnmatchcase(n, local_path(one)))
        out = np.empty(len(found), dtype=object)
        out[:] = [os.fsencode(name) for name in found]
        return out

    return Kernel(call)


register(
    "MatchingFiles",
    inputs=["pattern: string"],
    outputs=["filenames: string"],
    shape=lambda _c: TensorShape([None]),
    kernel=_matching_kernel,
)


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """The names of the files that match a pattern, or one of several."""
    return apply_op("MatchingFiles", pattern, name=name).values()[0]
