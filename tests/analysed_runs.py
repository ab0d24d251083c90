"""Runs with known answers, for the tests of the analyses."""

from __future__ import annotations

from stepscope.metadata import OpColumns, Recording, RunMetadata, TensorColumns
from stepscope.metadata.wire.labels import make_label

T0 = 1_700_000_000_000_000_000
CPU0, CPU1 = "/job:localhost/replica:0/task:0/device:CPU:0", "/device:CPU:1"


def run_of(*rows, device=CPU0, names=None, **parts):
    """A run of `(name, op, inputs, thread, scheduled, start, end[, device[, bytes]])`."""
    full = [(*row, device, 0)[:9] if len(row) < 8 else (*row, 0)[:9] for row in rows]
    columns = OpColumns.build(
        name=[r[0] for r in full],
        op=[r[1] for r in full],
        label=[make_label(r[0], r[1], r[2]) for r in full],
        thread=[r[3] for r in full],
        scheduled_ns=[T0 + r[4] for r in full],
        start_ns=[T0 + r[5] for r in full],
        end_ns=[T0 + r[6] for r in full],
        device=[r[7] for r in full],
        thread_names=names or {},
        tensors=TensorColumns.build(
            op_index=range(len(full)),
            slot=[0] * len(full),
            dtype=[1] * len(full),
            shape=[(r[8] // 4,) for r in full],
            bytes=[r[8] for r in full],
        ),
    )
    metadata = RunMetadata()
    metadata.record(Recording(**{"engine": "test", "ops": lambda: columns, **parts}))
    return metadata
