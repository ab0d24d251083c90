"""What the graph of a session says about one run: its nodes, where they went, which were due."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import tensorflow

from stepscope.adapters.tensorflow.capture.graphs import NodeInfo, nodes_of
from stepscope.adapters.tensorflow.capture.row_columns import LOCAL_CPU
from stepscope.metadata import Placement

Nodes = Mapping[str, NodeInfo]
_NEVER_TIMED: Final = frozenset({"Const", "Placeholder", "_Arg", "VarHandleOp", "FIFOQueueV2"})
_FOLDED: Final = re.compile(r"/_\d+__cf__\d+$")
"""What the runtime adds to the name of a node that it replaced by its value."""


class Kind:
    """What tells one kind of run from another: the names fetched and fed."""

    __slots__ = ("fed", "fetched")

    def __init__(self, fetches: Any, feed_dict: Any) -> None:
        self.fetched = tuple(str(getattr(f, "name", f)) for f in leaves(fetches))
        self.fed = tuple(sorted(str(getattr(k, "name", k)) for k in feed_dict or ()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and (self.fetched, self.fed) == (other.fetched, other.fed)

    def __hash__(self) -> int:
        return hash((self.fetched, self.fed))


def leaves(fetches: Any) -> Iterator[Any]:
    """What a fetch structure holds; its dictionaries may have keys of any kind."""
    if isinstance(fetches, Mapping):
        fetches = fetches.values()
    elif not isinstance(fetches, (list, tuple)):
        yield fetches
        return
    for item in fetches:
        yield from leaves(item)


def needed(graph: Any, kind: Kind) -> dict[str, NodeInfo]:
    """The nodes that the fetches need, from the user's own graph."""
    every = nodes_of([graph.as_graph_def()])
    found: dict[str, NodeInfo] = {}
    stack = [name.partition(":")[0] for name in kind.fetched]
    while stack:
        name = stack.pop()
        if name in every and name not in found:
            found[name] = every[name]
            stack += [n for n, _ in every[name].inputs] + list(every[name].controls)
    return found


def node_defs(graph: Any, kind: Kind) -> Iterator[Any]:
    """The NodeDefs that the fetches need, and those of the graph's functions."""
    message = graph.as_graph_def()
    names = needed(graph, kind)
    yield from (node for node in message.node if node.name in names)
    for function in message.library.function:
        yield from function.node_def


def due(nodes: Nodes, done: set[str]) -> list[str]:
    """The nodes that had all they need and are not done: what a stopped run was doing."""
    done = done | {_FOLDED.sub("", name) for name in done}
    done |= {name for name, info in nodes.items() if info.op in _NEVER_TIMED}
    # What a node that is done needed is done too, under whatever name it ran.
    stack = [name for name in done if name in nodes]
    while stack:
        info = nodes[stack.pop()]
        before = {n for n, _ in info.inputs}.union(info.controls) - done
        done |= before
        stack += [name for name in before if name in nodes]
    return [
        name
        for name, info in nodes.items()
        if name not in done
        and all(n in done for n, _ in info.inputs)
        and all(c in done for c in info.controls)
    ]


def placements(graph: Any, nodes: Nodes) -> list[Placement]:
    """Where each node of the user's graph was asked to go, and where it went."""
    requested = {op.name: op.device for op in graph.get_operations()}
    found = []
    for name, info in nodes.items():
        if name not in requested:
            continue
        wish, device = requested[name], info.device or LOCAL_CPU
        same = not wish or is_of(device, wish)
        reason = "default" if not wish else "asked for" if same else "soft placement"
        found.append(Placement(name, info.op, wish, device, reason))
    return found


def is_of(device: str, wish: str) -> bool:
    """Whether a device is one that was asked for; what the wish leaves open may be anything."""
    found = tensorflow.DeviceSpec.from_string(device)
    return bool(found.make_merged_spec(tensorflow.DeviceSpec.from_string(wish)) == found)
