"""Debug and summary ops in every step: what looks at the training, and what runs for it alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.replay import serving_only

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "summaries"
_PASSING: Final = frozenset({
    "CheckNumerics", "CheckNumericsV2", "Print", "DebugIdentity", "DebugIdentityV2",
    "DebugIdentityV3",
})  # fmt: skip
"""They hand on what they look at."""
_LOOKING: Final = frozenset({"Assert", "PrintV2", "DebugNanCount", "DebugNumericSummary",
                             "DebugNumericSummaryV2"})  # fmt: skip


def is_summary(kind: str) -> bool:
    """Whether an op of this type only tells somebody about the run."""
    return "Summary" in kind or kind in _LOOKING or kind in _PASSING


def find(material: Material) -> Iterator[Finding]:
    """A finding for each kind of step that has such ops."""
    for step in material.steps:
        looking = [name for name, kind in step.types.items() if is_summary(kind)]
        if not looking:
            continue
        without = unneeded(step, looking)
        gain = step.predict_without(without)
        kinds = dict.fromkeys(step.types[name] for name in looking)
        yield from of_step(
            step,
            NAME,
            title=f"{', '.join(kinds)} in every step",
            line=step.line_of([name for name in looking if step.lines.get(name)]),
            gain=gain,
            do=f"steps without the {len(looking)} summary and debug ops would save",
            advice="run them in every 100th step only: fetch the merged summary there and leave it "
            "out elsewhere (SummarySaverHook(save_steps=100), tf.summary.record_if)",
            evidence=evidence_of(step, sorted(without)),
            rewrite=Rewrite(
                bypassed=frozenset(n for n in looking if step.types[n] in _PASSING),
                unfetched=without,
            ),
        )


def unneeded(step: StepMaterial, looking: list[str]) -> frozenset[str]:
    """These nodes, what returns them, and everything that runs for them alone."""
    sinks = dict.fromkeys(looking)
    for name, kind in step.types.items():
        if kind == "_Retval" and all(
            input_node(source) in sinks for source in step.inputs.get(name, ("",))
        ):
            sinks[name] = None
    passing = frozenset(name for name in looking if step.types[name] in _PASSING)
    return serving_only(step.work, sinks, step.keeps_state) | passing
