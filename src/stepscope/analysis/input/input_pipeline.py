"""What a program's input pipelines did: per stage its own time and its waiting, and what limits.

Pipelines of tf.data are told by the notes of a recorded program (`dataset_pipelines`), queues by
the runs that fill them and take from them (`queue_pipelines`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepscope.analysis.input.dataset_pipelines import InputWait, dataset_pipelines
from stepscope.analysis.input.input_model import PipelineChange
from stepscope.analysis.input.queue_pipelines import QueueSums
from stepscope.analysis.input.stages import Pipeline, Stage
from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.program.waiting import INPUT_TYPES, rows_of, waited_ns
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.run_length import run_span
from stepscope.analysis.runs import NamedRun, Runs, iter_named_runs, notes_at
from stepscope.metadata import Note, Program, iter_runs
from stepscope.metadata.program_notes import INPUT

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["InputPipelines", "InputSums", "Pipeline", "PipelineChange", "Stage", "input_pipeline"]

_RECORD: Final = (
    "what the stages of a dataset did is noted by `stepscope run SCRIPT`, of iterators that the "
    "script itself makes: not of a dataset that a tf.function iterates over inside, nor of "
    "iterators in the graph of a Session"
)
_NONE: Final = "no run took elements of a dataset or a queue"


@dataclass(frozen=True, slots=True)
class InputPipelines(Result):
    """`rows` are the stages of all `pipelines`, in the order of the data.

    Pipelines are in the order of how long the program waited for them in all. `waited_ns` is how
    long runs waited in ops that take elements, in all of `runs` runs. `lacking` says what was not
    recorded, and how to record it; "" where nothing is missing.
    """

    rows: tuple[Stage, ...]
    pipelines: tuple[Pipeline, ...]
    runs: int
    waited_ns: int
    lacking: str


def input_pipeline(source: str | os.PathLike[str] | Program | Runs) -> InputPipelines:
    """The input pipelines of a recorded program: a path, a `Program`, or runs.

    Runs alone tell of queues; what the stages of a dataset did is among the notes of a program.

    >>> from stepscope.metadata import RunMetadata
    >>> input_pipeline(RunMetadata()).lacking
    'no run took elements of a dataset or a queue'
    """
    if isinstance(source, Program):
        runs: Any = ((run.name, run.metadata) for run in source.runs())
        return made_of(_of(runs, source.of(INPUT)), source)
    if isinstance(source, str | os.PathLike):
        runs = ((run.name, run.metadata) for run in iter_runs(source))
        return made_of(_of(runs, notes_at(source, INPUT)), source)
    return made_of(_of(source, ()), source)


def _of(runs: Runs, notes: Iterable[Note]) -> InputPipelines:
    sums = InputSums()
    kinds = RunKinds()
    for run in iter_named_runs(runs):
        sums.add(kinds.of(run), run)
    return sums.pipelines(notes)


class InputSums:
    """Pipelines from runs that are read for something else as well."""

    def __init__(self) -> None:
        self._queues = QueueSums()
        self._waits: list[InputWait] = []
        self._runs = 0

    def add(self, what: str, run: NamedRun) -> None:
        """Take in the next run, of a kind of that name."""
        self._runs += 1
        ops = run.metadata.ops
        if rows_of(ops, INPUT_TYPES).any():
            began, _ = run_span(run.metadata)
            self._waits.append(InputWait(what, began, waited_ns(ops)))
        self._queues.add(what, run.metadata)

    def pipelines(self, notes: Iterable[Note]) -> InputPipelines:
        """Of the runs so far, and these notes of their program."""
        noted = [note for note in notes if note.kind == INPUT]
        found = dataset_pipelines(noted, self._waits)
        found += self._queues.pipelines(len(found))
        found.sort(key=lambda pipeline: -pipeline.wait_ns * pipeline.elements)
        waited = sum(wait.ns for wait in self._waits)
        lacking = ""
        if not found:
            lacking = _RECORD if self._waits else _NONE
        rows = tuple(stage for pipeline in found for stage in pipeline.stages)
        return InputPipelines(rows, tuple(found), self._runs, waited, lacking)
