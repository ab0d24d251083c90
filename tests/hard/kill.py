"""Scripts that die while they are recorded, by the hundred.

    python tests/hard/kill.py [--deaths 1000] [--at-once 2] [--engines embedded function ...]

The code of `tests/unit/cli/script/test_cli_random_deaths.py`, with other seeds: three in four on
the embedded engine, which dies fastest, one in three there in an op that never ends. Each death
that does not leave what it must is named with what it left, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from deaths import ENGINES, HOW, Death, check, die

REPORTED_EACH = 50


def chosen(deaths: int, engines: Sequence[str], first: int) -> Iterator[Death]:
    """So many deaths, by every engine in every way."""
    others = [engine for engine in engines if engine != "embedded"]
    for seed in range(first, first + deaths):
        embedded = "embedded" in engines and (seed % 4 or not others)
        engine = "embedded" if embedded else others[seed // 4 % len(others)]
        how = HOW[seed // 3 % len(HOW)]
        stuck = engine == "embedded" and how != "memory" and seed % 3 == 0
        yield Death(engine, how, seed, stuck)


def failure_of(death: Death) -> str | None:
    """Have it happen; what is wrong with what it left, None where nothing is."""
    with tempfile.TemporaryDirectory(prefix="stepscope-death-") as folder:
        try:
            check(death, die(death, Path(folder)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and others follow
            return f"{type(error).__name__}: {error}"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """What the module's text says; gives the exit code."""
    parser = argparse.ArgumentParser(description="Scripts that die while they are recorded.")
    parser.add_argument("--deaths", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=2, help="how many scripts run side by side")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--first", type=int, default=1000, help="the seed of the first")
    asked = parser.parse_args(arguments)

    began = time.monotonic()
    failed: Counter[str] = Counter()
    deaths = list(chosen(asked.deaths, asked.engines, asked.first))
    with ThreadPoolExecutor(asked.at_once) as pool:
        for number, (death, wrong) in enumerate(
            zip(deaths, pool.map(failure_of, deaths), strict=True), 1
        ):
            if wrong is not None:
                failed[death.engine] += 1
                print(f"FAILED {death}: {wrong}", flush=True)
            if number % REPORTED_EACH == 0 or number == len(deaths):
                took = time.monotonic() - began
                print(f"{number} deaths in {took:.0f} s, {failed.total()} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
