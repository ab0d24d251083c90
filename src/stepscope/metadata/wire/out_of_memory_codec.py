"""The out-of-memory report in a `RunMetadata` message, to and from plain values."""

from __future__ import annotations

from typing import Any, Final

from stepscope.metadata.memory.out_of_memory import Growth, HeldMemory, MemoryRequest, OutOfMemory

__all__ = ["decode_out_of_memory", "encode_out_of_memory"]

_NOT_KNOWN: Final = -1
"""Cached bytes that nobody tells."""


def encode_out_of_memory(value: OutOfMemory, message: Any) -> None:
    """Write the report into a `RunMetadata` message."""
    part = message.out_of_memory
    part.SetInParent()
    request = value.request
    part.request.op = request.op
    part.request.slot = request.slot
    part.request.dtype = request.dtype
    part.request.bytes = request.bytes
    part.request.device = request.device
    part.request.source = request.source
    part.request.time_ns = request.time_ns
    if request.shape is not None:
        part.request.has_shape = True
        part.request.shape.extend(request.shape)
    if value.limit is not None:
        part.limit = value.limit
    part.live = value.live
    part.cached = _NOT_KNOWN if value.cached is None else value.cached
    part.advice = value.advice
    for row in value.rows:
        part.rows.add(
            op=row.op,
            source=row.source,
            kind=row.kind,
            device=row.device,
            tensors=row.tensors,
            bytes=row.bytes,
            shapes=row.shapes,
        )
    part.compared = value.grown is not None
    for grown in value.grown or ():
        part.grown.add(op=grown.op, source=grown.source, before=grown.before, now=grown.now)


def decode_out_of_memory(message: Any) -> OutOfMemory | None:
    """The report in a `RunMetadata` message; None where there is none."""
    if not message.HasField("out_of_memory"):
        return None
    part = message.out_of_memory
    asked = part.request
    grown = tuple(Growth(row.op, row.source, row.before, row.now) for row in part.grown)
    return OutOfMemory(
        request=MemoryRequest(
            op=asked.op,
            bytes=asked.bytes,
            device=asked.device,
            slot=asked.slot,
            shape=tuple(asked.shape) if asked.has_shape else None,
            dtype=asked.dtype,
            source=asked.source,
            time_ns=asked.time_ns,
        ),
        limit=part.limit if part.HasField("limit") else None,
        live=part.live,
        cached=None if part.cached == _NOT_KNOWN else part.cached,
        rows=tuple(
            HeldMemory(row.op, row.source, row.kind, row.device, row.tensors, row.bytes, row.shapes)
            for row in part.rows
        ),
        grown=grown if part.compared else None,
        advice=part.advice,
    )
