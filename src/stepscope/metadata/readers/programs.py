"""`programs`: recorded programs as a whole, each with its notes and its runs.

>>> from stepscope.metadata import programs  # doctest: +SKIP
>>> [program] = programs("stepscope-out/train")  # doctest: +SKIP
>>> [(note.what, note.ns) for note in program.of(IMPORT)]  # doctest: +SKIP
[('tensorflow', 3102442112)]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stepscope.errors import UnreadableFileError
from stepscope.metadata.program_notes import PROCESS, CallTime, Note
from stepscope.metadata.readers import store_file
from stepscope.metadata.readers._load import files_below
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.stored.stored_run import decoded_run

__all__ = ["Program", "ProgramRun", "programs"]

_RECORD: Final = "record the program with `stepscope run SCRIPT` to have it"


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A run of a program.

    `kind` is the same for runs of the same thing: by what ran, and by the graph that it executed.
    `call` is when the program called it; None where that was not noted: of runs that a process had
    not stored when it died, of steps that it executed for others, and of eager code.
    """

    name: str
    what: str
    engine: str
    kind: str
    call: CallTime | None
    overhead_ns: int
    metadata: RunMetadata


@dataclass(frozen=True, slots=True)
class Program:
    """What one process did: notes in the order in which they were written, and runs."""

    path: Path
    notes: tuple[Note, ...]

    def of(self, kind: str) -> list[Note]:
        """The notes of a kind."""
        return [note for note in self.notes if note.kind == kind]

    def last(self, kind: str) -> Note | None:
        """The note of a kind that holds, where later ones take the place of earlier ones."""
        return next((note for note in reversed(self.notes) if note.kind == kind), None)

    @property
    def main_thread(self) -> int:
        """The system's number of the thread that the program began on."""
        process = self.last(PROCESS)
        return process.thread if process is not None else 0

    def runs(self) -> Iterator[ProgramRun]:
        """Its recorded runs in the order in which they ended, read one after the other."""
        for run in store_file.stored_runs(self.path):
            yield ProgramRun(
                run.name,
                run.what,
                run.engine,
                f"{run.engine} {run.what} {run.graph_key}",
                run.call,
                run.overhead.ns,
                decoded_run(run),
            )


def programs(path: str | os.PathLike[str]) -> list[Program]:
    """The programs that `stepscope run` recorded in a file or below a directory.

    `UnreadableFileError` where there is none: it says what was found, and how to record one.
    """
    place = Path(path)
    if not place.exists():
        raise UnreadableFileError(f"{place}: there is no such file or directory")
    files = [place] if place.is_file() else files_below(place)
    stores = [file for file in files if store_file.is_store(file)]
    found = [
        Program(store, tuple(notes))
        for store in stores
        if (notes := store_file.notes(store)) is not None
    ]
    if found:
        return found
    if stores:
        raise UnreadableFileError(
            f"{place}: was recorded by an earlier Stepscope, which noted runs alone and not what "
            f"the program did beside them; {_RECORD}"
        )
    raise UnreadableFileError(
        f"{place}: holds runs at most, and not what the program did beside them; {_RECORD}"
    )
