"""What each node took in each run, taken in while runs are read for something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.analysis.intervals import self_times, sums_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import GraphFacts, RunMetadata

__all__ = ["NodeHistory", "NodeOverRuns"]

_MOST_CELLS: Final = 20_000_000
"""How many numbers are kept at most; beyond, every second run is dropped, again and again."""


class NodeOverRuns(NamedTuple):
    """The self time of a node in the runs that have it, in order."""

    run: NDArray[np.int64]
    ns: NDArray[np.float64]


class _Kept(NamedTuple):
    number: int
    facts: GraphFacts
    ns: NDArray[np.float32]


class NodeHistory:
    """The self times of nodes by run. Of very many runs an even sample is kept."""

    def __init__(self) -> None:
        self._runs: list[_Kept] = []
        self._cells = 0
        self._every = 1
        self._seen = 0
        self._rows: dict[int, dict[str, list[int]]] = {}

    def add(self, number: int, run: RunMetadata) -> None:
        """Take in the next run, of that number."""
        self._seen += 1
        if (self._seen - 1) % self._every or not len(run.ops):
            return
        ops = run.ops
        own = self_times(ops.start_ns, ops.end_ns, ops.thread)
        sums = sums_at(ops.node.astype(np.int64), own, len(ops.facts))
        self._runs.append(_Kept(number, ops.facts, sums.astype(np.float32)))
        self._cells += len(sums)
        while self._cells > _MOST_CELLS and len(self._runs) > 2:
            self._runs = self._runs[::2]
            self._cells = sum(len(kept.ns) for kept in self._runs)
            self._every *= 2

    @property
    def sampled(self) -> bool:
        """Whether runs were left out."""
        return self._every > 1

    def of(self, name: str) -> NodeOverRuns:
        """A node by its name."""
        runs, times = [], []
        for kept in self._runs:
            rows = self._rows_of(kept.facts).get(name)
            if rows and (ns := float(kept.ns[rows].sum())) > 0:
                runs.append(kept.number)
                times.append(ns)
        return NodeOverRuns(np.array(runs, np.int64), np.array(times))

    def _rows_of(self, facts: GraphFacts) -> dict[str, list[int]]:
        """The places of a graph's nodes by name, worked out once."""
        known = self._rows.get(id(facts))
        if known is None:
            known = {}
            for row, name in enumerate(facts.names.values.tolist()):
                known.setdefault(name, []).append(row)
            self._rows[id(facts)] = known
        return known
