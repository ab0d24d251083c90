"""`tensorflow.core.framework.attr_value_pb2`."""

from stepscope._messages import AttrValue, NameAttrList
from stepscope.tf1._absent import absent

__all__ = ["AttrValue", "NameAttrList"]

__getattr__ = absent(__name__)
