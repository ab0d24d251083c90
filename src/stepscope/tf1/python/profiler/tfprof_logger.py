"""`tensorflow.python.profiler.tfprof_logger`."""

from stepscope.analysis.model_profile import TRAINABLE as TRAINABLE_VARIABLES
from stepscope.programs.profiler import merge_default_with_oplog, write_op_log
from stepscope.tf1._absent import absent

__all__ = ["TRAINABLE_VARIABLES", "merge_default_with_oplog", "write_op_log"]

__getattr__ = absent(__name__)
