"""Names of any length as a drawing can carry them."""

from __future__ import annotations

from typing import Final

__all__ = ["shortened"]

_MOST: Final = 200


def shortened(name: str) -> str:
    """The name, with an ellipsis in its middle where it is longer than a drawing shows anyway."""
    if len(name) <= _MOST:
        return name
    half = _MOST // 2
    return f"{name[:half]}…{name[-half:]}"
