"""`tensorflow.python.client.timeline`."""

from stepscope.export import Timeline
from stepscope.tf1._absent import absent

__all__ = ["Timeline"]

__getattr__ = absent(__name__)
