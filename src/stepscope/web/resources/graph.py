"""The page Graph: the dataflow graph of a run, scope by scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.coverage.report import STATES
from stepscope.analysis.execution.dataflow import Dataflow, dataflow
from stepscope.metadata import readable
from stepscope.metadata.strings import StringColumn
from stepscope.web.resources.asked import CannotAnswerError, WrongParameterError
from stepscope.web.resources.covered import covered
from stepscope.web.resources.looked_at import LookedAt, looked_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.execution.dataflow import DataflowNode
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["flow_of", "graph"]


def flow_of(here: LookedAt) -> Dataflow:
    """The graph of the run that is looked at, made once."""

    def make() -> Dataflow:
        path = here.path()
        known = covered(here)
        return dataflow(here.run, known.coverage, known.graph, path.names if path else ())

    found: Dataflow = here.kept("dataflow", make)
    return found


def graph(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """What lies in a scope of the graph: `/` is all of it, nothing where there is most to see."""
    here = looked_at(recordings, asked)
    if len(here.runs) > 1:
        raise WrongParameterError("run must be one run here")
    flow = flow_of(here)
    if not len(flow):
        raise CannotAnswerError("no op of this run was recorded, so there is no graph of it")
    wanted = asked.text("scope")
    scope = wanted.strip("/") if wanted else here.kept("graph opens", flow.opening)
    found = flow.scope(scope)
    if scope and not found.nodes:
        raise WrongParameterError(f"there is no scope {scope!r} in the graph of this run")
    why = covered(here).why
    value: dict[str, Any] = {
        "scope": scope,
        "all": len(flow),
        "nodes": _nodes(found.nodes),
        "outer": _nodes(found.outside),
        "edges": {
            "from": np.array([edge.source for edge in found.edges], np.int64),
            "to": np.array([edge.target for edge in found.edges], np.int64),
            "count": np.array([edge.edges for edge in found.edges], np.int64),
            "bytes": np.array([edge.bytes for edge in found.edges], np.int64),
            "control": np.array([edge.control for edge in found.edges], bool),
        },
        "states": dict(STATES),
        "notes": [f"nodes that did not run are not drawn: {why}"] if why else [],
        "folded": [],
    }
    if found.folded:
        value["folded"].append(f"{found.folded:,} ops that took the least time are one box")
    return value


def _nodes(nodes: Sequence[DataflowNode]) -> dict[str, Any]:
    return {
        "id": [node.id for node in nodes],
        "label": [node.label for node in nodes],
        "kind": StringColumn.of([node.kind for node in nodes]),
        "type": StringColumn.of([node.type for node in nodes]),
        "ops": np.array([node.ops for node in nodes], np.int64),
        "self_ns": np.array([node.self_ns for node in nodes], np.int64),
        "bytes": np.array([node.bytes for node in nodes], np.int64),
        "device": StringColumn.of([readable.device(node.device) for node in nodes]),
        "state": StringColumn.of([node.state for node in nodes]),
        "detail": [node.detail for node in nodes],
        "path": np.array([node.on_path for node in nodes], bool),
        "line": StringColumn.of([readable.place(node.line) for node in nodes]),
    }
