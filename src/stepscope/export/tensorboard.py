"""Event files, as TensorBoard reads them, written without TensorFlow.

What a caller may rely on:

- **Append-only.** A file is created once, under a name nobody else has, and only ever grows by
  whole records.
- **Crash-safe.** Nothing waits in a queue: when `add_event` returns the operating system has the
  record, so the end of the process, however sudden, loses none of it. `flush` and `close` also
  wait until the disk has it. If a write fails half-way (disk full) the file is cut back to its last
  whole record before the error is raised; what came before stays readable, more can follow.
- **Threads.** Writers may be shared by threads; each record is written under a lock. There is no
  thread of the writer's own, so there is nothing to join, and nothing that outlives it.
"""

from __future__ import annotations

import inspect
import os
import socket
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope._messages import Event, MetaGraphDef, SessionLog, Summary, TaggedRunMetadata
from stepscope.export._accept import describe, is_a, wire_bytes
from stepscope.export.records import frame

if TYPE_CHECKING:
    from types import TracebackType

_FILE_VERSION = "brain.Event:2"
_WRITER = "stepscope.export.tensorboard"


class EventFileWriter:
    """Appends `Event` messages to an event file of its own in `logdir`."""

    def __init__(self, logdir: str | os.PathLike[str], filename_suffix: str = "") -> None:
        """Make `logdir` where it is missing, and the event file in it.

        The file is named `events.out.tfevents.<seconds>.<host><filename_suffix>`. Should that name
        be taken, the next free second is used: a file that another writer made is never touched.
        """
        self._logdir = os.fspath(logdir)
        self._suffix = filename_suffix
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._open()

    @property
    def path(self) -> Path:
        """The event file written to, or written last if the writer is closed."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether `close` was called and `reopen` was not."""
        return self._descriptor is None

    def get_logdir(self) -> str:
        """The directory the event file is in."""
        return self._logdir

    def add_event(self, event: Any) -> None:
        """Append an `Event` message (TensorFlow's or TensorBoard's), as it is.

        On a closed writer this does nothing, as in TensorFlow.
        """
        record = frame(wire_bytes(event, "Event", "add_event"))
        with self._lock:
            if self._descriptor is not None:
                _append(self._descriptor, record)

    def flush(self) -> None:
        """Wait until everything added so far is on the disk."""
        with self._lock:
            if self._descriptor is not None:
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Flush and close the file. Closing again does nothing."""
        with self._lock:
            if self._descriptor is None:
                return
            descriptor, self._descriptor = self._descriptor, None
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def reopen(self) -> None:
        """After `close`, go on in a new file. On an open writer this does nothing."""
        with self._lock:
            if self._descriptor is None:
                self._open()

    def _open(self) -> None:
        self._path, descriptor = _create_event_file(Path(self._logdir), self._suffix)
        first = Event(wall_time=time.time(), file_version=_FILE_VERSION)
        first.source_metadata.writer = _WRITER
        try:
            _append(descriptor, frame(first.SerializeToString()))
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor


class FileWriter:
    """TensorFlow's `tf.compat.v1.summary.FileWriter`: graphs, tagged run metadata, summaries.

    Takes Stepscope's, TensorFlow's and TensorBoard's messages alike.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        """Open an event file in `logdir` and write `graph` (or `graph_def`) to it if one is given.

        `max_queue`, `flush_secs` and `session` are there because TensorFlow's writer has them. They
        say how its events wait before they are written; here none wait.
        """
        del max_queue, flush_secs, session
        self.event_writer = EventFileWriter(logdir, filename_suffix or "")
        self._run_tags: set[str] = set()
        self._described_tags: set[str] = set()
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)
            data = _graph_bytes(graph if graph is not None else graph_def)
            meta_graph = MetaGraphDef()
            meta_graph.graph_def.ParseFromString(data)
            self.add_meta_graph(meta_graph)

    def __enter__(self) -> FileWriter:
        """The writer itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the writer."""
        self.close()

    def get_logdir(self) -> str:
        """The directory the event file is in."""
        return self.event_writer.get_logdir()

    def add_graph(self, graph: Any, global_step: int | None = None, graph_def: Any = None) -> None:
        """Add a graph: anything with `as_graph_def()`, or a `GraphDef` message."""
        if graph is not None and graph_def is not None:
            raise ValueError("add_graph takes graph or graph_def; both were passed")
        data = _graph_bytes(graph if graph is not None else graph_def)
        self._add(Event(graph_def=data), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: int | None = None) -> None:
        """Add a `MetaGraphDef` message."""
        data = wire_bytes(meta_graph_def, "MetaGraphDef", "add_meta_graph")
        self._add(Event(meta_graph_def=data), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: int | None = None) -> None:
        """Add what a run left behind, under a tag of its own.

        Raises `ValueError` if the tag has been used with this writer before.
        """
        data = wire_bytes(run_metadata, "RunMetadata", "add_run_metadata")
        if tag in self._run_tags:
            raise ValueError("The provided tag was already used for this event type")
        tagged = TaggedRunMetadata(tag=tag, run_metadata=data)
        self._run_tags.add(tag)
        self._add(Event(tagged_run_metadata=tagged), global_step)

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Add a `Summary` message, or the bytes of one.

        A value's metadata is written with the first value of its tag and left out after that; the
        message passed is not changed.
        """
        if not isinstance(summary, bytes):
            summary = wire_bytes(summary, "Summary", "add_summary")
        message = Summary.FromString(summary)
        for value in message.value:
            if value.tag in self._described_tags:
                value.ClearField("metadata")
            elif value.HasField("metadata"):
                self._described_tags.add(value.tag)
        self._add(Event(summary=message), global_step)

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Add a `SessionLog` message."""
        data = wire_bytes(session_log, "SessionLog", "add_session_log")
        message = SessionLog.FromString(data)
        self._add(Event(session_log=message), global_step)

    def add_event(self, event: Any) -> None:
        """Add an `Event` message as it is."""
        self._warn_if_closed()
        self.event_writer.add_event(event)

    def flush(self) -> None:
        """Wait until everything added so far is on the disk."""
        self._warn_if_closed()
        self.event_writer.flush()

    def close(self) -> None:
        """Flush and close the file. Closing again does nothing."""
        self.event_writer.close()

    def reopen(self) -> None:
        """After `close`, go on in a new file. On an open writer this does nothing."""
        self.event_writer.reopen()

    def _add(self, event: Any, global_step: int | None) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def _warn_if_closed(self) -> None:
        if self.event_writer.closed:
            warnings.warn(
                "This FileWriter is closed: nothing is written. Call reopen() first.", stacklevel=4
            )


def _create_event_file(logdir: Path, suffix: str) -> tuple[Path, int]:
    """A new, empty event file and its descriptor."""
    logdir.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname()
    seconds = int(time.time())
    while True:
        path = logdir / f"events.out.tfevents.{seconds:010d}.{host}{suffix}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            return path, os.open(path, flags, 0o666)
        except FileExistsError:
            # The next second and not a longer name: TensorBoard reads files in order of name.
            seconds += 1


def _append(descriptor: int, record: bytes) -> None:
    """Write a whole record, or leave the file as it was and raise."""
    size_before = os.fstat(descriptor).st_size
    rest = memoryview(record)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BaseException:
        os.ftruncate(descriptor, size_before)
        raise


def _graph_bytes(graph: Any) -> bytes:
    if is_a(graph, "GraphDef"):
        return wire_bytes(graph, "GraphDef", "add_graph")
    to_graph_def = getattr(graph, "as_graph_def", None)
    if to_graph_def is None or isinstance(graph, type):
        raise TypeError(
            "add_graph takes a graph (an object with as_graph_def()) or a GraphDef message, "
            f"not {describe(graph)}"
        )
    # TensorBoard labels edges with the shapes a graph adds when asked to.
    takes_shapes = "add_shapes" in inspect.signature(to_graph_def).parameters
    graph_def = to_graph_def(add_shapes=True) if takes_shapes else to_graph_def()
    return wire_bytes(graph_def, "GraphDef", "add_graph")
