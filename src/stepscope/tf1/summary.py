"""`tf.summary`: event files that TensorBoard reads."""

from stepscope._messages import Event, SessionLog, Summary, TaggedRunMetadata
from stepscope.export import FileWriter
from stepscope.tf1._absent import absent

__all__ = ["Event", "FileWriter", "SessionLog", "Summary", "TaggedRunMetadata"]

__getattr__ = absent(__name__)
