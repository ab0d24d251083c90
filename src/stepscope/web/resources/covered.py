"""What became of the nodes of a run's graph as its author wrote it, where that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.analysis import Coverage, coverage
from stepscope.errors import StepscopeError
from stepscope.metadata import LoadedRun
from stepscope.metadata.readers.users_graph import graph_of

if TYPE_CHECKING:
    from stepscope.web.resources.looked_at import LookedAt

__all__ = ["CoveredGraph", "covered"]


class CoveredGraph(NamedTuple):
    """The graph and its coverage; without them `why` says why."""

    graph: Any
    coverage: Coverage | None
    why: str


def covered(here: LookedAt) -> CoveredGraph:
    """The coverage of the run that is looked at."""
    found: CoveredGraph = here.kept("covered", lambda: _covered(here))
    return found


def _covered(here: LookedAt) -> CoveredGraph:
    number = here.numbers[0]
    paths = here.recordings.source.paths
    try:
        if number >= 0 and paths:
            path = paths[here.recordings.set_of(number)]
            graph = graph_of(path, LoadedRun(here.name, here.run))
        else:
            written = [graphs.pre_optimization_graph for graphs in here.run.function_graphs]
            if not written:
                return CoveredGraph(None, None, "the graph as it was written is not in the record")
            graph = max(written, key=lambda graph: len(graph.library.function))
        return CoveredGraph(graph, coverage(here.run, graph), "")
    except StepscopeError as error:
        return CoveredGraph(None, None, str(error))
