"""Programs that several of the contract's tests run, and threads that do so side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from patience import patient

IN_TIME_MS = int(patient(20) * 1000)
"""A deadline that only something broken misses."""
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


SEQUENCES = {"x": np.sin(np.arange(24, dtype=np.float32)).reshape(2, 4, 3)}
"""The feeds of `recurrent`: two sequences of four steps."""


def recurrent(function: Callable[[Any, Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """A recurrent network in a loop, and its gradients.

    In each step `function(number of the step, state)` looks at the state, which it gives back.
    """

    def build(ops: Any) -> dict[str, Any]:
        x = ops.placeholder(ops.float32, [2, 4, 3], name="x")
        kernel = ops.constant(np.cos(np.arange(15, dtype=np.float32)).reshape(5, 3) * 0.5)
        steps = ops.TensorArray(ops.float32, 4).unstack(ops.transpose(x, [1, 0, 2]))

        def step(i: Any, state: Any, made: Any) -> Any:
            seen = ops.py_func(function, [i, state], ops.float32, name="inside")
            with ops.control_dependencies([seen]):
                joined = ops.concat([steps.read(i), state[:, :2]], 1)
            state = ops.tanh(ops.matmul(joined, kernel, name="product"))
            return i + 1, state, made.write(i, state)

        start = (ops.constant(0), ops.zeros([2, 3]), ops.TensorArray(ops.float32, 4))
        _, state, made = ops.while_loop(lambda i, *_: i < 4, step, start)
        loss = ops.add(ops.reduce_sum(made.stack()), ops.reduce_sum(ops.square(state)), name="loss")
        return {"x": x, "loss": loss, "slope": ops.gradients(loss, x)[0]}

    return build


def recurrent_slope(x: Any) -> tuple[float, Any]:
    """What `recurrent` gives for `loss` and, by small differences, for `slope`."""
    kernel = np.cos(np.arange(15, dtype=np.float32)).reshape(5, 3).astype(np.float64) * 0.5

    def loss(x: Any) -> float:
        state, total = np.zeros((2, 3)), 0.0
        for i in range(4):
            state = np.tanh(np.concatenate([x[:, i], state[:, :2]], 1) @ kernel)
            total += state.sum()
        return float(total + (state**2).sum())

    x = x.astype(np.float64)
    slope = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        shift = np.zeros_like(x)
        shift[at] = 1e-5
        slope[at] = (loss(x + shift) - loss(x - shift)) / 2e-5
    return loss(x), slope


def pipeline(ops, function=None):
    """take -> after: batches of a dataset, whose elements `function` (in Python) looks at."""

    def looked_at(x):
        if function is None:
            return x
        found = ops.py_func(function, [x], ops.int64)
        found.set_shape([])
        return found

    dataset = ops.data.Dataset.range(6).map(lambda x: 10 * looked_at(x)).batch(2).prefetch(1)
    take = ops.data.make_one_shot_iterator(dataset).get_next("take")
    return {"take": take, "after": ops.add(take, 1, name="after")}
