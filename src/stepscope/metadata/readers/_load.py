"""`load`: finds the reader for a file, or says why there is none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepscope.errors import UnreadableFileError
from stepscope.metadata.readers import foreign, run_metadata_pb

if TYPE_CHECKING:
    import os

    from stepscope.metadata.run_metadata import RunMetadata

__all__ = ["READERS", "Reader", "load"]


class Reader(Protocol):
    """One format. `read` raises `UnreadableFileError` where nothing can be read."""

    NAME: str

    def recognises(self, path: Path, data: bytes) -> bool:
        """Whether the file claims to be of this format, by its name or its first bytes."""
        ...

    def read(self, path: Path, data: bytes) -> RunMetadata | list[RunMetadata]:
        """The run or runs in the file."""
        ...


# Asked in this order; the last one has no signature to go by and takes what is left.
READERS: tuple[Reader, ...] = (
    foreign,
    run_metadata_pb,
)

_PATTERN = "*run_metadata*.pb"


def load(path: str | os.PathLike[str]) -> RunMetadata | list[RunMetadata]:
    """Read the run in a file, or all runs in the `run_metadata.pb` files below a directory.

    Reads what Stepscope, TensorFlow and TensorBoard write as a serialised `RunMetadata`. A
    damaged file gives what is readable before the damage, with the loss in `completeness`.
    A file that holds no run raises `UnreadableFileError` saying what it is instead.
    """
    place = Path(path)
    if place.is_dir():
        return _load_directory(place)
    return _load_file(place)


def _load_file(path: Path) -> RunMetadata | list[RunMetadata]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UnreadableFileError(f"{path}: there is no such file or directory") from None
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be read: {error.strerror}") from error
    if not data:
        raise UnreadableFileError(
            f"{path}: the file is empty; either writing it was interrupted, or the run was not "
            "traced (trace_level NO_TRACE leaves TensorFlow's metadata empty)"
        )
    reader = next(reader for reader in READERS if reader.recognises(path, data))
    return reader.read(path, data)


def _load_directory(directory: Path) -> list[RunMetadata]:
    files = sorted(
        (file for file in directory.rglob(_PATTERN) if file.is_file() and file.name[0] != "."),
        key=lambda file: _natural(str(file.relative_to(directory))),
    )
    if not files:
        raise UnreadableFileError(
            f"{directory}: no run in this directory; looked for {_PATTERN} at any depth"
        )
    runs: list[RunMetadata] = []
    for file in files:
        found = _load_file(file)
        runs.extend(found if isinstance(found, list) else [found])
    return runs


def _natural(text: str) -> list[tuple[int, int, str]]:
    """A key under which run_2 comes before run_10."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", text)
    ]
