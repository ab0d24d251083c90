"""Files that hold no run, told by their first bytes: a clear refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from stepscope.errors import UnreadableFileError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NAME", "recognises", "runs"]

NAME = "a file of another kind"

_WHAT_IS_READ = (
    "Stepscope reads stores of runs (*.stepscope), serialised RunMetadata (run_metadata.pb), event "
    "files, Chrome traces and profiles (*.xplane.pb)"
)

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"PK\x03\x04": "a zip archive",
    b"%PDF-": "a PDF document",
    b"SQLite format 3\x00": "an SQLite database",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"PAR1": "a Parquet file",
    b"\x7fELF": "a program or library",
}


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


def _kind(data: bytes) -> str | None:
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    if not _is_text(data):
        return None
    start = data[:4096].lstrip()
    if start.startswith((b"step_stats", b"node {", b"node_stats", b"partition_graphs")):
        return "a message in protobuf's text form, not its bytes"
    return "text"


def recognises(path: Path, data: bytes) -> bool:  # noqa: ARG001
    """Whether the file is known to be something else."""
    return _kind(data) is not None


def runs(path: Path, data: bytes) -> NoReturn:
    """Say what the file is."""
    raise UnreadableFileError(f"{path}: is {_kind(data)}; {_WHAT_IS_READ}")
