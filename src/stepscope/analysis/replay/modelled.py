"""A run replayed with its own op times: what the model of an engine gets wrong by itself.

A run that is replayed with all of its own delays comes out as long as it was, which proves nothing.
Here no op has a delay of its own. Taken from the run, as they were recorded, are: how long each op
ran, on which thread and in which order there, and, as one number, what the call took before its
first op and after its last. What lies between ops follows from few numbers:

- the **gap**, one number per run: a thread that has been busy until then begins its next op after
  that. It is the median of what ops took to begin;
- what it takes until a thread is **woken**, one number per thread: so much later it begins an op
  that another thread made ready while it had nothing to do. It is the mean. A thread that is woken
  once in a run has that one delay as it was;
- an op that needs no thread begins after the median of what such ops took;
- what took no time (a constant that the plan knows) took no time to begin either, and what is
  before the first op belongs to the call.

Both engines work like this: a worker goes on with what its last op made ready, and hands expensive
ops over. What the model does not know is whatever else holds a thread up: the system ran something
else, another thread had Python's lock.

>>> work = Work([10.0] * 5, [0.0, 2.0, 2.0, 5.0, 9.0], [[], [0], [1], [2], [3]], [0, 0, 0, 0, 1], 2)
>>> run = RecordedWork(work, list("abcde"), ["Tanh"] * 5, 4, 72)
>>> run.replayed_ns(), modelled_ns(run)
(72.0, 69.0)
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import fmean, median
from typing import Final

from stepscope.analysis.replay.recorded_work import RecordedWork
from stepscope.analysis.replay.simulation import Work, ends

__all__ = ["modelled_ns", "woken_ops"]

_GAP: Final = -1
_NO_THREAD: Final = -2


def modelled_ns(run: RecordedWork) -> float:
    """How long the run would have taken by its op times and the model."""
    work = run.work
    kinds = [
        thread if woken else _GAP if thread >= 0 else _NO_THREAD
        for thread, woken in zip(work.threads, woken_ops(work), strict=True)
    ]
    counted = [place > 0 and length > 0 for place, length in enumerate(work.lengths)]
    took: defaultdict[int, list[float]] = defaultdict(list)
    for kind, delay, counts in zip(kinds, work.delays, counted, strict=True):
        if counts:
            took[kind].append(delay)
    usual = {kind: median(some) if kind < 0 else fmean(some) for kind, some in took.items()}
    delays = [usual[kind] if counts else 0.0 for kind, counts in zip(kinds, counted, strict=True)]
    return run.around_ns + max(ends(replace(work, delays=delays)), default=0.0)


def woken_ops(work: Work) -> list[bool]:
    """Which ops a thread ran that had nothing to do when another made them ready.

    >>> woken_ops(Work([5, 5, 5, 5], [0] * 4, [[], [0], [0], [1]], [0, 0, 1, 1], 2))
    [False, False, True, False]
    """
    over = ends(work)
    free = [-1.0] * work.workers  # one that has not run yet has nothing to do
    found = [False] * len(over)
    for op in sorted(range(len(over)), key=over.__getitem__):
        thread = work.threads[op]
        if thread < 0:
            continue
        last = max(work.before[op], key=over.__getitem__, default=None)
        if last is not None and work.threads[last] != thread:
            found[op] = over[last] > free[thread]
        free[thread] = max(free[thread], over[op])
    return found
