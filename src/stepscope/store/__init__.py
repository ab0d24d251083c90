"""Where recordings live: one SQLite file per process, of which `stepscope.load` gives the runs.

A map: `store` (the queue and the thread that writes), `database` (the file),
`live_runs` (what is not in it yet). What a run looks like
in it is `stepscope.metadata.stored.stored_run`, what the file looks like and how it is read
`stepscope.metadata.readers.store_file`.
"""

from stepscope.store.database import add_note_to
from stepscope.store.live_runs import LiveRuns
from stepscope.store.store import Store

__all__ = ["LiveRuns", "Store", "add_note_to"]
