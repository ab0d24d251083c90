"""What the stages of input pipelines did while a run that is traced took elements of them.

Each element that a stage made is a row of the run's trace: on the thread that made it, with the
dataset's node as its name. A batch may be made of thousands of elements, so that of each stage only
the first rows are told, and how many are left out is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stepscope.metadata import Loss
from stepscope.runtime.execute.trace import Trace

if TYPE_CHECKING:
    from stepscope.runtime.pipeline_notes import PipelineNotes

_MOST: Final = 64
"""So many rows of a stage are in the trace of one run."""


class TracedStages:
    """The stages that one run took elements of."""

    __slots__ = ("_notes", "_told", "_trace", "_untold", "_what")

    def __init__(self, trace: Trace, what: Callable[[], str], notes: PipelineNotes | None) -> None:
        """`what` ran; `notes`, if given, is told of the pipelines, for the whole program."""
        self._trace = trace
        self._what = what
        self._notes = notes
        self._told: dict[int, int] = {}
        self._untold = 0

    def took(self, pipeline: Any, iterator: Any, waited_ns: int) -> None:
        """An element was taken of this pipeline, or its end was found."""
        trace, rows = self._trace, pipeline.rows
        while rows:
            stage, start, end, thread = rows.popleft()
            if end <= trace.begin:
                continue  # worked ahead, before this run
            told = self._told[id(stage)] = self._told.get(id(stage), 0) + 1
            if told > _MOST:
                self._untold += 1
                continue
            place = stage.dataset.place
            trace.stages.append((place.name, place.op_type, max(start, trace.begin), end, thread))
            if thread in pipeline.threads:
                trace.thread_names[thread] = pipeline.threads[thread]
        if self._notes is not None:
            self._notes.took(pipeline, iterator, self._what(), waited_ns)

    def losses(self) -> tuple[Loss, ...]:
        """What is not in the trace."""
        if not self._untold:
            return ()
        reason = f"of each stage of an input pipeline the first {_MOST} elements are told"
        return (Loss("rows of input stages", self._untold, reason),)
