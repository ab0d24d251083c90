"""What search looks through: the nodes of a run, by name, type, line and layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis.profile.node_times import NodeTimes, node_times
from stepscope.metadata import readable
from stepscope.metadata.strings import StringColumn
from stepscope.web.resources.looked_at import LookedAt, looked_at
from stepscope.web.resources.shortened import shortened

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["index", "nodes_of", "search"]

_MOST: Final = 5_000
_FOUND: Final = 200


def nodes_of(here: LookedAt) -> NodeTimes:
    """The nodes of the run that is looked at, those that took the most time first."""
    found: NodeTimes = here.kept("nodes", lambda: node_times(here.run))
    return found


def index(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """The nodes that took the most time; `complete` says whether that is all."""
    found = nodes_of(looked_at(recordings, asked))
    return _columns(found, list(range(min(len(found.name), _MOST))))


def search(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """The nodes in whose name, type, line or layer a text is, those that took longest first."""
    found = nodes_of(looked_at(recordings, asked))
    wanted = asked.text("q").casefold()
    rows = []
    for row in range(len(found.name)):
        texts = (found.name[row], found.type[row], found.line[row], found.layer[row])
        if any(wanted in text.casefold() for text in texts):
            rows.append(row)
            if len(rows) == _FOUND:
                break
    return _columns(found, rows)


def _columns(found: NodeTimes, rows: list[int]) -> dict[str, Any]:
    return {
        "name": [shortened(found.name[row]) for row in rows],
        "type": StringColumn.of([found.type[row] for row in rows]),
        "line": StringColumn.of([readable.place(found.line[row]) for row in rows]),
        "layer": StringColumn.of([found.layer[row] for row in rows]),
        "self_ns": np.array([found.self_ns[row] for row in rows], np.int64),
        "calls": np.array([found.calls[row] for row in rows], np.int64),
        "row": np.array([found.longest[row] for row in rows], np.int64),
        "complete": len(rows) == len(found.name),
        "all": len(found.name),
    }
