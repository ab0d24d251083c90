"""From fetches and feeds to a plan, made once and kept.

`CompiledRun` is one kind of run (these fetches, these feeds): its executor graph, and a plan per
combination of fed shapes. A program fed ever new shapes does not grow without bound: after
`MAX_SHAPES` combinations the rest share one plan that knows only what the graph says.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from stepscope.graph import Tensor, TensorShape
from stepscope.graph.dtypes import Array
from stepscope.ops.resources import ResourceStore
from stepscope.runtime.exec_graph import ExecGraph
from stepscope.runtime.fetches import FeedSlot, FetchSpec
from stepscope.runtime.placement import Placer
from stepscope.runtime.plan import Plan
from stepscope.runtime.plan_table import PlanTable
from stepscope.runtime.pooled import Schedule
from stepscope.runtime.program import Program

MAX_SHAPES: Final = 32


class CompiledPlan:
    """A plan with what each executor makes of it, on first use."""

    __slots__ = ("_lock", "_program", "_schedule", "_table", "plan")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._lock = threading.Lock()
        self._program: Program | None = None
        self._schedule: Schedule | None = None
        self._table: PlanTable | None = None

    @property
    def program(self) -> Program:
        if self._program is None:
            with self._lock:
                if self._program is None:
                    self._program = Program(self.plan)
        return self._program

    @property
    def schedule(self) -> Schedule:
        if self._schedule is None:
            with self._lock:
                if self._schedule is None:
                    self._schedule = Schedule(self.plan)
        return self._schedule

    def table(self) -> PlanTable:
        """What the plan says about its nodes, for whoever reads a trace."""
        if self._table is None:
            with self._lock:
                if self._table is None:
                    self._table = PlanTable(self.plan)
        return self._table


class CompiledRun:
    """See the module's text. Safe under threads."""

    def __init__(
        self,
        spec: FetchSpec,
        feeds: Sequence[Tensor],
        placer: Placer,
        resources: ResourceStore,
        change_count: int,
    ) -> None:
        self.spec = spec
        self.change_count = change_count
        self.graph = ExecGraph(feeds, spec.tensors, spec.targets, placer)
        self.slots = [FeedSlot(t) for t in feeds]
        args = list(self.graph.args)
        self._order = [feeds.index(t) for t in args]
        self._in_order = self._order == list(range(len(args)))
        self._all_static = all(t.shape.is_fully_defined() for t in feeds)
        self._resources = resources
        self.lock = threading.Lock()
        self._plans: dict[tuple[tuple[int, ...], ...] | None, CompiledPlan] = {}
        self._only: CompiledPlan | None = None
        self.runs = 0

    def in_plan_order(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Fed arrays (in the order of `slots`) as the plan wants them."""
        return tuple(arrays) if self._in_order else tuple(arrays[i] for i in self._order)

    def plan_for(self, arrays: Sequence[Array]) -> CompiledPlan:
        """The plan for these fed arrays (in plan order)."""
        if self._only is not None:
            return self._only
        key = tuple([a.shape for a in arrays])
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
                plan = CompiledPlan(Plan(self.graph, fed, self._resources))
                self._plans[wanted] = plan
                if self._all_static:
                    self._only = plan
            return plan
