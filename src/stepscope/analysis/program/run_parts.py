"""What the time of a run was: computing, Python in ops, transfers, input, waiting for a thread.

Each moment belongs to one of them. Where ops of several were going on at once it is the first of
`CATEGORIES`; where none was and an op was ready, it is waiting for a thread. What is left of the
call is calling the engine; of a run whose call is not known nothing is said of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.analysis.intervals import merged
from stepscope.analysis.program.waiting import CALLS, INPUT_TYPES, rows_of_pipelines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.metadata import OpColumns, RunMetadata

__all__ = [
    "CATEGORIES",
    "PYTHON_TYPES",
    "PartSums",
    "category_of",
    "parts_between",
]

_TRANSFERS: Final = frozenset({
    "_Send", "_Recv", "_HostSend", "_HostRecv", "RecvTensor", "SendTensor", "MEMCPYHtoD",
    "MEMCPYDtoH", "MEMCPYDtoD", "MEMCPYPtoP",
})  # fmt: skip
PYTHON_TYPES: Final = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
CATEGORIES: Final = ("computing", "python_ops", "transfers", "input")
"""Where ops of several ran at once, the time is the first one's."""
_LOOKED_AT: Final = 200
"""So many runs of a kind say what its parts are."""


def category_of(op: str) -> str:
    """The category of a type of op; "" of one that only calls others.

    >>> category_of("MatMul"), category_of("IteratorGetNext"), category_of("PartitionedCall")
    ('computing', 'input', '')
    """
    if op in CALLS:
        return ""
    if op in INPUT_TYPES:
        return "input"
    if op in _TRANSFERS:
        return "transfers"
    return "python_ops" if op in PYTHON_TYPES else "computing"


def parts_between(ops: OpColumns, start: int, end: int) -> dict[str, int]:
    """How long ops of each category ran in that time, and how long some waited while none ran."""
    pipelines = rows_of_pipelines(ops)
    if pipelines.any():
        ops = ops.select(~pipelines)
    if not len(ops):
        return {}
    kinds = ops.ops
    numbers = {name: number for number, name in enumerate(CATEGORIES)}
    number_of = np.array([numbers.get(category_of(name), -1) for name in kinds.table])
    category = number_of[kinds.codes]
    begin = np.clip(ops.start_ns, start, end)
    until = np.clip(np.maximum(ops.end_ns, ops.start_ns), start, end)
    spent: dict[str, int] = {}
    firsts, lasts = begin[:0], until[:0]
    covered = 0
    for number, name in enumerate(CATEGORIES):
        of_it = category == number
        if of_it.any():
            firsts, lasts = merged(
                np.concatenate([firsts, begin[of_it]]), np.concatenate([lasts, until[of_it]])
            )
            now = int((lasts - firsts).sum())
            spent[name] = now - covered
            covered = now
    ready = np.clip(ops.scheduled_ns, start, end)
    waited = (ready < begin) & (ops.scheduled_ns > 0)
    if waited.any():
        firsts, lasts = merged(
            np.concatenate([firsts, ready[waited]]), np.concatenate([lasts, begin[waited]])
        )
        spent["threads"] = int((lasts - firsts).sum()) - covered
    return spent


class PartSums:
    """The parts of an average run of each kind, taken in while runs are read for something else.

    The first run of a kind is left out as soon as there is another: it builds. So are runs that did
    not end well.
    """

    def __init__(self) -> None:
        self._first: dict[str, dict[str, int]] = {}
        self._rest: dict[str, tuple[int, dict[str, int]]] = {}

    def add(self, kind: str, run: RunMetadata, start: int, end: int) -> None:
        """Take in a run that went on from `start` to `end`."""
        count, sums = self._rest.get(kind, (0, {}))
        if not run.status.ok or count >= _LOOKED_AT:
            return
        parts = parts_between(run.ops, start, end)
        recording = run.recorded()
        rest = "calling" if recording is not None and recording.call is not None else "nothing"
        parts[rest] = max(0, end - start - sum(parts.values()))
        if kind not in self._first:
            self._first[kind] = parts
            return
        self._rest[kind] = count + 1, _added(sums, parts)

    def of(self, kind: str) -> dict[str, float]:
        """Nanoseconds of each part in an average run, which they sum to."""
        count, sums = self._rest.get(kind, (1, self._first.get(kind, {})))
        return {part: ns / count for part, ns in sums.items() if ns}


def _added(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {part: a.get(part, 0) + b.get(part, 0) for part in {**a, **b}}
