"""The rules, one file each: what to look for, and what a change would gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rules import (
    copies,
    dead_fetches,
    fed_constants,
    input_bound,
    large_tensor,
    leak,
    python_ops,
    recompute,
    retracing,
    serial_path,
    summaries,
    tiny_ops,
    wrong_device,
)

__all__ = ["RULES"]

Rule = Callable[[Material], Iterator[Finding]]

RULES: Final[dict[str, Rule]] = {
    copies.NAME: copies.find,
    dead_fetches.NAME: dead_fetches.find,
    fed_constants.NAME: fed_constants.find,
    input_bound.NAME: input_bound.find,
    large_tensor.NAME: large_tensor.find,
    leak.NAME: leak.find,
    python_ops.NAME: python_ops.find,
    recompute.NAME: recompute.find,
    retracing.NAME: retracing.find,
    serial_path.NAME: serial_path.find,
    summaries.NAME: summaries.find,
    tiny_ops.NAME: tiny_ops.find,
    wrong_device.NAME: wrong_device.find,
}
"""By the name that their findings have."""
