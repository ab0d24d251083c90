"""From `debug_options` to watches that are known to work: which tensor, which debug op, where to.

Everything a caller may have got wrong is found here, before the run starts: a node that does not
exist or is no part of the run, a slot the node does not have, a debug op that does not exist or
has no kernel for the tensor's type, a URL that nobody serves.

A tensor may be watched more than once: every watch counts, exact repetitions once. The node name
"*" with slot -1 watches every tensor of the run that no other watch names.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepscope.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnimplementedError,
)
from stepscope.graph import DType, Graph
from stepscope.runtime.debug.ops import BadDebugOpError, DebugOp, parse_debug_op
from stepscope.runtime.plan.exec_graph import ExecGraph, ExecNode

FILE: Final = "file://"
MEMORY: Final = "memcbk://"
_ELSEWHERE: Final = "grpc://"
WILDCARD: Final = "*"


@dataclass(frozen=True, slots=True)
class Watched:
    """A tensor to watch: the name it goes by in what is published, and where it comes from."""

    node: str
    slot: int
    source: ExecNode
    source_slot: int

    @property
    def name(self) -> str:
        return f"{self.node}:{self.slot}"

    @property
    def dtype(self) -> DType:
        return self.source.output_dtypes[self.source_slot]


@dataclass(frozen=True, slots=True)
class Target:
    """A debug URL, taken apart: `scheme` is `file://` or `memcbk://`."""

    scheme: str
    address: str

    @property
    def url(self) -> str:
        return self.scheme + self.address


@dataclass(slots=True)
class Watch:
    """What is computed of one tensor, and who gets it."""

    tensor: Watched
    debug_op: DebugOp
    spec: str
    """The debug op as the caller wrote it."""
    targets: list[Target]


def resolve_watches(
    options: Any, graph: ExecGraph, callback_keys: Collection[str]
) -> tuple[list[Watch], int]:
    """The watches of a run, and how many debug ops were left out because that was tolerated."""
    found: dict[tuple[Watched, str], Watch] = {}
    skipped = 0
    named: set[tuple[ExecNode, int]] = set()
    requests = list(options.debug_tensor_watch_opts)
    for request in sorted(requests, key=lambda r: r.node_name == WILDCARD):
        if request.node_name == WILDCARD:
            tensors = _all_tensors(graph, request.output_slot, named)
        else:
            tensors = [_tensor(graph, request.node_name, request.output_slot)]
            named.add((tensors[0].source, tensors[0].source_slot))
        targets = _targets(request, callback_keys)
        if not request.debug_ops:
            raise InvalidArgumentError.without_op(
                f"The watch of {_of(request)} names no debug_ops; try DebugIdentity."
            )
        for tensor in tensors:
            for spec in request.debug_ops:
                try:
                    debug_op = _debug_op(spec, tensor)
                except BadDebugOpError as error:
                    if request.tolerate_debug_op_creation_failures:
                        skipped += 1
                        continue
                    raise _cannot_make(spec, tensor, error) from None
                watch = found.setdefault((tensor, spec), Watch(tensor, debug_op, spec, []))
                watch.targets += [t for t in targets if t not in watch.targets]
    return list(found.values()), skipped


def _of(request: Any) -> str:
    return f"{request.node_name}:{request.output_slot}"


def _debug_op(spec: str, tensor: Watched) -> DebugOp:
    debug_op = parse_debug_op(spec)
    refusal = debug_op.refuse_type(tensor.dtype)
    if refusal:
        raise BadDebugOpError(refusal)
    return debug_op


def _cannot_make(spec: str, tensor: Watched, error: BadDebugOpError) -> OpError:
    return FailedPreconditionError.without_op(
        f"Failed to create debug node {spec} for tensor {tensor.name}: {error}. "
        "Set tolerate_debug_op_creation_failures to run without it.",
    )


# -- tensors -----------------------------------------------------------------------------------


def _all_tensors(
    graph: ExecGraph, slot: int, named: Collection[tuple[ExecNode, int]]
) -> list[Watched]:
    if slot != -1:
        raise InvalidArgumentError.without_op(
            f"output_slot must be -1 for the node name {WILDCARD!r}, not {slot}."
        )
    return [
        Watched(node.name, i, node, i)
        for node in graph.nodes
        for i in range(len(node.output_dtypes))
        if (node, i) not in named
    ]


def _tensor(graph: ExecGraph, name: str, slot: int) -> Watched:
    node = next((n for n in graph.nodes if n.name == name), None)
    if node is not None and 0 <= slot < len(node.output_dtypes):
        return Watched(name, slot, node, slot)
    for tensor, arg in graph.args.items():
        if (tensor.op.name, tensor.value_index) == (name, slot):
            return Watched(name, slot, arg, 0)
    raise _no_such_tensor(graph, name, slot, node)


def _no_such_tensor(graph: ExecGraph, name: str, slot: int, node: ExecNode | None) -> OpError:
    whole = _whole_graph(graph)
    names = [op.name for op in whole.get_operations()] if whole is not None else []
    if node is None and name not in names:
        return _unknown_node(name, names)
    if node is None and whole is not None:
        count = len(whole.get_operation_by_name(name).outputs)
        if 0 <= slot < count:
            return InvalidArgumentError.without_op(
                f"debug_options watches {name}:{slot}, which is in the graph but no part of this "
                "run: nothing that is fetched needs it. Fetch something that uses it, or leave "
                "out the watch.",
            )
    else:
        count = len(node.output_dtypes) if node is not None else 0
    has = f"slots 0 to {count - 1}" if count > 1 else ("slot 0 only" if count else "no outputs")
    hint = f" A negative slot goes with the node name {WILDCARD!r}." if slot < 0 else ""
    return InvalidArgumentError.without_op(
        f"debug_options watches slot {slot} of node {name!r}, which has {has}.{hint}"
    )


def _unknown_node(name: str, names: Sequence[str]) -> OpError:
    plain = name.partition(":")[0]
    if plain != name and plain in names:
        hint = f"node_name takes no slot: write node_name={plain!r} and the slot in output_slot."
    else:
        close = difflib.get_close_matches(name, names, n=5)
        hint = (
            f"Close to it: {', '.join(map(repr, close))}."
            if close
            else f"The graph has {len(names)} nodes, such as {', '.join(map(repr, names[:5]))}."
        )
    return InvalidArgumentError.without_op(
        f"debug_options watches node {name!r}, which is not in the graph. {hint}"
    )


def _whole_graph(graph: ExecGraph) -> Graph | None:
    for tensor in (*graph.feeds, *graph.fetches):
        return tensor.graph
    return next((n.op.graph for n in graph.nodes if n.op is not None), None)


# -- URLs --------------------------------------------------------------------------------------


def _targets(request: Any, callback_keys: Collection[str]) -> list[Target]:
    """Who gets what a watch finds: nobody if it names no URLs, as in TensorFlow."""
    return [_target(url, callback_keys) for url in request.debug_urls]


def _target(url: str, callback_keys: Collection[str]) -> Target:
    lower = url.lower()
    for scheme in (FILE, MEMORY):
        if lower.startswith(scheme):
            address = url[len(scheme) :]
            if not address:
                raise _bad_url(url, "names nothing after the scheme")
            if scheme == MEMORY and address not in callback_keys:
                known = ", ".join(map(repr, sorted(callback_keys))) or "none"
                raise _bad_url(url, f"has no callback registered (there are: {known})")
            return Target(scheme, address)
    if lower.startswith(_ELSEWHERE):
        raise UnimplementedError.without_op(
            f"The embedded engine does not send debug values over gRPC (debug_urls has {url!r}); "
            f"use {FILE}<directory> or {MEMORY}<key>.",
        )
    raise _bad_url(url, "has a scheme that is not known")


def _bad_url(url: str, problem: str) -> OpError:
    return InvalidArgumentError.without_op(
        f"The debug URL {url!r} {problem}. Known are {FILE}<directory> and {MEMORY}<key>, with a "
        "callback registered under that key.",
    )
