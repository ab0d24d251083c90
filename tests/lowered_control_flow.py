"""TensorFlow as the tables of op types compare with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def lowered_control_flow(request: pytest.FixtureRequest) -> Iterator[None]:
    """TensorFlow makes conditionals and loops as TensorFlow 1 did: Switch, Merge, Enter, Exit."""
    if "tf" not in request.fixturenames:
        yield
        return
    tf = request.getfixturevalue("tf")
    was_on = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if was_on:
        tf.enable_control_flow_v2()
