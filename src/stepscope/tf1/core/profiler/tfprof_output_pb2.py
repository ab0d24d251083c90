"""`tensorflow.core.profiler.tfprof_output_pb2`."""

from stepscope.metadata.profile_messages import (
    AdviceProto,
    GraphNodeProto,
    MultiGraphNodeProto,
    TFProfTensorProto,
)
from stepscope.tf1._absent import absent

__all__ = ["AdviceProto", "GraphNodeProto", "MultiGraphNodeProto", "TFProfTensorProto"]

__getattr__ = absent(__name__)
