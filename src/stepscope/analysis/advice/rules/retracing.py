"""Functions that are traced again: the time of each call that had to build a graph anew.

Tracing is a part of it: the first run of a graph optimises and instantiates it, too. So what is
lost in a call is how much longer it took than calls that found their graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.analysis.advice.finding import PROGRAM, Evidence, Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.step_finding import finding_id, said_gain
from stepscope.analysis.replay import ends, of_gains

if TYPE_CHECKING:
    from stepscope.analysis.program.retraces import Retrace

NAME: Final = "retracing"
_LEAST: Final = 0.01


def find(material: Material) -> Iterator[Finding]:
    """A finding for each function that was traced again, and each cause of that."""
    if material.retraces is None:
        return
    for row in material.retraces.rows:
        lost, calls = _lost(material, row)
        gain = of_gains(lost, [1.0] * len(lost), 0.0).times(len(lost))
        share = gain.gain_ns / material.total_ns if material.total_ns else 0.0
        if share < _LEAST:
            continue
        changed = f"{row.cause} of {row.argument}" if row.argument else row.cause
        values = f" ({' then '.join(row.values[:2])})" if row.values else ""
        said = said_gain(gain.gain_ns, gain.low_ns, gain.high_ns)
        place = row.where.replace("\\", "/").rpartition("/")[2]
        yield Finding(
            id=finding_id(NAME, row.where),
            rule=NAME,
            title=f"`{row.function}` is traced again: {changed}{values}",
            step=calls or row.function,
            line=row.where,
            unit=PROGRAM,
            gain=gain.gain_ns,
            low=gain.low_ns,
            high=gain.high_ns,
            share=min(1.0, share),
            total_ns=gain.gain_ns,
            sentence=f"one graph in place of {row.times + 1} would save {said} in all: {place}",
            advice=row.advice,
            evidence=(Evidence(row.function, changed, row.where, row.times, float(row.lost_ns)),),
            replayed=len(lost),
        )


def _lost(material: Material, row: Retrace) -> tuple[list[float], str]:
    """What each call that traced again took more than it had to, and of which kind they are."""
    name = row.function.rpartition(".")[2]
    for step in material.steps:
        if step.key not in (row.function, name) or not step.step.rest:
            continue
        lengths = np.array(step.step.lengths_ns[1:], np.float64)
        # Those that took longest traced; what they would have taken is told by the others or, where
        # all did, by their ops.
        order = np.sort(lengths)
        times = min(row.times, len(order))
        rest = order[: len(order) - times]
        if len(rest) >= 3:
            usual = float(np.median(rest))
        else:
            works = step.works
            usual = float(np.median([max(ends(work.work), default=0.0) for work in works]))
        return [float(ns) - usual for ns in order[len(order) - times :]], step.key
    each = row.lost_ns / max(1, row.times)
    return [each] * row.times, ""
