"""Fetches that a training step does not need: what is computed in every step to be returned alone.

Nobody but the program knows whether it uses what it fetched. What is told is what a fetch costs by
itself, where the step has another purpose: it changes variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.rules.summaries import is_summary
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.replay import serving_only

NAME: Final = "dead-fetch"
_LEAST: Final = 0.05
_FETCHED = re.compile(r"_retval_(.*)_\d+_\d+\Z", re.DOTALL)


def find(material: Material) -> Iterator[Finding]:
    """A finding for each fetch that costs a good part of a training step."""
    for step in material.steps:
        if not step.keeps_state:
            continue
        for name, kind in step.types.items():
            sources = [input_node(source) for source in step.inputs.get(name, ())]
            if kind != "_Retval" or any(is_summary(step.types.get(n, "")) for n in sources):
                continue
            alone = serving_only(step.work, [name], step.keeps_state)
            if sum(step.times.get(node, 0.0) for node in alone) < _LEAST * step.typical_ns:
                continue
            fetched = _FETCHED.match(name)
            what = fetched[1] if fetched else name
            yield from of_step(
                step,
                NAME,
                title=f"`{what}` is computed in every step to be fetched alone",
                line=step.line_of(sources),
                gain=step.predict_without(alone),
                do=f"steps that do not fetch `{what}` would save",
                advice=f"fetch `{what}` where it is used only: in every 100th step, or after the "
                "loop",
                evidence=evidence_of(step, sorted(alone)),
                rewrite=Rewrite(unfetched=frozenset({name})),
            )
