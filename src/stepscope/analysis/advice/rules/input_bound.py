"""Steps that wait for their input: what parallel calls, a prefetch or more threads would gain.

What limits a pipeline and what would help is `input_pipeline`'s answer; here it stands among the
other findings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import Evidence, Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.step_finding import of_step
from stepscope.analysis.input import input_words
from stepscope.analysis.input.stages import QUEUE
from stepscope.analysis.replay import Prediction
from stepscope.metadata import readable

if TYPE_CHECKING:
    from stepscope.analysis.input.stages import Pipeline, Stage

NAME: Final = "input-bound"
_CACHE: Final = "cache"
"""It helps programs only whose elements are the same each time, which nobody knows."""


def find(material: Material) -> Iterator[Finding]:
    """A finding for each pipeline that its steps wait for."""
    if material.input is None:
        return
    if material.input.waited_ns and material.input.lacking:
        material.lacks(material.input.lacking)
    for pipeline in material.input.pipelines:
        stage = pipeline.limiting
        if stage is None:
            continue
        changes = [change for change in pipeline.changes if change.key != _CACHE]
        if stage.python and not any(input_words.is_likely(pipeline, change) for change in changes):
            # How fast ops would be that do the same nobody knows.
            material.lacks(
                f"how much faster ops of TensorFlow would be than {_python_of(stage)}: one call of "
                f"Python runs at a time, and {pipeline.share:.0%} of the time between two elements "
                "is spent waiting for it"
            )
        if not changes:
            continue
        best = changes[0]
        step = next((step for step in material.steps if step.key in pipeline.taken_by), None)
        if step is None:
            continue
        error = abs(pipeline.told_ns / pipeline.period_ns - 1) if pipeline.period_ns else 0.0
        what = input_words.change(pipeline, best)
        yield from of_step(
            step,
            NAME,
            title=f"steps wait for input: {input_words.limiting(pipeline)}",
            line=stage.line or pipeline.where,
            gain=Prediction(best.saves_ns, best.low_ns, best.high_ns, pipeline.elements, error),
            do=f"{what} would save",
            advice=_advice(pipeline, best.key, best.calls, stage.stage),
            evidence=[
                Evidence(one.name, one.stage, one.line, 1, one.own_ns) for one in pipeline.stages
            ],
        )


def _python_of(stage: Stage) -> str:
    name = stage.function or stage.stage
    where = stage.defined or stage.line
    return f"`{readable.plain(name)}`" + (f" ({readable.place(where)})" if where else "")


def _advice(pipeline: Pipeline, key: str, calls: int, stage: str) -> str:
    if pipeline.kind == QUEUE:
        return f"fill the queue from {calls} threads: QueueRunner(queue, [enqueue] * {calls})"
    parts = []
    if "parallel" in key:
        # AUTOTUNE makes as many calls at once as there are cores: too few where calls wait.
        alike = " or tf.data.AUTOTUNE" if calls <= (os.cpu_count() or 1) else ""
        parts.append(f"{stage}(..., num_parallel_calls={calls}){alike}")
    if "prefetch" in key:
        parts.append(".prefetch(tf.data.AUTOTUNE) as the last stage")
    return ", and ".join(parts)
