"""The part of `tensorflow.python` that programs import from."""

from stepscope.tf1._absent import absent
from stepscope.tf1.python import client, framework, platform

__all__ = ["client", "framework", "platform"]

__getattr__ = absent(__name__)
