"""The durable model: `RunMetadata`, its columns, its wire form, loading and saving.

A map: `run_metadata` (the object), `state` (which of it is the truth), `graph_facts` (what a graph
determines) and `columns` (what a run adds), `memory`, `allocations` and `strings` (more columns),
`outcome` (status, losses, overhead, placements), `out_of_memory`, `memory_advice`,
`allocation_log` and `allocation_sampling` (the memory reports),
`recording` and `targets` (what an engine hands over, and where it goes), `packing`,
`stored_columns` and `stored_run` (a run as a store keeps it), `program_notes` (what a program did
beside its runs), `encode`, `decode`,
`allocation_codec`, `out_of_memory_codec`, `labels` and `extras` (to and from messages), `readers`
(one file per format that `load` reads), `dtype_names` and `readable` (for people).

Names are imported when they are asked for: who needs one of these modules does not wait for all.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.metadata.allocation_log import extract_allocation_log
    from stepscope.metadata.allocations import AllocationColumns
    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.graph_facts import GraphFacts
    from stepscope.metadata.memory import MemoryColumns, TensorColumns
    from stepscope.metadata.out_of_memory import OutOfMemory
    from stepscope.metadata.outcome import (
        MEMORY_OF_KERNELS,
        Completeness,
        InFlight,
        Loss,
        Overhead,
        Placement,
        Status,
    )
    from stepscope.metadata.program_notes import CallTime, Note
    from stepscope.metadata.readers import LoadedRun, iter_runs, load
    from stepscope.metadata.readers.programs import Program, programs
    from stepscope.metadata.recording import LoggedRecording, Recording, RunNumbers, Shared
    from stepscope.metadata.run_metadata import RunMetadata
    from stepscope.metadata.strings import StringColumn
    from stepscope.metadata.targets import RunMetadataTarget, as_run_metadata_target
else:
    from stepscope.lazy_imports import lazy_names as _lazy_names

    __getattr__ = _lazy_names(
        __name__,
        {
            "allocation_log": "extract_allocation_log",
            "allocations": "AllocationColumns",
            "columns": "OpColumns",
            "graph_facts": "GraphFacts",
            "memory": "MemoryColumns TensorColumns",
            "out_of_memory": "OutOfMemory",
            "outcome": "MEMORY_OF_KERNELS Completeness InFlight Loss Overhead Placement Status",
            "program_notes": "CallTime Note",
            "readers": "LoadedRun iter_runs load",
            "readers.programs": "Program programs",
            "recording": "LoggedRecording Recording RunNumbers Shared",
            "run_metadata": "RunMetadata",
            "strings": "StringColumn",
            "targets": "RunMetadataTarget as_run_metadata_target",
        },
    )

__all__ = [
    "MEMORY_OF_KERNELS",
    "AllocationColumns",
    "CallTime",
    "Completeness",
    "GraphFacts",
    "InFlight",
    "LoadedRun",
    "LoggedRecording",
    "Loss",
    "MemoryColumns",
    "Note",
    "OpColumns",
    "OutOfMemory",
    "Overhead",
    "Placement",
    "Program",
    "Recording",
    "RunMetadata",
    "RunMetadataTarget",
    "RunNumbers",
    "Shared",
    "Status",
    "StringColumn",
    "TensorColumns",
    "as_run_metadata_target",
    "extract_allocation_log",
    "iter_runs",
    "load",
    "programs",
]
