"""A recorded run again, as a discrete-event simulation, as it was or with something changed.

    recorded_work   a run as work: lengths, delays, who waited for whom, on which thread
    simulation      when each op of some work begins and ends
    modelled        a run by its own op times and a model of the rest: the error of the model
    foretold        a run as the others tell it: how far runs differ, too
    changes         what is different in a program, by the names of nodes
    prediction      what a change would gain, with an interval

`replay(runs)` says how well the simulation tells the length of a run that was recorded: by its own
op times, where what comes between ops follows from a model with few numbers per run, and where that
is told by the other runs of the same nodes; with a change also what that gains.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.analysis.replay.changes import Change, serving_only
from stepscope.analysis.replay.foretold import foretold_ns
from stepscope.analysis.replay.modelled import modelled_ns, woken_ops
from stepscope.analysis.replay.prediction import (
    Prediction,
    of_gains,
    own_error,
    predict,
    replay_error,
)
from stepscope.analysis.replay.recorded_work import RecordedWork, WorkReader
from stepscope.analysis.replay.simulation import ANY, NONE, Work, ends, slowed
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import Runs, iter_named_runs

__all__ = [
    "ANY", "NONE", "Change", "Prediction", "RecordedWork", "Replay", "Work", "WorkReader", "ends",
    "foretold_ns", "modelled_ns", "of_gains", "own_error", "predict", "replay", "replay_error",
    "serving_only", "slowed", "woken_ops",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """A run: how long it took, how long its replays do, and by what share these are off.

    Both have the run's own op times. `modelled_ns` has none of its delays (see `modelled`): its
    error is the model's. `replayed_ns` has those of the other runs (see `foretold`): in its error
    is how far runs differ.
    """

    run: str
    recorded_ns: int
    replayed_ns: float
    error: float
    modelled_ns: float
    model_error: float


@dataclass(frozen=True, slots=True)
class Replay(Result):
    """Runs and their replays; `gain` is what the change that was asked for would gain in one."""

    rows: tuple[ReplayRow, ...]
    gain: Prediction


def replay(runs: Runs, change: Change | None = None) -> Replay:
    """Replay runs as they were, and with a change.

    >>> from stepscope.metadata import RunMetadata
    >>> replay(RunMetadata()).rows[0].replayed_ns
    0.0
    """
    reader = WorkReader()
    named = [(run.name, reader.read(run.metadata)) for run in iter_named_runs(runs)]
    works = [work for _, work in named]
    rows = []
    for (name, work), ns in zip(named, foretold_ns(works), strict=True):
        whole, own_ns = work.recorded_ns, modelled_ns(work)
        error, own = ((abs(told / whole - 1) if whole > 0 else 0.0) for told in (ns, own_ns))
        rows.append(ReplayRow(name, whole, ns, error, own_ns, own))
    wanted = change if change is not None else Change()
    return made_of(Replay(tuple(rows), predict(works, wanted.replayed_ns)), runs)
