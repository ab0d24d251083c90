"""The fields of ours in a `RunMetadata` message, to and from plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope._messages import OWN_FIELDS_START, RunMetadataMessage
from stepscope.errors import code_from_name, code_name
from stepscope.metadata.outcome import (
    OUTCOMES,
    Completeness,
    InFlight,
    Loss,
    Overhead,
    Placement,
    Status,
)
from stepscope.metadata.readable import writable
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.message_rows import MessageRows
from stepscope.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "OWN_FIELDS",
    "decode_completeness",
    "decode_overhead",
    "decode_peaks",
    "decode_placements",
    "decode_run_options",
    "decode_sources",
    "decode_status",
    "encode_completeness",
    "encode_overhead",
    "encode_peaks",
    "encode_placements",
    "encode_run_options",
    "encode_sources",
    "encode_status",
]

_SOURCES = RunMetadataMessage.DESCRIPTOR.fields_by_name["sources"].number
_SOURCE = {
    field.name: field.number
    for field in RunMetadataMessage.DESCRIPTOR.fields_by_name["sources"].message_type.fields
}
OWN_FIELDS: frozenset[str] = frozenset(
    field.name for field in RunMetadataMessage.DESCRIPTOR.fields if field.number >= OWN_FIELDS_START
)
"""The names of our fields in `RunMetadata`."""


def encode_status(status: Status, message: Any) -> None:
    """Write how the run ended."""
    part = message.status
    part.SetInParent()
    part.code = code_from_name(status.code)
    part.message = writable(status.message)
    part.not_known = not status.known
    for op in status.outcomes:
        part.in_flight.add(name=writable(op.name), outcome=op.outcome, waited_ns=op.waited_ns)


def decode_status(message: Any) -> Status:
    """How the run ended; whole bytes that do not say so are of a run that went well."""
    part = message.status
    return Status(
        code_name(part.code),
        part.message,
        tuple(
            InFlight(op.name, op.outcome if op.outcome in OUTCOMES else "running", op.waited_ns)
            for op in part.in_flight
        ),
        known=not part.not_known,
    )


def encode_completeness(completeness: Completeness, message: Any) -> None:
    """Write what is missing."""
    part = message.completeness
    part.SetInParent()
    for loss in completeness.losses:
        part.losses.add(what=loss.what, count=loss.count, reason=writable(loss.reason))


def decode_completeness(message: Any) -> Completeness:
    """What is missing, as far as anybody declared it."""
    losses = message.completeness.losses
    return Completeness(tuple(Loss(loss.what, loss.count, loss.reason) for loss in losses))


def encode_overhead(overhead: Overhead, message: Any) -> None:
    """Write what recording cost."""
    message.overhead.SetInParent()
    message.overhead.ns = int(overhead.ns)
    message.overhead.fraction = float(overhead.fraction)


def decode_overhead(message: Any) -> Overhead:
    """What recording cost; nothing where nobody measured it."""
    return Overhead(message.overhead.ns, message.overhead.fraction)


def encode_placements(placements: Sequence[Placement], message: Any) -> None:
    """Write where ops were placed."""
    for placement in placements:
        message.placements.add(
            node=writable(placement.node),
            op=writable(placement.op),
            requested=writable(placement.requested),
            assigned=writable(placement.assigned),
            reason=writable(placement.reason),
        )


def decode_placements(message: Any) -> tuple[Placement, ...]:
    """Where ops were placed."""
    return tuple(
        Placement(entry.node, entry.op, entry.requested, entry.assigned, entry.reason)
        for entry in message.placements
    )


def encode_sources(sources: Mapping[str, str], message: Any) -> None:
    """Write the source line of each node, given as "file:line"."""
    nodes = StringColumn.of(sources).writable()
    places = StringColumn.of(sources.values()).writable()
    files, lines = [], []
    for place in places.table:
        file, colon, line = place.rpartition(":")
        known = colon and line.isdecimal()
        files.append(file if known else place)
        lines.append(int(line) if known else 0)
    rows = MessageRows(len(nodes))
    rows.texts(_SOURCE["node"], nodes.table, nodes.codes)
    rows.texts(_SOURCE["file"], files, places.codes)
    rows.numbers(_SOURCE["line"], np.array(lines, np.int64)[places.codes])
    message.MergeFromString(rows.as_field(_SOURCES))


def decode_sources(message: Any) -> dict[str, str]:
    """The source line of each node as "file:line"."""
    return {
        entry.node: f"{entry.file}:{entry.line}" if entry.line else entry.file
        for entry in message.sources
    }


def encode_peaks(peaks: Mapping[str, int], message: Any) -> None:
    """Write the most bytes live per device."""
    for device, size in peaks.items():
        message.peaks.add(device=writable(device), bytes=int(size))


def decode_peaks(message: Any) -> dict[str, int]:
    """The most bytes live per device, where the engine measured them."""
    return {entry.device: entry.bytes for entry in message.peaks}


def encode_run_options(options: RunOptions | None, message: Any) -> None:
    """Write the options of the run, where they were kept."""
    if options is not None:
        message.run_options.ParseFromString(options.SerializeToString())
        message.run_options.SetInParent()


def decode_run_options(message: Any) -> RunOptions | None:
    """The options of the run, where they were kept."""
    if not message.HasField("run_options"):
        return None
    return RunOptions.FromString(message.run_options.SerializeToString())
