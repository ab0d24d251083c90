"""Summaries: values of a run packed for event files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from stepscope._messages import Summary, SummaryMetadata
from stepscope.errors import InvalidArgumentError
from stepscope.graph import GraphKeys, add_to_collection, get_collection
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import SCALAR, TensorShape
from stepscope.graph.tensor_proto import as_bytes, make_tensor_proto
from stepscope.ops.io.png import encode_png
from stepscope.ops.signatures import REALS, exactly_rank

BAD_COLOR = np.array([255, 0, 0, 255], np.uint8)
"""What is shown for a pixel that is no number."""
_NOT_IN_NAMES = re.compile(r"[^-/\w\.]")


def packed(summary: Any) -> Array:
    """The bytes of a summary as what a kernel gives."""
    out = np.empty((), dtype=object)
    out[()] = summary.SerializeToString()
    return out


def _scalar_kernel(_node: KernelNode) -> Kernel:
    def call(tags: Any, values: Any) -> Array:
        tags, values = np.asarray(tags, dtype=object), np.asarray(values)
        if tags.shape != values.shape and not (tags.size == 1 and values.size == 1):
            raise InvalidArgumentError.without_op(
                f"tags and values are not the same shape: {list(tags.shape)} != "
                f"{list(values.shape)}",
            )
        summary = Summary()
        for tag, value in zip(tags.reshape(-1), values.reshape(-1), strict=True):
            summary.value.add(tag=as_bytes(tag).decode(), simple_value=float(value))
        return packed(summary)

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
        return packed(summary)

    return Kernel(call)


register(
    "TensorSummaryV2",
    inputs=["tag: string", "tensor: T", "serialized_summary_metadata: string"],
    outputs=["summary: string"],
    attrs=["T: type"],
    shape=lambda _c: SCALAR,
    kernel=_tensor_kernel,
)


# -- histograms --------------------------------------------------------------------------------


@cache
def _bucket_limits() -> Array:
    """TensorFlow's: powers of 1.1 from 1e-12 to 1e20, the same below zero, zero, and the ends."""
    above, limit = [], 1e-12
    while limit < 1e20:
        above.append(limit)
        limit *= 1.1
    above.append(float(np.finfo(np.float64).max))
    return np.array([*(-n for n in reversed(above)), 0.0, *above])


def _histogram_kernel(_node: KernelNode) -> Kernel:
    def call(tag: Any, values: Any) -> Array:
        name = as_bytes(np.asarray(tag, object)[()]).decode()
        flat = np.ravel(np.asarray(values)).astype(np.float64)
        if not np.isfinite(flat).all():
            found = "Nan" if np.isnan(flat).any() else "Infinity"
            raise InvalidArgumentError.without_op(f"{found} in summary histogram for: {name}")
        summary = Summary()
        histogram = summary.value.add(tag=name).histo
        _fill_histogram(histogram, flat)
        return packed(summary)

    return Kernel(call)


def _fill_histogram(histogram: Any, values: Array) -> None:
    limits = _bucket_limits()
    largest = limits[-1]
    # Sums are taken one after the other, as TensorFlow does: the last bit depends on it.
    histogram.num = len(values)
    histogram.min = values.min() if len(values) else largest
    histogram.max = values.max() if len(values) else -largest
    histogram.sum = np.add.accumulate(values)[-1] if len(values) else 0.0
    histogram.sum_squares = np.add.accumulate(values * values)[-1] if len(values) else 0.0
    places = np.searchsorted(limits, values, side="right")
    counts = np.bincount(places, minlength=len(limits))
    # A run of empty buckets becomes one, which ends where the last of them does.
    ends_run = np.append((counts[:-1] > 0) | (counts[1:] > 0), True)
    histogram.bucket_limit.extend(limits[ends_run].tolist())
    histogram.bucket.extend(counts[ends_run].astype(np.float64).tolist())


def _histogram_shape(context: ShapeContext) -> TensorShape:
    exactly_rank(context.input(0), 0)
    found = context.dtypes[1].base_dtype
    if found not in REALS:
        raise TypeError(f"HistogramSummary takes numbers, not {found.name} values.")
    return SCALAR


register(
    "HistogramSummary",
    inputs=["tag: string", "values: T"],
    outputs=["summary: string"],
    attrs=["T: type = float32"],
    shape=_histogram_shape,
    kernel=_histogram_kernel,
)


# -- images ------------------------------------------------------------------------------------

_NEARLY_ZERO = 1e-6


def _image_shape(context: ShapeContext) -> TensorShape:
    exactly_rank(context.input(0), 0)
    exactly_rank(context.input(1), 4)
    return SCALAR


def _as_bytes_of_colour(image: Array, bad: Array) -> Array:
    """Floats as bytes: zero stays in place, the largest magnitude gets the end of the scale."""
    if image.dtype == np.uint8:
        return image
    kind = image.dtype.type  # the arithmetic is in this type, and so is the rounding
    finite = np.isfinite(image)
    sound = finite.all(axis=2)
    known = image[sound]
    low = np.float32(known.min() if known.size else 0)
    high = np.float32(known.max() if known.size else 0)
    if low < 0:
        magnitude, offset, scale = max(abs(low), abs(high)), kind(128), np.float32(127)
    else:
        magnitude, offset, scale = high, kind(0), np.float32(255)
    factor = kind(scale / magnitude if magnitude >= _NEARLY_ZERO else 0)
    scaled = np.where(finite, image, kind(0)) * factor + offset
    pixels: Array = scaled.astype(np.uint8)
    pixels[~sound] = bad[: image.shape[2]]
    return pixels


def _image_kernel(node: KernelNode) -> Kernel:
    most = int(node.attr("max_images"))
    bad = np.asarray(node.attr("bad_color"), np.uint8).reshape(-1)

    def call(tag: Any, images: Any) -> Array:
        if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
            raise InvalidArgumentError.without_op(
                "Tensor must be 4-D with last dim 1, 3, or 4, not "
                f"[{','.join(map(str, images.shape))}]",
            )
        if len(bad) < images.shape[3]:
            raise InvalidArgumentError.without_op(
                f"expected bad_color of {images.shape[3]} channels, found {len(bad)}"
            )
        name = as_bytes(np.asarray(tag, object)[()]).decode()
        summary = Summary()
        for number, image in enumerate(images[:most]):
            own = f"{name}/image" if most == 1 else f"{name}/image/{number}"
            height, width, channels = image.shape
            value = summary.value.add(tag=own)
            value.image.height, value.image.width = height, width
            value.image.colorspace = channels
            value.image.encoded_image_string = encode_png(_as_bytes_of_colour(image, bad))
        return packed(summary)

    return Kernel(call)


register(
    "ImageSummary",
    inputs=["tag: string", "tensor: T"],
    outputs=["summary: string"],
    attrs=[
        "max_images: int = 3",
        "T: type = float32",
        "bad_color: tensor",
    ],
    shape=_image_shape,
    kernel=_image_kernel,
)


def _merge_kernel(_node: KernelNode) -> Kernel:
    def call(*parts: Any) -> Array:
        merged, seen = Summary(), set()
        for part in parts:
            for one in np.asarray(part, dtype=object).reshape(-1):
                for value in Summary.FromString(as_bytes(one)).value:
                    if value.tag in seen:
                        raise InvalidArgumentError.without_op(
                            f"Duplicate tag {value.tag} found in summary inputs"
                        )
                    seen.add(value.tag)
                    merged.value.add().CopyFrom(value)
        return packed(merged)

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
def tagged(name: str, family: str | None, tensor: Any) -> Iterator[tuple[str, str]]:
    """The tag and the name scope of a summary; a family leads both."""
    name, family = _node_name(name) or "", _node_name(family)
    with name_scope(f"{family}/{name}" if family else name, values=[tensor]) as scope:
        tag = scope.rstrip("/")
        yield f"{family}/{tag}" if family else tag, scope


def collected(
    summary: Tensor,
    collections: Iterable[str] | None,
    default: Sequence[str] = (GraphKeys.SUMMARIES,),
) -> Tensor:
    """The summary, among the graph's collections of that name."""
    for key in default if collections is None else collections:
        add_to_collection(key, summary)
    return summary


def scalar(
    name: str, tensor: Any, collections: Iterable[str] | None = None, family: str | None = None
) -> Tensor:
    """A number under a tag, which is the name of the node."""
    with tagged(name, family, tensor) as (tag, scope):
        summary = apply_op("ScalarSummary", tag, tensor, name=scope).values()[0]
    return collected(summary, collections)


def histogram(
    name: str, values: Any, collections: Iterable[str] | None = None, family: str | None = None
) -> Tensor:
    """How the values are distributed, under a tag."""
    with tagged(name, family, values) as (tag, scope):
        summary = apply_op("HistogramSummary", tag, values, name=scope).values()[0]
    return collected(summary, collections)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Iterable[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """The first images of a batch (batch, height, width, 1 or 3 or 4 channels), under a tag.

    Bytes are shown as they are. Floats are scaled so that the largest of each image is white.
    """
    with tagged(name, family, tensor) as (tag, scope):
        summary = apply_op(
            "ImageSummary", tag, tensor, max_images=max_outputs, bad_color=BAD_COLOR, name=scope
        ).values()[0]
    return collected(summary, collections)


def text(name: str, tensor: Any, collections: Iterable[str] | None = None) -> Tensor:
    """Strings under a tag; TensorBoard's page of texts shows them as Markdown.

    `tensor` may also be a plain string or bytes.
    """
    metadata = SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    tensor = convert_to_tensor(tensor)
    if tensor.dtype.base_dtype.name != "string":
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    with tagged(name, None, tensor) as (tag, scope):
        described = metadata.SerializeToString()
        summary = apply_op("TensorSummaryV2", tag, tensor, described, name=scope).values()[0]
    return collected(summary, collections)


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Iterable[str] | None = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Any tensor under a tag, for plugins of TensorBoard's; `summary_metadata` names the plugin.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     found = session.run(tf.summary.tensor_summary("table", [[1, 2], [3, 4]]))
    ...     print(tf.make_ndarray(tf.Summary.FromString(found).value[0].tensor).tolist())
    [[1, 2], [3, 4]]
    """
    metadata = SummaryMetadata()
    if summary_metadata is not None:
        metadata.ParseFromString(summary_metadata.SerializeToString())
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = summary_description
    with tagged(name, family, tensor) as (tag, scope):
        described = metadata.SerializeToString()
        summary = apply_op("TensorSummaryV2", tag, tensor, described, name=scope).values()[0]
    return collected(summary, collections)


def merge(
    inputs: Sequence[Any], collections: Iterable[str] | None = None, name: str | None = None
) -> Tensor:
    """One summary with the values of all of them; a tag that comes twice fails the run."""
    name = _node_name(name)
    with name_scope(name, "Merge", inputs):
        summary = apply_op("MergeSummary", list(inputs), name=name).values()[0]
    return collected(summary, collections, ())


def merge_all(
    key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """One summary with the values of all in a collection of the graph; None if it is empty."""
    summaries = get_collection(key, scope=scope)
    return merge(summaries, name=name) if summaries else None


no_gradient("HistogramSummary", "ImageSummary", "MergeSummary", "ScalarSummary", "TensorSummaryV2")
