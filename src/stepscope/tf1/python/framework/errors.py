"""`tensorflow.python.framework.errors`."""

from typing import Any

from stepscope.tf1 import errors as _errors


def __getattr__(name: str) -> Any:
    return getattr(_errors, name)
