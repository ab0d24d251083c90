"""Whether a plan is done sooner on a pool than on one thread, from what its ops cost.

On one thread the ops follow each other, but a matrix product has all of BLAS's threads to itself.
On a pool independent ops run side by side and products share the cores. A network that is trained
is mostly products, one after the other: the pool would only make them compete. Branches of other
work gain from it. The estimates are those of the plan, per op, on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepscope.runtime.plan.exec_graph import dependencies
from stepscope.runtime.plan.plan import EXPENSIVE_NS, Plan

_HANDED_OVER_NS: Final = 30_000
"""What it costs to give an op to another thread and to wait for it."""
_WORTH: Final = 0.85
"""A pool has to be that much better: estimates are rough, and it costs memory as well."""


@dataclass(frozen=True, slots=True)
class PoolGain:
    """What was found: nanoseconds on one thread and on the pool, and how the pool shares BLAS."""

    inline_ns: float
    pooled_ns: float
    blas_threads: int
    """How many threads each product should use on the pool."""

    @property
    def worth_it(self) -> bool:
        return self.pooled_ns < _WORTH * self.inline_ns


def pool_gain(plan: Plan, workers: int, blas_threads: int) -> PoolGain:
    """The estimate for a pool of so many workers, where one product may use so many threads."""
    steps = [s for s in plan.steps if s.executes]
    costs = {s.node.index: EXPENSIVE_NS if s.cost_ns is None else s.cost_ns for s in steps}
    threaded = {s.node.index for s in steps if s.kernel.threaded and s.expensive}
    inline = sum(c / blas_threads if i in threaded else c for i, c in costs.items())
    work = sum(costs.values())
    width = min(workers, max(1, round(work / max(1.0, _longest(plan, costs)))))
    each = max(1, blas_threads // width)
    shared = {i: c / each if i in threaded else c for i, c in costs.items()}
    handed = sum(s.expensive for s in steps) * _HANDED_OVER_NS / width
    pooled = max(_longest(plan, shared), sum(shared.values()) / width) + handed
    return PoolGain(inline, pooled, each)


def _longest(plan: Plan, costs: dict[int, float]) -> float:
    """The time of the longest path of ops that need each other."""
    done = [0.0] * len(plan.steps)
    for i, step in enumerate(plan.steps):
        before = max((done[d.index] for d in dependencies(step.node) if d.index < i), default=0.0)
        done[i] = before + costs.get(i, 0.0)
    return max(done, default=0.0)
