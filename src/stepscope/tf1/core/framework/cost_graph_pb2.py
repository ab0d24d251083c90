"""`tensorflow.core.framework.cost_graph_pb2`."""

from stepscope._messages import CostGraphDef
from stepscope.tf1._absent import absent

__all__ = ["CostGraphDef"]

__getattr__ = absent(__name__)
