"""Alternating measurement and the table of results.

Machines are noisy, so two sides are never measured one after the other: each round runs both, in
turn, and medians over the rounds are compared.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

clock = time.perf_counter_ns


def alternate(
    *sides: Callable[[], object], rounds: int, warmup: int, repeats: int = 1
) -> list[list[float]]:
    """Nanoseconds per call of each side, one figure per round; the sides take turns."""
    for _ in range(warmup):
        for side in sides:
            side()
    samples: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, figures in zip(sides, samples, strict=True):
            t0 = clock()
            for _ in range(repeats):
                side()
            figures.append((clock() - t0) / repeats)
    return samples


def medians(
    *sides: Callable[[], object], rounds: int = 200, warmup: int = 100, repeats: int = 1
) -> list[float]:
    """Median nanoseconds per call of each side, alternating."""
    samples = alternate(*sides, rounds=rounds, warmup=warmup, repeats=repeats)
    return [statistics.median(figures) for figures in samples]


class Spread(NamedTuple):
    """A median, and how far it can be trusted."""

    median: float
    low: float
    """In 19 of 20 such measurements the true median lies between this and `high`."""
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """That of some figures, of which there should be six at least.

        >>> Spread.of([5, 1, 3, 2, 4, 6, 90])
        Spread(median=4, low=1, high=90)
        """
        count, ordered = len(figures), sorted(figures)
        away = 0.98 * count**0.5
        return cls(
            statistics.median(ordered),
            ordered[max(0, math.floor(count / 2 - away))],
            ordered[min(count - 1, math.ceil(count / 2 + away))],
        )


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two sides run in pairs: the median of the pairs' ratios, and how far it can be trusted."""

    first: float
    """Median nanoseconds."""
    second: float
    ratio: float
    low: float
    """In 19 of 20 such measurements the true median lies between this and `high`."""
    high: float
    more: float
    """Median of what the first side took more, in nanoseconds."""
    count: int

    @classmethod
    def of(cls, first: Sequence[float], second: Sequence[float]) -> Pairs:
        """The same of figures that were taken in pairs, in nanoseconds."""
        pairs = list(zip(first, second, strict=True))
        return cls(
            statistics.median(first),
            statistics.median(second),
            *Spread.of([a / b for a, b in pairs]),
            statistics.median(a - b for a, b in pairs),
            len(pairs),
        )

    def said(self) -> str:
        """The spread, for a note."""
        return (
            f"{self.more / 1e3:.0f} us more; median of {self.count} pairs, "
            f"95% of the time between {self.low:.4f} and {self.high:.4f}"
        )


def in_pairs(
    first: Callable[[], object], second: Callable[[], object], *, rounds: int, warmup: int = 10
) -> Pairs:
    """For differences smaller than the machine's noise: each pair is its own comparison.

    What slows the machine for longer than a pair takes slows both sides of it. Whoever goes first
    changes from pair to pair. Many short pairs say more than few long ones.
    """
    for _ in range(warmup):
        first(), second()
    pairs = []
    for n in range(rounds):
        took = [0, 0]
        for side in (0, 1) if n % 2 else (1, 0):
            t0 = clock()
            (first, second)[side]()
            took[side] = clock() - t0
        pairs.append(took)
    return Pairs.of([a for a, _ in pairs], [b for _, b in pairs])


@dataclass(frozen=True, slots=True)
class Result:
    """One row: what was compared, both figures, their ratio, and the target it has to meet."""

    what: str
    ours: float
    theirs: float
    ratio: float
    target: str
    met: bool | None
    """None where the row is there to be read, not to be met."""
    unit: str = "ms"
    note: str = ""
    verdict: str = ""
    """What the table says of it; "" for yes, NO or nothing, as `met` has it."""


def at_most(limit: float, ratio: float) -> tuple[str, bool]:
    return f"<= {limit:g}", ratio <= limit


def at_least(limit: float, ratio: float) -> tuple[str, bool]:
    return f">= {limit:g}", ratio >= limit


def compare(
    what: str, ours: float, theirs: float, limit: float | None, *, note: str = "", unit: str = "ms"
) -> Result:
    """A row whose ratio is ours over theirs, to be at most `limit` (None: no target)."""
    scale = {"ms": 1e6, "us": 1e3, "ns": 1.0}[unit]
    ratio = ours / theirs
    target, met = ("", None) if limit is None else at_most(limit, ratio)
    return Result(what, ours / scale, theirs / scale, ratio, target, met, unit, note)


def paired(what: str, pairs: Pairs, limit: float | None) -> Result:
    """A row of two sides that ran in pairs; the ratio, to be at most `limit`, is the pairs'."""
    target, met = ("", None) if limit is None else at_most(limit, pairs.ratio)
    return Result(
        what, pairs.first / 1e6, pairs.second / 1e6, pairs.ratio, target, met, note=pairs.said()
    )


def table(results: Sequence[Result]) -> str:
    """The results as text, one row each."""
    rows = [("what", "ours", "theirs", "", "ratio", "target", "met")]
    for r in results:
        met = r.verdict or ("" if r.met is None else ("yes" if r.met else "NO"))
        rows.append(
            (r.what, f"{r.ours:.3f}", f"{r.theirs:.3f}", r.unit, f"{r.ratio:.3f}", r.target, met)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for n, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
        if n == 0:
            lines.append("-" * len(lines[0]))
    notes = [f"  {r.what}: {r.note}" for r in results if r.note]
    return "\n".join([*lines, "", "notes:", *notes] if notes else lines)


def save(results: Sequence[Result], versions: dict[str, str], path: Path) -> None:
    """Write the results as JSON, whole."""
    document = {
        "python": platform.python_version(),
        "cores": __import__("os").cpu_count(),
        "versions": versions,
        "results": [asdict(r) for r in results],
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=1) + "\n")
    temporary.replace(path)
