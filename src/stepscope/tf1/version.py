"""`tf.version`: what programs ask before they run."""

import platform

from stepscope.tf1._absent import absent

VERSION = "1.15.0+stepscope"
GIT_VERSION = "stepscope"
COMPILER_VERSION = platform.python_compiler()
GRAPH_DEF_VERSION = 134
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0

__all__ = [
    "COMPILER_VERSION", "GIT_VERSION", "GRAPH_DEF_VERSION", "GRAPH_DEF_VERSION_MIN_CONSUMER",
    "GRAPH_DEF_VERSION_MIN_PRODUCER", "VERSION",
]  # fmt: skip

__getattr__ = absent(__name__)
