"""`tensorflow.python.platform`."""

from stepscope.tf1 import app, flags, gfile
from stepscope.tf1 import logging as tf_logging
from stepscope.tf1._absent import absent

__all__ = ["app", "flags", "gfile", "tf_logging"]

__getattr__ = absent(__name__)
