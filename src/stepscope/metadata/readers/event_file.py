"""TensorBoard's event files: every run in them, with its tag and step.

Runs stand in an event file in two ways: `FileWriter.add_run_metadata` of TensorFlow 1 and of ours
writes `tagged_run_metadata`; TensorFlow 2's `trace_export` writes a summary of the plugin
`graph_run_metadata`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from stepscope import _messages as pb
from stepscope.errors import UnreadableFileError
from stepscope.metadata.outcome import Completeness, Loss
from stepscope.metadata.readers import run_metadata_pb
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.wire.checksums import masked_crc
from stepscope.metadata.wire.extras import decode_completeness, encode_completeness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["NAME", "NoRunError", "graphs", "recognises", "runs"]

NAME = "an event file"

_PLUGINS = frozenset({"graph_run_metadata", "graph_run_metadata_graph", "graph_keras_model"})
_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")


class NoRunError(UnreadableFileError):
    """A place that is as it should be and holds no run: a directory, a store that was just begun,
    an event file that holds scalars and graphs only, as most do.
    """


def recognises(path: Path, data: bytes) -> bool:
    """Whether the name says so, or a framed record stands at the beginning."""
    return ".tfevents." in path.name or _record_at(data, 0) is not None


def runs(path: Path, data: bytes) -> Iterator[tuple[str, RunMetadata]]:
    """The runs in the order of the file; what could not be read is a loss of the last of them.

    A file of events that holds no run is an error which says so.
    """
    records = _Records(path.name, data)
    last: tuple[str, RunMetadata] | None = None
    events = 0
    for payload in records:
        try:
            event = pb.Event.FromString(payload)
        except pb.DecodeError:
            records.unreadable += 1
            continue
        events += 1
        for tag, content in _tagged(event):
            if last is not None:
                yield last
            last = tag, _run(content, f"run {tag!r} in {path.name}", tag, event.step)
    if last is None:
        damage = "".join(f"; {loss.reason}" for loss in records.losses())
        kind = UnreadableFileError if damage else NoRunError
        raise kind(
            f"{path}: an event file whose {events} readable events hold no run metadata{damage}"
        )
    if losses := records.losses():
        _declare(last[1], *losses)
    yield last


def graphs(data: bytes) -> Iterator[bytes]:
    """The graphs in an event file, each a serialised `GraphDef`, as far as it can be read."""
    for payload in _Records("", data):
        try:
            event = pb.Event.FromString(payload)
            which = event.WhichOneof("what")
            if which == "graph_def":
                yield event.graph_def
            elif which == "meta_graph_def":
                meta_graph = pb.MetaGraphDef.FromString(event.meta_graph_def)
                yield meta_graph.graph_def.SerializeToString()
        except pb.DecodeError:
            continue


def _tagged(event: pb.Event) -> Iterator[tuple[str, bytes]]:
    which = event.WhichOneof("what")
    if which == "tagged_run_metadata":
        yield event.tagged_run_metadata.tag, event.tagged_run_metadata.run_metadata
    elif which == "summary":
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name in _PLUGINS and value.tensor.string_val:
                yield value.tag, value.tensor.string_val[0]


def _run(content: bytes, what: str, tag: str, step: int) -> RunMetadata:
    if not content:
        # What an untraced run leaves, and what its writer put into the file all the same.
        return _empty(tag, step)
    run = run_metadata_pb.decode(content, what, tag=tag, global_step=step)
    if run is None:
        run = _empty(tag, step)
        _declare(run, Loss("run", 1, f"{what}: its {len(content)} bytes are no RunMetadata"))
    return run


def _empty(tag: str, step: int) -> RunMetadata:
    run = RunMetadata()
    run._replace(pb.RunMetadataMessage(tag=tag, global_step=step, step_id=step))
    return run


def _declare(run: RunMetadata, *losses: Loss) -> None:
    message = run._mutable()
    known = decode_completeness(message).losses
    message.ClearField("completeness")
    encode_completeness(Completeness((*known, *losses)), message)


def _record_at(data: bytes, at: int) -> int | None:
    """The length of the record whose head stands here; None where there is no good head."""
    if at + _HEADER.size > len(data):
        return None
    length, checksum = _HEADER.unpack_from(data, at)
    return int(length) if masked_crc(data[at : at + 8]) == checksum else None


class _Records:
    """The payloads of the whole records, and after them what was wrong with the rest."""

    def __init__(self, name: str, data: bytes) -> None:
        self.unreadable = 0
        self._name = name
        self._data = data
        self._end = 0

    def __iter__(self) -> Iterator[bytes]:
        data = self._data
        while (length := _record_at(data, self._end)) is not None:
            begin = self._end + _HEADER.size
            end = begin + length
            if end + _CHECKSUM.size > len(data):
                return
            payload = data[begin:end]
            self._end = end + _CHECKSUM.size
            if masked_crc(payload) == _CHECKSUM.unpack_from(data, end)[0]:
                yield payload
            else:
                self.unreadable += 1

    def losses(self) -> list[Loss]:
        """What could not be read."""
        found = []
        if self.unreadable:
            reason = f"records of {self._name} are damaged: their checksum or content is wrong"
            found.append(Loss("records of the file", self.unreadable, reason))
        rest = len(self._data) - self._end
        if rest:
            reason = f"{self._name} is damaged or cut at byte {self._end} of {len(self._data)}"
            found.append(Loss("bytes of the file", rest, reason))
        return found
