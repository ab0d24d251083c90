"""Functions of a graph, called from inside of an op: what a dataset's `map` does with an element.

A function is planned as a run of a session is, once per set of shapes, and executed on the thread
that calls it. Guarantees. A call is stopped by the signal of whoever calls. Under a memory limit
each of its ops is charged like any other. What it returns belongs to the caller; what it is given
is never written to.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from stepscope.errors import OpError, ResourceExhaustedError
from stepscope.graph.function_graph import FunctionGraph
from stepscope.ops.resources import InstanceResources, ResourceStore
from stepscope.runtime.execute.execution import RunState, StepFailed, is_exhaustion
from stepscope.runtime.execute.failures import op_error
from stepscope.runtime.execute.flow_run import FlowRun
from stepscope.runtime.execute.inline import InlineRun
from stepscope.runtime.fetches import FetchSpec
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.memory.counting import Counting
from stepscope.runtime.memory.run_memory import Refused
from stepscope.runtime.plan.compiled import CompiledPlan, CompiledRun
from stepscope.runtime.plan.placement import Placer


class FunctionCalls:
    """The functions of one session's graphs, planned as they are needed."""

    def __init__(self, placer: Placer, resources: ResourceStore, allocator: Allocator) -> None:
        self._placer = placer
        self._resources = resources
        self._allocator = allocator
        self._lock = threading.Lock()
        self._planned: WeakKeyDictionary[FunctionGraph, CompiledRun] = WeakKeyDictionary()

    def instantiate(self, function: FunctionGraph, captured: Sequence[Any]) -> CalledFunction:
        """The function with what it captured; one with a state of its own begins anew."""
        if function.is_stateful():
            return CalledFunction(self._compile(function), captured, self._allocator)
        with self._lock:
            compiled = self._planned.get(function)
            if compiled is None:
                compiled = self._planned[function] = self._compile(function)
        return CalledFunction(compiled, captured, self._allocator)

    def _compile(self, function: FunctionGraph) -> CompiledRun:
        resources: Any = InstanceResources(self._resources)
        return CompiledRun(
            FetchSpec(function, function.outputs),
            function.inputs,
            self._placer,
            resources,
            function.change_count,
            self._allocator,
        )


class CalledFunction:
    """A function that is ready to be called; see the module's text."""

    def __init__(
        self, compiled: CompiledRun, captured: Sequence[Any], allocator: Allocator
    ) -> None:
        self._compiled = compiled
        self._captured = tuple(captured)
        self._shapes = tuple(_shape(value) for value in captured)
        self._allocator = allocator

    def __call__(self, cancellation: Any, step_id: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """What the function returns for these arguments."""
        compiled = self._compiled
        feeds = compiled.in_plan_order((*inputs, *self._captured))
        shapes = (*[_shape(value) for value in inputs], *self._shapes)
        plan = compiled.plan_for_shapes(compiled.in_plan_order(shapes))
        state = RunState(step_id, cancellation)
        try:
            if self._allocator.limits:
                results = self._counted(plan, feeds, state)
            else:
                results = self._run(plan, feeds, state)
        except StepFailed as failed:
            raise self._error(failed) from failed.cause
        values: tuple[Any, ...] = tuple(compiled.spec.build(results))
        return values

    def _run(self, plan: CompiledPlan, feeds: tuple[Any, ...], state: RunState) -> tuple[Any, ...]:
        if plan.plan.has_flow:
            flow = FlowRun(plan.flow, state, feeds, None, frozenset(), self._allocator)
            return flow.on_this_thread()
        inline = InlineRun(plan.program, state, feeds, None, frozenset(), self._allocator)
        return inline.on_this_thread()

    def _counted(
        self, plan: CompiledPlan, feeds: tuple[Any, ...], state: RunState
    ) -> tuple[Any, ...]:
        """Under a limit: every op is charged, or the whole of it at once."""
        accounting = Counting(
            self._allocator, self._compiled, plan, feeds, state, not plan.plan.has_flow, False
        )
        try:
            accounting.open()
            results = self._run(plan, feeds, state)
            accounting.succeeded()
        except Refused as refused:
            raise StepFailed(refused, None) from refused
        finally:
            accounting.close()
        return results

    def _error(self, failed: StepFailed) -> OpError:
        cause = failed.cause
        if not isinstance(cause, Exception):
            raise cause
        if isinstance(cause, Refused):
            request = cause.request
            shape = "" if request.shape is None else ",".join(map(str, request.shape))
            return ResourceExhaustedError.without_op(
                f"OOM when allocating tensor with shape[{shape}] ({request.bytes} bytes) for "
                f"{request.name!r} of a function on {request.device}",
            )
        if is_exhaustion(cause) and not isinstance(cause, OpError):
            return ResourceExhaustedError.without_op(f"OOM in a function: {cause}")
        return op_error(cause, failed.step)


def _shape(value: Any) -> tuple[int, ...]:
    """Of an array; handles (variables, datasets) have none."""
    return value.shape if isinstance(value, (np.ndarray, np.generic)) else ()
