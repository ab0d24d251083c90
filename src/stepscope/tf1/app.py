"""`tf.app`."""

from stepscope.programs.flags import run
from stepscope.tf1 import flags
from stepscope.tf1._absent import absent

__all__ = ["flags", "run"]

__getattr__ = absent(__name__)
