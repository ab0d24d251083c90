"""Python inside of a step: an op that calls a function of the program, on the path of the run.

The engine's ops that take its place read what it read and write what it wrote, once or some times
over: that is what is left of its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.program.run_parts import PYTHON_TYPES
from stepscope.analysis.replay import Change
from stepscope.analysis.work.machine import Reach

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "python-op"
_MOST_PASSES: Final = 10
"""Ops of the engine go over the bytes so many times at most."""
_MOST_LEFT: Final = 0.5
"""And take not more than this part of what Python took."""
_SMALL: Final = Reach(flops_per_s=5e9, bytes_per_s=5e9)
"""What one thread reaches on tensors of this size: far less than the machine."""


def find(material: Material) -> Iterator[Finding]:
    """A finding for each Python op of each kind of step."""
    for step in material.steps:
        for name, kind in step.types.items():
            if kind not in PYTHON_TYPES:
                continue
            gone = Change(times={name: 0.0})
            once = _SMALL.least_ns(0, _moved(step, name))
            most = min(_MOST_PASSES * once, _MOST_LEFT * step.times.get(name, 0.0))
            gain = step.predict(gone.replayed_ns).plus(-most, -min(once, most))
            yield from of_step(
                step,
                NAME,
                title=f"the op `{name}` is Python, and the step waits for it",
                line=step.lines.get(name, ""),
                gain=gain,
                do=f"ops of the engine in place of the Python op `{name}` would save",
                advice="write it with the engine's ops, or take it out of the step: once before "
                "the loop, or in the input pipeline, where it runs ahead",
                evidence=evidence_of(step, [name]),
            )


def _moved(step: StepMaterial, name: str) -> int:
    """The bytes that an op reads and writes."""
    read = {input_node(source) for source in step.inputs.get(name, ())}
    return sum(step.sizes.get(node, 0) for node in (name, *read))
