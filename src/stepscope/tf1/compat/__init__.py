"""`tf.compat`: `v1` is TensorFlow 1's names again; text and bytes."""

from stepscope.tf1._absent import absent
from stepscope.tf1.compat import v1
from stepscope.tf1.compat.text import as_bytes, as_str, as_str_any, as_text

__all__ = ["as_bytes", "as_str", "as_str_any", "as_text", "v1"]

__getattr__ = absent(__name__)
