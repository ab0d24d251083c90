"""`tensorflow.core.profiler.tfprof_options_pb2`."""

from stepscope.metadata.profile_messages import AdvisorOptionsProto, OptionsProto
from stepscope.tf1._absent import absent

__all__ = ["AdvisorOptionsProto", "OptionsProto"]

__getattr__ = absent(__name__)
