"""Fixtures for the adapters."""

from __future__ import annotations

import pytest

from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log import build


@pytest.fixture(scope="session")
def compiled(tensorflow):
    """Our own executor, built if it was not, and not in use."""
    reason = adapter.prepare(250)
    if reason == build.NO_COMPILER:
        pytest.skip(reason)
    assert not reason
    build.turn_off()


@pytest.fixture
def prepared(compiled):
    """Sessions made and functions called in the test are logged; others are not."""
    assert adapter.prepare() == ""
    yield
    build.turn_off()
