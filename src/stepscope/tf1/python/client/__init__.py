"""`tensorflow.python.client`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.python.client import session, timeline

__all__ = ["session", "timeline"]

__getattr__ = absent(__name__)
