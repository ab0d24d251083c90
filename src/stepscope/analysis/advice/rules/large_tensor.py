"""One large tensor that decides the peak: more than half of what is held at most is in it.

Without it the peak would be what the rest of the step holds at another moment; made in pieces, it
still holds one or two of them. What lives on from step to step (variables, queues, feeds) is no
such one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import BYTES, Evidence, Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.step_finding import finding_id
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.memory.profile import memory_profile
from stepscope.metadata.memory.allocations import FAILED
from stepscope.metadata.readable import size

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial
    from stepscope.analysis.memory.profile import MemoryRow

NAME: Final = "large-tensor"
_MOST: Final = 0.5
_LEAST_BYTES: Final = 16 << 20
"""A peak that is lower is nobody's concern."""
_PIECES: Final = 4
_LEAST_GAIN: Final = 0.05


def find(material: Material) -> Iterator[Finding]:
    """A finding for the step that holds most, if a single tensor is most of that."""
    known = [step for step in material.steps if step.peak_bytes >= _LEAST_BYTES]
    if not known:
        return
    step = max(known, key=lambda one: one.peak_bytes)
    if not len(step.run.allocations):
        return
    profile = memory_profile(step.run)
    device = profile.devices[0]
    largest = next((row for row in profile.rows if row.device == device.device), None)
    if largest is None or largest.persistent or largest.tensors > 1 or largest.share <= _MOST:
        return
    gain = device.peak_bytes - _peak_without(step, largest)
    if gain >= _LEAST_GAIN * device.peak_bytes:
        yield _finding(step, largest, device.peak_bytes, gain)


def _finding(step: StepMaterial, row: MemoryRow, peak: int, most: int) -> Finding:
    until = _last_reader(step, row.key)
    line = row.source or step.lines.get(row.key, "")
    place = line.replace("\\", "/").rpartition("/")[2]
    # One piece is still there, and the one before it until somebody has read that; what they are
    # made from has to be cut, too.
    least = min(0.95 * most, 0.95 * row.bytes * (_PIECES - 2) / _PIECES)
    gain = (least + most) / 2
    held = f", and is held until `{until}` has read it" if until else ""
    shape = f" {row.shapes}" if row.shapes else ""
    return Finding(
        id=finding_id(NAME, line),
        rule=NAME,
        title=f"`{row.key}`{shape} is {row.share:.0%} of the peak of {size(peak)}{held}",
        step=step.key,
        line=line,
        unit=BYTES,
        gain=gain,
        low=least,
        high=float(most),
        share=gain / peak,
        total_ns=0.0,
        sentence=f"`{row.key}` made and read in {_PIECES} pieces would save {size(round(gain))} of "
        "the peak" + (f": {place}" if place else ""),
        advice=f"make `{row.key}` in pieces (smaller batches, tf.map_fn, a loop over rows), in a "
        "smaller type, or not at all, where what reads it can be worked out from less",
        evidence=(
            Evidence(row.key, step.types.get(row.key, ""), line, 1, 0.0, row.bytes),
            *(
                Evidence(reader, step.types[reader], step.lines.get(reader, ""), 1, 0.0)
                for reader in [until]
                if reader
            ),
        ),
        replayed=1,
    )


def _peak_without(step: StepMaterial, row: MemoryRow) -> int:
    """The most bytes that would be live at once on its device if the tensor were never made."""
    events = step.run.allocations
    mine = (events.device == row.device) & (events.event != FAILED) & (events.name != row.key)
    return int(max(events.bytes[mine].cumsum(), default=0))


def _last_reader(step: StepMaterial, owner: str) -> str:
    """The op that is the last to read what another made; "" where none does."""
    # In order of beginnings: the last one counts.
    readers = [
        name
        for name in step.types
        if any(input_node(source) == owner for source in step.inputs.get(name, ()))
    ]
    return readers[-1] if readers else ""
