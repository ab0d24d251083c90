"""A run of ops on threads as a discrete-event simulation: when each op begins and ends.

The policy, in the order in which it decides:

1. An op is ready when all that it waits for is over.
2. An op that has a thread runs there; one that has none runs on whichever thread is idle. Where a
   thread can choose, it takes the op that comes first in the order given.
3. Between being taken and beginning to run there is the op's delay: what the engine needs to hand
   it over. The thread is taken meanwhile.
4. An op that needs no thread (it waits for something outside: an element, a tensor from another
   device) begins as soon as it is ready, however many there are.

Worked example: `a` and `b` need nothing, `c` needs both. On one thread they follow each other; if
`b` may run anywhere and there are two threads, it runs beside `a`. `c` is handed over in 1 ns.

>>> alone = Work(lengths=[5, 3, 2], delays=[0, 0, 1], before=[[], [], [0, 1]], threads=[0, 0, 0])
>>> ends(alone)
[5.0, 8.0, 11.0]
>>> beside = replace(alone, threads=[0, ANY, 0], workers=2)
>>> ends(beside)
[5.0, 3.0, 8.0]
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["ANY", "NONE", "Work", "ends", "replace", "slowed"]

ANY: Final = -1
"""The thread of an op that may run on any of them."""
NONE: Final = -2
"""The thread of an op that needs none."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be simulated: an entry per op, in the order in which threads prefer them.

    `lengths` is how long each runs, `delays` what handing it over takes, `before` which ones it
    waits for, `threads` the number of its thread, or `ANY`, or `NONE`. There are `workers` threads.
    """

    lengths: Sequence[float]
    delays: Sequence[float]
    before: Sequence[Sequence[int]]
    threads: Sequence[int]
    workers: int = 1


# Long: one loop over events whose state is all of its locals, as replays are made by the hundred.
def ends(work: Work) -> list[float]:
    """When each op is over, from the moment on in which the first could begin.

    Ops that wait for each other in a circle never begin: that is a `ValueError`.
    """
    count = len(work.lengths)
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for op, before in enumerate(work.before):
        waits[op] = len(before)
        for earlier in before:
            after[earlier].append(op)
    over: list[float] = [0.0] * count
    done = 0
    own: list[list[int]] = [[] for _ in range(work.workers)]
    shared: list[int] = []
    idle = [True] * work.workers
    under_way: list[tuple[float, int]] = []
    lengths, delays, threads = work.lengths, work.delays, work.threads
    runs_on = list(threads)
    ready = [op for op in range(count) if not waits[op]]
    now: float = 0.0
    while True:
        asked: set[int] = set()
        for op in ready:
            thread = threads[op]
            if thread == NONE:
                heapq.heappush(under_way, (now + delays[op] + lengths[op], op))
            elif thread == ANY:
                heapq.heappush(shared, op)
            else:
                heapq.heappush(own[thread], op)
                asked.add(thread)
        if shared:
            asked.update(range(work.workers))
        for thread in sorted(asked):
            if not idle[thread]:
                continue
            mine = own[thread]
            if mine and (not shared or mine[0] < shared[0]):
                op = heapq.heappop(mine)
            elif shared:
                op = heapq.heappop(shared)
            else:
                continue
            idle[thread] = False
            runs_on[op] = thread
            heapq.heappush(under_way, (now + delays[op] + lengths[op], op))
        if not under_way:
            break
        now = under_way[0][0]
        ready = []
        freed: list[int] = []
        while under_way and under_way[0][0] == now:
            op = heapq.heappop(under_way)[1]
            over[op] = now
            done += 1
            if runs_on[op] >= 0:
                idle[runs_on[op]] = True
                freed.append(runs_on[op])
            for later in after[op]:
                waits[later] -= 1
                if not waits[later]:
                    ready.append(later)
        _ask_again(freed, own, ready)
    if done < count:
        raise ValueError(f"{count - done} of {count} ops wait for each other in a circle")
    return over


def slowed(work: Work, factor: float) -> Work:
    """The work with ops that take so much longer for as long as others run beside them.

    What runs beside what is told by the work as it is. Ops that need no thread slow nothing down.

    >>> both = Work(lengths=[4, 8], delays=[0, 0], before=[[], []], threads=[0, 1], workers=2)
    >>> slowed(both, 1.5).lengths
    [6.0, 10.0]
    """
    over = ends(work)
    spans = [
        (end - length, end, op)
        for op, (end, length) in enumerate(zip(over, work.lengths, strict=True))
        if work.threads[op] != NONE and length > 0
    ]
    events = sorted([(start, 1) for start, _, _ in spans] + [(end, -1) for _, end, _ in spans])
    moments, together = [0.0], [0.0]  # how long several ran together until each moment
    running = 0
    for moment, change in events:
        together.append(together[-1] + (moment - moments[-1]) * (running > 1))
        moments.append(moment)
        running += change
    until = dict(zip(moments, together, strict=True))
    lengths = list(work.lengths)
    for start, end, op in spans:
        lengths[op] += (factor - 1) * (until[end] - until[start])
    return replace(work, lengths=lengths)


def _ask_again(freed: list[int], own: list[list[int]], ready: list[int]) -> None:
    """Threads that became idle look at what waited for them: it counts as ready anew."""
    ready.extend(heapq.heappop(own[thread]) for thread in freed if own[thread])
