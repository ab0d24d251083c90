"""Summaries: values of a run packed for event files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from stepscope._messages import Summary, SummaryMetadata
from stepscope.errors import InvalidArgumentError
from stepscope.graph import GraphKeys, add_to_collection, get_collection
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, no_gradient, register
from stepscope.graph.shapes import SCALAR
from stepscope.graph.tensor_proto import as_bytes, make_tensor_proto

_NOT_IN_NAMES = re.compile(r"[^-/\w\.]")


def _packed(summary: Any) -> Array:
    out = np.empty((), dtype=object)
    out[()] = summary.SerializeToString()
    return out


def _scalar_kernel(_node: KernelNode) -> Kernel:
    def call(tags: Any, values: Any) -> Array:
        tags, values = np.asarray(tags, dtype=object), np.asarray(values)
        if tags.shape != values.shape and not (tags.size == 1 and values.size == 1):
            raise InvalidArgumentError(
                None,
                None,
                f"tags and values are not the same shape: {list(tags.shape)} != "
                f"{list(values.shape)}",
            )
        summary = Summary()
        for tag, value in zip(tags.reshape(-1), values.reshape(-1), strict=True):
            summary.value.add(tag=as_bytes(tag).decode(), simple_value=float(value))
        return _packed(summary)

    return Kernel(call)


register(
    "ScalarSummary",
    inputs=["tags: string", "values: T"],
    outputs=["summary: string"],
    attrs=["T: type"],
    shape=lambda _c: SCALAR,
    kernel=_scalar_kernel,
)


def _tensor_kernel(node: KernelNode) -> Kernel:
    dtype = node.input_dtypes[1].base_dtype

    def call(tag: Any, tensor: Any, metadata: Any) -> Array:
        summary = Summary()
        value = summary.value.add(tag=as_bytes(np.asarray(tag, object)[()]).decode())
        value.metadata.ParseFromString(as_bytes(np.asarray(metadata, object)[()]))
        value.tensor.CopyFrom(make_tensor_proto(np.asarray(tensor), dtype))
        return _packed(summary)

    return Kernel(call)


register(
    "TensorSummaryV2",
    inputs=["tag: string", "tensor: T", "serialized_summary_metadata: string"],
    outputs=["summary: string"],
    attrs=["T: type"],
    shape=lambda _c: SCALAR,
    kernel=_tensor_kernel,
)


def _merge_kernel(_node: KernelNode) -> Kernel:
    def call(*parts: Any) -> Array:
        merged, seen = Summary(), set()
        for part in parts:
            for packed in np.asarray(part, dtype=object).reshape(-1):
                for value in Summary.FromString(as_bytes(packed)).value:
                    if value.tag in seen:
                        raise InvalidArgumentError(
                            None, None, f"Duplicate tag {value.tag} found in summary inputs"
                        )
                    seen.add(value.tag)
                    merged.value.add().CopyFrom(value)
        return _packed(merged)

    return Kernel(call)


register(
    "MergeSummary",
    inputs=["inputs: N * string"],
    outputs=["summary: string"],
    attrs=["N: int"],
    shape=lambda _c: SCALAR,
    kernel=_merge_kernel,
)


def _node_name(name: str | None) -> str | None:
    """A tag as a node can be called: what a name may not hold becomes `_`."""
    return None if name is None else _NOT_IN_NAMES.sub("_", name).lstrip("/")


@contextmanager
def _tagged(name: str, family: str | None, tensor: Any) -> Iterator[tuple[str, str]]:
    """The tag and the name scope of a summary; a family leads both."""
    name, family = _node_name(name) or "", _node_name(family)
    with name_scope(f"{family}/{name}" if family else name, values=[tensor]) as scope:
        tag = scope.rstrip("/")
        yield f"{family}/{tag}" if family else tag, scope


def _collected(summary: Tensor, collections: Iterable[str] | None, default: list[str]) -> Tensor:
    for key in default if collections is None else collections:
        add_to_collection(key, summary)
    return summary


def scalar(
    name: str, tensor: Any, collections: Iterable[str] | None = None, family: str | None = None
) -> Tensor:
    """A number under a tag, which is the name of the node."""
    with _tagged(name, family, tensor) as (tag, scope):
        summary = apply_op("ScalarSummary", tag, tensor, name=scope).values()[0]
    return _collected(summary, collections, [GraphKeys.SUMMARIES])


def text(name: str, tensor: Any, collections: Iterable[str] | None = None) -> Tensor:
    """Strings under a tag; TensorBoard's page of texts shows them as Markdown.

    `tensor` may also be a plain string or bytes.
    """
    metadata = SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    tensor = convert_to_tensor(tensor)
    if tensor.dtype.base_dtype.name != "string":
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    with _tagged(name, None, tensor) as (tag, scope):
        packed = metadata.SerializeToString()
        summary = apply_op("TensorSummaryV2", tag, tensor, packed, name=scope).values()[0]
    return _collected(summary, collections, [GraphKeys.SUMMARIES])


def merge(
    inputs: Sequence[Any], collections: Iterable[str] | None = None, name: str | None = None
) -> Tensor:
    """One summary with the values of all of them; a tag that comes twice fails the run."""
    name = _node_name(name)
    with name_scope(name, "Merge", inputs):
        summary = apply_op("MergeSummary", list(inputs), name=name).values()[0]
    return _collected(summary, collections, [])


def merge_all(
    key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """One summary with the values of all in a collection of the graph; None if it is empty."""
    summaries = get_collection(key, scope=scope)
    return merge(summaries, name=name) if summaries else None


no_gradient("ScalarSummary", "TensorSummaryV2", "MergeSummary")
