"""The tests where it is hard: on a machine that is busy with something else.

    python tests/hard/run_hard.py [--rounds 20] [--load 4] [--patience 4] [TESTS ...]

First the tests of threads, deadlines and processes (`PRONE`), many times beside busy processes;
then the whole suite once, on one core that it shares with them. Time limits are `--patience` times
as long, those of pytest and those of the tests' own waiting. TESTS, if given, stand in for both.

A test that fails in one round of twenty is a defect: every failure is counted and named at the end,
and makes the exit code 1. The busy processes end with this one, however it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRONE = (
    "tests/contract/test_contract_deadlines.py",
    "tests/contract/test_contract_failures.py",
    "tests/contract/test_contract_stress.py",
    "tests/contract/test_contract_thread_pools.py",
    "tests/property/test_abandoned_ops.py",
    "tests/unit/adapters/test_concurrent_runs.py",
    "tests/unit/adapters/test_deadlines_of_busy_runs.py",
    "tests/unit/adapters/test_failures_and_deadlines.py",
    "tests/unit/adapters/test_function_log.py",
    "tests/unit/adapters/test_library_cache.py",
    "tests/unit/adapters/test_node_log.py",
    "tests/unit/adapters/test_overhead.py",
    "tests/unit/adapters/test_python_functions.py",
    "tests/unit/adapters/test_served_calls.py",
    "tests/unit/adapters/test_shared_profiler.py",
    "tests/unit/cli/test_cli_cluster_training.py",
    "tests/unit/cli/test_cli_odd_surroundings.py",
    "tests/unit/cli/test_cli_recording_cost.py",
    "tests/unit/export/test_tensorboard_kill.py",
    "tests/unit/ops/test_queues.py",
    "tests/unit/programs/test_coordinator.py",
    "tests/unit/runtime/test_cancellation.py",
    "tests/unit/runtime/test_end_of_program.py",
    "tests/unit/runtime/test_forks_and_threads.py",
    "tests/unit/runtime/test_pool_gain.py",
    "tests/unit/runtime/test_pools.py",
    "tests/unit/runtime/test_session_life.py",
    "tests/unit/runtime/test_spans.py",
    "tests/unit/runtime/test_traced_threads.py",
    "tests/unit/test_whole_files.py",
)
"""Files whose tests start threads or processes, or are about deadlines."""
LIMIT_S = 300
BUSY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""


@contextmanager
def busy(processes: int, core: int | None = None) -> Iterator[None]:
    """While inside, so many processes do nothing as fast as they can, on that core or on any."""
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    command = [*pinned, sys.executable, "-c", BUSY, str(os.getpid())]
    started = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def session(tests: Sequence[str], patience: float, before: Sequence[str] = ()) -> list[str]:
    """Run tests in a session of their own; gives those that failed, or what else went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome.json"
        environment = {
            **os.environ,
            "STEPSCOPE_TEST_OUTCOME": str(outcome),
            "STEPSCOPE_TEST_PATIENCE": str(patience),
            # Not an option of the command: sessions that tests start have the same limit.
            "PYTEST_TIMEOUT": str(LIMIT_S * patience),
        }
        command = [*before, sys.executable, "-m", "pytest", "-p", "no:xdist", *tests]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        try:
            found = json.loads(outcome.read_bytes())
        except FileNotFoundError:
            return [f"(the session did not come to its end: exit code {code})"]
    wrong = [*found["failed"], *found["broken"], *found["crashed"]]
    return wrong if wrong or code == 0 else [f"(pytest ended with exit code {code})"]


def main(arguments: Sequence[str] | None = None) -> int:
    """What the module's text says; gives the exit code."""
    parser = argparse.ArgumentParser(description="The tests, on a machine that is busy.")
    parser.add_argument("--rounds", type=int, default=20, help="of the tests that are prone")
    parser.add_argument("--load", type=int, default=4, help="how many busy processes there are")
    parser.add_argument("--patience", type=float, default=4, help="time limits are so much longer")
    parser.add_argument("tests", nargs="*", help="these alone, in place of both selections")
    asked = parser.parse_args(arguments)

    chosen = asked.tests or [path for path in PRONE if (ROOT / path).exists()]
    gone = set(PRONE).difference(chosen) if not asked.tests else set()
    failures: Counter[str] = Counter(f"{path}: there is no such file" for path in gone)
    for number in range(1, asked.rounds + 1):
        print(f"== round {number} of {asked.rounds}, beside {asked.load} processes", flush=True)
        with busy(asked.load):
            failures.update(session(chosen, asked.patience))
    core = min(os.sched_getaffinity(0))
    print(f"== all on core {core}, beside {asked.load} processes", flush=True)
    with busy(asked.load, core):
        failures.update(session(asked.tests, asked.patience, ["taskset", "-c", str(core)]))

    for what, times in failures.most_common():
        print(f"FAILED {times} OF {asked.rounds + 1}: {what}")
    print("hard: " + (f"{len(failures)} failed" if failures else "nothing failed"), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    sys.exit(main())
