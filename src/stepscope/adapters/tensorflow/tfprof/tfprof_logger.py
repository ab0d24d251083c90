"""`tf.contrib.tfprof.tfprof_logger`."""

from tensorflow.compat.v1.profiler import write_op_log

__all__ = ["write_op_log"]
