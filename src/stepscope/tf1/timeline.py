"""`tensorflow.python.client.timeline`, and the `TimeLiner` that merges several."""

from stepscope.export import Timeline, TimeLiner
from stepscope.tf1._absent import absent

__all__ = ["TimeLiner", "Timeline"]

__getattr__ = absent(__name__)
