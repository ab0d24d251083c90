"""`tf.io`."""

from stepscope.programs.meta_graphs import write_graph
from stepscope.tf1._absent import absent
from stepscope.tf1.io import gfile

__all__ = ["gfile", "write_graph"]

__getattr__ = absent(__name__)
