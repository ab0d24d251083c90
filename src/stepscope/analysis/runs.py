"""What analyses and exporters take for "runs"."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from stepscope.errors import UnreadableFileError
from stepscope.metadata import (
    Note,
    RunMetadata,
    as_run_metadata,
    is_run_metadata,
    programs,
)
from stepscope.metadata.readable import writable

Runs: TypeAlias = Any
"""One `RunMetadata`, several, `(name, RunMetadata)` pairs, or a mapping of names to them."""


class NamedRun(NamedTuple):
    """A run and what to call it."""

    name: str
    metadata: RunMetadata


def named_runs(runs: Runs) -> list[NamedRun]:
    """The runs in order, each with a name; those that came without one are "run 0", "run 1", ...

    TensorFlow's and TensorBoard's `RunMetadata` messages are taken like ours. Anything else is a
    `TypeError` that says what to pass.
    """
    return list(iter_named_runs(runs))


def iter_named_runs(runs: Runs) -> Iterator[NamedRun]:
    """As `named_runs`, one at a time: of an iterator that loads runs only one is in memory."""
    if is_run_metadata(runs):
        yield NamedRun("run 0", as_run_metadata(runs))
        return
    if isinstance(runs, Mapping):
        runs = runs.items()
    if not isinstance(runs, Iterable) or isinstance(runs, str | bytes):
        raise _wrong(runs)
    for index, item in enumerate(runs):
        yield _named(index, item)


def notes_at(path: str | os.PathLike[str], *kinds: str) -> list[Note]:
    """The notes of these kinds of the program that was recorded there; none of runs alone.

    Where several programs were recorded, whose notes belong to which runs is not told: none.
    """
    try:
        found = programs(path)
    except UnreadableFileError:
        return []
    return [note for note in found[0].notes if note.kind in kinds] if len(found) == 1 else []


def _named(index: int, item: object) -> NamedRun:
    match item:
        case (str(name), metadata) if is_run_metadata(metadata):
            return NamedRun(writable(name), as_run_metadata(metadata))
        case _ if is_run_metadata(item):
            return NamedRun(f"run {index}", as_run_metadata(item))
    raise _wrong(item)


def _wrong(value: object) -> TypeError:
    return TypeError(
        "runs must be a RunMetadata, a sequence of them, (name, RunMetadata) pairs or a mapping of "
        f"names to them; found {type(value).__module__}.{type(value).__qualname__}"
    )
