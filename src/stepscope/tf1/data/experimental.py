"""`tf.data.experimental`."""

from stepscope.programs.data.experimental import *  # noqa: F403
from stepscope.programs.data.experimental import __all__ as _names
from stepscope.tf1._absent import absent

__all__ = [name for name in _names if name != "batch_and_drop_remainder"]

__getattr__ = absent(__name__)
