"""Makes a finding of a step from what a rule found and what the replay predicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import STEP, Evidence, Finding
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.metadata.readable import time

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial
    from stepscope.analysis.replay import Prediction

__all__ = ["WORTH", "evidence_of", "finding_id", "of_step", "said_gain"]

WORTH: Final = 0.01
"""What gains less of a step is not worth a word."""
_EVIDENCE: Final = 10


def finding_id(rule: str, line: str) -> str:
    """The name of a finding, which holds for every recording of the program.

    >>> finding_id("copies", "/home/me/train.py:15"), finding_id("leak", "")
    ('copies@train.py:15', 'leak')
    """
    place = line.replace("\\", "/").rpartition("/")[2]
    return f"{rule}@{place}" if place else rule


def said_gain(gain: float, low: float, high: float) -> str:
    """The gain in words: `18.1 ms ± 0.90 ms`."""
    return f"{time(gain)} ± {time((high - low) / 2)}"


def of_step(
    material: StepMaterial,
    rule: str,
    *,
    title: str,
    line: str,
    gain: Prediction,
    do: str,
    advice: str,
    evidence: Iterable[Evidence],
    changes_steps: bool = False,
    rewrite: Rewrite | None = None,
) -> Iterable[Finding]:
    """The finding, if it gains enough; `do` begins its sentence: "without the copies"."""
    share = gain.gain_ns / material.typical_ns if material.typical_ns > 0 else 0.0
    if share < WORTH:
        return
    place = line.replace("\\", "/").rpartition("/")[2]
    said = said_gain(gain.gain_ns, gain.low_ns, gain.high_ns)
    yield Finding(
        id=finding_id(rule, line),
        rule=rule,
        title=title,
        step=material.key,
        line=line,
        unit=STEP,
        gain=gain.gain_ns,
        low=gain.low_ns,
        high=gain.high_ns,
        share=min(1.0, share),
        total_ns=gain.gain_ns * max(1, material.step.rest),
        sentence=f"{do} {said} a step" + (f": {place}" if place else ""),
        advice=advice,
        evidence=tuple(evidence),
        replayed=gain.runs,
        error=gain.error,
        model_error=gain.model_error,
        changes_steps=changes_steps,
        rewrite=rewrite,
    )


def evidence_of(material: StepMaterial, names: Sequence[str]) -> tuple[Evidence, ...]:
    """These nodes, those that take most first."""
    ranked = sorted(names, key=lambda name: -material.times.get(name, 0.0))
    return tuple(
        Evidence(
            what=name,
            type=material.types.get(name, ""),
            where=material.lines.get(name, ""),
            count=material.counts[name],
            ns=material.times.get(name, 0.0),
            bytes=material.sizes.get(name, 0),
        )
        for name in ranked[:_EVIDENCE]
    )
