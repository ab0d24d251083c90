"""Summaries of sounds: waves between -1 and 1, packed as WAV files of 16 bits."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from stepscope._messages import Summary
from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array, float32
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import SCALAR, TensorShape
from stepscope.graph.tensor_proto import as_bytes
from stepscope.ops.io.summaries import collected, packed, tagged
from stepscope.ops.signatures import at_least_rank, exactly_rank

_LARGEST, _SMALLEST = 32767.0, -32768.0


def _wav(waves: Array, rate: int) -> bytes:
    """The bytes of a WAV file; `waves` has a row per moment and a column per channel."""
    scaled = waves.astype(np.float32) * np.float32(32768)
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))  # halves away from zero
    data: bytes = np.clip(rounded, _SMALLEST, _LARGEST).astype("<i2").tobytes()
    channels = waves.shape[1]
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, channels),
        *(rate, rate * channels * 2, channels * 2, 16, b"data", len(data)),
    )
    return header + data


def _kernel(node: KernelNode) -> Kernel:
    most = int(node.attr("max_outputs"))

    def call(tag: Any, tensor: Array, rate: Any) -> Array:
        hertz = float(np.asarray(rate)[()])
        if tensor.ndim not in (2, 3):
            raise InvalidArgumentError.without_op(
                f"Tensor must be 3-D or 2-D, got: [{','.join(map(str, tensor.shape))}]"
            )
        if hertz <= 0:
            raise InvalidArgumentError.without_op("sample_rate must be > 0")
        sounds = tensor if tensor.ndim == 3 else tensor[:, :, None]
        name = as_bytes(np.asarray(tag, object)[()]).decode()
        summary = Summary()
        for number, waves in enumerate(sounds[:most]):
            own = f"{name}/audio" if most == 1 else f"{name}/audio/{number}"
            audio = summary.value.add(tag=own).audio
            audio.sample_rate, audio.num_channels = hertz, waves.shape[1]
            audio.length_frames = waves.shape[0]
            audio.encoded_audio_string = _wav(waves, int(hertz))
            audio.content_type = "audio/wav"
        return packed(summary)

    return Kernel(call)


def _shape(context: ShapeContext) -> TensorShape:
    exactly_rank(context.input(0), 0)
    at_least_rank(context.input(1), 2)
    return SCALAR


register(
    "AudioSummaryV2",
    inputs=["tag: string", "tensor: float32", "sample_rate: float32"],
    outputs=["summary: string"],
    attrs=["max_outputs: int = 3"],
    shape=_shape,
    kernel=_kernel,
)
no_gradient("AudioSummaryV2")


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Iterable[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """The first sounds of a batch (batch, moments, channels), between -1 and 1, under a tag.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     found = session.run(tf.summary.audio("tone", tf.zeros([1, 8, 2]), 8000.0))
    ...     print(tf.Summary.FromString(found).value[0].audio.length_frames)
    8
    """
    with tagged(name, family, tensor) as (tag, scope):
        rate = convert_to_tensor(sample_rate, float32, "sample_rate")
        summary = apply_op(
            "AudioSummaryV2", tag, tensor, rate, max_outputs=max_outputs, name=scope
        ).values()[0]
    return collected(summary, collections)
