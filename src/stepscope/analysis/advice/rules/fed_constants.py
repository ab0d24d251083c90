"""Constants that are fed again and again, and all that each step works out from them alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material, fed_name
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.execution.edges import input_node
from stepscope.metadata.readable import number, size

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "fed-constant"
_OWN_STATE: Final = ("Variable", "Random", "Iterator", "Queue", "Dequeue", "VarHandle", "Truncated")
_LACKS: Final = (
    "which feeds never change is noted by `stepscope run SCRIPT`: record the program with it to "
    "hear of constants that are fed again and again"
)


def find(material: Material) -> Iterator[Finding]:
    """A finding for each kind of step that is fed what never changes."""
    for step in material.steps:
        fed = [name for name, kind in step.types.items() if kind == "_Arg"]
        if not fed:
            continue
        if material.feeds is None:
            if fed_name(fed[0]):
                material.lacks(_LACKS)
            continue
        constant = {feed.name.partition(":")[0]: feed for feed in material.feeds if feed.constant}
        args = {
            name: constant[given]
            for name in fed
            if (given := fed_name(name)) is not None and given in constant
        }
        if not args:
            continue
        same = _worked_out(step, set(args))
        names = ", ".join(f"`{feed.name.partition(':')[0]}`" for feed in args.values())
        held = size(sum(feed.bytes for feed in args.values()))
        yield from of_step(
            step,
            NAME,
            title=f"{names} ({held}) never changes, and is fed in every step",
            line=step.line_of(sorted(same)) or step.line_of_feed(next(iter(args))),
            gain=step.predict_unfed(same, sum(feed.bytes for feed in args.values())),
            do=f"{names} kept in the graph{_with_ops(len(same))} would save",
            advice=f"make {names} a constant or a variable of the graph that is set once, and work "
            "out what follows from it alone before the loop",
            evidence=evidence_of(step, [*same, *args]),
            rewrite=Rewrite(constant=frozenset({*same, *args})),
        )


def _with_ops(count: int) -> str:
    return f", with {number(count, 'op')} that work on it alone," if count else ""


def _worked_out(step: StepMaterial, args: set[str]) -> dict[str, None]:
    """The ops whose every input is constant, if something fed is among them."""
    constant = set(args)
    from_feeds = set(args)
    found: dict[str, None] = {}
    for name, kind in step.types.items():  # in order of beginnings: inputs come first
        inputs = [input_node(source) for source in step.inputs.get(name, ())]
        if kind == "Const":
            constant.add(name)
        elif (
            inputs
            and kind not in step.keeps_state
            and kind not in ("_Retval", "NoOp", "_Send")
            and not any(part in kind for part in _OWN_STATE)
            and all(source in constant for source in inputs)
        ):
            constant.add(name)
            if any(source in from_feeds for source in inputs):
                from_feeds.add(name)
                found[name] = None
    return found
