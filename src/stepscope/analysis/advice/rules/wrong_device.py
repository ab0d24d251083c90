"""Ops on another device than their neighbours: tensors go there and come back in the same step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.execution.edges import RECEIVES, SENDS, input_node
from stepscope.metadata.readable import device as short_name

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "wrong-device"
_MARKERS: Final = frozenset({"NoOp", "_Arg", "_Retval", "Const", *SENDS, *RECEIVES})


def find(material: Material) -> Iterator[Finding]:
    """A finding for each kind of step whose tensors go to a device and back."""
    for step in material.steps:
        moves = [name for name, kind in step.types.items() if kind in SENDS or kind in RECEIVES]
        away = _away(step) if moves else []
        if not away:
            continue
        there = short_name(step.devices[away[0]])
        # Beside the transfers, a device less is an executor less to start and to wait for in each
        # call, which no op shows.
        gain = step.predict_without(moves)
        count = sum(step.types[name] in RECEIVES for name in moves)
        yield from of_step(
            step,
            NAME,
            title=f"{len(away)} ops are on {there}, and their tensors go there and back",
            line=step.line_of(away),
            gain=gain.between(0.9, 1.05, 1.2),
            do=f"{len(away)} ops on the device of their neighbours, and {count} transfers less, "
            "would save",
            advice=f"put them where their inputs are made: take away the tf.device of {there}, or "
            "move all that follows there, too",
            evidence=evidence_of(step, away),
            rewrite=Rewrite(moved=dict.fromkeys(away, _home(step, away))),
        )


def _home(step: StepMaterial, away: list[str]) -> str:
    """The device of most of the other ops."""
    gone = set(away)
    others = Counter(
        step.devices.get(name, "")
        for name, kind in step.types.items()
        if name not in gone and kind not in _MARKERS
    )
    return others.most_common(1)[0][0]


def _away(step: StepMaterial) -> list[str]:
    """The ops of a device that only gets and gives back: all it reads and makes comes and goes."""
    of_device: dict[str, list[str]] = {}
    for name, kind in step.types.items():
        if name and kind not in _MARKERS:
            of_device.setdefault(step.devices.get(name, ""), []).append(name)
    if len(of_device) < 2:
        return []
    work = {
        place: sum(step.times.get(name, 0.0) for name in names)
        for place, names in of_device.items()
    }
    fed = {
        step.devices[name]
        for name, kind in step.types.items()
        if kind in ("_Arg", "_Retval") and name in step.devices
    }
    candidates = [place for place in of_device if place not in fed] or list(of_device)
    place = min(candidates, key=lambda at: work[at])
    mine = set(of_device[place])
    received = {
        name for name, kind in step.types.items()
        if kind in RECEIVES and step.devices.get(name) == place
    }  # fmt: skip
    sent = {
        input_node(source)
        for name, kind in step.types.items()
        if kind in SENDS and step.devices.get(name) == place
        for source in step.inputs.get(name, ())
    }
    if not received or not sent & mine:
        return []
    return of_device[place]
