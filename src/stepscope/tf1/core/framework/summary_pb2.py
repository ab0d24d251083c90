"""`tensorflow.core.framework.summary_pb2`."""

from stepscope._messages import HistogramProto, Summary, SummaryMetadata
from stepscope.tf1._absent import absent

__all__ = ["HistogramProto", "Summary", "SummaryMetadata"]

__getattr__ = absent(__name__)
