"""The tests where it is hard: on a machine that is busy with something else.

    python tests/hard/run_hard.py [--rounds 20] [--at-once 4] [--workers 4] [--load 4]
                                  [--patience 4] [--half rounds | whole] [TESTS ...]

First the tests of threads, deadlines and processes (`PRONE`), many times beside busy processes;
then the whole suite once, on one core that it shares with them. Time limits are `--patience` times
as long, those of pytest and those of the tests' own waiting. TESTS, if given, stand in for both.
With `--half` only one of the two is run.

Rounds are sessions of their own, `--at-once` of them side by side, so each is one more load for the
others; what one printed is shown when it is over. The whole suite is spread, file by file, over
`--workers` processes, all on the one core.

A test that fails in one round of twenty is a defect: every failure is counted and named at the end,
and makes the exit code 1. The busy processes end with this one, however it ends; sessions do when
it is interrupted or terminated.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRONE = (
    "tests/contract/test_contract_deadlines.py",
    "tests/contract/test_contract_failures.py",
    "tests/contract/test_contract_stress.py",
    "tests/contract/test_contract_thread_pools.py",
    "tests/property/test_abandoned_ops.py",
    "tests/unit/adapters/runs/test_concurrent_runs.py",
    "tests/unit/adapters/runs/test_deadlines_of_busy_runs.py",
    "tests/unit/adapters/runs/test_failures_and_deadlines.py",
    "tests/unit/adapters/node_log/test_function_log.py",
    "tests/unit/adapters/node_log/test_library_cache.py",
    "tests/unit/adapters/node_log/test_node_log.py",
    "tests/unit/adapters/runs/test_overhead.py",
    "tests/unit/adapters/capture/test_python_functions.py",
    "tests/unit/adapters/script/test_served_calls.py",
    "tests/unit/adapters/capture/test_shared_profiler.py",
    "tests/unit/cli/script/test_cli_cluster_training.py",
    "tests/unit/cli/test_cli_odd_surroundings.py",
    "tests/unit/cli/script/test_cli_recording_cost.py",
    "tests/unit/export/test_tensorboard_kill.py",
    "tests/unit/ops/test_cancellation.py",
    "tests/unit/ops/state/test_queues.py",
    "tests/unit/programs/test_coordinator.py",
    "tests/unit/runtime/test_end_of_program.py",
    "tests/unit/runtime/test_forks_and_threads.py",
    "tests/unit/runtime/plan/test_pool_gain.py",
    "tests/unit/runtime/execute/test_pools.py",
    "tests/unit/runtime/test_session_life.py",
    "tests/unit/runtime/test_spans.py",
    "tests/unit/runtime/execute/test_traced_threads.py",
    "tests/unit/test_whole_files.py",
)
"""Files whose tests start threads or processes, or are about deadlines."""
LIMIT_S = 300
GRACE_S = 60
"""How long an interrupted session may take to end what its tests have started."""
BUSY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""


@contextlib.contextmanager
def busy(processes: int, core: str | None = None) -> Iterator[None]:
    """While inside, so many processes do nothing as fast as they can, on that core or on any."""
    pinned = [] if core is None else ["taskset", "-c", core]
    command = [*pinned, sys.executable, "-c", BUSY, str(os.getpid())]
    started = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


class Session:
    """A session of pytest as a process of its own; a file number of it is ready when it is over."""

    def __init__(self, command: Sequence[str], patience: float, kept: bool) -> None:
        """Start it by a command; `kept` keeps what it prints until somebody asks."""
        self._folder = tempfile.TemporaryDirectory()
        self._outcome = Path(self._folder.name) / "outcome.json"
        self._printed = Path(self._folder.name) / "printed"
        environment = {
            # A session of its own, also where a worker of another one starts it.
            **{name: v for name, v in os.environ.items() if not name.startswith("PYTEST_XDIST")},
            "STEPSCOPE_TEST_OUTCOME": str(self._outcome),
            "STEPSCOPE_TEST_PATIENCE": str(patience),
            # Not an option of the command: sessions that tests start have the same limit.
            "PYTEST_TIMEOUT": str(LIMIT_S * patience),
        }
        with self._printed.open("wb") as file:
            to = file if kept else None
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=to, stderr=to
            )
        self._ends = os.pidfd_open(self._process.pid)

    def fileno(self) -> int:
        return self._ends

    def wrong(self) -> list[str]:
        """The tests that failed, or what else went wrong; waits for its end."""
        code = self._process.wait()
        try:
            found = json.loads(self._outcome.read_bytes())
        except FileNotFoundError:
            return [f"(the session did not come to its end: exit code {code})"]
        wrong = [*found["failed"], *found["broken"], *found["crashed"]]
        return wrong if wrong or code == 0 else [f"(pytest ended with exit code {code})"]

    def printed(self) -> str:
        return self._printed.read_text(errors="replace")

    def close(self) -> None:
        """Forget it; if it is running still, interrupt it, upon which it ends what it started."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        os.close(self._ends)
        self._folder.cleanup()


def repeated(
    command: Sequence[str], patience: float, times: int, at_once: int
) -> Iterator[tuple[int, Session]]:
    """Run a session so many times, some of them at once; gives each with its number, as it ends."""
    waiting = iter(range(1, times + 1))
    running: dict[Session, int] = {}
    try:
        while True:
            for number in itertools.islice(waiting, at_once - len(running)):
                running[Session(command, patience, kept=True)] = number
            if not running:
                return
            for over in select.select(list(running), [], [])[0]:
                yield running[over], over
                del running[over]
                over.close()
    finally:
        for session in running:
            session.close()


def in_rounds(pytest: Sequence[str], asked: argparse.Namespace) -> Counter[str]:
    """The tests that are prone, again and again; how often each failed."""
    chosen = asked.tests or [path for path in PRONE if (ROOT / path).exists()]
    gone = set(PRONE).difference(chosen) if not asked.tests else set()
    failures = Counter(f"{path}: there is no such file" for path in gone)
    print(f"== {asked.rounds} rounds, {asked.at_once} at once, beside {asked.load} processes")
    with busy(asked.load):
        again = [*pytest, "-p", "no:xdist", *chosen]
        for number, session in repeated(again, asked.patience, asked.rounds, asked.at_once):
            wrong = session.wrong()
            said = f"{len(wrong)} failed" if wrong else "nothing failed"
            print(f"== round {number} of {asked.rounds}: {said}\n{session.printed()}", flush=True)
            failures.update(wrong)
    return failures


def whole(pytest: Sequence[str], asked: argparse.Namespace) -> Counter[str]:
    """All tests, on one busy core; which failed."""
    core = str(min(os.sched_getaffinity(0)))
    print(f"== all on core {core}, beside {asked.load} processes", flush=True)
    with busy(asked.load, core):
        spread = ["--numprocesses", str(asked.workers), "--dist", "loadfile"]
        command = ["taskset", "-c", core, *pytest, *spread, *asked.tests]
        with contextlib.closing(Session(command, asked.patience, kept=False)) as session:
            return Counter(session.wrong())


def main(arguments: Sequence[str] | None = None) -> int:
    """What the module's text says; gives the exit code."""
    parser = argparse.ArgumentParser(description="The tests, on a machine that is busy.")
    parser.add_argument("--rounds", type=int, default=20, help="of the tests that are prone")
    parser.add_argument("--at-once", type=int, default=4, help="so many rounds side by side")
    parser.add_argument("--workers", type=int, default=4, help="of the whole suite, on the core")
    parser.add_argument("--load", type=int, default=4, help="how many busy processes there are")
    parser.add_argument("--patience", type=float, default=4, help="time limits are so much longer")
    parser.add_argument("--half", choices=("rounds", "whole"), help="only this one of the two")
    parser.add_argument("tests", nargs="*", help="these alone, in place of both selections")
    asked = parser.parse_args(arguments)
    if asked.at_once < 1 or asked.workers < 1:
        parser.error("--at-once and --workers are 1 or more")

    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    failures: Counter[str] = Counter()
    if asked.half != "whole":
        failures.update(in_rounds(pytest, asked))
    if asked.half != "rounds":
        failures.update(whole(pytest, asked))

    sessions = asked.rounds * (asked.half != "whole") + (asked.half != "rounds")
    for what, times in failures.most_common():
        print(f"FAILED {times} OF {sessions}: {what}")
    print("hard: " + (f"{len(failures)} failed" if failures else "nothing failed"), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    # Also where a shell that started this in the background had it ignored: sessions inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    sys.exit(main())
