"""Random tests that are the same on every run, unless STEPSCOPE_HYPOTHESIS asks for more."""

import os

from hypothesis import HealthCheck, settings

_COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("same", derandomize=True, database=None, max_examples=200, **_COMMON)
settings.register_profile("search", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("STEPSCOPE_HYPOTHESIS", "same"))
