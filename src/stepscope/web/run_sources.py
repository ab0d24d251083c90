"""Where the runs behind a page come from: files and directories, or the memory of this process.

TensorBoard's plugin has one of its own (`plugin_source`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepscope.errors import UnreadableFileError
from stepscope.metadata import LoadedRun, iter_runs
from stepscope.metadata.readable import plain, writable
from stepscope.metadata.readers.event_file import NoRunError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from stepscope.analysis.runs import NamedRun

__all__ = ["FilesSource", "HeldSource", "RunSource", "SourcedRun"]


class SourcedRun(NamedTuple):
    """A run, and of which of the sets it is that can be compared."""

    set: int
    run: LoadedRun


class RunSource(Protocol):
    """Runs that can be read again and again.

    `labels` names the sets, of which Compare compares two. `paths` are where files lie that a run
    may have beside it; none where there are no files.
    """

    labels: tuple[str, ...]
    paths: tuple[Path, ...]

    def each(self) -> Iterator[SourcedRun]:
        """All runs in the same order each time, new ones last; none of them is kept.

        `UnreadableFileError` where there is none, which says why.
        """
        ...

    def state(self) -> Hashable:
        """Something that is equal as long as the runs are the same.

        `UnreadableFileError` where they are not there any more.
        """
        ...


class FilesSource:
    """The runs in files and directories, each of which is a set."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Nothing is read yet; a path that is not there is an `UnreadableFileError`."""
        self.paths = tuple(paths)
        self.labels = tuple(plain(writable(str(path))) for path in paths)
        self.state()

    def each(self) -> Iterator[SourcedRun]:
        """The runs in the order of `stepscope info`."""
        for number, path in enumerate(self.paths):
            for run in iter_runs(path):
                yield SourcedRun(number, run)

    def awaits_runs(self) -> bool:
        """Whether there is none yet, and one may come: in a directory, or in a store that grows."""
        try:
            return next(self.each(), None) is None
        except NoRunError:
            return True
        except UnreadableFileError:
            return False

    def state(self) -> Hashable:
        """Sizes and times of all files."""
        return tuple(entry for path in self.paths for entry in _entries(path))


def _entries(path: Path) -> Iterator[tuple[str, int, int]]:
    try:
        if not path.is_dir():
            yield _entry(path, path.stat())
            # What belongs to a store lies beside it.
            for beside in sorted(path.parent.glob(f"{_escaped(path.name)}-*")):
                yield _entry(beside, beside.stat())
            return
    except FileNotFoundError:
        raise UnreadableFileError(f"{path}: there is no such file or directory") from None
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be read: {error.strerror}") from error
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            file = Path(folder, name)
            try:
                yield _entry(file, file.stat())
            except OSError:
                continue  # it is gone again


def _entry(path: Path, found: os.stat_result) -> tuple[str, int, int]:
    return str(path), found.st_size, found.st_mtime_ns


def _escaped(name: str) -> str:
    import glob

    return glob.escape(name)


class HeldSource:
    """Runs that this process holds, for a notebook; a set for each of the sequences."""

    paths: tuple[Path, ...] = ()

    def __init__(self, sets: Sequence[Sequence[NamedRun]], labels: Sequence[str] = ()) -> None:
        self._sets = sets
        self.labels = tuple(labels) or tuple(f"runs {number}" for number in range(len(sets)))

    def each(self) -> Iterator[SourcedRun]:
        """The runs as they were given."""
        for number, runs in enumerate(self._sets):
            for name, metadata in runs:
                yield SourcedRun(number, LoadedRun(name, metadata))

    def state(self) -> Hashable:
        """Always the same."""
        return 0
