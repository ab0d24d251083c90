"""What pages ask for, by name. Each function shapes what analyses found; none of them computes.

A resource is a function of the runs and of the parameters that returns plain values, arrays and
`StringColumn`s (`stepscope.web.frames` says how they travel), or raises `StepscopeError`:
`WrongParameterError`, `NoSuchRunError` or `CannotAnswerError`, of which the page shows the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from stepscope.web.recordings import Recordings
from stepscope.web.resources import (
    cluster,
    compare,
    graph,
    memory,
    ops,
    overview,
    panel,
    search,
    session,
    source_lines,
    timeline,
)
from stepscope.web.resources.asked import Asked

__all__ = ["RESOURCES", "Resource", "answer"]

Resource: TypeAlias = Callable[[Recordings, Asked], Any]

RESOURCES: Final[Mapping[str, Resource]] = {
    "changes": session.changes,
    "cluster": cluster.cluster,
    "compare": compare.compare,
    "edges": timeline.edges,
    "graph": graph.graph,
    "icicle": ops.icicle,
    "index": search.index,
    "instant": memory.instant,
    "layer": panel.layer,
    "memory": memory.memory,
    "op": panel.op,
    "ops": ops.ops,
    "overview": overview.overview,
    "range": timeline.between,
    "runs": session.runs,
    "search": search.search,
    "session": session.session,
    "source": source_lines.source,
    "tile": timeline.tile,
    "timeline": timeline.timeline,
}


def answer(recordings: Recordings, name: str, parameters: Mapping[str, str]) -> Any:
    """The value of a resource; `KeyError` where there is none of that name."""
    resource = RESOURCES[name]
    with recordings.lock:
        recordings.look()
        return resource(recordings, Asked(parameters))
