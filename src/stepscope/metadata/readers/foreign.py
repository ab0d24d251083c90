"""Files that are no serialised `RunMetadata`, told by name or first bytes: a clear refusal."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NoReturn

import google_crc32c

from stepscope.errors import UnreadableFileError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NAME", "read", "recognises"]

NAME = "a file of another kind"

_READ_FOR_NOW = "Stepscope reads serialised RunMetadata (run_metadata.pb) for now"

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x1f\x8b": "gzip-compressed; decompress it first",
    b"PK\x03\x04": "a zip archive",
    b"%PDF-": "a PDF document",
    b"SQLite format 3\x00": "an SQLite database",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"PAR1": "a Parquet file",
    b"\x7fELF": "a program or library",
}


def _is_record_file(data: bytes) -> bool:
    """Whether the data begins with a framed record: its length, and the masked CRC of that."""
    if len(data) < 12:
        return False
    crc = google_crc32c.value(data[:8])
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    (stored,) = struct.unpack_from("<I", data, 8)
    return bool(stored == masked)


def _is_text(data: bytes) -> bool:
    head = data[:4096]
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character cut in two at the end of the sample is still text.
        if error.start < len(head) - 3 or len(data) <= len(head):
            return False
        text = head[: error.start].decode("utf-8")
    return all(char.isprintable() or char in "\t\n\r\f" for char in text)


def _kind(path: Path, data: bytes) -> str | None:
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    if path.name.endswith(".xplane.pb"):
        return "a profile of TensorFlow's profiler (xplane)"
    if _is_record_file(data):
        return "an event file or another file of framed records"
    if not _is_text(data):
        return None
    start = data[:4096].lstrip()
    if start.startswith((b"{", b"[")):
        traced = b'"traceEvents"' in data or b'"ph"' in data[:65536]
        return "a Chrome trace" if traced else "JSON"
    if start.startswith((b"step_stats", b"node {", b"node_stats", b"partition_graphs")):
        return "a message in protobuf's text form, not its bytes"
    return "text"


def recognises(path: Path, data: bytes) -> bool:
    """Whether the file is known to be something else."""
    return _kind(path, data) is not None


def read(path: Path, data: bytes) -> NoReturn:
    """Say what the file is."""
    raise UnreadableFileError(f"{path}: is {_kind(path, data)}; {_READ_FOR_NOW}")
