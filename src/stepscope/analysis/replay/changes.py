"""Changes of a program, as they change the work of a run: plain data, and a function to apply it.

>>> work = Work(lengths=[5, 3, 2], delays=[0, 1, 1], before=[[], [0], [1]], threads=[0, 0, 0])
>>> run = RecordedWork(work, ["a", "copy", "b"], ["Mul", "Cast", "Add"], 4, 16)
>>> run.replayed_ns()
16.0
>>> Change(without=frozenset({"copy"})).replayed_ns(run)
12.0
>>> Change(times={"a": 0.2}).replayed_ns(run)
12.0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from stepscope.analysis.replay.recorded_work import RecordedWork
from stepscope.analysis.replay.simulation import ANY, NONE, Work, ends

__all__ = ["Change", "serving_only"]


@dataclass(frozen=True, slots=True)
class Change:
    """What is different in the program, by the names of nodes.

    `without` do not run any more: what waited for them waits for what they waited for, and is
    handed over as fast as ops of that run usually are on one thread; what a thread took to begin
    them it has for the next op there. `times` are
    factors of how long nodes run. `cut` are pairs of nodes of which the second does not wait for
    the first any more. With `threads`, ops run on any of so many threads, whichever is idle.
    `around` is a factor of what the call takes beside its ops.
    """

    without: frozenset[str] = frozenset()
    times: Mapping[str, float] = field(default_factory=dict)
    cut: frozenset[tuple[str, str]] = frozenset()
    threads: int = 0
    around: float = 1.0

    def replayed_ns(self, run: RecordedWork) -> float:
        """How long the run would have taken."""
        return self.around * run.around_ns + max(ends(self.applied(run)), default=0.0)

    def applied(self, run: RecordedWork) -> Work:
        """The work of the run with the change."""
        work, nodes = run.work, run.nodes
        lengths, delays = list(work.lengths), list(work.delays)
        before: Sequence[Sequence[int]] = work.before
        threads = list(work.threads)
        for op, name in enumerate(nodes):
            if name in self.without:
                lengths[op] = delays[op] = 0
                threads[op] = NONE
            elif name in self.times:
                lengths[op] *= self.times[name]
        if self.without:
            for op, others in run.begun_meanwhile.items():
                gone = sum(nodes[other] in self.without for other in others)
                delays[op] *= 1 - gone / (len(others) + 1)
            usual = _usual_delay(work)
            for op, mine in enumerate(before):
                if delays[op] > usual and any(nodes[earlier] in self.without for earlier in mine):
                    delays[op] = usual
        if self.cut:
            before = [
                [earlier for earlier in mine if (nodes[earlier], nodes[op]) not in self.cut]
                for op, mine in enumerate(before)
            ]
        workers = work.workers
        if self.threads:
            workers = self.threads
            threads = [NONE if thread == NONE else ANY for thread in threads]
        return Work(lengths, delays, before, threads, workers)


def _usual_delay(work: Work) -> float:
    """What handing an op over takes where it runs on the thread of what it waited for."""
    there = [
        work.delays[op]
        for op, mine in enumerate(work.before)
        if any(work.threads[earlier] == work.threads[op] >= 0 for earlier in mine)
    ]
    return median(there) if there else 0.0


def serving_only(run: RecordedWork, sinks: Iterable[str], keep: frozenset[str]) -> frozenset[str]:
    """The nodes that run for these alone, and the sinks themselves.

    Everything that something else reads is needed, and so are types in `keep` (they change what
    lives on) and, of nodes that nothing reads, those that are no sinks.

    >>> work = Work([1] * 4, [0] * 4, [[], [0], [0], [2]], [0] * 4)
    >>> run = RecordedWork(work, ["x", "loss", "hist", "merged"], [""] * 4, 0, 4)
    >>> sorted(serving_only(run, ["merged"], frozenset()))
    ['hist', 'merged']
    """
    wanted = set(sinks)
    readers: list[list[int]] = [[] for _ in run.nodes]
    for op, before in enumerate(run.work.before):
        for earlier in before:
            readers[earlier].append(op)
    unneeded: set[int] = set()
    for op in range(len(run.nodes) - 1, -1, -1):
        sink = run.nodes[op] in wanted
        read = bool(readers[op]) and all(reader in unneeded for reader in readers[op])
        if run.types[op] not in keep and (read or (sink and not readers[op])):
            unneeded.add(op)
    for op, name in enumerate(run.nodes):
        if name in wanted and all(reader in unneeded for reader in readers[op]):
            unneeded.add(op)
    return frozenset(run.nodes[op] for op in unneeded)
