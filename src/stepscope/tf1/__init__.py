"""TensorFlow 1's names over the embedded engine: `import stepscope.tf1 as tf`.

Names only. Each is what TensorFlow 1 calls it, and is defined in the room it belongs to: `names`
says where. A name that is not here is an `AttributeError` that lists what is close.
"""

from stepscope import ops as _ops  # noqa: F401 - a graph that is imported may have any op type
from stepscope.tf1 import compat, paths, test, version

paths.install()

newaxis = None
VERSION = version.VERSION
__version__ = VERSION

__getattr__, __dir__ = paths.named(__name__)
__all__ = ["VERSION", "__version__", "compat", "newaxis", "test", "version"]
__all__ += __dir__()
