"""The runs of a script under a budget: of what kind each is, and what is done in a lull.

Runs of one kind are judged together: calls of functions of one name, runs of a session by what they
fetch, gradient tapes. While a lull lasts (`stepscope.recorder.lanes`) a run is called and its
length noted, and that is all: some two microseconds.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from stepscope import options as opts
from stepscope.adapters.tensorflow.failures import status_of
from stepscope.adapters.tensorflow.script.deliveries import END_OF_INPUT, Decided
from stepscope.metadata.fetched_names import session_run
from stepscope.metadata.stored.step_summaries import Level
from stepscope.recorder.kept_runs import given_up

if TYPE_CHECKING:
    from stepscope.metadata import Loss
    from stepscope.metadata.stored.stored_run import SharedPart
    from stepscope.recorder.kept_runs import KeptRuns
    from stepscope.recorder.lanes import RunLane

__all__ = ["Budgeted", "How", "code_of"]

_MOST_FETCHES: Final = 512


class How:
    """With what options a run is recorded."""

    __slots__ = ("asked", "options")

    def __init__(self, trace_level: int) -> None:
        self.asked = opts.RunOptions(trace_level=trace_level)
        self.options = self.asked.resolve()


class Budgeted:
    """What decides on the runs of a script, and knows their kinds. For any thread."""

    def __init__(
        self, runs: KeptRuns, graph_part: Callable[[Any], SharedPart | None], trace_level: int, *,
        wants_peaks: bool,
    ) -> None:  # fmt: skip
        """`graph_part` gives a user's graph as stores have it; no run is traced further than that.

        With `wants_peaks` it is told what memory runs took that were recorded in detail.
        """
        self.runs = runs
        self.graph_part = graph_part
        self._wants_peaks = wants_peaks
        share = runs.control.budget.share
        self._losses: dict[Level, tuple[Loss, ...]] = {
            level: given_up(level, share) for level in Level
        }
        self.how = {Level.TIMES: How(min(1, trace_level)), Level.DETAIL: How(trace_level)}
        self._lanes: dict[int, RunLane] = {}
        """By function."""
        self._fetches: dict[Any, tuple[str, Any]] = {}
        """By what was fetched, its kind, and what must live for that."""
        self._lanes_of_one: dict[int, tuple[Any, RunLane]] = {}
        """By a single tensor or operation that is fetched, that, and the lane of its runs."""

    def begins(self, kind: str) -> Decided:
        """A run begins outside of lulls: what is recorded of it."""
        begun = self.runs.begins(kind)
        peak = self._wants_peaks and begun.level is Level.DETAIL
        return Decided(begun, self._losses[begun.level], peak)

    def length_alone(self, decided: Decided, error: BaseException | None, engine: str) -> None:
        """A run ended that no more was to be recorded of."""
        if error is not None or decided.begun.level is Level.LENGTH:
            self.runs.ended(decided.begun, failed=code_of(error), engine=engine)

    def lane_of_function(self, function: Any, name: Callable[[Any], str]) -> RunLane:
        """Where calls of a function are noted in a lull."""
        known = self._lanes.get(id(function))
        if known is None:
            known = self._lanes[id(function)] = self.runs.lane(name(function))
            weakref.finalize(function, self._lanes.pop, id(function), None)
        return known

    def lane_of_fetches(self, fetches: Any) -> RunLane:
        """Where runs of a session are noted in a lull, by what they fetch."""
        known = self._lanes_of_one.get(id(fetches))
        if known is not None:
            return known[1]
        lane = self.runs.lane(self.kind_of_fetches(fetches))
        # A list of the same identity may have others in it the next time.
        if not isinstance(fetches, (list, tuple, str, Mapping)):
            if len(self._lanes_of_one) >= _MOST_FETCHES:
                self._lanes_of_one.clear()
            self._lanes_of_one[id(fetches)] = fetches, lane
        return lane

    def kind_of_fetches(self, fetches: Any) -> str:
        """The kind of a run of a session, by what it fetches."""
        key = _key(fetches)
        known = self._fetches.get(key)
        if known is None:
            # Not before there is TensorFlow.
            from stepscope.adapters.tensorflow.runs.session_graph import leaves

            found = list(leaves(fetches))
            kind = session_run(*_names(found))
            if len(self._fetches) >= _MOST_FETCHES:
                self._fetches.clear()
            known = self._fetches[key] = kind, found
        return known[0]


def code_of(error: BaseException | None) -> str:
    """How a run failed; "" where it did not, or found no more input."""
    if error is None:
        return ""
    code = status_of(error).code
    return "" if code == END_OF_INPUT else code


def _names(fetches: Iterable[Any]) -> tuple[list[str], list[str]]:
    """The names of ops that are only run, and of those whose outputs are returned."""
    ran, returned = [], []
    for one in fetches:
        # A variable stands for the op that reads it.
        element = one._as_graph_element() if hasattr(one, "_as_graph_element") else one
        name = str(getattr(element, "name", element))
        if ":" in name:
            returned.append(name.rpartition(":")[0])
        else:
            ran.append(name)
    return ran, returned


def _key(fetches: Any) -> Any:
    """The same for fetches of the same tensors and operations."""
    if isinstance(fetches, (list, tuple)):
        return tuple(map(_key, fetches))
    if isinstance(fetches, Mapping):
        return tuple(map(_key, fetches.values()))
    return fetches if isinstance(fetches, str) else id(fetches)


def is_the_programs(thread: threading.Thread) -> bool:
    """Whether a thread is one of the program's; else it is in an op, inside of a run."""
    return not isinstance(thread, threading._DummyThread)
