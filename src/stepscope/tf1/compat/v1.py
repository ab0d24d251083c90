"""`tf.compat.v1`: what `tf` itself is."""

import sys
from typing import Any

_TOP = "stepscope.tf1"


def __getattr__(name: str) -> Any:
    # The top module imports this one, so it is looked up when it is needed.
    return getattr(sys.modules[_TOP], name)


def __dir__() -> list[str]:
    return dir(sys.modules[_TOP])
