"""Leaks: what holds more memory each time that a step begins.

What grows, and by how much, is `memory_growth`'s answer. An owner that an op of the step keeps (it
puts its tensor into a queue, a stack or a list) is named by that op's line, for that is where the
program lets it grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import GROWTH, Evidence, Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.step_finding import finding_id
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.memory.growth import NOT_RECORDED, PROCESS
from stepscope.metadata.readable import size

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial
    from stepscope.analysis.memory.growth import GrowthRow

NAME: Final = "leak"
_LEAST: Final = 0.01
"""What grew by less of the peak in the whole recording is not worth a word."""


def find(material: Material) -> Iterator[Finding]:
    """A finding for each owner of memory that grows; a process that does has no owner."""
    if material.growth is None:
        return
    steps = {step.key: step for step in material.steps}
    if material.growth.lacking == NOT_RECORDED and not material.growth.rows:
        material.lacks(f"whether memory grows from step to step: {NOT_RECORDED}")
    for row in material.growth.leaks:
        if row.kind == PROCESS:
            material.lacks(
                f"the process grows by {size(round(row.bytes))} a step, and no run says who holds "
                "it: on TensorFlow `stepscope run --memory` records that; Python's own objects are "
                "for a profiler of Python's memory"
            )
        elif (step := steps.get(row.step)) is not None:
            yield from _finding(step, row)


def _finding(step: StepMaterial, row: GrowthRow) -> Iterator[Finding]:
    share = min(1.0, (row.last - row.first) / max(1, step.peak_bytes, row.last))
    if share < _LEAST:
        return
    keeper = _keeper(step, row.key)
    line = step.lines.get(keeper, "") or row.source
    place = line.replace("\\", "/").rpartition("/")[2]
    kept = f"`{row.key}`" if keeper == row.key else f"`{row.key}`, which `{keeper}` keeps"
    yield Finding(
        id=finding_id(NAME, line),
        rule=NAME,
        title=f"memory grows in every step: {row.kind} memory of {kept}",
        step=row.step,
        line=line,
        unit=GROWTH,
        gain=row.bytes,
        low=row.low,
        high=row.high,
        share=share,
        total_ns=0.0,
        sentence=f"letting go of what `{keeper}` keeps would save {size(round(row.bytes))} a step, "
        f"{size(row.last)} so far" + (f": {place}" if place else ""),
        advice=_advice(step.types.get(keeper, ""), keeper),
        evidence=(
            Evidence(
                row.key, step.types.get(row.key, row.kind), row.source, row.steps, 0.0, row.last
            ),
        ),
        replayed=row.steps,
    )


def _keeper(step: StepMaterial, owner: str) -> str:
    """The op of the step that puts what the owner made away; the owner where there is none."""
    for name, inputs in step.inputs.items():
        if step.types.get(name, "") in step.keeps_state and any(
            input_node(source) == owner for source in inputs
        ):
            return name
    return owner


def _advice(kind: str, keeper: str) -> str:
    if "Enqueue" in kind:
        return (
            f"take out of the queue as much as `{keeper}` puts in, in the same loop or on a "
            "thread, or give the queue a capacity that fits"
        )
    if any(part in kind for part in ("Push", "Write", "Insert")):
        return f"read and close what `{keeper}` fills, or give it a size that it cannot exceed"
    return (
        f"let go of what `{keeper}` made once it is used: references in lists, closures and caches "
        "of the program keep it"
    )
