"""What is known of an input pipeline: its stages, who takes from it, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepscope.analysis.input.input_model import PipelineChange

__all__ = ["DATASET", "QUEUE", "UNKNOWN", "Pipeline", "Stage"]

DATASET: Final = "tf.data"
QUEUE: Final = "queue"
UNKNOWN: Final = -1.0


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a pipeline. Times are per element that the pipeline put out.

    `stage` is what it is called ("map"), `name` what the engine calls it; `line` made it, and its
    `function` is written at `defined`. `calls` of the function run at once, 0 where it runs on the
    thread that asks it; `tuned` says that TensorFlow chooses that. `own_ns` is its own time, of all
    calls together, without its inputs. `waiting_ns` is how long it stood still, and `waits_for` for
    what: "input", "room" (what comes after it is slower), "turn" (others run on its thread) or ""
    (it did not). `buffer` is how many elements its buffer holds at most (0: none, or not known),
    `buffered` how many it held on average (`UNKNOWN` where that is not recorded). `limits` marks
    the stage that decides how fast the pipeline is.
    """

    pipeline: int
    stage: str
    name: str
    line: str
    function: str
    defined: str
    elements: int
    own_ns: float
    waiting_ns: float
    waits_for: str
    calls: int
    tuned: bool
    buffer: int
    buffered: float
    limits: bool
    inputs: tuple[int, ...] = ()
    """Places of its inputs in `Pipeline.stages`."""
    python: bool = False
    """Its function calls Python, of which one call runs at a time."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline of tf.data, or a queue with what fills it.

    `where` is the line of the iterator or of the queue, `taken_by` what took its elements, as runs
    are called ("" is eager code between runs). Of `elements`, one came each `period_ns`, of which
    the program waited `wait_ns`; `first_ns` is how long the first one took, for the most part in
    stage `first_stage` (-1: not known). `stages` are in the order of the data; `limit` is the place
    of the one that decides, -1 where what takes the elements does. `changes` are what would help,
    the best first. By the model that they come from (`input_model`) the time from one element to
    the next is `told_ns`: how close that is to `period_ns` says how far to believe it. `lacking`
    says what was not recorded, and how to record it.
    """

    number: int
    kind: str
    name: str
    where: str
    taken_by: tuple[str, ...]
    iterators: int
    elements: int
    period_ns: float
    wait_ns: float
    first_ns: int
    first_stage: int
    stages: tuple[Stage, ...]
    limit: int
    changes: tuple[PipelineChange, ...]
    told_ns: float
    lacking: str = ""

    @property
    def share(self) -> float:
        """The part of the time that the program waited for elements."""
        return self.wait_ns / self.period_ns if self.period_ns else 0.0

    @property
    def limiting(self) -> Stage | None:
        """The stage that decides, where one does."""
        return self.stages[self.limit] if self.limit >= 0 else None
