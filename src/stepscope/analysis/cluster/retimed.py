"""A run with other times: the same in all else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from stepscope.metadata import AllocationColumns, Recording, RunMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, StringColumn

    Ints: TypeAlias = NDArray[np.int64]
    Retime: TypeAlias = Callable[[StringColumn, Ints], Ints]

__all__ = ["recorded_with", "retimed", "retimed_ops"]


def retimed(metadata: RunMetadata, times: Retime) -> RunMetadata:
    """The run with `times(devices, times)` in place of every column of times."""

    def allocations(of: AllocationColumns) -> AllocationColumns:
        return replace(of, time_ns=times(of.devices, of.time_ns))

    recording = metadata.recorded()
    moved = retimed_ops(metadata.ops, times)
    return recorded_with(
        metadata,
        moved,
        recorder=metadata.recorder,
        # By the clock of the process that called it, which is nobody's of the cluster.
        call=recording.call if recording is not None else None,
        allocations=lambda: allocations(metadata.allocations),
        allocation_log=lambda: allocations(metadata.allocation_log),
    )


def recorded_with(metadata: RunMetadata, ops: OpColumns, **other: Any) -> RunMetadata:
    """The run with other executions; `other` are fields of its `Recording` that differ too."""
    fields: dict[str, Any] = {
        "engine": metadata.engine,
        "step_id": metadata.step_id,
        "status": metadata.status,
        "completeness": metadata.completeness,
        "overhead": metadata.overhead,
        "ops": lambda: ops,
        "allocations": lambda: metadata.allocations,
        "allocation_log": lambda: metadata.allocation_log,
        "out_of_memory": metadata.out_of_memory,
        "partition_graphs": lambda: list(metadata.partition_graphs),
        "function_graphs": lambda: list(metadata.function_graphs),
        "placements": lambda: metadata.placements,
        "sources": lambda: metadata.sources,
        "run_options": metadata.run_options,
    }
    copy = RunMetadata()
    copy.record(Recording(**{**fields, **other}))
    return copy


def retimed_ops(ops: OpColumns, times: Retime) -> OpColumns:
    """The executions with other times."""
    devices = ops.devices

    def moved(column: Ints) -> Ints:
        return times(devices, column)

    return ops.replace(
        scheduled_ns=moved(ops.scheduled_ns),
        start_ns=moved(ops.start_ns),
        end_ns=moved(ops.end_ns),
        op_start_ns=None if ops.op_start_ns is ops.start_ns else moved(ops.op_start_ns),
        op_end_ns=None if ops.op_end_ns is ops.end_ns else moved(ops.op_end_ns),
    )
