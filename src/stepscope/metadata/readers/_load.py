"""`load` and `iter_runs`: find the reader for a file, or say why there is none."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepscope.errors import UnreadableFileError
from stepscope.metadata.outcome import Completeness, Loss, Status
from stepscope.metadata.readable import writable
from stepscope.metadata.readers import (
    chrome_trace,
    event_file,
    foreign,
    run_metadata_pb,
    store_file,
    xplane_pb,
)
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

__all__ = [
    "READERS",
    "LoadedRun",
    "Reader",
    "files_below",
    "is_unread",
    "iter_runs",
    "load",
    "stored_graph",
    "unread",
]


class Reader(Protocol):
    """One format."""

    NAME: str

    def recognises(self, path: Path, data: bytes) -> bool:
        """Whether the file claims to be of this format, by its name or its first bytes."""
        ...

    def runs(self, path: Path, data: bytes) -> Iterable[tuple[str, RunMetadata]]:
        """The runs in the file, each with its name there ("" for the only one).

        Raises `UnreadableFileError` where nothing can be read.
        """
        ...


# Asked in this order; the last one has no signature to go by and takes what is left.
READERS: tuple[Reader, ...] = (
    xplane_pb,
    event_file,
    chrome_trace,
    foreign,
    run_metadata_pb,
)

_STORES = f"*{store_file.SUFFIX}"
_RECORDS = ("run_metadata.pb", _STORES, "*run_metadata*.pb", "*.tfevents.*", "*.xplane.pb")
_COPIES = re.compile(r"run_\d{6,}")
_TRACES = ("*.json", "*.json.gz")


class LoadedRun(NamedTuple):
    """A run and what to call it, as exporters and analyses take it.

    In a name the bytes of a path that are no text stand as escapes, so it can be written anywhere.
    """

    name: str
    metadata: RunMetadata


def load(path: str | os.PathLike[str]) -> RunMetadata | list[RunMetadata]:
    """Read the run or the runs in a file or below a directory.

    Read are stores of `stepscope run` (`*.stepscope`, also while they are written), serialised
    `RunMetadata` (of Stepscope, TensorFlow, TensorBoard), event files, Chrome traces (plain or
    gzip) and `*.xplane.pb`. A directory, a store and an event file give a list, in which `tag` and
    `global_step` of a run say where an event file held it; other files give the run, or a list
    where they hold several. In a directory Chrome traces are looked at only if there is
    nothing else: they are pictures of runs that are recorded beside them; nor are the files of
    `stepscope run --pb` beside the store that they were made of.

    Of a damaged file what is readable is there, with the loss in `completeness`. A file that holds
    no run raises `UnreadableFileError` saying what it is instead.
    """
    place = Path(path)
    runs = [run.metadata for run in iter_runs(place)]
    if len(runs) == 1 and not place.is_dir() and not _holds_many(place):
        return runs[0]
    return runs


def iter_runs(path: str | os.PathLike[str]) -> Iterator[LoadedRun]:
    """The runs in a file or below a directory, read one file at a time, each with a name.

    What was yielded before is not kept, so a thousand files need no more memory than the largest.
    Below a directory a file that cannot be read gives a run without executions whose
    `completeness` says why; names are paths relative to it.
    """
    place = Path(path)
    if place.is_dir():
        yield from _runs_below(place)
        return
    yield from _runs_in(place, _name_of(place.name))


def stored_graph(path: Path, name: str) -> bytes | None:
    """The graph, a GraphDef's bytes, that the run of this name was a run of.

    `path` and `name` are as `iter_runs` took and gave them; None where no store has such a graph.
    """
    number = re.search(r"(?:^|/)run_(\d+)(?: [^/]*)?$", name)
    if number is None:
        return None
    before = name[: number.start()]
    files = _files_below(path)[0] if path.is_dir() else [path]
    for file in files:
        prefix = _relative(path, file) if path.is_dir() else _name_of(file.name)
        if prefix == before and store_file.is_store(file):
            return store_file.user_graph(file, int(number[1]))
    return None


def _runs_in(path: Path, name: str) -> Iterator[LoadedRun]:
    if store_file.is_store(path):
        # Read run by run, and not as a whole.
        found: Iterable[tuple[str, RunMetadata]] = store_file.runs(path)
    else:
        data = _read(path)
        reader = next(reader for reader in READERS if reader.recognises(path, data))
        found = reader.runs(path, data)
        del data
    for inner, metadata in found:
        called = "/".join(filter(None, (name, inner))) or path.stem
        yield LoadedRun(writable(called), metadata)


def _read(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableFileError(f"{path}: is neither a file nor a directory")
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableFileError(f"{path}: there is no such file or directory") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFileError(f"{path}: cannot be read: {reason}") from error
    if not data:
        raise UnreadableFileError(
            f"{path}: the file is empty; either writing it was interrupted, or the run was not "
            "traced (trace_level NO_TRACE leaves TensorFlow's metadata empty)"
        )
    return data


def _holds_many(path: Path) -> bool:
    """Whether a file is of a kind that holds any number of runs."""
    if store_file.is_store(path):
        return True
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return event_file.recognises(path, file.read(12))
    except OSError:
        return False


def _is_run_metadata(path: Path) -> bool:
    """Whether a file of another name begins as only a serialised `RunMetadata` does."""
    if path.suffix != ".pb":
        return False
    try:
        if not path.is_file():
            # To open a pipe is to wait for whoever writes to it.
            return False
        with path.open("rb") as file:
            return run_metadata_pb.begins(file.read(run_metadata_pb.HEAD))
    except OSError:
        return False


def _runs_below(directory: Path) -> Iterator[LoadedRun]:
    files, unseen = _files_below(directory)
    stores = {file.parent for file in files if file.match(_STORES)}
    records = [
        file
        for file in files
        if (any(file.match(pattern) for pattern in _RECORDS) or _is_run_metadata(file))
        and not _is_copy(file, stores)
    ]
    found = False
    for file in records:
        for run in _runs_of_one(directory, file):
            found = True
            yield run
    for error in unseen:
        found = True
        name = writable(os.path.relpath(error.filename, directory))
        reason = f"{error.filename}: the directory cannot be read: {error.strerror}"
        yield LoadedRun(name, unread(writable(reason)))
    if found:
        return
    for file in files:
        if any(file.match(pattern) for pattern in _TRACES):
            try:
                for run in _runs_in(file, _relative(directory, file)):
                    found = True
                    yield run
            except UnreadableFileError:
                # Any other JSON may lie in a directory.
                continue
    if not found:
        wanted = ", ".join((*_RECORDS[1:], *_TRACES))
        raise event_file.NoRunError(
            f"{directory}: no run in this directory; looked for {wanted} at any depth"
        )


def _is_copy(file: Path, stores: Collection[Path]) -> bool:
    """Whether a file holds a run that is in a store as well: what `stepscope run --pb` writes."""
    directory = file.parent
    return directory.parent in stores and _COPIES.fullmatch(directory.name) is not None


def _runs_of_one(directory: Path, file: Path) -> Iterator[LoadedRun]:
    name = _relative(directory, file)
    try:
        yield from _runs_in(file, name)
    except event_file.NoRunError:
        return
    except UnreadableFileError as error:
        yield LoadedRun(writable(name or file.stem), unread(writable(str(error))))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other files can be read
        reason = f"{file}: reading it failed, which is an error of Stepscope's own: {error!r}"
        yield LoadedRun(writable(name or file.stem), unread(writable(reason)))


def unread(reason: str) -> RunMetadata:
    """A run that only says why it cannot be read."""
    metadata = RunMetadata()
    loss = Loss("run", 1, reason)
    status = Status("DATA_LOSS", reason)
    metadata.record(Recording(engine="", status=status, completeness=Completeness((loss,))))
    return metadata


def is_unread(run: RunMetadata) -> bool:
    """Whether a run only says that its file cannot be read."""
    return run.status.code == "DATA_LOSS" and not run.engine and not len(run.ops)


def files_below(directory: Path) -> list[Path]:
    """The files at any depth that are not hidden, in their natural order."""
    return _files_below(directory)[0]


def _files_below(directory: Path) -> tuple[list[Path], list[OSError]]:
    """The files in their natural order, and why directories could not be looked into."""
    found: list[Path] = []
    unseen: list[OSError] = []
    for folder, folders, names in os.walk(directory, onerror=unseen.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return sorted(found, key=lambda file: _natural(str(file.relative_to(directory)))), unseen


def _relative(directory: Path, file: Path) -> str:
    """What to call the runs of a file below a directory."""
    place = file.relative_to(directory)
    parts = [part for part in place.parent.parts if part]
    own = _name_of(file.name)
    if file.suffix == store_file.SUFFIX and len(list(file.parent.glob(_STORES))) > 1:
        # Each counts its runs from 1.
        own = file.stem
    return "/".join([*parts, own] if own else parts)


def _name_of(file: str) -> str:
    """What a file's name says of its runs: nothing, where every such file is called the same."""
    if file == "run_metadata.pb" or ".tfevents." in file or file.endswith(store_file.SUFFIX):
        return ""
    for suffix in (".json.gz", ".xplane.pb", ".json", ".pb"):
        if file.endswith(suffix):
            return file.removesuffix(suffix)
    return file


def _natural(text: str) -> list[tuple[int, int, str]]:
    """A key under which run_2 comes before run_10."""
    return [
        (0, int(part[:300]), part) if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", text)
    ]
