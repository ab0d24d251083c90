"""Python inside of a step: an op that calls a function of the program, on the path of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.replay import Change
from stepscope.analysis.run_parts import PYTHON_TYPES

NAME: Final = "python-op"
_LEFT: Final = 0.1
"""Ops of the engine take up to this part of what Python took for the same."""


def find(material: Material) -> Iterator[Finding]:
    """A finding for each Python op of each kind of step."""
    for step in material.steps:
        for name, kind in step.types.items():
            if kind not in PYTHON_TYPES:
                continue
            gone = Change(times={name: 0.0})
            gain = step.predict(gone.replayed_ns).between(1 - _LEFT, 1.0)
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
