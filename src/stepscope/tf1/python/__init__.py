"""The part of `tensorflow.python` that programs import from."""

from stepscope.tf1._absent import absent
from stepscope.tf1.python import client, framework, platform, profiler

__all__ = ["client", "framework", "platform", "profiler"]

__getattr__ = absent(__name__)
