"""The user's graphs with the runs that executed them, for `stepscope coverage`.

A store has a graph once for all its runs; `stepscope export --to pb` writes it as `graph.pb` into
the directory of each: a GraphDef, which TensorFlow and TensorBoard read too. A graph is serialised
once as long as it does not change, and kept no longer than the script keeps it.

A graph that cannot be serialised is not the script's problem, nor the run's: it is not there then.
"""

from __future__ import annotations

import weakref
from typing import Any

from stepscope.metadata.stored.stored_run import SharedPart

METADATA_FILE = "run_metadata.pb"
GRAPH_FILE = "graph.pb"
_MOST = 100
"""A program that adds to its graph in every run would have it written in every run."""


class SavedGraphs:
    """Serialises graphs; not to be called by two threads at once."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, tuple[tuple[int, int], SharedPart]] = (
            weakref.WeakKeyDictionary()
        )
        self._serialised = 0

    def part_of(self, graph: Any) -> SharedPart | None:
        """A graph, TensorFlow's or ours, as stores keep it; None where there is none."""
        if graph is None:
            return None
        try:
            return self._part_of(graph)
        except Exception:  # noqa: BLE001 - see the module's text
            return None

    def _part_of(self, graph: Any) -> SharedPart | None:
        version = int(graph.version), int(getattr(graph, "change_count", 0))
        known, part = self._known.get(graph, (None, None))
        if known == version and part is not None:
            return part
        if self._serialised >= _MOST:
            return None
        self._serialised += 1
        part = SharedPart(graph.as_graph_def().SerializeToString(deterministic=True))
        self._known[graph] = version, part
        return part
