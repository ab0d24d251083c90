"""What the machine was like in each run, seen from one node by all the others, and taken away.

Within a run that the machine made slow, nearly all nodes are slow, each by a part of its own. So
how far the other nodes lie from their usual times tells a good deal about one node's time that has
nothing to do with the program. How much narrower the noise becomes without it depends on the
machine: by little where nothing else runs, by up to a half for some nodes where other work does.

Where no node changed, what is taken away depends on the runs and not on the side they belong to, so
runs may be dealt anew to the two sides afterwards. A node that changed is not pace: what exceeds
chance in the difference between its sides is left out of what it tells about the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["steadied"]

_LEAST_NOISE = 0.02
_FAR = 2.0
_CHANCE = 2.5


def steadied(logs: Floats, base: int) -> Floats:
    """The logarithms of times, a row per node and a column per run, as in runs of equal pace.

    The first `base` columns are one side's.
    """
    runs = logs.shape[1]
    usual = np.median(logs, axis=1, keepdims=True)
    noise = np.maximum(
        1.4826 * np.median(np.abs(logs - usual), axis=1, keepdims=True), _LEAST_NOISE
    )
    away = (logs - usual) / noise
    apart = np.median(away[:, base:], axis=1) - np.median(away[:, :base], axis=1)
    # The error of a difference of medians, as for a normal distribution.
    chance = _CHANCE * 1.25 * np.sqrt(1 / base + 1 / (runs - base))
    changed = np.sign(apart) * np.maximum(np.abs(apart) - chance, 0)
    away[:, base:] -= changed[:, None]
    away = np.clip(away, -_FAR, _FAR)
    others = (away.sum(axis=0) - away) / (len(away) - 1)
    others -= others.mean(axis=1, keepdims=True)
    own = away - away.mean(axis=1, keepdims=True)
    power = np.maximum((others**2).sum(axis=1), 1e-12)
    slope = np.maximum((own * others).sum(axis=1) / power, 0)
    steady: Floats = logs - slope[:, None] * noise * others
    return steady
