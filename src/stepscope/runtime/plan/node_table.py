"""What a plan says about its nodes, as columns: worked out once per plan, used by every trace.

Names, op types, devices, labels, source lines and tensor descriptions (its `GraphFacts`) and who
allocates what are the same for every run of a plan. A trace adds times, threads and the few shapes
a plan could not know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.metadata import GraphFacts, MemoryColumns, TensorColumns
from stepscope.runtime.plan.exec_graph import dependencies
from stepscope.runtime.plan.plan import Plan

Int64s = npt.NDArray[np.int64]
Shapes = Mapping[tuple[int, int], tuple[int, ...]]
UNTIMED = -1
"""The end of a step that did not run."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of step numbers, one after the other."""

    flat: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> Ragged:
        """From lists that all have at least one entry."""
        lists = list(lists)
        lengths = np.array([0, *map(len, lists)], dtype=np.intp)
        flat = np.array([i for items in lists for i in items], dtype=np.intp)
        return cls(flat, np.cumsum(lengths)[:-1])

    def max_of(self, values: Int64s) -> Int64s:
        """Per list, the largest of its entries' values."""
        if not len(self.flat):
            return np.empty(0, dtype=np.int64)
        return np.maximum.reduceat(values[self.flat], self.starts)

    def min_of(self, values: Int64s) -> Int64s:
        if not len(self.flat):
            return np.empty(0, dtype=np.int64)
        return np.minimum.reduceat(values[self.flat], self.starts)


@dataclass(frozen=True, slots=True)
class _Allocations:
    """The steps that allocate: of which tensor, whether it is kept, and who uses it."""

    step: npt.NDArray[np.intp]
    tensor: npt.NDArray[np.intp]
    kept: npt.NDArray[np.bool_]
    readers: Ragged


class PlanTable:
    """A plan's facts of its nodes, as columns. In `facts` step i is node `source_count` + i.

    The first nodes are the `_SOURCE` of each device.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        steps, nodes = plan.steps, plan.nodes
        sources = len(plan.graph.devices)
        self.source_count = sources
        fed = {node: tensor.op for tensor, node in plan.graph.args.items()}
        made_by = [n.op or fed.get(n) for n in nodes]
        self._describe_tensors()
        self.facts = GraphFacts.build(
            name=["_SOURCE"] * sources + [n.name for n in nodes],
            op=["NoOp"] * sources + [n.op_type for n in nodes],
            device=[*plan.graph.devices, *(n.device for n in nodes)],
            label=["_SOURCE = NoOp()"] * sources + [n.label for n in nodes],
            source=[""] * sources + ["" if op is None else op.source for op in made_by],
            outputs=self._outputs,
        )
        self.step_nodes = np.arange(sources, sources + len(nodes))
        """The node of each step."""
        waits = [[d.index for d in dependencies(n)] for n in nodes]
        self.waiting = np.array([i for i, w in enumerate(waits) if w], dtype=np.intp)
        """The steps that wait for others, and for which (`waits_for`)."""
        self.waits_for = Ragged.of([w for w in waits if w])
        idle = [i for i, s in enumerate(steps) if not s.executes]
        retvals = {i for i in idle if nodes[i].op_type == "_Retval"}
        self.retvals = np.array(sorted(retvals), dtype=np.intp)
        self.at_start = np.array([i for i in idle if not waits[i]], dtype=np.intp)
        self.later = [(i, waits[i]) for i in idle if waits[i] and i not in retvals]
        """Constants that wait for others (control edges between devices)."""
        self._made: dict[bool, _Allocations] = {}

    def _describe_tensors(self) -> None:
        rows = [
            (
                i,
                slot,
                dtype,
                step.shapes[slot].known,
                step.executes and not step.kernel.views and not step.given,
            )
            for i, step in enumerate(self._plan.steps)
            for slot, dtype in enumerate(step.node.output_dtypes)
            if dtype.is_numpy_compatible
        ]
        self._tensor_item = np.array([r[2].size for r in rows], dtype=np.int64)
        self._tensor_fresh = np.array([r[4] for r in rows], dtype=np.int64)
        size = np.array(
            [math.prod(r[3]) * r[2].size if r[3] is not None else 0 for r in rows], dtype=np.int64
        )
        self._outputs = TensorColumns.build(
            op_index=[r[0] + self.source_count for r in rows],
            slot=[r[1] for r in rows],
            dtype=[r[2].base_dtype.as_datatype_enum for r in rows],
            shape=[r[3] for r in rows],
            bytes=size,
            allocated_bytes=size * self._tensor_fresh,
        )
        self._tensor_at = {(r[0], r[1]): n for n, r in enumerate(rows)}

    def _allocations(self, forwarded: Mapping[int, tuple[int, int]]) -> _Allocations:
        """Who allocates: an output that is written over an input does not, it takes over."""
        found = self._made.get(bool(forwarded))
        if found is not None:
            return found
        plan = self._plan
        readers: dict[int, list[int]] = {}
        kept: dict[int, bool] = {}
        owned: dict[int, tuple[int, int]] = {}
        root: dict[int, int] = {}
        for i, step in enumerate(plan.steps):
            for slot, group in enumerate(step.groups):
                memory = plan.memories[group]
                if not step.executes or memory.foreign or memory.members[0] != (i, slot):
                    continue
                if i in forwarded:
                    source, source_slot = forwarded[i]
                    over = plan.steps[source].groups[source_slot]
                    root[group] = root.get(over, over)
                else:
                    owned[group] = (i, slot)
                first = root.get(group, group)
                kept[first] = kept.get(first, False) or memory.fetched
                readers.setdefault(first, []).append(i)
        for i, step in enumerate(plan.steps):
            for group in step.input_groups(plan.steps):
                first = root.get(group, group)
                if first in readers and step.executes:
                    readers[first].append(i)
        made = self._made[bool(forwarded)] = _Allocations(
            np.array([i for i, _ in owned.values()], dtype=np.intp),
            np.array([self._tensor_at[port] for port in owned.values()], dtype=np.intp),
            np.array([kept[g] for g in owned], dtype=bool),
            Ragged.of([readers[g] for g in owned]),
        )
        return made

    # -- for a trace ---------------------------------------------------------------------------

    def outputs(self, noted: Shapes) -> TensorColumns:
        """The tensors of the plan's nodes, with what a run noted."""
        outputs = self._outputs
        if not noted:
            return outputs
        size, shape = outputs.bytes.copy(), outputs.shape.copy()
        for port, found in noted.items():
            n = self._tensor_at.get(port)
            if n is not None:
                shape[n] = found
                size[n] = math.prod(found) * self._tensor_item[n]
        return replace(outputs, shape=shape, bytes=size, allocated_bytes=size * self._tensor_fresh)

    def memory(
        self,
        row_of: npt.NDArray[np.intp],
        noted: Shapes,
        start: Int64s,
        end: Int64s,
        offset: int,
        forwarded: Mapping[int, tuple[int, int]],
    ) -> MemoryColumns:
        """Per op that allocated: its bytes, and when they were allocated and let go.

        What is fetched is not let go. `forwarded` are the steps that wrote over an input.
        """
        made = self._allocations(forwarded)
        size = self.outputs(noted).bytes[made.tensor]
        rows = row_of[made.step]
        freed_at = made.readers.max_of(end)
        freed = (made.readers.min_of(end) != UNTIMED) & ~made.kept
        records: dict[int, list[tuple[int, int]]] = {}
        for n in np.flatnonzero(rows >= 0).tolist():
            events = records.setdefault(int(rows[n]), [])
            events.append((int(start[made.step[n]]) + offset, int(size[n])))
            if freed[n]:
                events.append((int(freed_at[n]) + offset, -int(size[n])))
        order = sorted(records)
        total = [sum(b for _, b in records[r] if b > 0) for r in order]
        return MemoryColumns.build(
            op_index=order,
            total_bytes=total,
            peak_bytes=total,
            live_bytes=[sum(b for _, b in records[r]) for r in order],
            records=[records[r] for r in order],
        )
