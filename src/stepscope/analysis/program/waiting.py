"""When a run waited for its input: an op that takes elements ran, and no other op of the run did.

A record may hold what an input pipeline's own threads did meanwhile: functions of a map, for
instance. These are no ops of the run, and while they run it still waits. A function that a run
executes is told by the op that calls it; one that begins while no such op is under way is a
pipeline's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope.analysis.intervals import merged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns

    Ints: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]

__all__ = ["CALLS", "INPUT_TYPES", "covered_ns", "rows_of", "rows_of_pipelines", "waited_ns"]

INPUT_TYPES: Final = frozenset({
    "IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional",
    "MultiDeviceIteratorGetNextFromShard", "QueueDequeue", "QueueDequeueV2", "QueueDequeueMany",
    "QueueDequeueManyV2", "QueueDequeueUpTo", "QueueDequeueUpToV2", "ReaderRead", "ReaderReadV2",
    "ReaderReadUpTo", "ReaderReadUpToV2", "Unstage", "MapUnstage", "OrderedMapUnstage",
})  # fmt: skip
"""What takes elements of datasets, queues and the like."""
CALLS: Final = frozenset({
    "PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf",
    "Case", "StatelessCase", "RemoteCall",
})  # fmt: skip
"""What these execute has rows of its own."""
_STAGE: Final = re.compile(r"Dataset(V\d+)?\Z")
_BEGINS: Final = "_SOURCE"
_ENDS: Final = "_Retval"


def rows_of(ops: OpColumns, types: frozenset[str]) -> Mask:
    """Which rows are of ops of these types."""
    codes = [code for code, kind in enumerate(ops.ops.table) if kind in types]
    found: Mask = np.isin(ops.ops.codes, codes) if codes else np.zeros(len(ops), bool)
    return found


def waited_ns(ops: OpColumns) -> int:
    """How long a run waited for elements.

    >>> from stepscope.metadata import OpColumns
    >>> waited_ns(OpColumns.build(
    ...     name=["next", "product"], op=["IteratorGetNext", "MatMul"], device=["", ""],
    ...     thread=[1, 2], scheduled_ns=[0, 60], start_ns=[0, 60], end_ns=[100, 80],
    ... ))
    80
    """
    takes = rows_of(ops, INPUT_TYPES)
    if not takes.any():
        return 0
    own = ~rows_of_pipelines(ops)
    return covered_ns(ops, own) - covered_ns(ops, own & ~takes)


def covered_ns(ops: OpColumns, rows: Mask) -> int:
    """How long at least one of these rows ran."""
    start = ops.start_ns[rows]
    firsts, lasts = merged(start, np.maximum(ops.end_ns[rows], start))
    return int((lasts - firsts).sum())


def rows_of_pipelines(ops: OpColumns) -> Mask:
    """Which rows are of an input pipeline: its stages, and functions that they executed on threads
    of their own.
    """
    found = np.zeros(len(ops), bool)
    if rows_of(ops, INPUT_TYPES).any():
        found = rows_of(ops, frozenset(t for t in ops.ops.table if _STAGE.search(t)))
    if _BEGINS not in ops.names.table or not rows_of(ops, INPUT_TYPES).any():
        return found
    begins = np.flatnonzero(ops.names.codes == ops.names.table.index(_BEGINS))
    if len(begins) < 2:
        return found
    starts, threads = ops.start_ns, ops.thread
    called = rows_of(ops, CALLS)
    order = np.lexsort((np.arange(len(ops)), starts))
    ends = rows_of(ops, frozenset([_ENDS]))
    first = begins[np.argmin(starts[begins])]
    for row in begins.tolist():
        moment = starts[row]
        under_way = called & (starts <= moment) & (ops.end_ns >= moment)
        if row == first or under_way.any():
            continue
        after = order[(threads[order] == threads[row]) & (starts[order] >= moment)]
        ended = False
        for other in after[after != row].tolist():
            if (ended and not ends[other]) or other in begins:
                break
            ended = ended or bool(ends[other])
            found[other] = True
        found[row] = True
    return found
