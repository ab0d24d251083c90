"""The runs of a script, on disk as they come.

Layout of the directory:

    runs-1234-1.stepscope     the store: all runs of process 1234, in the order in which they ended
    report.html               with `--report`, the pages of `stepscope view`
    timeline.json             all runs as one Chrome trace, written at the end if they are few
    runs-1234-1.stepscope-live, -log  what is not in the store yet, as long as the process lives
    worker.json               which task of a cluster this was, where TF_CONFIG says so
    run_000001/               with `--pb`: the first run as `run_metadata.pb`, and so on

Guarantees:

- a run that was handed over is read back, whatever becomes of the process: some 10 ms later it is
  in the store, or it lies in a mapped file until it is, when the script pauses or two seconds later
  (see `stepscope.store`). What the script waits for is to hand it over;
- in memory stays nothing of a run that was written;
- a run that cannot be written is not the script's problem: the script goes on, and `problem` says
  what happened.

`add` may be called from many threads. Runs are numbered in the order in which they were handed
over.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stepscope.cached_property import cached_property
from stepscope.cli.script.process_memory import ProcessMemory
from stepscope.cli.script.saved_graphs import GRAPH_FILE, METADATA_FILE, SavedGraphs
from stepscope.cli.script.worker_file import WORKER_FILE, WorkerFile
from stepscope.errors import StepscopeError
from stepscope.metadata.program_notes import STOPPED, Note
from stepscope.metadata.readers.store_file import SUFFIX, stored_runs
from stepscope.metadata.stored.step_summaries import Level
from stepscope.metadata.stored.stored_run import StoredRun, decoded_run
from stepscope.recorder.kept_runs import KeptRuns
from stepscope.store import LiveRuns, Store, add_note_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from stepscope.metadata import RunMetadata
    from stepscope.metadata.stored.stored_run import SharedPart
    from stepscope.recorder.budget import Budget
    from stepscope.recorder.terms import Terms

TIMELINE_FILE = "timeline.json"
REPORT_FILE = "report.html"
TIMELINE_OPS = 20_000
"""Of more ops than these no timeline is written unasked: it would be larger than all the rest."""
_RUN_DIRECTORY = re.compile(r"run_\d{6,}")
_STORE_FILES = re.compile(
    rf"runs-\d+-\d+{re.escape(SUFFIX)}(-wal|-shm|-journal|-live|-log(\.graphs)?)?"
)


class StoresRun(Protocol):
    """Takes a run that ended."""

    def __call__(
        self, metadata: RunMetadata, label: str = "", graph: Any = None, kept: float = 0
    ) -> None:
        """`label` says what it was, `graph` is what the user built and it was a run of.

        `kept` is its share of the place where it outlives the process until it is stored.
        """


class KeptElsewhere(Protocol):
    """What keeps TensorFlow's runs, whatever becomes of the process, until they are stored."""

    def stored(self, step_ids: Iterable[int]) -> None:
        """These are stored, or nobody wants them to be."""

    def close(self) -> None:
        """All are that could be."""


class RecordedRuns:
    """Collects and writes runs while the block it was entered for lasts, or up to `limit` runs."""

    def __init__(
        self,
        directory: Path,
        limit: int | None = None,
        *,
        pb: bool = False,
        tensorboard: Path | None = None,
        report: bool = False,
        terms: Terms | None = None,
    ) -> None:
        """Make the directory ready; what an earlier recording wrote there is removed.

        With `terms` engines hand runs to `kept`, which decides what becomes of them, and not to
        `add`.

        At the end runs are also written as `run_metadata.pb` each (`pb`), for TensorBoard, and as a
        page (`report`).
        `StepscopeError` where the directory cannot be made or written to.
        """
        self.directory = directory
        self.limit = limit
        self.limit_reached = False
        self.writing_ns = 0
        """How long the script waited for runs to be handed over so far."""
        self.storing_ns = 0
        """How long the store computed beside the script, and was waited for at its end."""
        self.unrecorded_ns = 0
        """How long runs took that were not to be recorded, as far as they were handed over."""
        self._memory = ProcessMemory()
        self._last_notes: list[Callable[[], Note]] = [self._memory.note]
        self._added = 0
        self._problem: str | None = None
        self._runs: list[tuple[str, RunMetadata]] | None = None
        self._ops = 0
        self._graphs = SavedGraphs()
        self._lock = threading.Lock()
        self._source = ExitStack()
        self._process = os.getpid()
        try:
            absolute = directory.absolute()
            # The script may change its working directory.
            page = absolute / REPORT_FILE if report else None
            places = {"pb": absolute if pb else None, "tensorboard": tensorboard, "report": page}
            self._exports = {to: place.absolute() for to, place in places.items() if place}
            absolute.mkdir(parents=True, exist_ok=True)
            _remove_earlier(absolute)
            self._worker = WorkerFile.of_environment(absolute)
            self._kept_elsewhere: list[KeptElsewhere] = []
            self._store = Store(absolute, self._stored)
            self.live = LiveRuns(self._store.path)
            self.kept: KeptRuns | None = None
            if terms is not None:
                self.kept = KeptRuns(self._store, terms.controller(), self._let_go)
        except OSError as error:
            raise StepscopeError(
                f"the output directory {directory} cannot be used: {error.strerror or error}; "
                "choose another with --out"
            ) from error

    def record(self, source: Callable[[StoresRun], AbstractContextManager[None]]) -> None:
        """Take runs from a source (which is given `add`) until `stop` or until the limit."""
        self._source.enter_context(source(self.add))
        if self.limit == 0:
            # The source has put in place what the script needs, and takes no runs.
            self._source.close()
            self.limit_reached = True

    def stop(self) -> None:
        """Take no more runs, and wait until those that were taken are written."""
        self._source.close()
        if self.in_child_process:
            return
        for last in self._last_notes:
            self.note(last())
        self._last_notes.clear()
        beside, began = self._store.busy_ns, time.perf_counter_ns()
        if self.kept is not None:
            self.kept.close()
        self._store.close()
        if self.kept is not None:
            self.kept.over()
        self.storing_ns = self.storing_ns or beside + time.perf_counter_ns() - began
        self.live.close()
        for others in self._kept_elsewhere:
            others.close()
        if self._worker is not None:
            self._worker.ended()

    def note(self, note: Note) -> None:
        """Write down what the program did beside its runs. From any thread; it does not wait."""
        if self._store.closed:
            add_note_to(self._store.path, note)
        else:
            self._store.note(note)

    def note_at_the_end(self, last: Callable[[], Note]) -> None:
        """Write down what this gives when no more runs are taken."""
        self._last_notes.append(last)

    @property
    def in_child_process(self) -> bool:
        """Whether this is a fork of the process that records; what it does is not recorded."""
        return os.getpid() != self._process

    @property
    def problem(self) -> str | None:
        """What went wrong first in writing; None where nothing did."""
        return self._store.problem or self._problem

    @property
    def file(self) -> Path:
        """The file that the runs are in, wherever the script's working directory is."""
        return self._store.path

    def also_kept_by(self, others: KeptElsewhere) -> None:
        """Somebody keeps runs until they are stored."""
        self._kept_elsewhere.append(others)

    @property
    def store(self) -> Path:
        """The file that the runs are in, as a user would name it."""
        return self.directory / self._store.path.name

    @property
    def runs(self) -> list[tuple[str, RunMetadata]]:
        """How each run went and what it was called, after `stop`. Their ops are in `each`."""
        if self._runs is None:
            self._runs, self._ops = [], 0
            for run in stored_runs(self._store.path) if self._store.stored else ():
                self._ops += run.ops
                ended = {part: found for part, found in run.parts.items() if part == "outcome"}
                if ended:
                    run = replace(run, parts=ended, columns={})
                self._runs.append((run.name, decoded_run(run)))
        return self._runs

    @cached_property
    def overhead_ns(self) -> int:
        """What recording the runs cost, by what they say themselves, after `stop`."""
        return sum(run.overhead.ns for _, run in self.runs)

    def each(self) -> Iterator[tuple[str, RunMetadata]]:
        """Every run with all that was recorded of it, read one after the other, after `stop`."""
        for run in stored_runs(self._store.path) if self._store.stored else ():
            yield run.name, decoded_run(run)

    @property
    def out_of_memory(self) -> bool:
        """Whether there is a run that ran out of memory and says who held it."""
        return any(run.out_of_memory is not None for _, run in self.runs)

    def add(
        self, metadata: RunMetadata, label: str = "", graph: Any = None, kept: float = 0
    ) -> None:
        """Hand one run over, see `StoresRun`."""
        if self.in_child_process:
            return
        began = time.perf_counter_ns()
        try:
            with self._lock:
                if self.limit_reached:
                    self.skip(metadata)
                    return
                self._store.add(metadata, label, self._graphs.part_of(graph), kept=kept)
                self._added += 1
                self._memory.look(self._added)
                self.limit_reached = self._added == self.limit
            if self.limit_reached or self._store.over:
                self.note(Note(STOPPED, time.time_ns()))
                self._source.close()
        finally:
            self.writing_ns += time.perf_counter_ns() - began

    def skip(self, metadata: RunMetadata) -> None:
        """A run is not to be recorded."""
        recording = metadata.recorded()
        if recording is not None and recording.call is not None:
            self.unrecorded_ns += recording.call.ended_ns - recording.call.started_ns
        self._stored([metadata])

    def part_of(self, graph: Any) -> SharedPart | None:
        """A user's graph as the store has it, of a run that is handed to `kept`."""
        if self.kept is not None:
            self._memory.look(self.kept.made)
        return self._graphs.part_of(graph)

    @property
    def budget(self) -> Budget | None:
        """What decides on how much is recorded of runs; None where all is."""
        return None if self.kept is None else self.kept.control.budget

    def given_up(self) -> list[str]:
        """What the budget left out, in words; nothing where every run is there in full."""
        if self.kept is None or not self.kept.made:
            return []
        budget, made, there = self.kept.control.budget, self.kept.made, len(self.runs)
        at = [sum(kind.at[level] for kind in budget.kinds.values()) for level in Level]
        if at[Level.DETAIL] == made == there:
            return []
        parts = (
            (Level.DETAIL, "in detail"), (Level.TIMES, "with op times"),
            (Level.LENGTH, "by their length"), (Level.COUNT, "by their number"),
        )  # fmt: skip
        noted = ", ".join(f"{at[level]:,} {how}" for level, how in parts if at[level])
        return [
            f"to keep to a budget of {100 * budget.share:g}% of the program's time, {made:,} runs "
            f"were noted {noted}; {there:,} of them are here: the first, the slowest, the latest, "
            "those that failed or were slow, and a random sample (--budget off records all)"
        ]

    def _stored(self, runs: Sequence[RunMetadata | StoredRun]) -> None:
        self._let_go([(run.engine, run.step_id) for run in runs])
        if self.kept is not None:
            self.kept.committed([run for run in runs if isinstance(run, StoredRun)])

    def _let_go(self, runs: Sequence[tuple[str, int]]) -> None:
        self.live.stored([step_id for engine, step_id in runs if engine == "embedded"])
        steps = [step_id for engine, step_id in runs if engine != "embedded"]
        for others in self._kept_elsewhere if steps else ():
            others.stored(steps)

    @property
    def without_timeline(self) -> bool:
        """Whether there are too many ops for a timeline that nobody asked for."""
        return bool(self.runs) and self._ops > TIMELINE_OPS

    def write_timeline(self) -> Path | None:
        """Write all runs as one Chrome trace; None where there are none, or too many ops.

        None as well, and `problem` set, where that fails.
        """
        if not self.runs or self.without_timeline:
            return None
        from stepscope.export import chrome

        try:
            chrome(self._store.path, self._store.path.with_name(TIMELINE_FILE))
        except (OSError, StepscopeError) as error:
            self._problem = f"{TIMELINE_FILE} could not be written: {error}"
            return None
        return self.directory / TIMELINE_FILE

    def write_exports(self) -> list[Path]:
        """Write the runs in the other forms that were asked for; where they are.

        Those that fail are left out, and `problem` says why.
        """
        from stepscope.cli.export import FORMATS

        written: list[Path] = []
        for to, place in self._exports.items() if self.runs else ():
            write = write_page if to == "report" else FORMATS[to][0]
            try:
                done = write(self._store.path, place)
                written.append(self.directory / REPORT_FILE if to == "report" else done)
            except (OSError, StepscopeError) as error:
                self._problem = f"{place} could not be written: {error}"
        return written


def write_page(store: Path, place: Path) -> Path:
    """Write the report of the runs in a store, or in a directory; where it is."""
    from stepscope.web.recordings import Recordings
    from stepscope.web.report import write_report
    from stepscope.web.run_sources import FilesSource

    write_report(Recordings(FilesSource([store]), follow=False), place)
    return place


def _remove_earlier(directory: Path) -> None:
    """Remove what a recording wrote; whatever else is in the directory stays."""
    (directory / TIMELINE_FILE).unlink(missing_ok=True)
    (directory / REPORT_FILE).unlink(missing_ok=True)
    (directory / WORKER_FILE).unlink(missing_ok=True)
    for place in directory.iterdir():
        if _RUN_DIRECTORY.fullmatch(place.name) and place.is_dir():
            _remove_run(place)
        elif _STORE_FILES.fullmatch(place.name):
            place.unlink(missing_ok=True)


def _remove_run(place: Path) -> None:
    for name in (METADATA_FILE, GRAPH_FILE):
        (place / name).unlink(missing_ok=True)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
