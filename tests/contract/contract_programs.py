"""Programs that several of the contract's tests run, and threads that do so side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

FED = {"x": np.array([1.0, 2.0], np.float32)}
"""The feeds of `around` and `on_three_devices`."""


def around(function: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """before -> inside (a Python function) -> after"""

    def build(ops: Any) -> dict[str, Any]:
        x = ops.placeholder(ops.float32, [2], name="x")
        before = ops.add(x, 1.0, name="before")
        inside = ops.py_func(function, [before], ops.float32, name="inside")
        return {
            "x": x, "before": before, "inside": inside,
            "after": ops.multiply(inside, 2.0, name="after"),
        }  # fmt: skip

    return build


def side_by_side(works: Iterable[Callable[[], None]], seconds: float = 120) -> None:
    """Do all of these at once, each on a thread of its own; what one raises is raised."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(w,), daemon=True) for w in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive()
    for failure in failures:
        raise failure


def on_three_devices(ops):
    x = ops.placeholder(ops.float32, [2], name="x")
    with ops.device("/cpu:1"):
        y = ops.add(x, x, name="y")
    with ops.device("/cpu:2"):
        z = ops.multiply(y, y, name="z")
    return {"x": x, "y": y, "z": z}
