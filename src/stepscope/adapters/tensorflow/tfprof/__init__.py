"""What TensorFlow 1 had as `tf.contrib.tfprof`, on a TensorFlow that has no contrib any more."""

from stepscope.adapters.tensorflow.tfprof import model_analyzer, tfprof_logger
from stepscope.adapters.tensorflow.tfprof.model_analyzer import ProfileContext

__all__ = ["ProfileContext", "model_analyzer", "tfprof_logger"]
