"""How long a run took: what every analysis and command calls the length of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.intervals import merged
from stepscope.analysis.program.run_kinds import EAGER_CODE, RunKinds

if TYPE_CHECKING:
    from stepscope.analysis.runs import NamedRun
    from stepscope.metadata import OpColumns, RunMetadata

__all__ = ["covered_by", "run_length", "run_span"]


def run_span(run: RunMetadata) -> tuple[int, int]:
    """When a run began and ended, as its caller saw it where that is known; 0 where nothing is.

    >>> from stepscope.metadata import OpColumns, Recording, RunMetadata
    >>> run = RunMetadata()
    >>> run.record(Recording(ops=OpColumns.build(name=["x"], start_ns=[1_000], end_ns=[5_000])))
    >>> run_span(run)
    (1000, 5000)
    """
    recording = run.recorded()
    if recording is not None and recording.call is not None:
        return recording.call.started_ns, recording.call.ended_ns
    ops = run.ops
    if not len(ops):
        return 0, 0
    return int(ops.start_ns.min()), int(max(ops.end_ns.max(), ops.start_ns.max()))


def run_length(run: NamedRun, kind: str | None = None) -> int:
    """What the program waited for: from the call of the run until it had the results.

    Where the recording has no call it is from the start of the first op to the end of the last.
    Of "eager code", which is all that ran outside of other runs, it is how long ops ran. `kind` is
    what `RunKinds` calls the run, for who knows that already.

    >>> from stepscope.analysis.runs import NamedRun
    >>> from stepscope.metadata import OpColumns, Recording, RunMetadata
    >>> ops = OpColumns.build(name=["x", "y"], start_ns=[1_000, 7_000], end_ns=[5_000, 8_000])
    >>> run = RunMetadata()
    >>> run.record(Recording(ops=ops))
    >>> run_length(NamedRun("run_000000 step", run)), run_length(NamedRun("run_0 eager code", run))
    (7000, 5000)
    """
    if (RunKinds().of(run) if kind is None else kind) == EAGER_CODE:
        return covered_by(run.metadata.ops)
    began, ended = run_span(run.metadata)
    return ended - began


def covered_by(ops: OpColumns) -> int:
    """How long at least one op ran."""
    firsts, lasts = merged(ops.start_ns, np.maximum(ops.end_ns, ops.start_ns))
    return int((lasts - firsts).sum())
