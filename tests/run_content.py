"""All that a run says, as plain values that can be compared."""

from __future__ import annotations

from dataclasses import fields

from stepscope.metadata import OpColumns, RunMetadata, StringColumn


def texts(column: StringColumn | None) -> list[str] | None:
    return None if column is None else column.values.tolist()


def content_of(columns: object) -> dict[str, object]:
    """Every column of a dataclass of columns, with its type."""
    found: dict[str, object] = {}
    for field in fields(columns):  # type: ignore[arg-type]
        column = getattr(columns, field.name)
        if isinstance(column, StringColumn):
            found[field.name] = texts(column)
        else:
            found[field.name] = (column.tolist(), column.dtype)
    return found


def of_ops(ops: OpColumns) -> dict[str, object]:
    numbers = ("thread", "step", "scheduled_ns", "start_ns", "end_ns", "op_start_ns", "op_end_ns")
    return {
        "names": texts(ops.names),
        "types": texts(ops.ops),
        "devices": texts(ops.devices),
        "labels": texts(ops.labels) if len(ops) else None,
        "sources": texts(ops.facts.sources[ops.node]) if len(ops) and ops.facts.sources else None,
        "thread_names": dict(ops.thread_names) if len(ops) else {},
        "tensors": content_of(ops.tensors),
        "memory": content_of(ops.memory),
        "outputs": content_of(ops.facts.outputs_of(ops.node)) if len(ops) else None,
        **{name: (getattr(ops, name).tolist(), getattr(ops, name).dtype) for name in numbers},
    }


def ours(run: RunMetadata) -> dict[str, object]:
    return {
        "status": run.status,
        "completeness": run.completeness,
        "overhead": run.overhead,
        "engine": run.engine,
        "recorder": run.recorder,
        "step_id": run.step_id,
        "run_options": run.run_options,
        "placements": run.placements,
        "sources": run.sources,
        "peaks": run.device_peaks(),
        "out_of_memory": run.out_of_memory,
        "allocations": content_of(run.allocations),
        "allocation_log": content_of(run.allocation_log),
    }


def all_of(run: RunMetadata) -> dict[str, object]:
    """Everything, TensorFlow's fields as bytes."""
    content = {"ops": of_ops(run.ops), **ours(run)}
    return {**content, "message": run.held_now()._canonical(run._message())}
