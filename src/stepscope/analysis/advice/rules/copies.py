"""Copies and casts: ops that make a tensor again in another type or order.

Where one such op reads another (a cast there and a cast back), all of them can go. One alone may be
needed: it counts where it takes a good part of the step, and the gain is uncertain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.step_finding import WORTH, evidence_of, of_step
from stepscope.analysis.execution.edges import input_node
from stepscope.metadata import readable

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "copies"
COPIES: Final = frozenset({
    "Cast", "Transpose", "ConjugateTranspose", "DeepCopy", "Copy", "CopyHost", "Snapshot",
    "_MklToTf", "_MklTranspose", "_MklCast", "Bitcast",
})  # fmt: skip
_SINGLE: Final = 0.1
"""A copy that reads no other is spoken of where it takes so much of a step."""


def find(material: Material) -> Iterator[Finding]:
    """One finding per kind of step for copies of copies, and one for large single ones."""
    for step in material.steps:
        copies = [name for name, kind in step.types.items() if kind in COPIES]
        chained = _chained(step, copies)
        if chained:
            yield from _finding(step, chained, "tensors are copied or cast there and back", 0.95)
        large = [
            name for name in copies
            if name not in chained and step.times[name] > _SINGLE * step.typical_ns
        ]  # fmt: skip
        if large:
            yield from _finding(step, large, "large tensors are copied or cast", 0.0)


def _finding(step: StepMaterial, names: list[str], title: str, least: float) -> Iterator[Finding]:
    if not step.may_gain(WORTH, names):
        return
    gain = step.predict_without(names).between(least, (1 + least) / 2, 1.0)
    kinds = ", ".join(dict.fromkeys(step.types[name] for name in names))
    yield from of_step(
        step,
        NAME,
        title=f"{title}: {len(names)} ops ({kinds})",
        line=step.line_of(names),
        gain=gain,
        do=f"a step with {readable.number(len(names), 'copy or cast', 'copies and casts')} less "
        "would save",
        advice="keep the tensor in one type and order from where it is made to where it is read; "
        "convert what never changes once, before the loop",
        evidence=evidence_of(step, names),
        rewrite=Rewrite(bypassed=frozenset(names)),
    )


def _chained(step: StepMaterial, copies: list[str]) -> list[str]:
    """The copies that read another copy, and those that are read by one."""
    known = set(copies)
    found: dict[str, None] = {}
    for name in copies:
        for source in map(input_node, step.inputs.get(name, ())[:1]):
            if source in known:
                found.update({source: None, name: None})
    return list(found)
