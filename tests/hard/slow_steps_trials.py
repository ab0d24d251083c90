"""Ten slow steps among 2,000 at random, many times: each has to be kept and explained.

    python tests/hard/slow_steps_trials.py [--trials 20] [--engines embedded tensorflow]

See `tests/slow_steps.py`. To be run on a machine that has nothing else to do: on a busy one any
step may be slow, and recording costs more than its budget has for the op times of each step.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import slow_steps


def main(arguments: Sequence[str] | None = None) -> int:
    """What the module's text says; gives the exit code."""
    parser = argparse.ArgumentParser(description="Slow steps, kept and explained.")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--budget", default="5%")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first")
    parser.add_argument("--engines", nargs="+", default=["embedded", "tensorflow"])
    asked = parser.parse_args(arguments)
    failed = 0
    for engine in asked.engines:
        met = 0
        for seed in range(asked.first, asked.first + asked.trials):
            with tempfile.TemporaryDirectory(prefix="stepscope-slow-") as folder:
                missed = slow_steps.trial(
                    Path(folder), engine, seed, asked.steps, asked.slow, asked.budget
                )
            met += not missed
            for said in missed:
                print(f"  {engine}, seed {seed}: {said}", flush=True)
        print(f"{engine}: all {asked.slow} explained in {met} of {asked.trials} trials", flush=True)
        failed += asked.trials - met
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
