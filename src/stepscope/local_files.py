"""Local files: TensorFlow's errors, and files that are there in full or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from stepscope.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    UnimplementedError,
    UnknownError,
)

AnyPath = str | bytes | os.PathLike[str]

_ERRORS: tuple[tuple[type[OSError], type[OpError]], ...] = (
    (FileNotFoundError, NotFoundError),
    (FileExistsError, AlreadyExistsError),
    (PermissionError, PermissionDeniedError),
    (IsADirectoryError, FailedPreconditionError),
    (NotADirectoryError, FailedPreconditionError),
)


def local_path(path: AnyPath) -> str:
    """The path as text; UnimplementedError for one with a scheme other than `file`."""
    text = os.fsdecode(path)
    scheme, found, rest = text.partition("://")
    if found and scheme == "file":
        return rest
    if found:
        raise UnimplementedError(
            None, None, f"{text!r}: only local files are supported, not {scheme!r}."
        )
    return text


@contextmanager
def as_tensorflow(path: AnyPath) -> Iterator[None]:
    """What the system refuses, as TensorFlow's error that says so."""
    try:
        yield
    except OSError as error:
        kind = next((ours for theirs, ours in _ERRORS if isinstance(error, theirs)), UnknownError)
        raise kind(None, None, f"{os.fsdecode(path)}; {error.strerror or error}") from None


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes its name when the block ends without an error.

    Until then `path` is as it was. Missing directories are made.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    with as_tensorflow(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                yield file
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
