"""`tensorflow.python.client.session`."""

from stepscope.runtime import InteractiveSession, Session
from stepscope.tf1._absent import absent

__all__ = ["InteractiveSession", "Session"]

__getattr__ = absent(__name__)
