"""The durable model: `RunMetadata`, its columns, its wire form, loading and saving.

A map: `run_metadata` (the object), `run_fields` (what a field of it is), `state` (which of it is
the truth), `combined` (several runs as one), `graph_facts` (what a graph determines) and `columns`
(what a run adds), `logged_nodes` (the same as an executor logs it), `strings`, `row_groups`,
`outcome` (status, losses, overhead, placements), `recording` and `targets` (what an engine hands
over, and where it goes), `program_notes` and `fed_values` (what a program did beside its runs),
`device_names`, `dtype_names` and `readable` (for people). In rooms of their own: `memory/`
(allocations, what ops used, the memory reports), `wire/` (to and from messages and bytes),
`stored/` (a run as a store keeps it), `readers/` (one file per format that `load` reads),
`xplane/` (TensorFlow's profiles).

Names are imported when they are asked for: who needs one of these modules does not wait for all.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.graph_facts import GraphFacts
    from stepscope.metadata.memory.allocation_log import extract_allocation_log
    from stepscope.metadata.memory.allocations import AllocationColumns
    from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns
    from stepscope.metadata.memory.out_of_memory import OutOfMemory
    from stepscope.metadata.outcome import (
        MEMORY_OF_KERNELS,
        MEMORY_OF_THE_SYSTEM,
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
    from stepscope.metadata.run_metadata import RunMetadata, as_run_metadata, is_run_metadata
    from stepscope.metadata.strings import StringColumn
    from stepscope.metadata.targets import RunMetadataTarget, as_run_metadata_target
else:
    from stepscope.lazy_imports import lazy_names as _lazy_names

    __getattr__ = _lazy_names(
        __name__,
        {
            "memory.allocation_log": "extract_allocation_log",
            "memory.allocations": "AllocationColumns",
            "columns": "OpColumns",
            "graph_facts": "GraphFacts",
            "memory.memory_columns": "MemoryColumns TensorColumns",
            "memory.out_of_memory": "OutOfMemory",
            "outcome": (
                "MEMORY_OF_KERNELS MEMORY_OF_THE_SYSTEM Completeness InFlight Loss Overhead "
                "Placement Status"
            ),
            "program_notes": "CallTime Note",
            "readers": "LoadedRun iter_runs load",
            "readers.programs": "Program programs",
            "recording": "LoggedRecording Recording RunNumbers Shared",
            "run_metadata": "RunMetadata as_run_metadata is_run_metadata",
            "strings": "StringColumn",
            "targets": "RunMetadataTarget as_run_metadata_target",
        },
    )

__all__ = [
    "MEMORY_OF_KERNELS",
    "MEMORY_OF_THE_SYSTEM",
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
    "as_run_metadata",
    "as_run_metadata_target",
    "extract_allocation_log",
    "is_run_metadata",
    "iter_runs",
    "load",
    "programs",
]
