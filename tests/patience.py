"""How long tests wait for what comes soon: limits that only something broken ever reaches.

All of them are stretched by `STEPSCOPE_TEST_PATIENCE`, for machines that are slow or busy.
"""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("STEPSCOPE_TEST_PATIENCE") or 1)


def patient(seconds: float) -> float:
    """So many seconds on a machine that has nothing else to do, as many times longer as asked."""
    return seconds * FACTOR
