"""From fetches and feeds to a plan, made once and kept.

`CompiledRun` is one kind of run (these fetches, these feeds): its executor graph, and a plan per
combination of fed shapes. A program fed ever new shapes does not grow without bound: after
`MAX_SHAPES` combinations the rest share one plan that knows only what the graph says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from stepscope.graph import Operation, Tensor, TensorShape
from stepscope.graph.dtypes import Array
from stepscope.metadata import Shared
from stepscope.ops.resources import ResourceStore
from stepscope.runtime import observers
from stepscope.runtime.execute.blas_threads import BLAS
from stepscope.runtime.execute.flow_run import FlowSchedule
from stepscope.runtime.execute.pooled import PoolSchedule
from stepscope.runtime.execute.program import GeneratedProgram
from stepscope.runtime.fetches import FeedSlot, FetchSpec
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.memory.curve import MemoryCurve
from stepscope.runtime.plan.exec_graph import ExecGraph
from stepscope.runtime.plan.memory_table import MemoryTable
from stepscope.runtime.plan.node_table import PlanTable
from stepscope.runtime.plan.placement import Placer
from stepscope.runtime.plan.plan import Plan
from stepscope.runtime.plan.pool_gain import PoolGain, pool_gain

MAX_SHAPES: Final = 32
_NOTHING: Final[Mapping[int, tuple[int, ...]]] = {}


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LastFit:
    """What a run that fitted held: enough to say later what grew."""

    temporaries: Callable[[], Mapping[str, int]]
    """Bytes by op at the run's peak, worked out when somebody asks."""
    held: Mapping[str, int]
    """Bytes in variables and queues by op, when it was done."""
    changes: int
    """`Allocator.changes` as of then."""
    plan: CompiledPlan

    def by_op(self) -> dict[str, int]:
        """Bytes by op, of everything."""
        found = dict(self.held)
        for op, size in self.temporaries().items():
            found[op] = found.get(op, 0) + size
        return found


class CompiledPlan:
    """A plan with what each executor makes of it, on first use."""

    __slots__ = (
        "_allocator", "_curve", "_flow", "_gains", "_lock", "_memory", "_program", "_schedule",
        "_table", "_unknown", "plan",
    )  # fmt: skip

    def __init__(self, plan: Plan, allocator: Allocator | None = None) -> None:
        self.plan = plan
        self._allocator = allocator
        self._memory: MemoryTable | None = None
        self._curve: MemoryCurve | None = None
        self._lock = threading.Lock()
        self._program: GeneratedProgram | None = None
        self._schedule: PoolSchedule | None = None
        self._flow: FlowSchedule | None = None
        self._table: PlanTable | None = None
        self._gains: dict[tuple[int, int], PoolGain] = {}
        args = enumerate(plan.graph.args.values())
        self._unknown = [
            (n, a.index) for n, a in args if plan.steps[a.index].shapes[0].known is None
        ]

    def unknown_shapes(self, feeds: Sequence[Array]) -> Mapping[int, tuple[int, ...]]:
        """By step, the shapes of what is fed (in plan order) that the plan does not know."""
        return {step: feeds[n].shape for n, step in self._unknown} if self._unknown else _NOTHING

    @property
    def program(self) -> GeneratedProgram:
        if self._program is None:
            with self._lock:
                if self._program is None:
                    began = time.perf_counter_ns()
                    self._program = GeneratedProgram(self.plan, self.memory, self._allocator)
                    observers.planned(len(self.plan.nodes), time.perf_counter_ns() - began)
        return self._program

    def memory(self) -> MemoryTable:
        """What the plan says about memory."""
        if self._memory is None:
            # Two threads may both make it: they make the same.
            self._memory = MemoryTable(self.plan)
        return self._memory

    def curve(self) -> MemoryCurve:
        """The memory of an inline run, step by step, as far as the plan knows it."""
        if self._curve is None:
            self._curve = MemoryCurve(self.memory(), self.program)
        return self._curve

    @property
    def schedule(self) -> PoolSchedule:
        if self._schedule is None:
            with self._lock:
                if self._schedule is None:
                    self._schedule = PoolSchedule(self.plan)
        return self._schedule

    @property
    def flow(self) -> FlowSchedule:
        """For plans with branches and loops."""
        if self._flow is None:
            with self._lock:
                if self._flow is None:
                    self._flow = FlowSchedule(self.plan)
        return self._flow

    def gain(self, workers: int, blas_threads: int) -> PoolGain:
        """What a pool of so many workers would gain, where BLAS has so many threads."""
        key = (workers, blas_threads)
        found = self._gains.get(key)
        if found is None:
            found = self._gains[key] = pool_gain(self.plan, workers, blas_threads)
        return found

    def gains_on(self, workers: int) -> bool:
        """Whether it is done sooner on a pool of so many workers."""
        if self.plan.has_flow and self.flow.program is not None:
            # What handing tensors on costs there is more than what side by side would gain.
            return False
        return self.gain(workers, BLAS.count()).worth_it

    def table(self) -> PlanTable:
        """What the plan says about its nodes, for whoever reads a trace."""
        if self._table is None:
            with self._lock:
                if self._table is None:
                    self._table = PlanTable(self.plan)
        return self._table


class CompiledRun:
    """One kind of run: its executor graph, and a plan for each combination of fed shapes.

    Safe under threads.
    """

    def __init__(
        self,
        spec: FetchSpec,
        feeds: Sequence[Tensor],
        placer: Placer,
        resources: ResourceStore,
        change_count: int,
        allocator: Allocator | None = None,
    ) -> None:
        self._allocator = allocator
        self.last_fit: LastFit | None = None
        """The last run of this kind that fitted into memory, if anybody counted."""
        self.spec = spec
        self.change_count = change_count
        self.graph = graph = ExecGraph(feeds, spec.tensors, spec.targets, placer, spec.done)
        # What all runs have in common, each made when the first of them is looked at.
        self.sources = Shared(lambda: _sources(graph))
        """Where the user's code made the ops of the run, and what is fed to it."""
        self.placements = Shared(lambda: list(graph.placements.values()))
        self.partition_graphs = Shared(graph.partition_graphs)
        self._slots: list[FeedSlot] | None = None
        self._feeds = tuple(feeds)
        args = list(self.graph.args)
        self._order = [feeds.index(t) for t in args]
        self._in_order = self._order == list(range(len(args)))
        self._all_static = all(t.shape.is_fully_defined() for t in feeds)
        self._resources = resources
        self.lock = threading.Lock()
        self._plans: dict[tuple[tuple[int, ...], ...] | None, CompiledPlan] = {}
        self._only: CompiledPlan | None = None
        self.runs = 0

    @property
    def slots(self) -> list[FeedSlot]:
        """What each of the fed tensors takes."""
        if self._slots is None:
            self._slots = [FeedSlot(t) for t in self._feeds]
        return self._slots

    def op_named(self, name: str) -> Operation | None:
        """The op of that name, if the run has it or it is fed."""
        ops = [*self.graph.placements, *(t.op for t in self.graph.args)]
        return next((op for op in ops if op.name == name), None)

    def in_plan_order(self, arrays: Sequence[_T]) -> tuple[_T, ...]:
        """Fed arrays, or what is known of them (in the order of `slots`) as the plan wants it."""
        return tuple(arrays) if self._in_order else tuple(arrays[i] for i in self._order)

    def plan_for(self, arrays: Sequence[Array]) -> CompiledPlan:
        """The plan for these fed arrays (in plan order)."""
        if self._only is not None:
            return self._only
        return self.plan_for_shapes(tuple([a.shape for a in arrays]))

    def plan_for_shapes(self, key: tuple[tuple[int, ...], ...]) -> CompiledPlan:
        """The plan for fed arrays (in plan order) of these shapes."""
        if self._only is not None:
            return self._only
        plan = self._plans.get(key)
        return plan if plan is not None else self._compile(key)

    def _compile(self, key: tuple[tuple[int, ...], ...]) -> CompiledPlan:
        with self.lock:
            generic = len(self._plans) >= MAX_SHAPES
            wanted = None if generic else key
            plan = self._plans.get(wanted)
            if plan is None:
                shapes = (
                    [t.shape for t in self.graph.args] if generic else [TensorShape(s) for s in key]
                )
                fed = dict(zip(self.graph.args.values(), shapes, strict=True))
                began = time.perf_counter_ns()
                plan = CompiledPlan(Plan(self.graph, fed, self._resources), self._allocator)
                self._plans[wanted] = plan
                observers.planned(len(plan.plan.nodes), time.perf_counter_ns() - began)
                if self._all_static:
                    self._only = plan
            return plan


def _sources(graph: ExecGraph) -> dict[str, str]:
    ops = [*graph.placements, *(t.op for t in graph.args)]
    return {op.name: op.source for op in ops if op.source}
