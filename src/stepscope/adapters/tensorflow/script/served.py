"""Recording a script that serves: its process executes what others ask it to.

Workers and parameter servers of `ParameterServerStrategy` make a server and wait in its `join`,
which never returns. What the coordinator has them execute begins in no Python of theirs, so here
the profiler is open all the time and read every two seconds. Each call of a function that somebody
had this task execute is a run; its `step_id` is the number by which all tasks that took part in the
call know it.

Guarantees.
- `join` blocks as TensorFlow's own does. It is waited for on another thread, so that Python sees
  signals meanwhile: SIGTERM and Control-C, where the script leaves them alone, end the wait, what
  was recorded is handed over, and in the end the process dies of that signal all the same.
- Steps of sessions are left out: the session that runs them is told by all tasks, and has the rows.
  A server that executes nothing else is soon left alone.
- A call that lay at the edge of a window says in its completeness that it may have been cut, and so
  does one with an op that had begun and not ended. Such an op has no row: when a receive ended is
  what clocks are compared by, and a time that nobody saw would make them contradict one another.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stepscope.adapters.tensorflow.capture.capture import Nodes
from stepscope.adapters.tensorflow.capture.events import NO_NODES, Profile, Row
from stepscope.adapters.tensorflow.capture.profiled_capture import ProfiledCapture
from stepscope.analysis.cluster.workers import SERVED
from stepscope.metadata import Completeness, Loss, Recording

if TYPE_CHECKING:
    from stepscope.adapters.tensorflow.capture.profiler import ProfiledBatch
    from stepscope.adapters.tensorflow.script.windows import Windows

_OPEN_S: Final = 2.0
_EDGE_NS: Final = 20_000_000
_SOFTWARE: Final = 1
_ENOUGH: Final = 3
_CUT: Final = Loss(
    "op executions", 0, "the profiler was read just before or after: what ran then is not recorded"
)
_NO_GRAPHS: Final = Loss(
    "graphs of functions",
    0,
    "a server is not told them: inputs of ops and sizes of what was moved are not known",
)

Give = Callable[[Recording], None]


def serve(join: Callable[[], Any], windows: Windows, give: Give, active: Callable[[], bool]) -> Any:
    """Wait for a server as `join` does, and `give` what it executes while that is `active`.

    On the main thread.
    """
    joined = _Joined(join)
    served = _Served(give)
    # What is read is handed over when the next window is open already.
    windows.keep_open()
    with _Endings(joined.over) as endings:
        while not joined.over.is_set():
            if served.sessions_only:
                windows.close()
                joined.over.wait()
                break
            batch = windows.open_run() if active() else None
            due = time.time_ns() + round(_OPEN_S * 1e9)
            joined.over.wait(_OPEN_S)
            if batch is not None:
                closed = time.time_ns()
                # Where this thread was held up, the others may have stood still for as long.
                window = (closed - windows.open_for_ns, min(closed, due))
                windows.close_run(batch, partial(served.hand_over, batch, window))
                windows.read()
    if endings.signal is not None:
        atexit.register(_die_of, endings.signal)
        if endings.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + endings.signal)
    return joined.result()


class _Joined:
    """A call that blocks, on a thread of its own."""

    def __init__(self, join: Callable[[], Any]) -> None:
        self.over = threading.Event()
        self._join = join
        self._error: BaseException | None = None
        self._result: Any = None
        threading.Thread(target=self._wait, name="stepscope/server", daemon=True).start()

    def _wait(self) -> None:
        try:
            self._result = self._join()
        except BaseException as error:  # noqa: BLE001 - raised where the script waits
            self._error = error
        self.over.set()

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class _Endings:
    """While inside, signals that would end the process set `over` instead."""

    def __init__(self, over: threading.Event) -> None:
        self.signal: int | None = None
        self._over = over
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Endings:
        usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
        for number, handler in usual.items():
            if signal.getsignal(number) == handler:
                self._before[number] = signal.signal(number, self._came)
        return self

    def _came(self, number: int, _frame: object) -> None:
        self.signal = number
        self._over.set()

    def __exit__(self, *_exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _die_of(number: int) -> None:
    """End as the signal would have ended it: the server's threads know no other end."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class _Served:
    """Hands over what the server executed."""

    def __init__(self, give: Give) -> None:
        self._give = give
        self._calls = 0
        self._windows_of_others = 0

    @property
    def sessions_only(self) -> bool:
        """Whether it has executed steps for some time, and none of them of a function."""
        return not self._calls and self._windows_of_others >= _ENOUGH

    def hand_over(self, batch: ProfiledBatch, window: tuple[int, int]) -> None:
        """The calls in a window, which was open from then to then, in the order they began in."""
        profile: Profile = batch.decoded(Profile)
        found = []
        for number in profile.called_elsewhere():
            begun = sorted(profile.rows_of([number]), key=lambda row: (row.start_ns, row.end_ns))
            going_on = set(profile.unfinished_in([number]))
            rows = [row for row in begun if row not in going_on]
            if rows:
                found.append((rows[0].start_ns, number, rows, bool(going_on)))
        self._calls += len(found)
        self._windows_of_others += any(True for _ in profile.unclaimed(set()))
        for start, number, rows, unseen in sorted(found, key=lambda step: step[:2]):
            end = max(row.end_ns for row in rows)
            cut = unseen or start < window[0] + _EDGE_NS or end > window[1] - _EDGE_NS
            self._give(_recording(_ServedStep(batch, rows, end - start), number, cut=cut))


def _recording(step: _ServedStep, number: int, *, cut: bool) -> Recording:
    columns = step.columns(number, lambda: NO_NODES)
    return Recording(
        engine=SERVED,
        step_id=number,
        completeness=Completeness((_NO_GRAPHS, _CUT) if cut else (_NO_GRAPHS,)),
        overhead=step.overhead(),
        ops=lambda: columns,
    )


class _ServedStep(ProfiledCapture):
    """The executions of one step, of which no graph is known."""

    def __init__(self, batch: ProfiledBatch, rows: list[Row], length_ns: int) -> None:
        super().__init__(_SOFTWARE)
        self.batch = batch
        self.asked = 0
        self.ended = self.left = self.over_at = length_ns
        self._own = rows

    def rows(self, nodes: Nodes = NO_NODES) -> list[Row]:  # noqa: ARG002
        return self._own
