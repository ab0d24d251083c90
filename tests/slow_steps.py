"""A program with slow steps at random places, recorded with a budget: which it made, and of what.

    python tests/slow_steps.py DIRECTORY ENGINE SEED STEPS SLOW BUDGET

Prints a line of JSON: by the number of a run, what was done to it. The kinds:

    op       one op takes several times as long as the whole step
    input    the step begins so much later
    stopped  the process is stopped for 50 ms, by a signal, in the midst of the step; for longer
             where a step takes so long, on a busy machine, that this would be no slow one

`missed` compares that with what `stepscope info` says of the recording.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("op", "input", "stopped")
STOPPED_S = 0.05
EARLIEST = 30
"""Nothing is slow before it is known what is usual."""
_STOPPER = (
    "import os, signal, sys, time\n"
    "for line in iter(sys.stdin.buffer.readline, b''):\n"
    " os.kill(os.getppid(), signal.SIGSTOP)\n"
    " time.sleep(float(line))\n"
    " os.kill(os.getppid(), signal.SIGCONT)\n"
    " sys.stdout.buffer.write(b'1')\n"
    " sys.stdout.buffer.flush()\n"
)


class Slowness:
    """What is to be done to the step under way."""

    def __init__(self, stopper: subprocess.Popen[bytes]) -> None:
        self._stopper = stopper
        self.kind = ""
        self.for_s = 0.0

    def in_op(self, values: Any) -> Any:
        """The op that is slow, or in which the process is stopped."""
        if self.kind == "op":
            time.sleep(self.for_s)
        elif self.kind == "stopped":
            assert self._stopper.stdin is not None
            assert self._stopper.stdout is not None
            self._stopper.stdin.write(b"%f\n" % max(STOPPED_S, self.for_s))
            self._stopper.stdin.flush()
            self._stopper.stdout.read(1)
        return values

    def before(self) -> None:
        """What the step waits for."""
        if self.kind == "input":
            time.sleep(self.for_s)


@contextmanager
def stopper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stops this one for a while when it is written to."""
    command = [sys.executable, "-S", "-c", _STOPPER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def program(engine: str, slowness: Slowness) -> Callable[[], Any]:
    """A step of some milliseconds; the runs before it are one."""
    if engine == "embedded":
        import stepscope.tf1 as tf
    else:
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
    rows = 768 if engine == "embedded" else 3072  # some milliseconds on either
    x = tf.placeholder(tf.float32, [rows, 384], name="x")
    augmented = tf.py_func(slowness.in_op, [x], tf.float32, name="augment")
    augmented.set_shape([rows, 384])
    hidden = augmented
    for layer in range(3):
        weights = tf.Variable(tf.truncated_normal([384, 384], stddev=0.05), name=f"weights{layer}")
        hidden = tf.tanh(tf.matmul(hidden, weights), name=f"layer{layer}")
    total = tf.reduce_sum(hidden, name="total")
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    feeds = {x: np.ones([rows, 384], np.float32)}
    return lambda: session.run(total, feeds)


def record(
    directory: Path, engine: str, seed: int, steps: int, slow: int, budget: str
) -> dict[int, str]:
    """Run the steps, some of them slow, under a recorder; by run number, what was done to which."""
    import stepscope

    choice = random.Random(seed)
    places = choice.sample(range(EARLIEST, steps), slow)
    done = {place: KINDS[number % len(KINDS)] for number, place in enumerate(places)}
    lengths: list[float] = []
    with stopper() as process, stepscope.Recorder(directory, budget=budget) as recorder:
        slowness = Slowness(process)
        step = program(engine, slowness)
        for place in range(steps):
            slowness.kind = done.get(place, "")
            # By far longer than usual, whatever else the machine does.
            usual = float(np.median(lengths or [0.0]))
            slowness.for_s = 0.02 + 6 * max(usual, float(np.median(lengths[-20:] or [0.0])))
            began = time.perf_counter()
            slowness.before()
            step()
            lengths.append(time.perf_counter() - began)
    assert recorder.problem is None, recorder.problem
    # The run that made the variables is number 1.
    return {place + 2: kind for place, kind in done.items()}


def said_of(directory: Path) -> dict[int, str]:
    """What `stepscope info` says of each run that it explains, by number."""
    command = [sys.executable, "-m", "stepscope", "info", "--json", str(directory)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return {run["number"]: run["why"] for run in json.loads(told.stdout)["happened"]}


def missed(done: dict[int, str], said: dict[int, str]) -> list[str]:
    """The slow steps that are not explained, in words; none where all are."""
    return [
        f"run {number} ({kind}): {said.get(number, 'not kept')}"
        for number, kind in sorted(done.items())
        if not is_explained(kind, said.get(number, ""))
    ]


def is_explained(kind: str, why: str) -> bool:
    """Whether what is said of a step says what was done to it."""
    if kind == "op":
        return "augment" in why and "longer" in why
    return ("was late" if kind == "input" else "did not run for") in why


def trial(directory: Path, engine: str, seed: int, steps: int, slow: int, budget: str) -> list[str]:
    """One trial in a process of its own: the slow steps that were not kept or explained."""
    arguments = [str(directory), engine, str(seed), str(steps), str(slow), budget]
    ran = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    done = json.loads(ran.stdout.splitlines()[-1])
    return missed({int(number): kind for number, kind in done.items()}, said_of(directory))


def main(arguments: Sequence[str]) -> None:
    directory, engine, seed, steps, slow, budget = arguments
    # Standard output is for the figures alone, whatever TensorFlow says.
    done = record(Path(directory), engine, int(seed), int(steps), int(slow), budget)
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main(sys.argv[1:])
