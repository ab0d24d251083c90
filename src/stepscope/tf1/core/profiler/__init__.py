"""`tensorflow.core.profiler`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.core.profiler import tfprof_log_pb2, tfprof_options_pb2, tfprof_output_pb2

__all__ = ["tfprof_log_pb2", "tfprof_options_pb2", "tfprof_output_pb2"]

__getattr__ = absent(__name__)
