"""Deaths of recorded scripts at random moments, and what must be left of each recording.

A death is a program of one engine, run by `stepscope run`, that acknowledges each of its runs in a
file, unbuffered, and dies after a random number of them: by whatever its seed says, at whatever
moment the other threads are in by then, or in an op that never ends. What holds then:

- every run that was acknowledged `LATEST_MS` or more before the death is read back, and went well;
- the recording can be read, whatever there is of it;
- the command ended as the script died, and said so;
- the op that never ends is named, and its run is there, unfinished.

`tests/unit/cli/script/test_cli_random_deaths.py` has 40 of them, `tests/hard/kill.py` any number.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stepscope
from patience import FACTOR, patient

Run = Callable[..., subprocess.CompletedProcess[str]]
LATEST_MS = 10 * FACTOR
HOW = ("kill", "segv", "abort", "exit", "term", "memory")
ENGINES = ("embedded", "function", "session", "keras")

_BEGINNING = """\
import ctypes, os, resource, signal, struct, sys, threading, time
how, after, later_us, stuck = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
file = os.open("acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
moment, exhausted, held, done = threading.Event(), threading.Event(), [], 0

def acknowledge():
    global done
    done += 1
    os.write(file, struct.pack("qq", done, time.monotonic_ns()))
    if done >= after and not stuck:
        moment.set()
    if exhausted.is_set():
        held.append(bytearray(1 << 30))

def exhaust():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 22), resource.RLIM_INFINITY))
    for size in (1 << 20, 1 << 14):
        try:
            while True:
                held.append(bytearray(size))
        except MemoryError:
            pass
    exhausted.set()

def never(*_):
    moment.set()
    threading.Event().wait()

def die():
    moment.wait()
    until = time.perf_counter_ns() + later_us * 1000
    while time.perf_counter_ns() < until:
        pass
    os.write(file, struct.pack("qq", -1, time.monotonic_ns()))
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segv":
        ctypes.string_at(0)
    elif how == "abort":
        os.abort()
    elif how == "exit":
        os._exit(3)
    elif how == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        exhaust()

threading.Thread(target=die, daemon=True).start()
"""
_EMBEDDED = """
import tensorflow as tf
x = tf.placeholder(tf.float32, [None, 8], name="x")
w = tf.constant([[0.1] * 8] * 8, name="w")
y = x
for n in range(12):
    if stuck == f"stuck_{n}":
        blocked = tf.py_func(never, [y], tf.float32, name=stuck)
        blocked = tf.negative(blocked, name="after")
    y = tf.tanh(tf.matmul(y, w, name=f"product_{n}"), name=f"layer_{n}")
with tf.Session() as session:
    while True:
        if stuck and done == after:
            session.run(blocked, {x: [[1.0] * 8]})
        session.run(y, {x: [[1.0] * 8] * (1 + done % 3)})
        acknowledge()
"""
_FUNCTION = """
import tensorflow as tf
@tf.function
def step(x):
    for _ in range(10):
        x = tf.tanh(tf.matmul(x, x))
    return x
@tf.function
def blocked(x):
    return tf.numpy_function(never, [step(x)], tf.float32, name=stuck)
x = tf.eye(8)
while True:
    if stuck and done == after:
        blocked(x)
    step(x)
    acknowledge()
"""
_SESSION = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [8, 8], name="x")
y = x
for _ in range(10):
    y = tf.tanh(tf.matmul(y, y))
blocked = tf.numpy_function(never, [y], tf.float32, name=stuck or "stuck")
# Not in a `with`: TensorFlow leaves that by a thread, and Python waits without end for one to start
# that has no memory to.
session = tf.Session()
while True:
    if stuck and done == after:
        session.run(blocked, {x: [[0.1] * 8] * 8})
    session.run(y, {x: [[0.1] * 8] * 8})
    acknowledge()
"""
_KERAS = """
import numpy as np
import tensorflow as tf
class Acknowledging(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        acknowledge()
layers = tf.keras.layers
model = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(8), layers.Dense(1)])
model.compile("sgd", "mse")
data = np.zeros((4000, 4), np.float32)
model.fit(data, data[:, :1], batch_size=4, epochs=100, verbose=0, callbacks=[Acknowledging()])
"""
_PROGRAMS = {
    "embedded": _EMBEDDED, "function": _FUNCTION, "session": _SESSION, "keras": _KERAS,
}  # fmt: skip
_CODES = {
    "kill": -signal.SIGKILL, "segv": -signal.SIGSEGV, "abort": -signal.SIGABRT, "exit": 3,
    "term": -signal.SIGTERM,
}  # fmt: skip


@dataclass(frozen=True)
class Death:
    """One of them; equal ones differ in the moment only as far as the machine does."""

    engine: str
    how: str
    seed: int
    stuck: bool = False
    """Whether it comes in an op that never ends."""

    def __str__(self) -> str:
        return f"{self.engine}-{self.how}-{self.seed}" + ("-stuck" if self.stuck else "")


@dataclass(frozen=True)
class Left:
    """What a death left."""

    code: int
    said: str
    due: int
    """How many runs must be there."""
    runs: list[Any]
    op: str
    """The op that never ends, if it died in one."""

    @property
    def ended(self) -> list[Any]:
        """The runs that went well."""
        return [run for run in self.runs if run.status.ok and not run.engine.endswith("eager")]


def new_process(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """A command with all of its start; `started_python.run` begins where most of it is over."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def die(death: Death, folder: Path, run: Run = new_process) -> Left:
    """Have the script die, in a directory of its own and run so; what it left."""
    chance = random.Random(str(death))
    op = f"stuck_{chance.randrange(12)}" if death.stuck else ""
    (folder / "program.py").write_text(_BEGINNING + _PROGRAMS[death.engine])
    engine = "embedded" if death.engine == "embedded" else "tensorflow"
    # Many runs and few, up to the many that wait to be written.
    moment = [str(chance.choice([1, 3, 20, 100])), str(chance.randrange(20_000)), op]
    # Tests have it off, users on.
    surroundings = {k: v for k, v in os.environ.items() if k != "STEPSCOPE_EXECUTOR"}
    surroundings["COLUMNS"] = "200"
    done = run(
        [sys.executable, "-m", "stepscope", "run", "--engine", engine, "--out", "out",
         "--budget", "off", "program.py", death.how, *moment],
        cwd=folder, env=surroundings, timeout=patient(240),
    )  # fmt: skip
    records = list(struct.iter_unpack("qq", (folder / "acknowledged").read_bytes()))
    (died,) = (at for number, at in records if number < 0)
    due = [number for number, at in records if number > 0 and at <= died - LATEST_MS * 1e6]
    return Left(done.returncode, done.stderr, len(due), _runs(folder / "out"), op)


def _runs(recording: Path) -> list[Any]:
    """The runs that are read back; none where the script died before the first."""
    try:
        found = stepscope.load(recording)
    except stepscope.errors.UnreadableFileError as error:
        if "no run" not in str(error):
            raise
        return []
    return found if isinstance(found, list) else [found]


def check(death: Death, left: Left) -> None:
    """Assert that it left all that it must, see the module's text."""
    check_end(death, left)
    check_runs(left)
    if death.stuck:
        stuck = left.runs[-1]
        assert (stuck.status.code, stuck.status.in_flight) == ("ABORTED", [left.op])
        assert not stuck.completeness.complete
        assert f"in flight  {left.op} (in run_" in left.said


def check_end(death: Death, left: Left) -> None:
    """Assert that the command ended as the script did, and that what is there can be read."""
    if death.how == "memory":
        assert left.code != 0
    else:
        assert left.code == _CODES[death.how], left.said
        assert "the script was killed by" in left.said or "exit code 3 past all" in left.said
    assert "cannot be read" not in left.said
    for run in left.ended:
        assert len(run.ops) > 10


def check_runs(left: Left) -> None:
    """Assert that every run is there that must be."""
    assert len(left.ended) >= left.due, (len(left.ended), left.due, left.said)
