"""Who held memory at an instant of a run, as a tree of name scopes: a flame graph of bytes.

>>> rows = tree({"a/b/x": 30, "a/y": 10, "z": 5})
>>> [(row.depth, row.name, row.bytes) for row in rows]
[(0, 'a', 40), (1, 'b', 30), (2, 'x', 30), (1, 'y', 10), (0, 'z', 5)]
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis.memory.profile import event_times
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.errors import StepscopeError
from stepscope.metadata.memory.out_of_memory import held_memory

if TYPE_CHECKING:
    from stepscope.metadata.memory.out_of_memory import HeldMemory

__all__ = ["FlameRow", "MemoryFlame", "highest_peak", "instant_ns", "memory_flame", "tree"]

PEAK: Final = "peak"
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)\Z")


@dataclass(frozen=True, slots=True)
class FlameRow:
    """A scope, or an op in it, and what all below it held: `path` is the whole name.

    Of an op, `kind` is what its memory is for, `source` its line and `shapes` what it held.
    """

    path: str
    name: str
    depth: int
    bytes: int
    share: float
    tensors: int = 0
    kind: str = ""
    source: str = ""
    shapes: str = ""


@dataclass(frozen=True, slots=True)
class MemoryFlame(Result):
    """The live bytes of a device at an instant of a run; `rows` are in the order of a tree.

    `at_ns` is the instant, counted from the run's beginning; the rows of depth 0 sum to `bytes`.
    """

    rows: tuple[FlameRow, ...]
    run: str
    device: str
    at_ns: int
    bytes: int
    peak_bytes: int
    estimated: bool


def instant_ns(text: str) -> int | None:
    """Nanoseconds of `120ms`, `1.5 s`; None for "peak".

    >>> instant_ns("1.5ms"), instant_ns("peak")
    (1500000, None)
    """
    if text.strip().lower() == PEAK:
        return None
    match = _TIME.match(text.strip())
    if match is None:
        raise StepscopeError(
            f"{text!r} is no instant; write a time after the run's beginning, such as 120ms or "
            "1.5s, or peak"
        )
    return round(float(match[1]) * _UNITS[match[2]])


def memory_flame(runs: Runs, at: str = PEAK, device: str | None = None) -> MemoryFlame:
    """Who held what at an instant: "peak", or a time after the run's beginning ("120ms").

    Of several runs it is the one with the highest peak; without `device`, the device with it.
    `StepscopeError` where no single allocations were recorded.
    """
    wanted = instant_ns(at)
    run, where, peak = highest_peak(named_runs(runs), device)
    events = run.metadata.allocations
    events = events.select(events.device == where)
    times = event_times(run.metadata, events)
    if wanted is None:
        row = events.peak_row()
    else:
        row = int(np.searchsorted(times, _begin(run, times) + wanted, side="right")) - 1
    held = held_memory(events.alive_at(row), run.metadata.sources)
    by_name: defaultdict[str, list[HeldMemory]] = defaultdict(list)
    for one in held:
        by_name[one.op].append(one)
    rows = tree({name: sum(one.bytes for one in mine) for name, mine in by_name.items()})
    tensors = tree({name: sum(one.tensors for one in mine) for name, mine in by_name.items()})
    counts = {node.path: node.bytes for node in tensors}
    whole = sum(one.bytes for one in held)
    return made_of(
        MemoryFlame(
            tuple(_described(node, by_name.get(node.path, []), counts[node.path]) for node in rows),
            run.name,
            where,
            (int(times[row]) - _begin(run, times)) if wanted is None and row >= 0 else wanted or 0,
            whole,
            peak,
            run.metadata.completeness.memory_is_estimated,
        ),
        runs,
    )


def highest_peak(runs: list[NamedRun], device: str | None) -> tuple[NamedRun, str, int]:
    """The run and the device with the highest peak, and its bytes."""
    best: tuple[int, NamedRun, str] | None = None
    for run in runs:
        if not len(run.metadata.allocations):
            continue
        for name, peak in run.metadata.allocations.device_peaks().items():
            if (device is None or device == name) and peak and (best is None or peak > best[0]):
                best = peak, run, name
    if best is None:
        where = f" on {device}" if device is not None else ""
        raise StepscopeError(
            f"no single allocations were recorded{where}; record them with `stepscope run`, which "
            "traces fully, or trace_level=RunOptions.FULL_TRACE in the options of the run"
        )
    return best[1], best[2], best[0]


def _begin(run: NamedRun, times: Any) -> int:
    ops = run.metadata.ops
    starts = [int(part.min()) for part in (ops.start_ns, times) if len(part)]
    return min(starts)


def tree(sizes: Mapping[str, int]) -> list[FlameRow]:
    """Names and their bytes as a tree of scopes, the largest first; shares are of the whole."""
    whole = sum(sizes.values())
    sums: defaultdict[str, int] = defaultdict(int)
    below: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for path, size in sizes.items():
        above = ""
        for part in path.split("/"):
            name = f"{above}/{part}" if above else part
            sums[name] += size
            below[above][name] = None
            above = name
    found: list[FlameRow] = []
    waiting = [(path, 0) for path in _by_size(below[""], sums)]
    while waiting:
        path, depth = waiting.pop()
        share = sums[path] / whole if whole else 0.0
        found.append(FlameRow(path, path.rpartition("/")[2], depth, sums[path], share))
        waiting += [(inner, depth + 1) for inner in _by_size(below[path], sums)]
    return found


def _by_size(paths: Mapping[str, None], sums: Mapping[str, int]) -> list[str]:
    """The smallest first: they are taken from the end."""
    return sorted(paths, key=lambda path: (sums[path], path))


def _described(row: FlameRow, mine: list[HeldMemory], tensors: int) -> FlameRow:
    """With what its op held, if it is one, and how many tensors are in all below it."""
    return replace(
        row,
        tensors=tensors,
        kind=", ".join(dict.fromkeys(one.kind for one in mine)),
        source=next((one.source for one in mine if one.source), ""),
        shapes=mine[0].shapes if len(mine) == 1 else "",
    )
