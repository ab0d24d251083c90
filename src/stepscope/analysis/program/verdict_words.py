"""The verdict in words: how long a step takes and what limits it, and where a program's time went.

Sentences, without any layout: a terminal and a page show the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.input import input_words
from stepscope.analysis.memory.growth import PROCESS
from stepscope.analysis.program.account import STEPS
from stepscope.analysis.program.verdict import INPUT, LAYER, OUTSIDE, PYTHON, TRACED
from stepscope.metadata import readable

if TYPE_CHECKING:
    from stepscope.analysis.advice import Advice
    from stepscope.analysis.program.account import Account
    from stepscope.analysis.program.verdict import Limit, StepVerdict, Verdict

__all__ = ["between_steps", "cause", "leaks", "length", "remedy", "spent", "worth_saying"]

_KINDS_SHOWN: Final = 4
_WORTH: Final = 0.02
"""A kind of step that took less of the time in all is not spoken of."""
_CAUSE: Final = 0.05
_SECOND: Final = 0.1
_FEW: Final = 5
_LEAKS_SHOWN: Final = 2
_PARTS: Final = (
    ("imports", ("imports",)),
    ("tracing", ("tracing",)),
    ("planning", ("planning",)),
    ("first runs", ("first_runs",)),
    ("steps", STEPS),
    ("runs not recorded", ("unrecorded",)),
    ("eager ops between steps", ("eager",)),
    ("Python before, between and after", ("before", "between", "after")),
    ("files asked for besides", ("exporting",)),
    ("recording", ("recording",)),
)


def spent(account: Account, recording_ns: int | None = None) -> str:
    """Where the wall clock went: `41.2 s: 3.10 s imports, 34.8 s in 1,600 steps, ...`.

    `recording_ns` is what recording cost so far, where all of it is said in the end.
    """
    parts = []
    for title, keys in _PARTS:
        ns = account.ns(*keys)
        ours = title == "recording"
        if ours and recording_ns is not None:
            parts.append(f"{readable.time(recording_ns)} {title} so far")
            continue
        if not ns or (not ours and ns < _WORTH * account.whole_ns):
            continue
        said = f"{readable.time(ns)} {title}"
        if keys == STEPS:
            said = f"{readable.time(ns)} in {_steps(account.runs - account.first_runs)}"
        if ours:
            said += f" ({ns / max(1, account.whole_ns):.1%})"
        parts.append(said)
    return f"{readable.time(account.whole_ns)}: {', '.join(parts)}"


def _steps(count: int) -> str:
    return readable.number(count, "step")


def worth_saying(verdict: Verdict) -> list[StepVerdict]:
    """The kinds of step that a person is told of, the one that took longest in all first."""
    least = _WORTH * verdict.total_ns
    rows = [row for row in verdict.rows if row.step.lengths_ns]
    return [row for row in rows if row.step.total_ns >= least][:_KINDS_SHOWN]


def length(row: StepVerdict) -> str:
    """`21.5 ms a step (p90 24.0 ms, first 1.90 s)`."""
    step = row.step
    if step.rests_on:
        p90 = readable.time(step.p90_ns)
        return f"{readable.time(step.median_ns)} a step (p90 {p90}, of {_steps(step.runs)})"
    if not step.rest:
        return f"{readable.time(step.first_ns)}, once"
    first = readable.time(step.first_ns)
    if step.rest < _FEW:
        after = f"{readable.number(step.rest, 'run')} after the first, which took {first}"
        return f"{readable.time(step.median_ns)} a step ({after})"
    return (
        f"{readable.time(step.median_ns)} a step (p90 {readable.time(step.p90_ns)}, first {first})"
    )


def cause(row: StepVerdict) -> str:
    """What most of it is, `96% waiting for input (input.py:6)`, or that it is not known."""
    if not row.limits:
        return "no op of it was recorded, so what took the time is not known"
    largest = row.limits[0]
    if largest.share < _CAUSE:
        return "no single cause stands out"
    said = _limit(largest)
    second = row.limits[1] if len(row.limits) > 1 else None
    if second is not None and second.share >= _SECOND:
        said += f"; {_limit(second)}"
    return said


def remedy(verdict: Verdict, row: StepVerdict, advice: Advice | None = None) -> str:
    """What would help most; "" where nothing would by much, or nothing is known.

    Of a step that waits for input it is said how fast the stage is that limits, too.
    """
    if row.limits and row.limits[0].kind == INPUT and row.limits[0].share >= _CAUSE:
        mine = [pipeline for pipeline in verdict.pipelines if row.step.key in pipeline.taken_by]
        found = next((said for pipeline in mine if (said := input_words.advice(pipeline))), "")
        if found:
            return found
    best = advice.best(row.step.key) if advice is not None else None
    return best.sentence if best is not None and best.share >= _CAUSE else ""


def between_steps(verdict: Verdict) -> list[str]:
    """What the program waits for between its runs: elements that it takes of datasets itself."""
    found = []
    for pipeline in verdict.pipelines:
        stage = pipeline.limiting
        if "" not in pipeline.taken_by or stage is None or pipeline.share < _CAUSE:
            continue
        found.append(
            f"{readable.time(pipeline.wait_ns)} waiting for each element, {pipeline.share:.0%} of "
            f"the time: {input_words.stage(stage)}; {input_words.advice(pipeline)}"
        )
    return found[:_KINDS_SHOWN]


def leaks(verdict: Verdict) -> list[str]:
    """What grows from step to step: `1.00 MiB a step (1.00 MiB to 1.00 MiB): ...`."""
    found = []
    for row in verdict.leaks[:_LEAKS_SHOWN]:
        least, most = (readable.size(round(value)) for value in (row.low, row.high))
        grows = f"{readable.size(round(row.bytes))} a step ({least} to {most})"
        if row.kind == PROCESS:
            found.append(f"{grows}: the process; who holds it is not recorded")
            continue
        where = f" ({readable.place(row.source)})" if row.source else ""
        owner = f"`{readable.plain(row.key)}`{where}, {row.kind} memory"
        found.append(f"{grows}: {owner}, now {readable.size(row.last)}")
    return found


def _limit(limit: Limit) -> str:
    share = f"{limit.share:.0%}"
    at = f" ({readable.place(limit.line)})" if limit.line else ""
    mostly = f", mostly {readable.plain(limit.op)}" if limit.op else ""
    name = readable.plain(limit.name)
    if limit.kind == INPUT:
        if name:
            where = f" at {readable.place(limit.line)}" if limit.line else ""
            return f"{share} waiting for input: `{name}`{where}"
        if limit.stages:
            stages = [f"`{stage}` at {readable.place(line)}" for stage, line in limit.stages[:2]]
            return f"{share} waiting for input: {' and '.join(stages)}"
        return f"{share} waiting for input{at}"
    if limit.kind == PYTHON:
        return f"{share} in Python, the op `{name}`{at}"
    if limit.kind == TRACED:
        return f"{share} being traced and built{at}"
    if limit.kind == OUTSIDE:
        return f"{share} outside of all ops: calling, and Python around it"
    assert limit.kind == LAYER
    if limit.line.endswith(name) or name.startswith("("):
        return f"{share} at {readable.place(limit.line) or name}{mostly}"
    *above, last = name.split("/")
    inner = "/".join([*above[1:], last])
    what = inner if last in _PLAIN else f"layer {inner}"
    return f"{share} in {what}{at}{mostly}"


_PLAIN: Final = frozenset(["input", "loss", "metrics", "optimizer", "output"])
"""Parts of a step that are no layers."""
