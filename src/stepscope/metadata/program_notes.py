"""What decides a program's wall clock beside its runs: notes of what it did, and when.

`stepscope run` writes them into the store as they come, each once it is over:

    process     the recorded process, from the command's beginning to its last word
    script      the program's own code
    import      an import that took long: `what` is the module
    trace       TensorFlow built the graph of a function: see `adapters.tensorflow.script.traces`
    plan        the embedded engine planned the runs of a set of fetches, for some fed shapes
    input       what the stages of an input pipeline did: `adapters.tensorflow.script.pipelines`;
                of one pipeline (`details["pipeline"]`) the last note holds
    memory      how large the process was over its runs: `cli.process_memory`
    recording   the program waited for Stepscope, for some longer time
    exporting   files were written that were asked for besides the recording (`--report`, `--pb`);
                it lies inside of a note of kind "recording", and is not part of what that cost
    feeds       what sessions were fed, noted at the end: per tensor how often, how often the same
                as before, and its bytes
    cost        what recording cost: `around_ns` in which the main thread waited outside of runs,
                notes of kind "recording" included while the script went on, and `before_ns` of it
                before the first run; `inside_ns` by which TensorFlow's runs on it were slowed down;
                `unrecorded_ns` in runs that were not to be recorded; `input_ns` in which it waited
                for elements of datasets outside of runs (no cost of ours); and, once that is known,
                `total_ns`, as the report says it
    stopped     from now on nothing more was to be recorded
    ended       the process was gone

A process and a script are noted as they begin and again when they have ended: the last note of
these kinds holds. Times are nanoseconds since the epoch, as those of ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

__all__ = [
    "COST", "ENDED", "EXPORTING", "FEEDS", "IMPORT", "INPUT", "MEMORY", "PLAN", "PROCESS",
    "RECORDING", "SCRIPT", "STOPPED", "TRACE", "CallTime", "Note",
]  # fmt: skip

PROCESS: Final = "process"
SCRIPT: Final = "script"
IMPORT: Final = "import"
TRACE: Final = "trace"
PLAN: Final = "plan"
INPUT: Final = "input"
MEMORY: Final = "memory"
COST: Final = "cost"
FEEDS: Final = "feeds"
RECORDING: Final = "recording"
EXPORTING: Final = "exporting"
STOPPED: Final = "stopped"
ENDED: Final = "ended"


class CallTime(NamedTuple):
    """When a thread of the program called a run, and had control again."""

    started_ns: int
    ended_ns: int
    thread: int
    """The system's number of the thread."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a thread of the program did.

    `where` is the line of the program ("file:line") that did it, "" where none is known; `details`
    are plain values that JSON can hold. One that had not ended when it was written has no end (0).
    """

    kind: str
    started_ns: int
    ended_ns: int = 0
    thread: int = 0
    what: str = ""
    where: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ns(self) -> int:
        """How long it took; 0 where that is not known."""
        return max(0, self.ended_ns - self.started_ns) if self.ended_ns else 0
