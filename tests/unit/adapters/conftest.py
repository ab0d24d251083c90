"""Fixtures for the adapters."""

from __future__ import annotations

import pytest

from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow import node_log_build


@pytest.fixture(scope="session")
def compiled(tensorflow):
    """Our own executor, built if it was not, and not in use."""
    reason = adapter.prepare(250)
    if reason == node_log_build.NO_COMPILER:
        pytest.skip(reason)
    assert not reason
    node_log_build.turn_off()


@pytest.fixture
def prepared(compiled):
    """Sessions made and functions called in the test are logged; others are not."""
    assert adapter.prepare() == ""
    yield
    node_log_build.turn_off()
