"""Reading runs from files: `load`, `iter_runs`, and one module per format.

A format is a module with `NAME`, `recognises(path, data)` and `runs(path, data)`; adding one means
adding the module and a line in `_load.READERS`. `wire` saves what can be saved of damaged messages,
`json_events` reads the events of a trace as a stream. `programs` gives what a program did as a
whole.
"""

from stepscope.metadata.readers._load import (
    LoadedRun,
    is_unread,
    iter_runs,
    load,
    stored_graph,
    unread,
)
from stepscope.metadata.readers.programs import Program, ProgramRun, programs

__all__ = [
    "LoadedRun",
    "Program",
    "ProgramRun",
    "is_unread",
    "iter_runs",
    "load",
    "programs",
    "stored_graph",
    "unread",
]
