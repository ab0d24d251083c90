"""A profile as TensorFlow writes them, small enough to know by heart."""

from __future__ import annotations

from pathlib import Path

from stepscope.metadata.xplane import XSpace


def write_profile(path: Path) -> None:
    """One step on one thread, of two ops."""
    message = XSpace()
    host = message.planes.add(name="/host:CPU")
    for key, name in enumerate(("ExecutorState::Process", "mm:MatMul", "a/b:AddV2"), 1):
        host.event_metadata[key].name = name
    host.stat_metadata[1].name = "id"
    line = host.lines.add(id=42, name="worker", timestamp_ns=5_000)
    step = line.events.add(metadata_id=1, offset_ps=0, duration_ps=9_000_000)
    step.stats.add(metadata_id=1, int64_value=7)
    line.events.add(metadata_id=2, offset_ps=1_000_000, duration_ps=2_000_000)
    line.events.add(metadata_id=3, offset_ps=4_000_000, duration_ps=1_000_000)
    path.write_bytes(message.SerializeToString())
