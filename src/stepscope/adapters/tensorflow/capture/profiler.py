"""One profiler for the process, shared by all traced runs.

TensorFlow has a single profiler session, and its data exist only once it is stopped. So runs that
overlap form a *batch*: the first one starts the profiler, and when all of them are done it is
stopped and each gets the batch's data.

Guarantees.
- A batch takes no more runs once one of its runs is done: whoever waits for data waits at most for
  the runs that were already under way. A run that comes then waits for the next batch.
- Nobody waits for ever: a run may itself wait for what another one does next (a queue), so after
  `PATIENCE_S` the batch is *cut*: its data are taken as they are, and a run still under way says
  that it was recorded only up to then.
- `ProfiledBatch.data` is set before `leave` returns, or, for a run that has no time to wait, once
  `ProfiledBatch.done` is; it is the XSpace as bytes, decoded by whoever looks. Reading takes far
  longer than recording did: a run that is out of time leaves it to a thread which the process
  ends after.
- Of a profile of more than `MOST_BYTES` nothing is kept but that it was too large.
- The recorder's level is raised after every start, so that cheap ops of a warm program are seen.
- Where the profiler is somebody else's (the program profiles itself), `enter` gives None at once,
  and the caller says so in its metadata.
- Who has it between runs is said once: nobody, the profiler itself (`keep_open`, for what is
  allocated outside of runs), or an owner that lends it (`borrow_from`: `stepscope run`).
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any, Final, Protocol

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.events import CLOCK, CLOCK_STAT
from stepscope.adapters.tensorflow.capture.quiet_log import quiet
from stepscope.adapters.tensorflow.memory.allocator_events import AllocatorProfile, ledger

LEVEL: Final = 3
"""High enough for every kernel, however cheap, and for what the executor did between them."""
_HOST_TRACER: Final = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}
_SETTLE_S: Final = 0.0001
PATIENCE_S: Final = 2.0
MOST_BYTES: Final = 1 << 28
"""Some seven million events; taken apart they need ten times that."""
_TOO_LARGE: Final = (
    "the profiler's record of {size:,} bytes is larger than what is read of one "
    f"({MOST_BYTES:,} bytes)"
)
_folders = itertools.count(1)


class ProfiledBatch:
    """Runs that were profiled together."""

    __slots__ = (
        "_decode_lock", "_decoded", "cut", "data", "done", "folder", "level_raised", "memory",
        "problem", "running", "session", "share_ns", "stop_ns",
    )  # fmt: skip

    def __init__(self, session: Any, folder: str, *, level_raised: bool) -> None:
        self.session = session
        self.folder = folder
        self.level_raised = level_raised
        self.running = 0
        self.cut = False
        self.data = b""
        self.memory: AllocatorProfile | None = None
        """What the allocator did, where it tells."""
        self.problem = ""
        self.stop_ns = 0
        """How long stopping and exporting took."""
        self.share_ns = 0
        """What reading the data cost each of several runs that did not wait for it themselves."""
        self.done = threading.Event()
        self._decoded: Any = None
        self._decode_lock = threading.Lock()

    def decoded(self, decode: Any) -> Any:
        """What `decode(data)` gives, made once for all runs of the batch."""
        with self._decode_lock:
            if self._decoded is None:
                self._decoded = decode(self.data)
            return self._decoded


class ProfilerOwner(Protocol):
    """Has the profiler whenever no run of its own is profiled by a `SharedProfiler`."""

    def lend(self) -> None:
        """The profiler is free when this returns, until `give_back`. As often as it is called."""

    def give_back(self) -> None:
        """One of those it was lent to is done with it."""


class SharedProfiler:
    """The one who starts and stops TensorFlow's profiler, for any number of runs at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batch: ProfiledBatch | None = None
        self._closing = False
        self._level: versions.TraceLevel | None = None
        self._owner: ProfilerOwner | None = None
        self._stays_open = False

    @property
    def is_borrowed(self) -> bool:
        """Whether it has an owner that lends it."""
        return self._owner is not None

    def borrow_from(self, owner: ProfilerOwner) -> None:
        """Have runs that come from now on take it from its owner, and give it back."""
        self._owner = owner

    def keep_open(self) -> None:
        """Record from now on also between runs; `read_if_idle` is to be called now and then."""
        with self._changed:
            self._stays_open = True
            self._reopen()

    def enter(self, patience_s: float | None = None) -> ProfiledBatch | None:
        """Be profiled from now on; None where the profiler is somebody else's.

        A `TimeoutError` if it is being read for earlier runs, for longer than the patience.
        """
        if self._owner is None:
            return self._enter(patience_s)
        self._owner.lend()
        batch = None
        try:
            batch = self._enter(patience_s)
        finally:
            if batch is None:
                self._owner.give_back()
        return batch

    def _enter(self, patience_s: float | None) -> ProfiledBatch | None:
        with self._changed:
            if not self._changed.wait_for(lambda: not self._closing, patience_s):
                raise TimeoutError
            if self._batch is None:
                batch = self.start()
                if batch is None:
                    return None
                self._batch = batch
            self._batch.running += 1
            return self._batch

    def leave(self, batch: ProfiledBatch, *, wait: bool = True) -> None:
        """The run is done: wait until the batch's data are there, or have another thread wait."""
        with self._changed:
            batch.running -= 1
            if self._batch is not batch:
                mine = False
            else:
                self._closing = True
                mine = batch.running == 0
                if mine:
                    self._batch = None
        if wait:
            self._finish(batch, mine=mine)
            return
        # No daemon: TensorFlow is not to be inside of it when the interpreter goes away.
        threading.Thread(
            target=self._finish, args=[batch], kwargs={"mine": mine}, name="stepscope/profiler",
            daemon=False,
        ).start()  # fmt: skip

    def _finish(self, batch: ProfiledBatch, *, mine: bool) -> None:
        """Wait for the batch's data; with `mine`, nobody else is going to stop the profiler."""
        try:
            self._wait_for(batch, mine=mine)
        finally:
            if self._owner is not None:
                self._owner.give_back()
            with self._changed:
                self._reopen()

    def _wait_for(self, batch: ProfiledBatch, *, mine: bool) -> None:
        if not mine and not batch.done.wait(PATIENCE_S):
            with self._changed:
                mine = self._batch is batch
                if mine:
                    self._batch = None
                    batch.cut = True
        if not mine:
            batch.done.wait()
            return
        try:
            self.stop(batch)
        finally:
            with self._changed:
                self._closing = False
                self._changed.notify_all()
            batch.done.set()

    def _reopen(self) -> None:
        if self._stays_open and self._batch is None and not self._closing:
            self._batch = self.start()

    def read_if_idle(self) -> None:
        """Read what was recorded outside of runs, unless a run is going on."""
        with self._changed:
            batch = self._batch
            if self._closing or batch is None or batch.running:
                return
            self.stop(batch)
            batch.done.set()
            self._batch = self.start()

    # -- TensorFlow's own, for whoever has it --------------------------------------------------

    def start(self) -> ProfiledBatch | None:
        """Begin to record; None where the profiler is somebody else's."""
        if self._level is None:
            self._level = versions.TraceLevel()
        session = versions.new_profiler_session()
        folder = f"ram://stepscope-{next(_folders)}"
        try:
            with quiet():
                session.start(folder, _HOST_TRACER)
        except versions.tensorflow().errors.OpError:
            return None
        raised = self._level.raise_to(LEVEL)
        with versions.trace_me(CLOCK, **{CLOCK_STAT: time.time_ns()}):
            pass
        return ProfiledBatch(session, folder, level_raised=raised)

    def stop(self, batch: ProfiledBatch) -> None:
        """Record no more: `batch` gets its data, or says what became of them."""
        began = time.perf_counter_ns()
        gfile = versions.tensorflow().io.gfile
        # A run returns a moment before its last executor thread has left its spans.
        time.sleep(_SETTLE_S)
        try:
            with quiet():
                batch.session.export_to_tb()
            for where, _, names in gfile.walk(batch.folder):
                for name in names:
                    if name.endswith(".xplane.pb"):
                        size = gfile.stat(f"{where}/{name}").length
                        if size > MOST_BYTES:
                            batch.problem = _TOO_LARGE.format(size=size)
                        else:
                            with gfile.GFile(f"{where}/{name}", "rb") as file:
                                batch.data = file.read()
                    gfile.remove(f"{where}/{name}")
            batch.memory = ledger.take(batch.data)
        except Exception as error:  # noqa: BLE001 - the runs themselves are done; say what is lost
            batch.problem = f"the profiler's data could not be read: {error}"
        finally:
            batch.session = None
            batch.stop_ns = time.perf_counter_ns() - began


process_profiler: Final = SharedProfiler()
"""TensorFlow has one in a process: this is it, for all that are given no other."""
