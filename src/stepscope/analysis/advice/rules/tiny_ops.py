"""Tiny ops: a step that costs more to call than to compute, because it has few rows to work on.

What an op would take for more rows is told by its work: that part of its time which the arithmetic
and the bytes account for grows with the rows, the rest does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.analysis.advice.finding import Evidence, Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.step_finding import of_step
from stepscope.analysis.replay import Change, RecordedWork
from stepscope.analysis.work.machine import Reach
from stepscope.analysis.work.run_work import WorkOfRuns

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "tiny-ops"
_TINY_NS: Final = 10_000
_FEW_ROWS: Final = 8
_MANY_OPS: Final = 10
_TIMES: Final = 16
_SMALL: Final = Reach(flops_per_s=5e9, bytes_per_s=5e9)
"""What one thread reaches on small tensors: far less than the machine."""
_LEAST_STEPS: Final = 20


def find(material: Material) -> Iterator[Finding]:
    """A finding for each kind of step that is fed a few rows at a time, many times."""
    for step in material.steps:
        if step.step.rest < _LEAST_STEPS:
            continue
        fed = _fed(step)
        rows = min((shape[0] for _, shape in fed), default=0)
        lengths = [ns for ns in step.work.work.lengths if ns > 0]
        if not fed or rows > _FEW_ROWS or len(lengths) < _MANY_OPS:
            continue
        if float(np.median(lengths)) > _TINY_NS:
            continue
        grown = _growth(step)
        change = Change(times=grown)

        def one_of_many(run: RecordedWork, change: Change = change) -> float:
            return change.replayed_ns(run) / _TIMES

        gain = step.predict(one_of_many).between(0.9, 0.96, 1.02)
        names = [name for name, _ in fed]
        yield from of_step(
            step,
            NAME,
            title=f"{len(lengths)} tiny ops a step: a batch of {rows} gives them nothing to do",
            line=step.line_of_feed(names[0]),
            gain=gain,
            do=f"batches of {rows * _TIMES} in place of {rows} would save",
            advice=f"feed {_TIMES} times as many rows in each run: what a step costs beside its "
            "arithmetic is then paid once for all of them",
            evidence=[
                Evidence(
                    "calling, and between ops", "", "", 1,
                    step.work.around_ns + float(sum(step.work.work.delays)),
                ),
                Evidence(
                    f"{len(lengths)} ops, {float(np.median(lengths)) / 1e3:.1f} µs the median", "",
                    "", len(lengths), float(sum(lengths)),
                ),
            ],
            changes_steps=True,
            rewrite=Rewrite(rows=_TIMES),
        )  # fmt: skip


def _fed(step: StepMaterial) -> list[tuple[str, tuple[int, ...]]]:
    """What is fed that has rows, and its shape."""
    ops = step.run.ops
    tensors = ops.tensors
    found = []
    for row, shape in zip(tensors.op_index.tolist(), tensors.shape.tolist(), strict=True):
        if str(ops.op[row]) == "_Arg" and shape and all(length >= 0 for length in shape):
            found.append((str(ops.name[row]), tuple(shape)))
    return found


def _growth(step: StepMaterial) -> dict[str, float]:
    """By what factor each node would take longer for so many times the rows."""
    ops = step.run.ops
    work = WorkOfRuns().of(step.run)
    grown: dict[str, float] = {}
    for name, kind, flops, moved in zip(
        ops.name.tolist(), ops.op.tolist(), work.flops.tolist(), work.bytes.tolist(), strict=True
    ):
        ns = step.times.get(name, 0.0)
        if ns <= 0 or kind in step.keeps_state:
            continue  # variables have no rows of a batch
        least = _SMALL.least_ns(max(0, flops), max(0, moved))
        grown[name] = 1 + (_TIMES - 1) * min(1.0, least / ns)
    return grown
