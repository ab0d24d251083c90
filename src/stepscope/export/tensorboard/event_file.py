"""Event files, as TensorBoard reads them: append-only, whole after a crash, without TensorFlow.

What a caller may rely on:

- **Append-only.** A file is created once, under a name nobody else has, and only ever grows by
  whole records, each of which goes out in one write.
- **Crash-safe.** Nothing waits in a queue: when `add_event` returns the operating system has the
  record, so the end of the process, however sudden, loses none of it. `flush` and `close` also
  wait until the disk has it: what they return for is *written*. A process that dies inside a write
  can leave a part of that one record at the end of the file, which readers take for its end. If a
  write fails half-way (disk full) the file is cut back to its last whole record before the error
  is raised; what came before stays readable, more can follow.
- **Threads.** Writers may be shared by threads; each record is written under a lock. There is no
  thread of the writer's own, so there is nothing to join, and nothing that outlives it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from stepscope._messages import Event
from stepscope.export.messages import wire_bytes
from stepscope.metadata.wire.records import frame

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
            _keep_name(self._path.parent)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor


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


def _keep_name(directory: Path) -> None:
    """Put a new file's name on the disk: `fsync` of the file alone writes down its content."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
