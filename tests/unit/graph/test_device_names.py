"""Names of devices, as TensorFlow reads and completes them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

import stepscope.tf1 as tf1

NAMES = [
    ["/cpu"], ["cpu"], ["CPU"], ["/cpu:0"], ["/cpu:*"], ["/gpu"], ["/gpu:1"], ["/tpu"],
    ["/device:CPU:0"], ["/device:CPU:*"], ["/device:XLA_CPU:0"], ["/job:a/cpu"], ["/replica:0/cpu"],
    ["/job:a/task:1/cpu:0"], ["/job:*"], ["/job:worker/replica:0/task:3"], ["//cpu:0"], ["/cpu:0/"],
    ["/job:a", "/cpu"], ["/cpu", "/job:a"], ["/cpu:1", "/cpu"], ["/gpu:1", "/cpu:*"],
    ["/cpu:1", None], ["/cpu:1", ""], ["/job:a/cpu:1", "/job:b"],
    ["/device:CPU"], ["/foo"], ["/foo:0"], ["cpu:x"], ["/cpu/gpu"], ["/task:x"],
]  # fmt: skip


def device_of(tf: Any, names: list[str | None]) -> str:
    """The device of a node made in nested scopes; the class of the error if one is refused."""
    with tf.Graph().as_default(), ExitStack() as scopes:
        try:
            for name in names:
                scopes.enter_context(tf.device(name))
            return str(tf.constant(1).device)
        except ValueError as error:
            return type(error).__name__


@pytest.mark.tensorflow
@pytest.mark.parametrize("names", NAMES, ids=" in ".join(["{}"]).format)
def test_devices(tf: Any, names: list[str | None]) -> None:
    assert device_of(tf1, names) == device_of(tf, names)


def test_a_device_without_a_number_is_any_of_its_type() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        with tf1.device("/cpu"):
            doubled = tf1.constant(2) * 2
        assert doubled.device == "/device:CPU:*"
        assert session.run(doubled) == 4
