"""Fixtures for the tests of the adapter."""

from __future__ import annotations

import pytest
from cluster_servers import Servers


@pytest.fixture(scope="session")
def servers(tensorflow):
    """One parameter server and one worker, for all tests; what they are given is named apart."""
    with Servers(ps=1, worker=1) as running:
        yield running
