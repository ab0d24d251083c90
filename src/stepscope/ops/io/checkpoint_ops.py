"""The ops that write and read checkpoints; `tensor_bundle` is about the files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape
from stepscope.graph.tensor_proto import as_bytes
from stepscope.ops.io.tensor_bundle import BundleReader, merge_bundles, write_bundle

_MOST_SHOWN = 5


def _text(value: Any) -> str:
    return as_bytes(np.asarray(value, dtype=object)[()]).decode()


def _texts(values: Any) -> list[str]:
    return [as_bytes(v).decode() for v in np.asarray(values, dtype=object).reshape(-1)]


def _checked_names(names: Any, slices: Any, count: int) -> list[str]:
    found, specs = _texts(names), _texts(slices)
    if len(found) != count or len(specs) != count:
        raise InvalidArgumentError.without_op(
            f"{count} tensors need {count} names and {count} shape_and_slices; found "
            f"{len(found)} and {len(specs)}.",
        )
    for name, spec in zip(found, specs, strict=True):
        if spec:
            raise UnimplementedError.without_op(
                f"{name!r} is the slice {spec!r} of a partitioned variable; only whole tensors "
                "are saved and restored.",
            )
    return found


# -- out ---------------------------------------------------------------------------------------


def _no_outputs(_context: ShapeContext) -> list[TensorShape]:
    return []


def _save_kernel(node: KernelNode) -> Kernel:
    dtypes: list[DType] = node.attr("dtypes")

    def call(prefix: Any, names: Any, slices: Any, *tensors: Any) -> None:
        found = _checked_names(names, slices, len(dtypes))
        repeated = {name for name in found if found.count(name) > 1}
        if repeated:
            raise InvalidArgumentError.without_op(
                f"Adding duplicate key: {', '.join(sorted(repeated))}"
            )
        types = [dtype.base_dtype for dtype in dtypes]
        write_bundle(_text(prefix), zip(found, types, tensors, strict=True))

    return Kernel(call)


register(
    "SaveV2",
    inputs=["prefix: string", "tensor_names: string", "shape_and_slices: string",
            "tensors: dtypes"],
    attrs=["dtypes: list(type)"],
    shape=_no_outputs,
    kernel=_save_kernel,
    stateful=True,
)  # fmt: skip


def save_v2(
    prefix: Any, tensor_names: Any, shape_and_slices: Any, tensors: Sequence[Any],
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Write tensors to the checkpoint of that prefix; each of `shape_and_slices` must be ""."""
    return apply_op("SaveV2", prefix, tensor_names, shape_and_slices, list(tensors), name=name)


def _merge_kernel(node: KernelNode) -> Kernel:
    delete_old = bool(node.attr("delete_old_dirs"))

    def call(prefixes: Any, destination: Any) -> None:
        merge_bundles(_texts(prefixes), _text(destination), delete_old)

    return Kernel(call)


register(
    "MergeV2Checkpoints",
    inputs=["checkpoint_prefixes: string", "destination_prefix: string"],
    attrs=["delete_old_dirs: bool = true", "allow_missing_files: bool = false"],
    shape=_no_outputs,
    kernel=_merge_kernel,
    stateful=True,
)


# -- in ----------------------------------------------------------------------------------------


def _restore_kernel(node: KernelNode) -> Kernel:
    dtypes = [dtype.base_dtype for dtype in node.attr("dtypes")]

    def call(prefix: Any, names: Any, slices: Any) -> Any:
        found = _checked_names(names, slices, len(dtypes))
        reader = BundleReader(_text(prefix))
        _check_names(reader, found)
        for name, dtype in zip(found, dtypes, strict=True):
            stored = reader.describe(name).dtype
            if stored is not dtype:
                raise InvalidArgumentError.without_op(
                    f"tensor_name = {name}; expected dtype {dtype.name} does not equal original "
                    f"dtype {stored.name if stored else 'not known here'}",
                )
        values = tuple(reader.read(name) for name in found)
        return values[0] if len(values) == 1 else values

    return Kernel(call)


def _check_names(reader: BundleReader, wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in reader]
    if not missing:
        return
    message = f"Key {missing[0]} not found in checkpoint {reader.prefix}."
    if len(missing) > 1:
        more = ", ".join(missing[1:_MOST_SHOWN])
        message += f" {len(missing) - 1} more are missing: {more}."
    there = reader.names()
    close = difflib.get_close_matches(missing[0], there, n=_MOST_SHOWN, cutoff=0.6)
    shown = f"close to the first: {', '.join(close)}" if close else f"such as {there[:3]}"
    raise NotFoundError.without_op(f"{message} It holds {len(there)} tensors, {shown}.")


register(
    "RestoreV2",
    inputs=["prefix: string", "tensor_names: string", "shape_and_slices: string"],
    outputs=["tensors: dtypes"],
    attrs=["dtypes: list(type)"],
    shape=lambda c: [UNKNOWN] * len(c.attr("dtypes")),
    kernel=_restore_kernel,
    stateful=True,
)


def restore_v2(
    prefix: Any, tensor_names: Any, shape_and_slices: Any, dtypes: Sequence[Any],
    name: str | None = None,
) -> list[Tensor]:  # fmt: skip
    """The tensors of those names in a checkpoint; each of `shape_and_slices` must be ""."""
    op = apply_op(
        "RestoreV2", prefix, tensor_names, shape_and_slices, dtypes=list(dtypes), name=name
    )
    return list(op.values())


# -- names of files ----------------------------------------------------------------------------


def _packed(value: bytes) -> Array:
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def _sharded_filename(basename: Any, shard: Any, shards: Any) -> Array:
    return _packed(f"{_text(basename)}-{int(shard):05d}-of-{int(shards):05d}".encode())


register(
    "ShardedFilename",
    inputs=["basename: string", "shard: int32", "num_shards: int32"],
    outputs=["filename: string"],
    shape=lambda _c: SCALAR,
    kernel=lambda _node: Kernel(_sharded_filename),
)


def _full_match_kernel(node: KernelNode) -> Kernel:
    pattern = re.compile(node.attr("pattern"))

    def call(texts: Any) -> Any:
        array = np.asarray(texts, dtype=object)
        found = [pattern.fullmatch(as_bytes(text)) is not None for text in array.reshape(-1)]
        return np.array(found, dtype=np.bool_).reshape(array.shape)

    return Kernel(call)


register(
    "StaticRegexFullMatch",
    inputs=["input: string"],
    outputs=["output: bool"],
    attrs=["pattern: string"],
    shape=lambda c: c.input(0),
    kernel=_full_match_kernel,
)


def regex_full_match(input: Any, pattern: str, name: str | None = None) -> Tensor:
    """Whether a pattern, in Python's syntax, matches the whole of each text."""
    return apply_op("StaticRegexFullMatch", input, pattern=pattern, name=name).values()[0]
