"""Input pipelines in words: what limits them, and what would help.

Sentences, without any layout: a terminal and a page show the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.input.stages import QUEUE
from stepscope.metadata import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.input.input_model import PipelineChange
    from stepscope.analysis.input.stages import Pipeline, Stage

__all__ = ["advice", "change", "condition", "heading", "is_likely", "limiting", "stage"]

_WORTH: Final = 0.05
"""Less of the time between two elements is not worth a sentence."""


def stage(found: Stage) -> str:
    """`map` at input.py:6."""
    at = f" at {readable.place(found.line)}" if found.line else ""
    return f"`{readable.plain(found.stage)}`{at}"


def heading(pipeline: Pipeline) -> Iterator[str]:
    """Whose pipeline it is, how long its elements took, and what decides that."""
    where = f" at {readable.place(pipeline.where)}" if pipeline.where else ""
    queue = pipeline.kind == QUEUE
    name = f"queue {readable.plain(pipeline.name)}" if queue else "dataset"
    takers = " and ".join(readable.plain(name) or "code between runs" for name in pipeline.taken_by)
    times = f", {pipeline.iterators:,} times through" if pipeline.iterators > 1 else ""
    elements = readable.number(pipeline.elements, "element")
    yield f"{name}{where} · {elements} taken by {takers or 'nobody that was recorded'}{times}"
    if not pipeline.period_ns:
        return
    first = f"; the first took {readable.time(pipeline.first_ns)}" if pipeline.first_ns else ""
    if pipeline.first_ns > 3 * pipeline.period_ns and pipeline.first_stage >= 0:
        first += f", mostly in {stage(pipeline.stages[pipeline.first_stage])}"
        filled = [one for one in pipeline.stages if one.stage == "shuffle" and one.buffered > 1]
        if filled:
            first += f" to fill the buffer of {stage(filled[0])}"
    yield (
        f"{readable.time(pipeline.period_ns)} from one to the next, {pipeline.share:.0%} of it "
        f"waiting for them{first}"
    )
    yield limiting(pipeline)


def limiting(pipeline: Pipeline) -> str:
    """Which stage decides, and how fast it is."""
    found = pipeline.limiting
    if found is not None:
        function = f" ({readable.plain(found.function)})" if found.function else ""
        return f"{stage(found)}{function} limits: {_speed(found)}"
    if pipeline.lacking:
        return "which stage limits is not known"
    return "what takes the elements limits, not the pipeline"


def _speed(found: Stage) -> str:
    """`one thread makes an element in 20.3 ms`."""
    each = readable.time(found.own_ns / max(1, found.calls))
    if found.calls <= 1:
        return f"one thread makes an element in {each}"
    return f"{found.calls:,} threads make one in {each}"


def advice(pipeline: Pipeline) -> str:
    """How fast the stage is that decides, and what helps most; "" where none does.

    `one thread makes an element in 20 ms; 4 parallel calls of map would save 15 ms (13 to 16)`
    """
    found = pipeline.limiting
    if found is None:
        return ""
    # A cache helps programs only whose elements are the same each time: it is second.
    likely = [one for one in pipeline.changes if is_likely(pipeline, one)]
    ranked = sorted(likely, key=lambda one: one.key == "cache")
    said = _speed(found)
    if found.python and not any(one.calls for one in likely):
        said += ", in Python, which runs one call at a time"
    if not ranked:
        return said
    best = ranked[0]
    least, most = readable.time(best.low_ns), readable.time(best.high_ns)
    saves = f"{readable.time(best.saves_ns)} ({least} to {most})"
    provided = f", if {condition(best)}" if condition(best) else ""
    return f"{said}; {change(pipeline, best)} would save {saves}{provided}"


def is_likely(pipeline: Pipeline, found: PipelineChange) -> bool:
    """Whether a change can be expected to save enough to speak of it."""
    return found.saves_ns > _WORTH * pipeline.period_ns


def change(pipeline: Pipeline, found: PipelineChange) -> str:
    """What to change: `4 parallel calls of map and a prefetch at the end`."""
    of = readable.plain(pipeline.stages[found.stage].stage)
    if pipeline.kind == QUEUE:
        return f"{found.calls:,} threads that fill the queue"
    calls = f"{found.calls:,} parallel calls of {of}"
    return {
        "parallel": calls,
        "prefetch": "a prefetch at the end",
        "parallel and prefetch": f"{calls} and a prefetch at the end",
        "cache": f"a cache after {of}",
    }[found.key]


def condition(found: PipelineChange) -> str:
    """What has to be so for a change to make sense; "" for nothing."""
    if found.key != "cache":
        return ""
    held = f", and there is room for {readable.size(found.bytes)}" if found.bytes else ""
    return f"its elements are the same each time{held}"
