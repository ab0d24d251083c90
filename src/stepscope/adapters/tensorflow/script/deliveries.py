"""Handing over the recorded runs of a script.

Runs are handed over by one thread at a time, each with its name. Eager code outside of runs is kept
until the end, and is then the last run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepscope import options as opts
from stepscope.adapters.tensorflow.capture.called_ops import CallSites
from stepscope.adapters.tensorflow.script.cost import ScriptCost
from stepscope.adapters.tensorflow.support import EAGER, SESSION
from stepscope.metadata import (
    Completeness,
    LoggedRecording,
    Loss,
    OpColumns,
    OutOfMemory,
    Overhead,
    Recording,
    RunMetadata,
    RunNumbers,
    Status,
)

if TYPE_CHECKING:
    from stepscope.adapters.tensorflow.script.budgeted import Budgeted
    from stepscope.adapters.tensorflow.script.summary_traces import SummaryTraces
    from stepscope.recorder.controller import Begun

EAGER_CODE: Final = "eager code"
END_OF_INPUT: Final = "OUT_OF_RANGE"
"""How a loop learns that its data are at an end, which is no failure."""
_NO_ALLOCATIONS: Final = Loss(
    "allocations",
    0,
    "they are not kept for ops that the script executes outside of functions and "
    "sessions; if those run out of memory, the report of that is kept",
)


class TakesRun(Protocol):
    """Takes a run that ended."""

    def __call__(
        self, metadata: RunMetadata, label: str = "", graph: Any = None, kept: float = 0
    ) -> None:
        """`label` says what it was; `graph` is the TensorFlow graph it was a run of, if known.

        `kept` is its share of the place where it outlives the process until it is stored.
        """


class Deliveries:
    """Numbers and names the runs of a script, and hands them over one at a time."""

    def __init__(
        self,
        add: TakesRun,
        asked: opts.RunOptions,
        cost: ScriptCost,
        budgeted: Budgeted | None = None,
        summary_traces: SummaryTraces | None = None,
    ) -> None:
        """`add` is given each run and its name; `asked` is what runs were recorded with.

        `cost` is told by how much runs were slowed down inside. With `budgeted`, which decides what
        becomes of runs, they are handed to that. `summary_traces` is told of all of them.
        """
        self._budgeted = budgeted
        self._summary_traces = summary_traces
        self._cost = cost
        self.given = 0
        """How many runs were handed over."""
        self._add = add
        self._asked = asked
        self._eager: list[OpColumns] = []
        self.eager_sites = CallSites()
        """The names of eager code's ops, and their lines."""
        self._eager_losses: Counter[tuple[str, str]] = Counter()
        """By what and why, how much, of all stretches."""
        self._eager_cost = 0
        self._eager_status = Status()
        self._eager_out_of_memory: OutOfMemory | None = None

    def run(
        self, name: str, observed: Any, *ended: Status, kept: float = 0,
        decided: Decided | None = None,
    ) -> None:  # fmt: skip
        """A run, with how it ended if it did not end well, and what was decided on it.

        Of one that outlives the process (`kept`) nothing is worked out before it is stored.
        """
        slowed = observed.capture.slowed_ns()
        self._cost.add(slowed, inside=True)
        losses = decided.losses if decided is not None else ()
        made: Recording | Callable[[], Recording]
        if kept and not ended:
            made = DeliveredRun(observed, losses)
        else:
            made = _ended_with(observed, ended[0] if ended else Status(), losses)
        if decided is not None:
            decided.cost_ns += slowed
            decided.ended_ns = observed.capture.ended
            decided.engine = observed.engine
            if ended and ended[0].code != END_OF_INPUT:
                decided.failed = ended[0].code
        self._hand_over(made, name, observed.graph, kept, decided)

    def native(self, options: Any, run_metadata: Any, status: Status, graph: Any) -> bool:
        """A run that the script had TensorFlow trace, from its metadata; False if it took none."""
        if run_metadata is None or not hasattr(run_metadata, "SerializeToString"):
            return False
        # Not before there is TensorFlow.
        from stepscope.adapters.tensorflow.capture.graph_lines import executed_lines, written_lines
        from stepscope.adapters.tensorflow.failures import inside_python_unknown

        found = RunMetadata.FromString(run_metadata.SerializeToString())

        def sources() -> dict[str, str]:
            written = written_lines(graph)
            return written | executed_lines(written, set(found.ops.name.tolist()), {})

        self._hand_over(
            Recording(
                engine=SESSION,
                status=status,
                completeness=Completeness(tuple(inside_python_unknown(graph))),
                ops=lambda: found.ops,
                partition_graphs=lambda: list(found.partition_graphs),
                sources=sources,
                run_options=opts.as_run_options(options),
            ),
            "Session.run",
            graph,
        )
        return True

    def as_it_is(self, name: str, metadata: RunMetadata, graph: Any) -> bool:
        """A run that was recorded on its own."""
        self._give(metadata, name, graph)
        return True

    def served(self, recording: Recording) -> None:
        """A step that others had this process execute."""
        self._hand_over(replace(recording, run_options=self._asked), "served")

    def keep_eager(self, observed: Any, status: Status) -> None:
        """A stretch of eager code; how the last one ended is how all of it did."""
        self._eager_status = status
        recording: Recording = observed.recording()
        if recording.out_of_memory is not None:
            self._eager_out_of_memory = recording.out_of_memory
        if recording.allocations is not None:
            self._eager_losses[_NO_ALLOCATIONS.what, _NO_ALLOCATIONS.reason] += 0
        for loss in _losses(recording):
            self._eager_losses[loss.what, loss.reason] += loss.count
        self._eager_cost += observed.capture.overhead().ns
        self._cost.add(observed.capture.slowed_ns(), inside=True)
        columns = recording.ops() if recording.ops is not None else None
        if columns is not None and len(columns):
            self._eager.append(columns)

    def eager_code(self) -> None:
        """All eager code outside of runs, as one run."""
        if not self._eager:
            return
        columns = OpColumns.concat(self._eager)
        columns = columns.replace(step=columns.step[0])
        self._eager = []
        spent = int((columns.end_ns - columns.start_ns).sum())
        cost = self._eager_cost
        self._hand_over(
            Recording(
                engine=EAGER,
                status=self._eager_status,
                completeness=Completeness(
                    tuple(Loss(what, n, why) for (what, why), n in self._eager_losses.items())
                ),
                sources=lambda: self.eager_sites.lines,
                overhead=Overhead(cost, cost / max(1, spent)),
                ops=lambda: columns,
                out_of_memory=self._eager_out_of_memory,
                run_options=self._asked,
            ),
            EAGER_CODE,
        )

    def _hand_over(
        self, recording: Recording | Callable[[], Recording], name: str, graph: Any = None,
        kept: float = 0, decided: Decided | None = None,
    ) -> None:  # fmt: skip
        self._give(RunMetadata.of(recording), name, graph, kept, decided)

    def _give(
        self, metadata: RunMetadata, name: str, graph: Any, kept: float = 0,
        decided: Decided | None = None,
    ) -> None:  # fmt: skip
        self.given += 1
        if self._summary_traces is not None and name != EAGER_CODE:
            self._summary_traces.take(name, metadata)
        budgeted = self._budgeted
        if budgeted is None:
            self._add(metadata, name, graph, kept)
            return
        asked = decided is None
        if decided is None:
            # The program asked for it, or it is what all eager code was.
            decided = Decided(budgeted.runs.takes(name), engine=metadata.engine)
            if not metadata.status.ok:
                decided.failed = metadata.status.code
        peak = metadata.peak_bytes() if decided.wants_peak else 0
        budgeted.runs.ended(
            decided.begun, cost_ns=decided.cost_ns, failed=decided.failed, engine=decided.engine,
            metadata=metadata, label=name, graph=budgeted.graph_part(graph), kept=kept,
            peak_bytes=peak, ended_ns=decided.ended_ns, asked=asked,
        )  # fmt: skip


@dataclass(slots=True)
class Decided:
    """What was decided on a run, what it lacks by that, and what becomes known of it."""

    begun: Begun
    losses: tuple[Loss, ...] = ()
    wants_peak: bool = False
    engine: str = ""
    cost_ns: int = 0
    """What the program waited for so far because of it."""
    ended_ns: int = 0
    failed: str = ""


def _ended_with(observed: Any, status: Status, given_up: tuple[Loss, ...] = ()) -> Recording:
    recording: Recording = observed.recording()
    observed.capture.failed = not status.ok

    def completeness() -> Completeness:
        losses = (*_losses(recording), *given_up)
        if not status.ok:
            reason = f"the run ended with {status.code}"
            losses = (*losses, Loss("op executions", 0, reason))
        return Completeness(losses)

    return replace(recording, status=status, completeness=completeness)


class DeliveredRun(LoggedRecording):
    """A run that went well and outlives the process: nothing is worked out before it is stored."""

    __slots__ = ("_given_up", "_observed")

    def __init__(self, observed: Any, given_up: tuple[Loss, ...] = ()) -> None:
        self._observed = observed
        self._given_up = given_up

    @property
    def step_id(self) -> int:
        return int(self._observed.step_id)

    def __call__(self) -> Recording:
        return _ended_with(self._observed, Status(), self._given_up)

    def numbers(self) -> RunNumbers | None:
        found: RunNumbers | None = self._observed.numbers()
        return found


def _losses(recording: Recording) -> tuple[Loss, ...]:
    found = recording.completeness
    return (found() if callable(found) else found).losses
