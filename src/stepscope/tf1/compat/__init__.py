"""`tf.compat`: `v1` is TensorFlow 1's names again; text and bytes."""

from stepscope.tf1.compat import v1
from stepscope.tf1.paths import named

__getattr__, __dir__ = named(__name__)
__all__ = ["v1"]
__all__ += __dir__()
