"""`tensorflow.python.framework.dtypes`."""

from typing import Any

from stepscope.tf1 import dtypes as _dtypes


def __getattr__(name: str) -> Any:
    return getattr(_dtypes, name)
