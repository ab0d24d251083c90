"""What `metadata.overhead` says, beside what tracing was seen to cost from outside.

The cost of a traced call is what it takes longer than a plain one: each is compared with the plain
calls next to it, and what was said of it with that. A function has only one first traced call, so
each round makes a fresh one. TensorFlow has its defaults. Said and measured are to agree within 30%
or 5 ms, whichever is larger. Each row answers

    held          in 19 of 20 such measurements the median of how far they are apart is within that
    NOT held      it is outside of that
    cannot tell   the machine was too busy: it may be either

and rounds go on until all rows of their kind can tell, or there were enough of them.

    STEPSCOPE_ROUNDS=20         rounds at most
    STEPSCOPE_KIND_S=300        how long one kind may take
"""

from __future__ import annotations

import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine import OPS, chain
from benchmarks.harness import Result, Spread, clock
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log.build import turn_off
from stepscope.metadata import RunMetadata, programs
from stepscope.metadata.program_notes import COST
from stepscope.options import RunOptions

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)
WARM_UP = 20
LATER = 10
WITHIN, WITHIN_NS = 0.3, 5_000_000
FEWEST: Final = 6
"""Rounds: of fewer figures no interval can be said."""
MOST: Final = int(os.environ.get("STEPSCOPE_ROUNDS", "20"))
KIND_S: Final = float(os.environ.get("STEPSCOPE_KIND_S", "300"))
_SCRIPT = """
import numpy as np, tensorflow as tf

layers = tf.keras.layers
model = tf.keras.Sequential([layers.Input((784,)), layers.Dense(128, activation="relu"),
                             layers.Dropout(0.2), layers.Dense(10)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
random = np.random.default_rng(1)
model.fit(random.random((199 * 32, 784), np.float32), random.integers(0, 10, 199 * 32),
          batch_size=32, verbose=0)
"""
_IN_PROCESSOR_TIME = """
import time
time.perf_counter_ns, time.perf_counter = time.process_time_ns, time.process_time
from stepscope.cli import main
main()
"""
"""`stepscope` with a clock that stands still while the process has no processor."""

Call = tuple[Callable[[], object], Callable[..., object]]
"""A plain call, and the same that takes `run_metadata`."""
Place = dict[str, "Position"]


class Position:
    """The first, the second or a later traced call: what it took longer, and what it said."""

    def __init__(self) -> None:
        self.measured: list[float] = []
        self.said: list[float] = []
        self.processor: list[float] = []
        """What they computed more, on all threads."""

    def add(self, said: float, more: tuple[float, float]) -> None:
        self.said.append(said)
        self.measured.append(more[0])
        self.processor.append(more[1])

    def result(self, what: str) -> Result:
        more = statistics.median(self.processor)
        return agreement(what, self.said, self.measured, f", {more / 1e6:.2f} ms of computing")


def agreement(
    what: str, said: Sequence[float], measured: Sequence[float], besides: str = ""
) -> Result:
    """A row whose two figures are to agree, which were taken in pairs."""
    apart = Spread.of([a - b for a, b in zip(said, measured, strict=True)])
    ours, theirs = statistics.median(said), statistics.median(measured)
    verdict = judged(apart, max(WITHIN * theirs, WITHIN_NS))
    ratio = ours / theirs if theirs > 0 else float("inf")
    return Result(
        what, ours / 1e6, theirs / 1e6, ratio, "30% or 5 ms", _MET[verdict], verdict=verdict,
        note=f"said, and measured{besides}; {apart.median / 1e6:.2f} ms apart, median of "
        f"{len(said)} pairs, 95% of the time between {apart.low / 1e6:.2f} and "
        f"{apart.high / 1e6:.2f}",
    )  # fmt: skip


_MET: Final = {"held": True, "NOT held": False, "cannot tell": None}


def judged(apart: Spread, within: float) -> str:
    """What can be said of figures that are so far apart and should be no more than `within`.

    >>> [judged(Spread(2, *ends), 5) for ends in ((-1, 4), (-1, 6), (7, 9), (-9, -7))]
    ['held', 'cannot tell', 'NOT held', 'NOT held']
    """
    if -within <= apart.low and apart.high <= within:
        return "held"
    return "NOT held" if apart.low > within or apart.high < -within else "cannot tell"


def in_rounds(once: Callable[[Place], None]) -> Place:
    """Positions that each round adds to, until all of them can tell."""
    found: Place = {name: Position() for name in ("first", "second", "later")}
    began = time.monotonic()
    for number in range(1, MOST + 1):
        once(found)
        if number < FEWEST:
            continue
        told = all(place.result("").verdict != "cannot tell" for place in found.values())
        if told or time.monotonic() - began > KIND_S:
            break
    return found


def took(call: Callable[[], object]) -> tuple[int, int]:
    """How long it took, and how long the process computed for it."""
    began, computed = clock(), time.process_time_ns()
    call()
    return clock() - began, time.process_time_ns() - computed


def between(before: Sequence[int], at: Sequence[int], after: Sequence[int]) -> tuple[float, float]:
    """What a call took and computed more than its neighbours."""
    wall, computed = (b - (a + c) / 2 for a, b, c in zip(before, at, after, strict=True))
    return wall, computed


def position(number: int) -> str:
    return ("first", "second")[number] if number < 2 else "later"


def traced_calls(fresh: Callable[[], Call]) -> Place:
    """Traced calls of something made anew in each round, in turns with plain ones."""

    def once(found: Place) -> None:
        plain, traced = fresh()
        for _ in range(WARM_UP):
            plain()
        before = took(plain)
        for number in range(2 + LATER):
            metadata = RunMetadata()
            spent = took(functools.partial(traced, options=FULL, run_metadata=metadata))
            # The call after a traced one finds cold caches; the one after that is as before.
            plain()
            after = took(plain)
            found[position(number)].add(metadata.overhead.ns, between(before, spent, after))
            before = after

    return in_rounds(once)


def of_function(function: Any, x: Any) -> Call:
    return lambda: function(x), lambda **kw: adapter.run(function, x, **kw)


def mobile_net() -> Callable[[], Call]:
    import tensorflow as tf

    model = tf.keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3))
    x = tf.constant(np.random.default_rng(1).random((1, 64, 64, 3), np.float32))
    return lambda: of_function(tf.function(lambda x: model(x, training=False)), x)


def tiny_function() -> Callable[[], Call]:
    import tensorflow as tf

    x = tf.constant(np.full(4, 0.5, np.float32))
    return lambda: of_function(tf.function(_tiny, autograph=False), x)


def tiny_eager() -> Callable[[], Call]:
    import tensorflow as tf

    x = tf.constant(np.full(4, 0.5, np.float32))
    return lambda: (lambda: _tiny(x), lambda **kw: adapter.run(_tiny, x, **kw))


def _tiny(x: Any) -> Any:
    y = x
    for i in range(OPS):
        y = y * x if i % 2 else y + x
    return y


def tiny_session(v1: Any) -> Callable[[], Call]:
    def fresh() -> Call:
        graph = v1.Graph()
        with graph.as_default():
            x, y = chain(v1)
        session = adapter.Session(graph=graph)
        feed = {x: np.full(4, 0.5, np.float32)}
        return lambda: session.run(y, feed), lambda **kw: session.run(y, feed, **kw)

    return fresh


def keras_fit() -> Place:
    """Every third step of a fit is recorded; a model has only one first one."""
    import tensorflow as tf

    from stepscope.adapters.tensorflow.training.keras import TraceCallback

    class Steps(tf.keras.callbacks.Callback):  # type: ignore[misc]
        """Times each step, from the last callback before it to the first one after it."""

        def __init__(self) -> None:
            super().__init__()
            self.took: list[tuple[int, int]] = []

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            self._began = clock(), time.process_time_ns()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            began, computed = self._began
            self.took.append((clock() - began, time.process_time_ns() - computed))

    random = np.random.default_rng(1)
    steps = WARM_UP + 3 * (2 + LATER)
    x, y = random.random((32 * steps, 784), np.float32), random.integers(0, 10, 32 * steps)
    layers = tf.keras.layers

    def once(found: Place) -> None:
        model = tf.keras.Sequential([layers.Input((784,)), layers.Dense(128, activation="relu"),
                                     layers.Dropout(0.2), layers.Dense(10)])  # fmt: skip
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss)
        recorded = TraceCallback(f"{WARM_UP}:{steps}:3", options=FULL)
        timed = Steps()
        model.fit(x, y, batch_size=32, verbose=0, callbacks=[recorded, timed])
        for number, step in enumerate(recorded.steps):
            at = step.step
            # The step after a recorded one finds cold caches.
            more = between(timed.took[at - 1], timed.took[at], timed.took[at + 2])
            found[position(number)].add(step.metadata.overhead.ns, more)

    return in_rounds(once)


def tensorflow_overhead(v1: Any) -> Iterator[Result]:
    """First, second and later traced calls, with the profiler and with our own executor."""
    kinds: dict[str, Callable[[], Place]] = {
        "MobileNetV2, 64x64": lambda: traced_calls(mobile_net()),
        "Keras fit": keras_fit,
        "1,000 tiny ops, function": lambda: traced_calls(tiny_function()),
        "1,000 tiny ops, session": lambda: traced_calls(tiny_session(v1)),
        "1,000 tiny ops, eager": lambda: traced_calls(tiny_eager()),
    }
    for how in ("profiler", "executor"):
        turn_off()
        if how == "executor" and adapter.prepare():
            return
        for what, measure in kinds.items():
            for place, found in measure().items():
                yield found.result(f"overhead of {what}: {place} traced call, {how}")
    turn_off()


def tensorflow_script_overhead(_v1: Any) -> Iterator[Result]:
    """A whole script of 199 Keras steps with `stepscope run` and without, in turns.

    By the wall clock, and by what the processes computed, which says more on a busy machine.
    """
    what = "overhead of `stepscope run`: a script of 199 Keras steps"
    yield from _scripts(what, ["-m", "stepscope", "run"], wall=True)
    computing = ["-c", _IN_PROCESSOR_TIME, "run", "--in-process"]
    yield from _scripts(f"{what}, its computing", computing, wall=False)


def _scripts(what: str, recorded: list[str], *, wall: bool) -> Iterator[Result]:
    said: list[float] = []
    measured: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "fit.py", Path(folder) / "out"
        script.write_text(_SCRIPT)
        sides = [[str(script)], [*recorded, "--out", str(out), str(script)]]
        began = time.monotonic()
        for number in range(1, MOST + 1):
            # Whoever goes first changes from pair to pair.
            took = {side: _process(sides[side], wall=wall) for side in (0, 1)[:: (-1) ** number]}
            measured.append(took[1] - took[0])
            (program,) = programs(out)
            cost = program.last(COST)
            if cost is None:
                raise AssertionError("the recording says no cost")
            said.append(cost.details["total_ns"])
            if number < FEWEST:
                continue
            row = agreement(what, said, measured)
            if row.verdict != "cannot tell" or time.monotonic() - began > KIND_S:
                break
        yield agreement(what, said, measured)


def _process(arguments: list[str], *, wall: bool) -> float:
    """How long Python took with these arguments, or how long it and its children computed."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    began, before = clock(), _children_ns()
    command = [sys.executable, *arguments]
    subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return clock() - began if wall else _children_ns() - before


def _children_ns() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e9


GROUPS = (tensorflow_overhead, tensorflow_script_overhead)
