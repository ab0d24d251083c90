"""`run_metadata.pb`: a serialised `RunMetadata` of Stepscope, TensorFlow or TensorBoard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope import _messages as pb
from stepscope.errors import UnreadableFileError
from stepscope.metadata.extras import decode_completeness, encode_completeness
from stepscope.metadata.outcome import Completeness, Loss
from stepscope.metadata.readers.wire import salvage
from stepscope.metadata.run_metadata import RunMetadata

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NAME", "read", "recognises"]

NAME = "a serialised RunMetadata"

_CONTAINERS = frozenset(
    {"StepStats", "DeviceStepStats", "CostGraphDef", "GraphDef", "FunctionGraphs", "Completeness"}
)


def recognises(path: Path, data: bytes) -> bool:  # noqa: ARG001
    """Always: protobuf bytes have no signature, so `read` finds out."""
    return True


def read(path: Path, data: bytes) -> RunMetadata:
    """The run in the file; of a damaged one, what stands before the damage."""
    message = pb.RunMetadataMessage()
    loss = None
    try:
        message.ParseFromString(data)
    except pb.DecodeError:
        found = salvage(data, pb.RunMetadataMessage.DESCRIPTOR, _CONTAINERS)
        message.ParseFromString(found.data)
        loss = Loss(
            "bytes of the file",
            len(data) - found.offset,
            f"{path.name} is damaged or cut at byte {found.offset} of {len(data)}, in "
            f"{found.where}; what stands before it was read",
        )
    else:
        loss = _missing_end(path, message, data)
    if not _holds_a_run(message):
        if loss is not None:
            raise UnreadableFileError(
                f"{path}: not a serialised RunMetadata, or damaged before its first whole entry "
                f"({len(data)} bytes)"
            )
        raise UnreadableFileError(
            f"{path}: the bytes are a protobuf message of another kind (a GraphDef?), "
            "not a RunMetadata"
        )
    message.ClearField("bytes_following")
    if loss is not None:
        losses = (*decode_completeness(message).losses, loss)
        message.ClearField("completeness")
        encode_completeness(Completeness(losses), message)
    metadata = RunMetadata()
    metadata._replace(message)
    return metadata


def _missing_end(path: Path, message: Any, data: bytes) -> Loss | None:
    """A file cut exactly between two fields parses well; ours say how long they should be."""
    if not message.HasField("bytes_following"):
        return None
    head = pb.RunMetadataMessage(bytes_following=message.bytes_following).ByteSize()
    missing = message.bytes_following + head - len(data)
    if missing <= 0:
        return None
    return Loss(
        "bytes of the file",
        missing,
        f"{path.name} was cut after {len(data)} of {len(data) + missing} bytes",
    )


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
