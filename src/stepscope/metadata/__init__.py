"""The durable model: `RunMetadata`, its columns, its wire form, loading and saving.

A map: `run_metadata` (the object), `state` (which of it is the truth), `columns`, `memory`,
`allocations` and `strings` (columns), `outcome` (status, losses, overhead, placements),
`recording` and `targets` (what an engine hands over, and where it goes), `encode`, `decode`,
`allocation_codec`, `labels` and `extras` (to and from messages), `readers` (one file per
format that `load` reads).
"""

from stepscope.metadata.allocations import AllocationColumns
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.memory import MemoryColumns, TensorColumns
from stepscope.metadata.outcome import (
    Completeness,
    InFlight,
    Loss,
    Overhead,
    Placement,
    Status,
)
from stepscope.metadata.readers import load
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.targets import RunMetadataTarget, as_run_metadata_target

__all__ = [
    "AllocationColumns",
    "Completeness",
    "InFlight",
    "Loss",
    "MemoryColumns",
    "OpColumns",
    "Overhead",
    "Placement",
    "Recording",
    "RunMetadata",
    "RunMetadataTarget",
    "Status",
    "StringColumn",
    "TensorColumns",
    "as_run_metadata_target",
    "load",
]
