"""`tf.summary`: event files that TensorBoard reads, and ops that pack values for them."""

from stepscope._messages import Event, SessionLog, Summary, TaggedRunMetadata
from stepscope.export import FileWriter
from stepscope.ops.io.audio_summaries import audio
from stepscope.ops.io.summaries import (
    histogram,
    image,
    merge,
    merge_all,
    scalar,
    tensor_summary,
    text,
)
from stepscope.programs.summary_writers import FileWriterCache
from stepscope.tf1._absent import absent

__all__ = [
    "Event", "FileWriter", "FileWriterCache", "SessionLog", "Summary", "TaggedRunMetadata",
    "audio", "histogram", "image", "merge", "merge_all", "scalar", "tensor_summary", "text",
]  # fmt: skip

__getattr__ = absent(__name__)
