"""The runs of a script, on disk as they come.

Layout of the directory:

    timeline.json                     all runs as one Chrome trace, written at the end
    run_000001/run_metadata.pb        the first run that ended, and so on
    run_000001/graph.pb               the graph it was a run of, where there is one
    worker.json                       which task of a cluster this was, where TF_CONFIG says so

Guarantees:

- a run is on disk as soon as it is handed over: by the embedded engine before the script gets its
  result, by TensorFlow's within seconds, and at the script's end, however it ends;
- in memory stays, per run, what the table and the timeline need: the columns of its ops and how it
  ended, not its memory records, graphs or messages;
- a run that cannot be written is not the script's problem: the script goes on, `problem` says what
  happened, and no further run is written.

`add` may be called from many threads. Runs are numbered in the order in which they ended.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stepscope.cli.saved_graphs import GRAPH_FILE, SavedGraphs
from stepscope.cli.worker_file import WORKER_FILE, WorkerFile
from stepscope.errors import StepscopeError
from stepscope.metadata import Recording, RunMetadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

METADATA_FILE = "run_metadata.pb"
TIMELINE_FILE = "timeline.json"
_RUN_DIRECTORY = re.compile(r"run_\d{6,}")


class Add(Protocol):
    """Takes a run that ended."""

    def __call__(self, metadata: RunMetadata, label: str = "", graph: Any = None) -> None:
        """`label` says what it was, `graph` is what the user built and it was a run of."""


class RecordedRuns:
    """Collects and writes runs while the block it was entered for lasts, or up to `limit` runs."""

    def __init__(self, directory: Path, limit: int | None = None) -> None:
        """Make the directory ready; what an earlier recording wrote there is removed.

        `StepscopeError` where the directory cannot be made or written to.
        """
        self.directory = directory
        self.limit = limit
        self.runs: list[tuple[str, RunMetadata]] = []
        self.problem: str | None = None
        self.limit_reached = False
        self.writing_ns = 0
        """How long writing runs took so far."""
        self.out_of_memory = False
        """Whether there is a run that ran out of memory and says who held it."""
        self._labels: dict[str, str] = {}
        self._graphs = SavedGraphs()
        self._lock = threading.Lock()
        self._source = ExitStack()
        self._process = os.getpid()
        try:
            self._absolute = directory.absolute()
            self._absolute.mkdir(parents=True, exist_ok=True)
            _remove_earlier(self._absolute)
            self._worker = WorkerFile.of_environment(self._absolute)
        except OSError as error:
            raise StepscopeError(
                f"the output directory {directory} cannot be used: {error.strerror or error}; "
                "choose another with --out"
            ) from error

    def record(self, source: Callable[[Add], AbstractContextManager[None]]) -> None:
        """Take runs from a source (which is given `add`) until `stop` or until the limit."""
        self._source.enter_context(source(self.add))
        if self.limit == 0:
            # The source has put in place what the script needs, and takes no runs.
            self._source.close()
            self.limit_reached = True

    def stop(self) -> None:
        """Take no more runs."""
        self._source.close()
        if self._worker is not None and not self.in_child_process:
            self._worker.ended()

    @property
    def in_child_process(self) -> bool:
        """Whether this is a fork of the process that records; what it does is not recorded."""
        return os.getpid() != self._process

    @property
    def labelled(self) -> list[tuple[str, RunMetadata]]:
        """The runs, under names that also say what each of them was, where that is known."""
        return [(f"{name} {self._labels.get(name, '')}".rstrip(), run) for name, run in self.runs]

    def add(self, metadata: RunMetadata, label: str = "", graph: Any = None) -> None:
        """Write one run; `label` says what it was, `graph` what it was a run of."""
        if self.in_child_process:
            return
        began = time.perf_counter_ns()
        try:
            self._add(metadata, label, graph)
        finally:
            self.writing_ns += time.perf_counter_ns() - began

    def _add(self, metadata: RunMetadata, label: str, graph: Any) -> None:
        with self._lock:
            if self.limit_reached or self.problem is not None:
                return
            name = f"run_{len(self.runs) + 1:06d}"
            place = self._absolute / name
            try:
                place.mkdir(exist_ok=True)
                metadata.save(place / METADATA_FILE)
                if graph is not None:
                    self._graphs.save(graph, place)
                kept = _without_bulk(metadata)
            except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
                self.problem = f"{name} could not be written: {type(error).__name__}: {error}"
            except BaseException:
                # Interrupted half way: what is not counted must not be there.
                _remove_run(place)
                raise
            else:
                self.runs.append((name, kept))
                self._labels[name] = label
                self.out_of_memory |= metadata.out_of_memory is not None
                self.limit_reached = len(self.runs) == self.limit
            if self.limit_reached or self.problem is not None:
                self._source.close()

    def write_timeline(self) -> Path | None:
        """Write all runs as one Chrome trace; None where there are none.

        None as well, and `problem` set, where that fails.
        """
        from stepscope.export import chrome

        if not self.runs:
            return None
        try:
            # From the files: what is in memory has no memory records, labels or source lines.
            files = [
                (label, self._absolute / name / METADATA_FILE)
                for (name, _), (label, _) in zip(self.runs, self.labelled, strict=True)
            ]
            chrome(files, self._absolute / TIMELINE_FILE)
        except (OSError, StepscopeError) as error:
            self.problem = f"{TIMELINE_FILE} could not be written: {error}"
            return None
        return self.directory / TIMELINE_FILE


def _without_bulk(metadata: RunMetadata) -> RunMetadata:
    columns = metadata.ops.replace(label=None, memory=None, op_start_ns=None, op_end_ns=None)
    kept = RunMetadata()
    kept.record(
        Recording(
            engine=metadata.engine,
            step_id=metadata.step_id,
            status=metadata.status,
            completeness=metadata.completeness,
            overhead=metadata.overhead,
            ops=lambda: columns,
        )
    )
    return kept


def _remove_earlier(directory: Path) -> None:
    """Remove what a recording wrote; whatever else is in the directory stays."""
    (directory / TIMELINE_FILE).unlink(missing_ok=True)
    (directory / WORKER_FILE).unlink(missing_ok=True)
    for place in directory.iterdir():
        if _RUN_DIRECTORY.fullmatch(place.name) and place.is_dir():
            _remove_run(place)


def _remove_run(place: Path) -> None:
    for name in (METADATA_FILE, GRAPH_FILE):
        (place / name).unlink(missing_ok=True)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
