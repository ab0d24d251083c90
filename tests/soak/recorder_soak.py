"""An always-on recorder for minutes: memory flat, disk within its bound, nothing kept is lost.

    python tests/soak/recorder_soak.py [--minutes 10] [--kills 100] [--budget 5%]

First a program of the embedded engine runs at full speed under a `Recorder`, of steps of several
kinds, some of which fail or are slow; every second it is looked at what the process holds and what
lies on disk. Memory has to be flat by the rule of `soak.py`, threads and open files always the
same, and the disk within the recorder's bound.

Then such programs are killed at random, while the store is read from outside: every run that was
there for good (the first ones, and those that failed) is read back after the death.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import stepscope
from patience import patient
from soak import SLACK, growth, open_files, resident_bytes
from stepscope.metadata.readers.kept_file import recording_of
from stepscope.metadata.readers.store_file import numbered_runs

DISK, MEMORY = 8 << 20, 16 << 20
FOR_GOOD = frozenset({"failed", "first"})
"""Runs that are kept for these are displaced by no other here."""
KEEP = {"failed": 1_000_000, "first": 50}


def program() -> Callable[[random.Random], None]:
    """A step of one of three kinds; one in a hundred of the third fails."""
    import stepscope.tf1 as tf

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 32], name="x")
        hidden = tf.tanh(tf.matmul(x, tf.ones([32, 32])), name="hidden")
        total = tf.reduce_sum(hidden, name="total")
        tf.check_numerics(1.0 / x, "not a number", name="checked")
        session = tf.Session()

    def step(choice: random.Random) -> None:
        fed = np.ones([choice.choice([4, 16]), 32], np.float32)
        what = choice.choice(["total:0", "hidden:0", "checked:0"])
        if what == "checked:0" and choice.random() < 0.01:
            fed[0] = 0
        try:
            session.run(what, {x: fed})
        except stepscope.errors.InvalidArgumentError:
            if fed[0].any():
                raise

    assert total is not None
    return step


def on_disk(directory: Path) -> int:
    """What the store takes, and what lies beside it until it is folded into one file."""
    kinds = (".stepscope", ".stepscope-wal")
    return sum(file.stat().st_size for file in directory.iterdir() if file.suffix in kinds)


def soaked(directory: Path, seconds: float, budget: str, seed: int) -> list[str]:
    """Run for so long; what was wrong."""
    choice, step = random.Random(seed), program()
    held: list[tuple[float, int, int, int, int]] = []
    steps = 0
    with stepscope.Recorder(directory, budget, MEMORY, DISK) as recorder:
        began = looked = time.monotonic()
        while looked - began < seconds:
            for _ in range(200):
                step(choice)
            steps += 200
            now = time.monotonic()
            if now - looked >= min(1.0, seconds / 30):
                looked = now
                held.append((now - began, resident_bytes(), threading.active_count(),
                             open_files(), on_disk(directory)))  # fmt: skip
    found = [] if recorder.problem is None else [recorder.problem]
    largest = max(max(row[4] for row in held), on_disk(directory))
    print(f"  {steps:,} steps in {seconds:.0f} s, recording cost {recorder.overhead:.2%}")
    print("\n  after (s)      resident MB   threads   open files      disk MB")
    for row in held[:: max(1, len(held) // 10)]:
        resident, disk = row[1] / 2**20, row[4] / 2**20
        print(f"  {row[0]:>8.0f}{resident:>16.0f}{row[2]:>10}{row[3]:>13}{disk:>13.1f}")
    times = [row[0] for row in held]
    grown = growth(times, [row[1] for row in held], SLACK["resident bytes"])
    if grown is None or grown.by > grown.allowed:
        found.append(f"memory is not flat: {grown}")
    for column, name in ((2, "threads"), (3, "open files")):
        values = {row[column] for row in held[1:]}
        # The store's files come and go while it is folded together.
        if max(values) - min(values) > (1 if column == 3 else 0):
            found.append(f"{name} are not constant: {sorted(values)}")
    if largest > DISK:
        found.append(f"{largest:,} bytes on disk, where {DISK:,} are allowed")
    summary = recorder.summary()
    if summary is None or summary.steps != steps:
        found.append(f"{steps} steps were made, {summary and summary.steps} counted")
    return found


def run_until_killed(directory: Path, seed: int) -> None:
    """What the program does that is killed."""
    choice, step = random.Random(seed), program()
    with stepscope.Recorder(directory, "20%", keep=KEEP):
        print("begun", flush=True)
        while True:
            step(choice)


def killed(directory: Path, seed: int) -> list[str]:
    """Have a program die while its store is read; what was lost."""
    chance = random.Random(seed)
    command = [sys.executable, __file__, "--die-in", str(directory), "--seed", str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        (store,) = directory.glob("*.stepscope")
        seen = _there_for_good(store, until=time.monotonic() + patient(20))
        dies_at = time.monotonic() + chance.uniform(0, 2)
        while time.monotonic() < dies_at:
            seen |= _there_for_good(store)
        process.send_signal(signal.SIGKILL)
    after = _there_for_good(store)
    found = [f"runs {sorted(seen - after)[:5]} were kept and are gone"] if seen - after else []
    for number, run in numbered_runs(store, sorted(seen)):
        if run.completeness.damage:
            found.append(f"run {number} is damaged: {run.completeness.damage}")
    if not seen:
        found.append("nothing was kept before it died")
    return found


def _there_for_good(store: Path, until: float = 0.0) -> set[int]:
    """The runs in a store that stay; with `until`, as soon as there are any."""
    while True:
        recording = recording_of(store)
        kept = recording.kept if recording is not None else ()
        found = {run.number for run in kept if FOR_GOOD & set(run.reasons)}
        if found or time.monotonic() >= until:
            return found


def main(arguments: Sequence[str] | None = None) -> int:
    """What the module's text says; gives the exit code."""
    parser = argparse.ArgumentParser(description="An always-on recorder for minutes.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--budget", default="5%")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--die-in", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.die_in is not None:
        run_until_killed(asked.die_in, asked.seed)
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="stepscope-soak-") as folder:
        if asked.minutes:
            problems += soaked(Path(folder) / "soak", 60 * asked.minutes, asked.budget, asked.seed)
        for number in range(asked.kills):
            place = Path(folder) / f"killed-{number}"
            place.mkdir()
            problems += [f"kill {number}: {said}" for said in killed(place, asked.seed + number)]
    if asked.kills:
        print(f"  {asked.kills} programs killed")
    for problem in problems:
        print(f"  WRONG {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
