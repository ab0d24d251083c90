"""Comparing what two engines computed."""

import pytest


def near(value):
    """The value, floats within what sums in another order may differ by."""
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    if isinstance(value, list):
        return [near(item) for item in value]
    return pytest.approx(value, abs=3e-5) if isinstance(value, float) else value
