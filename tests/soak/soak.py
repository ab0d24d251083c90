"""Many threads, for minutes: no hang, no wrong value, deadlines kept, memory flat.

    python tests/soak/soak.py [--engine embedded|tensorflow] [--minutes 10]

Threads (64 on the embedded engine, 8 on TensorFlow functions) run one program in ways chosen at
random: untraced, traced at each level, failing, and past a deadline. Each run is checked on the
spot: its value, its status, the op that was to blame, the ops that were recorded. A thread that
makes no progress for two minutes is a hang: where every thread stands is printed, and the program
ends with 1. At the end come two tables: how late control came back after a deadline (and how long
it took from then to see what had been in flight), and what the process held as time went on. The
second is followed by a verdict, flat or not, and the rule that it goes by (`growth`): not flat is
wrong, too.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import itertools
import os
import random
import resource
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DEADLINE_MS = 100
STUCK_AFTER_S = 120
ALLOWED_GROWTH = 0.10
"""By how much of its mean a figure may grow in the second half of the time, and still be flat."""
SLACK = {"resident bytes": 48 << 20, "open files": 8}
"""What it may grow by in any case: an allocator keeps some; a leak of one run's metadata passes it
within a minute."""

TRACED = ", traced"
"""How the kinds of run end whose untraced one is called the same without it."""
MOST_TIMES_LATER, MORE_LATER_S = 20, 1.0
"""A traced deadline may be this much later than an untraced one, as a rule."""
Late = tuple[float, float]
"""How long after its deadline control came back, and then until its status was there: seconds."""


class Wrong(Exception):
    """A run that was not what it had to be."""


def check(found: Any, expected: Any, what: str) -> None:
    """Fail with both values unless they are equal."""
    if found != expected:
        raise Wrong(f"{what}: {found!r}, not {expected!r}")


class Soak:
    """The threads, what they did, and the watch over them."""

    def __init__(self, kinds: dict[str, Callable[[random.Random], Late | None]], threads: int):
        self._kinds = kinds
        self._threads = threads
        self._progress = [time.monotonic()] * threads
        self._over = threading.Event()
        self.done: Counter[str] = Counter()
        self.lateness: defaultdict[str, list[Late]] = defaultdict(list)
        self.problems: list[str] = []
        self.held: list[tuple[float, int, int, int]] = []
        """Over time: seconds, resident bytes, threads, open files."""

    def run(self, seconds: float, seed: int) -> None:
        """Run for so long; the first problem ends it."""
        began = time.monotonic()
        workers = [
            threading.Thread(target=self._work, args=(i, random.Random(f"{seed} {i}")), daemon=True)
            for i in range(self._threads)
        ]
        for worker in workers:
            worker.start()
        while not self._over.wait(timeout=min(1.0, seconds / 100)):
            now = time.monotonic()
            self.held.append(
                (now - began, resident_bytes(), threading.active_count(), open_files())
            )
            if now - min(self._progress) > STUCK_AFTER_S:
                faulthandler.dump_traceback(all_threads=True)
                sys.exit(f"a thread made no progress for {STUCK_AFTER_S} s: see above")
            if now - began > seconds:
                self._over.set()
        for worker in workers:
            worker.join(STUCK_AFTER_S)
            if worker.is_alive():
                faulthandler.dump_traceback(all_threads=True)
                sys.exit("a thread did not end: see above")

    def _work(self, number: int, choice: random.Random) -> None:
        names = list(self._kinds)
        while not self._over.is_set():
            name = choice.choice(names)
            try:
                late = self._kinds[name](choice)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
                self.problems.append(f"{name}: {type(error).__name__}: {error}")
                self._over.set()
                return
            self.done[name] += 1
            if late is not None:
                self.lateness[name].append(late)
            self._progress[number] = time.monotonic()

    def report(self) -> bool:
        """Print what was done; whether all of it was right."""
        for name, count in sorted(self.done.items()):
            print(f"  {name:24}{count:>10,} runs")
        print("\n  late after a deadline (ms)      median      p99      max   then status      max")
        for name, times in sorted(self.lateness.items()):
            late, looked = np.array(times).T * 1e3
            print(
                f"  {name:28}{np.median(late):>10.1f}{np.quantile(late, 0.99):>9.1f}"
                f"{late.max():>9.1f}{np.median(looked):>14.1f}{looked.max():>9.1f}"
            )
        print("\n  after (s)      resident MB   threads   open files")
        for row in self.held[:: max(1, len(self.held) // 8)]:
            print(f"  {row[0]:>8.0f}{row[1] / 2**20:>16.0f}{row[2]:>10}{row[3]:>13}")
        self.problems += self._growth() + self._too_late()
        for problem in self.problems:
            print(f"  WRONG {problem}")
        return not self.problems

    def _too_late(self) -> list[str]:
        """Where tracing, and not the machine, kept control from coming back."""
        usual = {name: np.median(times, axis=0)[0] for name, times in self.lateness.items()}
        found = []
        for name, late in usual.items():
            plain = usual.get(name.removesuffix(TRACED), late)
            if late > MOST_TIMES_LATER * max(0.0, plain) + MORE_LATER_S:
                found.append(f"{name}: {late:.1f} s late as a rule, untraced {plain:.1f} s")
        return found

    def _growth(self) -> list[str]:
        """Say of what the process held whether it was flat; what was not."""
        times = [row[0] for row in self.held]
        found = []
        for column, name in ((1, "resident bytes"), (3, "open files")):
            grown = growth(times, [row[column] for row in self.held], SLACK[name])
            if grown is None:
                continue
            flat = grown.by <= grown.allowed
            said = (
                f"{name} {'flat' if flat else 'NOT FLAT'}: by least squares {grown.by:+,.0f} in "
                f"the second half of the time, {grown.allowed:,.0f} allowed "
                f"({ALLOWED_GROWTH:.0%} of the mean, {SLACK[name]:,} at least)"
            )
            print(f"  {said}")
            found += [] if flat else [said]
        return found


class Growth(NamedTuple):
    """By how much something grew in the second half of the time, and may have."""

    by: float
    allowed: float


def growth(times: Sequence[float], values: Sequence[float], slack: float) -> Growth | None:
    """The slope of the least squares through the second half, times its length; None of too few.

    >>> growth([0, 1, 2, 3, 4, 5, 6, 7], [9, 9, 5, 5, 6, 7, 8, 9], slack=1)
    Growth(by=3.0, allowed=1)
    """
    half = slice(len(times) // 2, None)
    time_s, value = np.array(times[half], float), np.array(values[half], float)
    if len(value) < 4:
        return None
    slope = float(np.polyfit(time_s, value, 1)[0])
    by = round(slope * float(time_s[-1] - time_s[0]), 6)
    return Growth(by, max(slack, ALLOWED_GROWTH * float(value.mean())))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def late_by(call: Callable[[], Any], error: type[BaseException], op: str | None) -> Late:
    """How late a call came back; its metadata must name the op in flight, where that is known."""
    began = time.monotonic()
    try:
        call()
    except error as raised:
        back = time.monotonic()
        status = raised.run_metadata.status  # type: ignore[attr-defined]
        looked = time.monotonic() - back
        check(status.code, "DEADLINE_EXCEEDED", "status")
        # On a crowded pool the run may not have come to that op.
        if op is not None and not set(status.in_flight) <= {op}:
            raise Wrong(f"in flight: {status.in_flight}, not {op}") from None
        return back - began - DEADLINE_MS / 1e3, looked
    raise Wrong("no deadline was met")


# -- the embedded engine -----------------------------------------------------------------------


def embedded() -> dict[str, Callable[[random.Random], Late | None]]:
    """One session of a graph with something of everything."""
    import stepscope.tf1 as tf

    given_up: dict[int, threading.Event] = {}

    def asleep(call: Any) -> Any:
        """Goes on for a while after its caller has control again, however late that was."""
        control = given_up.get(int(call))
        if control is not None:
            control.wait(STUCK_AFTER_S)
        time.sleep(DEADLINE_MS / 1e3)
        return call

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [8, 8], name="x")
        wide = [tf.matmul(x, x + float(i), name=f"wide{i}") for i in range(4)]
        total = tf.reduce_sum(tf.add_n(wide), name="total")
        counted = tf.while_loop(lambda i, _: i < 5, lambda i, v: (i + 1, v + x), [0, x])[1]
        with tf.control_dependencies([tf.Assert(tf.reduce_sum(x) < 0.0, [x], name="refuse")]):
            refused = tf.identity(x)
        queue = tf.FIFOQueue(1, [tf.float32], name="never_filled")
        blocked = queue.dequeue(name="take")
        call = tf.placeholder(tf.int64, [], name="call")
        sleeping = tf.py_func(asleep, [call], tf.int64, name="asleep")
        endless = tf.while_loop(lambda i: i >= 0, lambda i: i * 0, [0])
    session = tf.Session(graph=graph, config=tf.ConfigProto(inter_op_parallelism_threads=8))
    names = {op.name for op in (*(w.op for w in wide), total.op)}
    deadline = tf.RunOptions(timeout_in_ms=DEADLINE_MS)

    def values(choice: random.Random) -> tuple[Any, float]:
        value = choice.randrange(1, 5)
        fed = np.full((8, 8), value, np.float32)
        return {x: fed}, float(sum(64 * 8 * value * (value + i) for i in range(4)))

    def plain(choice: random.Random) -> None:
        fed, expected = values(choice)
        check(float(session.run(total, fed)), expected, "total")

    def traced(level: int) -> Callable[[random.Random], None]:
        def run(choice: random.Random) -> None:
            fed, expected = values(choice)
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=level)
            got = session.run(total, fed, options=options, run_metadata=metadata)
            check(float(got), expected, "total")
            check(names - set(metadata.ops.name), set(), "ops that were not recorded")
            check(metadata.completeness.complete, True, "completeness")

        return run

    def loop(choice: random.Random) -> None:
        fed, _ = values(choice)
        check(float(session.run(counted, fed)[0, 0]), 6.0 * fed[x][0, 0], "loop")

    def failing(choice: random.Random) -> None:
        try:
            session.run(refused, values(choice)[0])
        except tf.errors.InvalidArgumentError as error:
            check(error.run_metadata.status.in_flight, ["refuse/Assert"], "in flight")
            return
        raise Wrong("nothing was refused")

    def late(fetch: Any, fed: Any, op: str | None) -> Late:
        return late_by(
            lambda: session.run(fetch, fed, options=deadline), tf.errors.DeadlineExceededError, op
        )

    calls = itertools.count()

    def late_asleep(_: random.Random) -> Late:
        number = next(calls)
        given_up[number] = threading.Event()
        try:
            return late(sleeping, {call: number}, "asleep")
        finally:
            given_up.pop(number).set()

    return {
        "plain": plain, "software": traced(1), "full": traced(3), "loop": loop,
        "failing": failing, "blocked": lambda choice: late(blocked, values(choice)[0], "take"),
        "sleeping": late_asleep,
        "endless loop": lambda choice: late(endless, values(choice)[0], None),
    }  # fmt: skip


# -- TensorFlow --------------------------------------------------------------------------------


def tensorflow() -> dict[str, Callable[[random.Random], Late | None]]:
    """Functions, called through `stepscope.run`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    import stepscope

    errors = tf.errors
    queue = tf.queue.FIFOQueue(1, [tf.float32])

    @tf.function
    def total(x: Any) -> Any:
        return tf.reduce_sum(tf.add_n([tf.matmul(x, x + float(i)) for i in range(4)]), name="total")

    @tf.function
    def refused(x: Any) -> Any:
        tf.debugging.assert_less(tf.reduce_sum(x), 0.0, name="refuse")
        return x

    @tf.function
    def blocked() -> Any:
        return queue.dequeue(name="take")

    @tf.function
    def endless() -> Any:
        return tf.while_loop(lambda i: i >= 0, lambda i: (i * 0,), [tf.constant(0)])

    def values(choice: random.Random) -> tuple[Any, float]:
        value = choice.randrange(1, 5)
        expected = sum(64 * 8 * value * (value + i) for i in range(4))
        return tf.fill([8, 8], float(value)), float(expected)

    def plain(choice: random.Random) -> None:
        x, expected = values(choice)
        check(float(stepscope.run(total, x)), expected, "total")

    def traced(level: int) -> Callable[[random.Random], None]:
        def run(choice: random.Random) -> None:
            x, expected = values(choice)
            metadata = stepscope.RunMetadata()
            options = stepscope.RunOptions(trace_level=level)
            got = stepscope.run(total, x, options=options, run_metadata=metadata)
            check(float(got), expected, "total")
            seen = sum("MatMul" in op for op in metadata.ops.op)  # oneDNN renames it
            if seen != 4 and metadata.completeness.complete:
                raise Wrong(f"{seen} of 4 products recorded, and no loss declared")

        return run

    def failing(choice: random.Random) -> None:
        metadata = stepscope.RunMetadata()
        try:
            stepscope.run(
                refused, values(choice)[0],
                options=stepscope.RunOptions(trace_level=1), run_metadata=metadata,
            )  # fmt: skip
        except errors.InvalidArgumentError:
            check(metadata.status.code, "INVALID_ARGUMENT", "status")
            return
        raise Wrong("nothing was refused")

    def late(function: Any, level: int) -> Callable[[random.Random], Late]:
        options = stepscope.RunOptions(timeout_in_ms=DEADLINE_MS, trace_level=level)
        return lambda _: late_by(
            lambda: stepscope.run(
                function, options=options, run_metadata=stepscope.RunMetadata()
            ),
            errors.DeadlineExceededError, None,
        )  # fmt: skip

    return {
        "plain": plain, "software": traced(1), "full": traced(3), "failing": failing,
        "blocked": late(blocked, 0), f"blocked{TRACED}": late(blocked, 1),
        "endless loop": late(endless, 0), f"endless loop{TRACED}": late(endless, 1),
    }  # fmt: skip


ENGINES = {"embedded": (embedded, 64), "tensorflow": (tensorflow, 8)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=ENGINES, default="embedded")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    build, threads = ENGINES[asked.engine]
    soak = Soak(build(), threads)
    soak.run(asked.minutes * 60, asked.seed)
    gc.collect()
    print(f"{asked.engine}: {threads} threads, {asked.minutes:g} minutes, seed {asked.seed}\n")
    return 0 if soak.report() else 1


if __name__ == "__main__":
    sys.exit(main())
