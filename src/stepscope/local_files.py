"""Local files, with TensorFlow's errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
        raise UnimplementedError.without_op(
            f"{text!r}: only local files are supported, not {scheme!r}."
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
