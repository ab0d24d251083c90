"""TensorFlow 1's file functions, on local files: its errors, and files that open when first used.

Paths may be `str`, `bytes` or `os.PathLike`. A path with a scheme (`gs://...`) is an
`UnimplementedError`.
"""

from __future__ import annotations

import glob as globbing
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from stepscope.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from stepscope.local_files import AnyPath, as_tensorflow, local_path

_MODES = ("r", "w", "a", "r+", "w+", "a+")


class GFile:
    """A file, opened when it is first read or written."""

    def __init__(self, name: AnyPath, mode: str = "r", encoding: str = "utf-8") -> None:
        """`mode` is one of r, w, a, r+, w+, a+, with a `b` for bytes instead of text."""
        if mode.replace("b", "") not in _MODES:
            raise InvalidArgumentError.without_op(
                f"mode {mode!r}: allowed are {', '.join(_MODES)}, each also with b."
            )
        self._name = name
        self._mode = mode
        self._encoding = None if "b" in mode else encoding
        self._file: Any = None

    @property
    def name(self) -> AnyPath:
        return self._name

    @property
    def mode(self) -> str:
        return self._mode

    def _opened(self) -> Any:
        if self._file is None:
            with as_tensorflow(self._name):
                self._file = Path(local_path(self._name)).open(self._mode, encoding=self._encoding)  # noqa: SIM115
        return self._file

    def _reading(self) -> Any:
        if "r" not in self._mode and "+" not in self._mode:
            raise PermissionDeniedError.without_op("File isn't open for reading")
        return self._opened()

    def read(self, n: int = -1) -> Any:
        """The next `n` characters or bytes; the rest by default."""
        return self._reading().read(n)

    def readline(self) -> Any:
        return self._reading().readline()

    def readlines(self) -> list[Any]:
        return list(self._reading().readlines())

    def write(self, file_content: Any) -> None:
        if self._mode.replace("b", "") == "r":
            raise PermissionDeniedError.without_op("File isn't open for writing")
        self._opened().write(file_content)

    def seek(self, offset: int = 0, whence: int = 0, position: int | None = None) -> None:
        """Go to a place in the file; `position` is an old name of `offset`."""
        self._opened().seek(offset if position is None else position, whence)

    def tell(self) -> int:
        return int(self._opened().tell())

    def size(self) -> int:
        """The size of the file in bytes."""
        return int(Stat(self._name).length)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close it; a file that was never read or written was never opened, nor made."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._reading())

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()


class FastGFile(GFile):
    """The same; TensorFlow's is one that skips thread safety."""


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """What `Stat` tells of a file."""

    length: int
    mtime_nsec: int
    is_directory: bool


def Exists(filename: AnyPath) -> bool:
    return Path(local_path(filename)).exists()


def IsDirectory(dirname: AnyPath) -> bool:
    return Path(local_path(dirname)).is_dir()


def Stat(filename: AnyPath) -> FileStatistics:
    """Length, time of the last change, whether it is a directory."""
    with as_tensorflow(filename):
        found = Path(local_path(filename)).stat()
    return FileStatistics(found.st_size, found.st_mtime_ns, Path(local_path(filename)).is_dir())


def ListDirectory(dirname: AnyPath) -> list[str]:
    """The names in a directory, in no particular order."""
    if not IsDirectory(dirname):
        raise NotFoundError.without_op(f"Could not find directory {os.fsdecode(dirname)}")
    return [entry.name for entry in Path(local_path(dirname)).iterdir()]


def Glob(filename: AnyPath | list[AnyPath]) -> list[str]:
    """The files that match a pattern, or one of several."""
    patterns = filename if isinstance(filename, list) else [filename]
    return [found for p in patterns for found in sorted(globbing.glob(local_path(p)))]  # noqa: PTH207


def MkDir(dirname: AnyPath) -> None:
    """Make a directory; it may be there already, the one above must be."""
    with as_tensorflow(dirname):
        Path(local_path(dirname)).mkdir(exist_ok=True)


def MakeDirs(dirname: AnyPath) -> None:
    """Make a directory and those above it; it may be there already."""
    with as_tensorflow(dirname):
        Path(local_path(dirname)).mkdir(parents=True, exist_ok=True)


def Remove(filename: AnyPath) -> None:
    with as_tensorflow(filename):
        Path(local_path(filename)).unlink()


def DeleteRecursively(dirname: AnyPath) -> None:
    """Delete a directory and all in it, or a file."""
    with as_tensorflow(dirname):
        path = Path(local_path(dirname))
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def Copy(oldpath: AnyPath, newpath: AnyPath, overwrite: bool = False) -> None:
    """Copy a file; AlreadyExistsError if there is one and `overwrite` is not set."""
    _refuse_existing(newpath, overwrite)
    with as_tensorflow(oldpath):
        shutil.copyfile(local_path(oldpath), local_path(newpath))


def Rename(oldname: AnyPath, newname: AnyPath, overwrite: bool = False) -> None:
    """Move a file or directory; AlreadyExistsError as in `Copy`."""
    _refuse_existing(newname, overwrite)
    with as_tensorflow(oldname):
        Path(local_path(oldname)).replace(local_path(newname))


def Walk(top: AnyPath, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """(directory, subdirectories, files) of a tree, parents first with `in_order`."""
    return os.walk(local_path(top), topdown=in_order)


def _refuse_existing(path: AnyPath, overwrite: bool) -> None:
    if not overwrite and Exists(path):
        raise AlreadyExistsError.without_op(
            f"{os.fsdecode(path)}; file already exists; pass overwrite=True"
        )
