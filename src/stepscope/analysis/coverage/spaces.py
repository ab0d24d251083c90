"""Which executed graph belongs to which part of the user's graph."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.analysis.coverage.executed import Executed, ExecutedNode, best_graphs
from stepscope.analysis.coverage.users_graph import OpenedGraph
from stepscope.analysis.coverage.values import PASS_THROUGH


@dataclass(slots=True)
class Spaces:
    """What is known of the graphs that executed, per space of the user's graph.

    `nodes` are the executed nodes by path; where a graph was not kept, the names that ran stand for
    it, and the space is not in `known`. In spaces `apart` nothing of the run's record executed.
    """

    nodes: dict[int, dict[str, ExecutedNode]]
    known: set[int]
    apart: set[int]


def spaces_of(graph: OpenedGraph, run: Executed) -> Spaces:
    """Find the executed graph of every space."""
    by_space: dict[int, set[str]] = {}
    for place in graph.places:
        by_space.setdefault(place.scope.space, set()).add(place.path)
    found = Spaces({}, set(), set())
    ran = {path: ExecutedNode(rows[0].name, rows[0].op) for path, rows in run.ran.items()}
    left = run.graphs
    for space, paths in by_space.items():
        graphs = best_graphs(left, paths, whole=space == 0)
        if space == 0:
            left = [graph for graph in left if not any(graph is own for own in graphs)]
        if graphs:
            found.nodes[space] = {path: node for nodes in graphs for path, node in nodes.items()}
            found.known.add(space)
        elif space == 0:
            found.nodes[space] = ran
        else:
            found.nodes[space] = {path: ran[path] for path in paths & ran.keys()}
    _set_apart(graph, run, found)
    return found


def _set_apart(graph: OpenedGraph, run: Executed, found: Spaces) -> None:
    """Tell by the names that only one function has whether that function executed."""
    holders: dict[str, set[str]] = {}
    function_of: dict[int, str] = {}
    for scope in graph.scopes:
        function_of.setdefault(scope.space, scope.function)
    for place in graph.places:
        space = place.scope.space
        if place.op == "Const" or place.op in PASS_THROUGH or place.scope.cluster:
            continue
        if space not in found.known or place.path in found.nodes[space]:
            holders.setdefault(place.path, set()).add(function_of[space])
    own: dict[str, list[bool]] = {}
    shared: set[str] = set()
    for path, functions in holders.items():
        ran = path in run.ran
        if len(functions) == 1:
            own.setdefault(next(iter(functions)), []).append(ran)
        elif ran:
            shared |= functions
    for space in found.nodes:
        function = function_of[space]
        executed = any(own[function]) if function in own else function in shared
        if space and not executed:
            found.apart.add(space)
