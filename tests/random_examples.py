"""How many examples a random test tries, and whether they are the same on every run.

They are, unless STEPSCOPE_HYPOTHESIS=search asks for others, and for thousands of them.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
_SEARCHED = 2000

settings.register_profile("same", derandomize=True, database=None, max_examples=200, **_COMMON)
settings.register_profile("search", max_examples=_SEARCHED, **_COMMON)
_PROFILE = os.environ.get("STEPSCOPE_HYPOTHESIS", "same")
settings.load_profile(_PROFILE)


def examples(count: int) -> settings:
    """`count` examples, or as many as a search tries."""
    return settings(max_examples=count if _PROFILE == "same" else _SEARCHED)
