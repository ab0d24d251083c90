"""`run_metadata.pb`: a serialised `RunMetadata` of Stepscope, TensorFlow or TensorBoard.

Of a large file `step_stats` is not made into messages: the bytes are checked in small parts, and
columns are scanned from them when somebody looks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stepscope import _messages as pb
from stepscope.errors import UnreadableFileError
from stepscope.metadata.outcome import END_MISSING, Completeness, Loss
from stepscope.metadata.readers.density import is_hollow
from stepscope.metadata.readers.wire import parses_in_parts, salvage
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.state import State
from stepscope.metadata.wire.extras import decode_completeness, encode_completeness, encode_status
from stepscope.metadata.wire.wire_scan import WireDamageError, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["HEAD", "NAME", "begins", "decode", "recognises", "runs"]

NAME = "a serialised RunMetadata"

_CONTAINERS = frozenset(
    {"StepStats", "DeviceStepStats", "CostGraphDef", "GraphDef", "FunctionGraphs", "Completeness"}
)
_STEP_STATS, _DEVICE, _LENGTH = 1, 1, 2
_LARGE = 1 << 20

_SIGNATURE: bytes = pb.RunMetadataMessage(bytes_following=1).SerializeToString()[:-8]
"""How a file of ours begins: with the number of the field, a fixed64, that says how long it is."""

# step_stats { dev_stats { device: "/...; in a GraphDef the first node's name stands in its place.
_STEP_STATS_HEAD = re.compile(rb"(?:\x0a[\x80-\xff]{0,9}[\x01-\x7f]){3}/", re.DOTALL)
HEAD = 64
"""So many bytes of a file tell whether it `begins` as a run."""


def begins(head: bytes) -> bool:
    """Whether these are the first bytes of a run: one of ours, or of TensorFlow's step stats."""
    return head.startswith(_SIGNATURE) or _STEP_STATS_HEAD.match(head) is not None


def recognises(path: Path, data: bytes) -> bool:  # noqa: ARG001
    """Always: protobuf bytes have no signature, so `runs` finds out."""
    return True


def runs(path: Path, data: bytes) -> Iterator[tuple[str, RunMetadata]]:
    """The run in the file; of a damaged one, what stands before the damage."""
    metadata = decode(data, path.name)
    if metadata is None:
        raise UnreadableFileError(f"{path}: {_what_else(data)}")
    yield "", metadata


def decode(
    data: bytes, what: str, *, tag: str = "", global_step: int | None = None
) -> RunMetadata | None:
    """The run in these bytes, with what is missing declared; None where they hold no run.

    `what` is what to call the bytes in a loss; `tag` and `global_step` are where they were found.
    """
    if is_hollow(data):
        return None
    loss = None
    message, unread = _parse(data, keep_step_stats=len(data) < _LARGE) or (None, None)
    if message is None:
        found = salvage(data, pb.RunMetadataMessage.DESCRIPTOR, _CONTAINERS)
        message = pb.RunMetadataMessage.FromString(found.data)
        whole = len(data) + _missing_bytes(message, data)
        short = f", of which {len(data)} are there" if whole > len(data) else ""
        loss = Loss(
            "bytes of the file",
            whole - found.offset,
            f"{what} is damaged or cut at byte {found.offset} of {whole}{short}, in "
            f"{found.where}; what stands before it was read",
        )
    elif missing := _missing_bytes(message, data):
        loss = Loss(
            "bytes of the file",
            missing,
            f"{what} was cut after {len(data)} of {len(data) + missing} bytes",
        )
    if unread is None and not _holds_a_run(message):
        return None
    message.ClearField("bytes_following")
    if loss is not None:
        losses = (*decode_completeness(message).losses, loss)
        message.ClearField("completeness")
        encode_completeness(Completeness(losses), message)
        if not message.HasField("status"):
            encode_status(END_MISSING, message)
    if global_step is not None:
        message.tag = tag
        message.global_step = global_step
        message.step_id = message.step_id or global_step
    return RunMetadata.over(State(message, None, unread, len(data)))


def _what_else(data: bytes) -> str:
    """What bytes that hold no run are."""
    if is_hollow(data):
        return "most of it is entries without content; no recording is like that"
    try:
        nodes = pb.GraphDef.FromString(data).node
    except pb.DecodeError:
        nodes = ()
    if any(node.op for node in nodes):
        return f"a GraphDef of {len(nodes)} nodes, not a RunMetadata: a graph, without a run of it"
    if _parse(data) is not None:
        return "the bytes are a protobuf message of another kind, not a RunMetadata"
    return (
        f"not a serialised RunMetadata, or damaged before its first whole entry ({len(data)} bytes)"
    )


def _parse(data: bytes, *, keep_step_stats: bool = True) -> tuple[Any, bytes | None] | None:
    """The message, and the bytes of `step_stats` if it was left out; None for damaged bytes."""
    message = pb.RunMetadataMessage()
    try:
        if not keep_step_stats:
            parts = _without_step_stats(data)
            if parts is not None:
                message.ParseFromString(parts[0])
                return message, parts[1]
        message.ParseFromString(data)
    except pb.DecodeError:
        return None
    return message, None


def _without_step_stats(data: bytes) -> tuple[bytes, bytes] | None:
    """The bytes without `step_stats`, and its own; None where they cannot be told apart."""
    try:
        fields = list(fields_of(data, 0, len(data)))
    except WireDamageError:
        return None
    places = [
        (fields[index - 1][4] if index else 0, start, stop)
        for index, (number, wire_type, _, start, stop) in enumerate(fields)
        if number == _STEP_STATS and wire_type == _LENGTH
    ]
    if len(places) != 1:
        return None
    begin, start, stop = places[0]
    step_stats = data[start:stop]
    if not parses_in_parts(step_stats, pb.StepStats.DESCRIPTOR, _CONTAINERS):
        return None
    # Without a device these are hardly step stats at all: left to the closer look.
    first = next(fields_of(step_stats, 0, len(step_stats)), None)
    if first is None or next(fields_of(step_stats, *first[3:]), (0,))[0] != _DEVICE:
        return None
    return data[:begin] + data[stop:], step_stats


def _missing_bytes(message: Any, data: bytes) -> int:
    """A file cut exactly between two fields parses well; ours say how long they should be."""
    if not message.HasField("bytes_following"):
        return 0
    head = pb.RunMetadataMessage(bytes_following=message.bytes_following).ByteSize()
    missing: int = message.bytes_following + head - len(data)
    # A damaged number may be larger than what a loss can hold.
    return min(max(missing, 0), (1 << 62))


def _holds_a_run(message: Any) -> bool:
    """Whether anything in the message makes sense as a run: random bytes may parse by accident."""
    if message.HasField("bytes_following"):
        return True
    if message.HasField("status") or message.engine or len(message.placements):
        return True
    if any(device.device for device in message.step_stats.dev_stats):
        return True
    if any(node.name for node in message.cost_graph.node):
        return True
    graphs = [*message.partition_graphs]
    for function in message.function_graphs:
        graphs += [
            *function.partition_graphs,
            function.pre_optimization_graph,
            function.post_optimization_graph,
        ]
    return any(node.op for graph in graphs for node in graph.node)
