"""`tf.contrib.tfprof.tfprof_logger`."""

from stepscope.programs.profiler import write_op_log
from stepscope.tf1._absent import absent

__all__ = ["write_op_log"]

__getattr__ = absent(__name__)
