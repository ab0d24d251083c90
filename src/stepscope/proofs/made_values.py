"""Values for what a step was fed, of which a recording has the type and the shape.

Numbers are between 0 and 1, so that logarithms and roots of them are numbers, too; whole ones are 0
and 1, which are indices of whatever has two entries. How long an op takes hardly ever depends on
more than that. Where it does (a branch that a value decides, a loop that it ends), other nodes
execute than were recorded: `choices` has what to try, and whoever uses them compares.

>>> x = FedTensor("x:0", 1, (2, 3))
>>> made(x, Choice(), seed=1).shape, made(FedTensor("on:0", 10, ()), Choice(truth=True)).item()
((2, 3), True)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.graph.dtypes import as_dtype
from stepscope.proofs.recorded_step import FedTensor

__all__ = ["Choice", "choices", "made"]


@dataclass(frozen=True, slots=True)
class Choice:
    """How values are made: what is fed for truth values, and the highest of whole numbers."""

    truth: bool = False
    most: int = 1


def choices() -> Iterator[Choice]:
    """What to try, the likeliest first."""
    for most in (1, 0):
        yield Choice(False, most)
        yield Choice(True, most)


def made(fed: FedTensor, choice: Choice, seed: int = 0) -> Any:
    """A value for a tensor; another one for another seed."""
    rng = np.random.default_rng([seed, len(fed.name)])
    dtype = as_dtype(fed.dtype)
    if dtype.name == "string":
        found = np.empty(fed.shape, object)
        found.fill(b"0")
        return found
    if dtype.name == "bool":
        return np.full(fed.shape, choice.truth)
    if dtype.is_integer:
        if not fed.shape:
            return np.asarray(choice.most, dtype.numpy)
        return rng.integers(0, choice.most + 1, fed.shape).astype(dtype.numpy)
    return rng.random(fed.shape).astype(dtype.numpy)
