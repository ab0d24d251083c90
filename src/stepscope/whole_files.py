"""Files that are there in full or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which takes its name when the block ends without an error.

    Whoever reads `path` sees what was there before or the complete new content, never a part: the
    content goes to a temporary file beside it. When the block fails the temporary file is removed
    and what was at `path` stays. Missing directories are made. Where `path` is a link, what it
    leads to is written. A pipe or a device (`/dev/stdout`) is written to as it is. A `durable` file
    is on the disk before it takes its name, and its name when the block is over.
    """
    given = Path(path)
    if given.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file to write, such as one in it")
    if given.exists() and not given.is_file():
        with given.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
        if durable:
            _sync_directory(target.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            # A full disk does not say which file it was about.
            error.filename = str(path)
        raise


def _sync_directory(path: Path) -> None:
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # one that may be written to and not listed
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that keeps names by itself
            raise
    finally:
        os.close(directory)


def write_whole(path: str | os.PathLike[str], chunks: Iterable[bytes]) -> Path:
    """Write `chunks` to `path`, gzip-compressed where the name ends in `.gz`; returns the path."""
    target = Path(path)
    with whole_file(target) as raw:
        if target.suffix == ".gz":
            # No name and no time inside, so that the same content gives the same file.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                packed.writelines(chunks)
        else:
            raw.writelines(chunks)
    return target
