"""Losses by chance: many runs on our executor by several threads at once, each counted.

    python tests/hard/losses.py [--runs 20000] [--threads 4]

Functions and sessions, at both levels, over programs that differ in how many ops they have: a run
shows exactly the ops of its own program, declares no loss that is not one of all, and lies between
its call and its end. Half of the runs are looked at at once, the others when several more have been
made. To be started beside other work: what is lost by chance is lost on a busy machine.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import stepscope
from stepscope.adapters import tensorflow as adapter

LATER = 25
"""So many runs are made before those that are not looked at at once are."""
SIZES = (10, 50, 200)
LEVELS = (1, 3)
Run = Callable[..., Any]
Shown = dict[int, tuple[Counter[str], tuple[Any, ...]]]
"""By trace level, how often each op is shown, and what is declared to be lost of any run."""


def body(x: Any, ops: int) -> Any:
    """So many ops in a chain."""
    y = x
    for i in range(ops):
        y = y * x if i % 2 else y + x
    return y


def programs() -> Iterator[tuple[str, Run]]:
    """What it is, and a call that takes options and metadata."""
    import tensorflow as tf

    v1 = tf.compat.v1
    x = tf.constant([0.5] * 4)
    for ops in SIZES:
        function = tf.function(lambda x, ops=ops: body(x, ops), autograph=False)
        function(x)
        yield f"function {ops}", lambda function=function, **kw: adapter.run(function, x, **kw)
        graph = v1.Graph()
        with graph.as_default():
            given = v1.placeholder(v1.float32, [4])
            fetched = body(given, ops)
        session = adapter.Session(graph=graph)
        feed = {given: [0.5] * 4}
        yield (
            f"session {ops}",
            lambda session=session, fetched=fetched, feed=feed, **kw: session.run(
                fetched, feed, **kw
            ),
        )


class Worker:
    """One thread's runs."""

    def __init__(self, known: dict[str, tuple[Run, Shown]], runs: int, number: int) -> None:
        self._known = known
        self._runs = runs
        self._number = number
        self.problems: list[str] = []
        self.seen = 0

    def work(self) -> None:
        waiting: list[tuple[str, int, Any, int, int]] = []
        names = list(self._known)
        for i in range(self._runs):
            name = names[(self._number + i) % len(names)]
            metadata = stepscope.RunMetadata()
            level = LEVELS[i // 2 % 2]
            options = stepscope.RunOptions(trace_level=level)
            began = time.time_ns()
            self._known[name][0](options=options, run_metadata=metadata)
            waiting.append((name, level, metadata, began, time.time_ns()))
            if i % 2:
                self._look(*waiting.pop())
            elif len(waiting) > LATER:
                self._look(*waiting.pop(0))
        for run in waiting:
            self._look(*run)

    def _look(self, name: str, level: int, metadata: Any, began: int, ended: int) -> None:
        self.seen += 1
        ops = metadata.ops
        found = Counter(ops.name.tolist())
        expected, lost = self._known[name][1][level]
        if found != expected:
            odd = (found - expected) + (expected - found)
            self.problems.append(f"{name}: {dict(odd)} more or less than it has")
        if metadata.completeness.losses != lost:
            self.problems.append(f"{name}: {metadata.completeness.losses}")
        # The two clocks are laid over each other to some microseconds.
        if ops.start_ns.min() < began - 100_000 or ops.end_ns.max() > ended + 100_000:
            self.problems.append(f"{name}: an op outside of the run's time")


def main() -> int:
    """Whether any was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=4)
    args = parser.parse_args()
    problem = adapter.prepare()
    if problem:
        print(problem)
        return 2
    known: dict[str, tuple[Run, Shown]] = {}
    for name, run in programs():
        shown: Shown = {}
        for level in LEVELS:
            metadata = stepscope.RunMetadata()
            run(options=stepscope.RunOptions(trace_level=level), run_metadata=metadata)
            run(options=stepscope.RunOptions(trace_level=level), run_metadata=metadata)
            if metadata.recorder != "executor" or len(metadata.ops) < int(name.split()[1]):
                print(f"{name}: {len(metadata.ops)} ops, recorded by {metadata.recorder}")
                return 2
            shown[level] = Counter(metadata.ops.name.tolist()), metadata.completeness.losses
        known[name] = run, shown
    workers = [Worker(known, args.runs // args.threads, n) for n in range(args.threads)]
    threads = [threading.Thread(target=worker.work) for worker in workers]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    problems = [problem for worker in workers for problem in worker.problems]
    for problem in problems[:20]:
        print(problem)
    seen = sum(worker.seen for worker in workers)
    took = time.monotonic() - began
    print(f"{seen:,} runs by {args.threads} threads in {took:.0f} s: {len(problems)} wrong")
    return 1 if problems or seen < args.runs // args.threads * args.threads else 0


if __name__ == "__main__":
    sys.exit(main())
