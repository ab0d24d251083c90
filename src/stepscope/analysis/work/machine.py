"""What this machine reaches: operations a second and bytes a second, measured once and kept.

Measured with NumPy, which the embedded engine computes with: a product of two matrices of 32-bit
numbers on all its threads, and a copy of an array larger than caches, on as many threads as there
are cores. The best of several tries counts: other programs can only slow them down.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from stepscope import user_cache
from stepscope.whole_files import whole_file

__all__ = ["Reach", "machine_reach", "measured_reach"]

_SIZE = 1536
_COPIED = 32 << 20
_TRIES = 7


@dataclass(frozen=True, slots=True)
class Reach:
    """The most that a machine does: `flops_per_s` and `bytes_per_s`, reads and writes together.

    `machine` says which one; `measured` when, as a date.

    >>> reach = Reach(flops_per_s=100e9, bytes_per_s=10e9)
    >>> reach.least_ns(flops=2_000_000, bytes=4_000)
    20000.0
    """

    flops_per_s: float
    bytes_per_s: float
    machine: str = ""
    measured: str = ""

    def least_ns(self, flops: int, bytes: int) -> float:
        """How long that much work takes at least, by the roofline: what takes longer counts."""
        return 1e9 * max(flops / self.flops_per_s, bytes / self.bytes_per_s)


def machine_reach(measure: Callable[[], Reach] | None = None) -> tuple[Reach, Path | None]:
    """What this machine reaches, and the file that keeps it.

    It is measured (some tenths of a second; by `measure` if given) where the user's cache has no
    measurement of this machine, and kept there. Where it cannot be kept there is no file.
    """
    try:
        file = user_cache.folder() / "machine.json"
    except user_cache.NoCacheError:
        return (measure or measured_reach)(), None
    try:
        kept = Reach(**json.loads(file.read_text()))
        if kept.machine == _machine() and min(kept.flops_per_s, kept.bytes_per_s) > 0:
            return kept, file
    except (OSError, ValueError, TypeError):
        pass  # none yet, or none that can be read: it is made again
    found = (measure or measured_reach)()
    try:
        with whole_file(file) as out:
            out.write(json.dumps(asdict(found)).encode())
    except OSError:
        return found, None
    return found, file


def measured_reach() -> Reach:
    """Measure it now."""
    left = np.ones((_SIZE, _SIZE), np.float32)
    right, product = left.copy(), np.empty_like(left)
    flops = 2 * _SIZE**3 / _best(lambda: np.matmul(left, right, out=product))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [np.ones(_COPIED // 8) for _ in range(cores or 1)]
    copies = [np.empty_like(part) for part in parts]
    with ThreadPoolExecutor(len(parts)) as threads:
        copied = _best(lambda: list(threads.map(np.copyto, copies, parts)))
    moved = 2 * sum(part.nbytes for part in parts)
    return Reach(flops, moved / copied, _machine(), time.strftime("%Y-%m-%d"))


def _best(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_TRIES):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def _machine() -> str:
    """What a measurement holds for: the machine, its processor and how many cores we may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.node()} {_processor()} {cores} cores, NumPy {np.__version__}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
