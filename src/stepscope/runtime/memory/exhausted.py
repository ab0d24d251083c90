"""Out of memory: from a request that was refused to the error the user gets, and its report.

The report is made from what was live at that moment: what variables and queues hold, what was fed,
what the run's ops hold, and what other runs of the session hold that are counted.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from stepscope.errors import OpError, ResourceExhaustedError
from stepscope.graph.dtypes import Array, as_dtype
from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.memory.allocations import ALLOCATE, HELD, AllocationColumns
from stepscope.metadata.memory.out_of_memory import (
    BatchHint,
    MemoryRequest,
    OutOfMemory,
    out_of_memory,
)
from stepscope.ops.resources import address_of
from stepscope.runtime.execute.execution import StepFailed
from stepscope.runtime.execute.trace import Trace, clock, wall_offset
from stepscope.runtime.memory.accountant import OwnedMemory
from stepscope.runtime.memory.allocator import Allocator, RunAccount
from stepscope.runtime.memory.buffers import NoBuffer
from stepscope.runtime.memory.record import AllocationRows, notes_of
from stepscope.runtime.memory.run_memory import Fed, Refused, Request, RunMemory
from stepscope.runtime.plan.compiled import CompiledPlan, CompiledRun

HINT: Final = (
    "Hint: If you want to see a list of allocated tensors when OOM happens, add "
    "report_tensor_allocations_upon_oom to RunOptions for current allocation info."
)
_TENSORFLOWS: Final = {"float32": "float", "float64": "double", "float16": "half"}


class Accounted(Protocol):
    """The accounting of a run."""

    memory: RunMemory | None
    account: RunAccount | None
    inline: bool


@dataclass(slots=True)
class Scene:
    """Where memory ran out: the run, and what is known about it."""

    compiled: CompiledRun
    plan: CompiledPlan
    feeds: Sequence[Array]
    allocator: Allocator
    step_id: int
    trace: Trace | None
    accounting: Accounted | None

    @property
    def offset(self) -> int:
        """From clock readings to the epoch."""
        return self.trace.offset if self.trace is not None else wall_offset()

    @property
    def memory(self) -> RunMemory | None:
        return self.accounting.memory if self.accounting is not None else None

    @property
    def account(self) -> RunAccount | None:
        return self.accounting.account if self.accounting is not None else None

    # -- the request ---------------------------------------------------------------------------

    def request(self, failed: StepFailed) -> Request:
        """What was asked for, from the refusal, the plan or the exception."""
        cause = failed.cause
        if isinstance(cause, Refused):
            return cause.request
        step = failed.step
        shape, dtype = _asked_of_numpy(cause)
        output = None
        if step is not None:
            made = self.plan.memory().made[step.node.index]
            output = next((o for o in made if o.source is None or o.may_copy), None)
        if output is not None and (shape is None or isinstance(cause, NoBuffer)):
            shape, dtype = output.shape, output.dtype
            size = max(0, output.bytes)
        else:
            item = 0 if not dtype else as_dtype(dtype).numpy.itemsize
            size = 0 if shape is None else int(np.prod(shape, dtype=object)) * item
        name = step.node.name if step is not None else ""
        device = step.node.device if step is not None else self.plan.plan.graph.devices[0]
        slot = output.slot if output is not None else -1
        return Request(name, slot, device, dtype, shape, size, None, clock())

    # -- who holds what ------------------------------------------------------------------------

    def alive(self, failed: StepFailed) -> AllocationColumns:
        """Everything that is counted and live."""
        rows = AllocationRows()
        for h in self.allocator.holdings():
            rows.holding(h, HELD, h.time_ns)
        table = self.plan.memory()
        now = clock() + self.offset
        fed = self.memory.feeds if self.memory is not None else self._fed()
        rows.fed(table, fed, now, self.step_id)
        for owner in self._owners(failed):
            rows.owner(owner, HELD, now, self.step_id)
        parts = [rows.columns()]
        parts += [a.rows() for a in self.allocator.others(self.account)]
        return AllocationColumns.concat(parts)

    def _fed(self) -> list[Fed]:
        nodes = self.plan.plan.graph.args.values()
        unique = {
            (address_of(a), a.nbytes): Fed(n.index, a.shape, a.nbytes, address_of(a))
            for n, a in zip(nodes, self.feeds, strict=True)
        }
        return list(unique.values())

    def _owners(self, failed: StepFailed) -> list[OwnedMemory]:
        if self.memory is not None and self.memory.counts:
            if failed.step is not None and not isinstance(failed.cause, Refused):
                self.memory.withdraw(failed.step.node.index)
            return self.memory.alive()
        table = self.plan.memory()
        if failed.is_pooled:
            return _present(table.outputs.values(), failed.values)
        curve = self.plan.curve()
        index = failed.step.node.index if failed.step is not None else -1
        line = curve.line_of(index) if index >= 0 else len(self.plan.program.steps)
        notes = notes_of(table, failed.values)
        replaced = self.memory.replaced if self.memory is not None else ()
        if self.memory is not None:
            notes = {**notes, **self.memory.notes}
        return curve.alive_before(line, notes, replaced)

    def report(self, request: Request, failed: StepFailed) -> OutOfMemory:
        """The whole report."""
        sources = self.compiled.sources()
        asked = MemoryRequest(
            op=request.name,
            bytes=request.bytes,
            device=request.device,
            slot=request.slot,
            shape=request.shape,
            dtype=request.dtype,
            source=sources.get(request.name, ""),
            time_ns=request.time + self.offset,
        )
        fit = self.compiled.last_fit
        return out_of_memory(
            asked,
            self.alive(failed),
            sources=sources,
            limit=request.limit,
            cached=self.allocator.cached_bytes,
            last_fit=None if fit is None else fit.by_op(),
            batch=self._batch(request.device),
        )

    def _batch(self, device: str) -> BatchHint | None:
        """The feed whose leading dimension the graph leaves open."""
        for (tensor, _), array in zip(self.plan.plan.graph.args.items(), self.feeds, strict=True):
            axes = tensor.shape.axes
            if axes and axes[0] is None and array.shape[0] > 1:
                scaling = {
                    op.name
                    for op in self.compiled.graph.placements
                    if any(t.shape.axes and t.shape.axes[0] is None for t in op.values())
                }
                scaling.add(tensor.op.name)
                size = int(array.shape[0])
                return BatchHint(
                    size, tensor.op.name, scaling, self._moments(device, size, scaling)
                )
        return None

    def _moments(self, device: str, batch: int, scaling: set[str]) -> list[tuple[int, int]] | None:
        """At each moment of the run, the device's bytes that do not depend on the batch, and those
        that do; None where the plan does not fix them beforehand.
        """
        table = self.plan.memory()
        if self.accounting is None or not self.accounting.inline or not table.known:
            return None
        if table.growth_bound() is None:
            return None
        live = [sum(h.bytes for h in self.allocator.holdings() if h.device == device), 0]
        for fed in self._fed():
            if self.plan.plan.nodes[fed.step].device == device:
                live[bool(fed.shape and fed.shape[0] == batch)] += fed.bytes
        for account in self.allocator.others(self.account):
            live[0] += int(account.rows().bytes.sum())
        moments = [(live[0], live[1])]
        for _, event, owner in self.plan.curve().events({}):
            if owner.output.device == device:
                shape = owner.output.shape
                grows = owner.output.name in scaling and bool(shape and shape[0] == batch)
                live[grows] += owner.bytes if event == ALLOCATE else -owner.bytes
                moments.append((live[0], live[1]))
        return moments

    # -- the error -----------------------------------------------------------------------------

    def error(
        self, failed: StepFailed, *, wanted: bool
    ) -> tuple[ResourceExhaustedError, Request, OutOfMemory | None]:
        """The error, what was asked for, and the report where somebody wants one.

        The frames that the failure came through are cleared: they hold tensors.
        """
        request = self.request(failed)
        report = self.report(request, failed) if wanted else None
        text = _text(failed.cause, request)
        step = failed.step
        op = step.node.op if step is not None else self.compiled.op_named(request.name)
        name = step.node.name if step is not None else request.name
        if name:
            text += f"\n\t [[{{{{node {name}}}}}]]"
        if op is not None and op.source:
            text += f"\nNode {name!r} ({op.type}) was defined at {op.source}"
        text += f"\n{HINT}" if report is None else f"\n{report.text()}"
        node_def = step.node.node_def() if step is not None else None
        error = ResourceExhaustedError(node_def, op, text)
        cause: BaseException = failed.cause
        if isinstance(cause, OpError) and cause.__cause__ is not None:
            cause = cause.__cause__
        failed.values = {}
        _clear(failed, cause)
        # What refused it says less than the error does.
        error.__cause__ = None if isinstance(cause, Refused) else cause.with_traceback(None)
        return error, request, report


def _clear(*errors: BaseException | None) -> None:
    """Empty the frames that errors, and those they came from, went through."""
    waiting, seen = list(errors), set[int]()
    while waiting:
        error = waiting.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            traceback.clear_frames(error.__traceback__)
            waiting += [error.__cause__, error.__context__]


def _present(outputs: Any, values: Mapping[str, Any]) -> list[OwnedMemory]:
    """Outputs whose values are there."""
    owners = []
    for output in outputs:
        value = values.get(f"v{output.step}_{output.slot}")
        if output.source is None and isinstance(value, (np.ndarray, np.generic)):
            owners.append(OwnedMemory(output, value.nbytes, value.shape))
    return owners


def _asked_of_numpy(cause: BaseException | None) -> tuple[tuple[int, ...] | None, int]:
    """Shape and dtype of the array that NumPy could not allocate, where it says so."""
    while cause is not None:
        shape, dtype = getattr(cause, "shape", None), getattr(cause, "dtype", None)
        if isinstance(cause, MemoryError) and isinstance(shape, tuple):
            try:
                return shape, as_dtype(dtype).as_datatype_enum
            except TypeError:
                return shape, 0
        cause = cause.__cause__
    return None, 0


def _text(cause: BaseException, request: Request) -> str:
    if isinstance(cause, ResourceExhaustedError):
        return cause.message
    what = "memory"
    if request.shape is not None:
        name = dtype_name(request.dtype)
        dims = ",".join(map(str, request.shape))
        what = f"tensor with shape[{dims}] and type {_TENSORFLOWS.get(name, name)}"
    return f"OOM when allocating {what} on {request.device} by allocator cpu"


def account_rows(
    account: Callable[[], RunAccount | None],
    owners: Callable[[], Sequence[OwnedMemory]],
    memory: Callable[[], Sequence[Fed]],
    plan: CompiledPlan,
    step_id: int,
) -> Callable[[], AllocationColumns]:
    """What an account holds, row by row; what no tensor explains is a row of its own."""

    def rows() -> AllocationColumns:
        made = AllocationRows()
        made.fed(plan.memory(), memory(), 0, step_id)
        for owner in owners():
            made.owner(owner, HELD, 0, step_id)
        columns = made.columns()
        found = account()
        rest = AllocationRows()
        for device, size in (found.held if found is not None else {}).items():
            left = size - int(columns.bytes[columns.device == device].sum())
            if left > 0:
                rest.add(
                    f"run {step_id}", -1, device, HELD, "unattributed", 0, left, 0, 0, None, step_id
                )
        return AllocationColumns.concat([columns, rest.columns()])

    return rows
