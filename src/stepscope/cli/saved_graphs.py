"""The user's graphs beside the runs that executed them, for `stepscope coverage`.

Each run's directory has a `graph.pb`: a GraphDef, which TensorFlow and TensorBoard read too. Runs
of the same graph share one file (hard links; copies where the file system has none). A graph is
serialised once as long as it does not change, and kept no longer than the script keeps it.

A graph that cannot be written is not the script's problem, nor the run's: there is no file then.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from pathlib import Path
from typing import Any

from stepscope.whole_files import write_whole

GRAPH_FILE = "graph.pb"
_MOST = 100
"""A program that adds to its graph in every run would have it written in every run."""


class SavedGraphs:
    """Writes graphs; not to be called by two threads at once."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, tuple[tuple[int, int], Path]] = (
            weakref.WeakKeyDictionary()
        )
        self._by_content: dict[bytes, Path] = {}
        self._serialised = 0

    def save(self, graph: Any, directory: Path) -> None:
        """Put a graph, TensorFlow's or ours, into a run's directory."""
        try:
            self._save(graph, directory / GRAPH_FILE)
        except Exception:  # noqa: BLE001 - see the module's text
            (directory / GRAPH_FILE).unlink(missing_ok=True)

    def _save(self, graph: Any, target: Path) -> None:
        version = int(graph.version), int(getattr(graph, "change_count", 0))
        known, path = self._known.get(graph, (None, None))
        if known != version or path is None:
            if self._serialised >= _MOST:
                return
            self._serialised += 1
            data: bytes = graph.as_graph_def().SerializeToString()
            path = self._by_content.setdefault(hashlib.sha256(data).digest(), target)
            self._known[graph] = version, path
            if path == target:
                write_whole(target, [data])
                return
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
