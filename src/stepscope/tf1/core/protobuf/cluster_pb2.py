"""`tensorflow.core.protobuf.cluster_pb2`."""

from stepscope.options import ClusterDef, JobDef
from stepscope.tf1._absent import absent

__all__ = ["ClusterDef", "JobDef"]

__getattr__ = absent(__name__)
