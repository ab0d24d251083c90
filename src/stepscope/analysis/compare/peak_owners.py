"""Who held the peaks of two sets of runs, side by side.

Of each set it is the peak of a typical run: the one whose peak is the median of them. Owners are
compared by name; one that is on one side only holds nothing on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.analysis.memory.profile import memory_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.analysis.memory.profile import MemoryRow
    from stepscope.analysis.runs import NamedRun

__all__ = ["PeakOwner", "peak_owners"]


@dataclass(frozen=True, slots=True)
class PeakOwner:
    """What an op held at the peak of a device, before and now; `source` is its line now."""

    name: str
    kind: str
    device: str
    base: int
    new: int
    source: str = ""

    @property
    def difference(self) -> int:
        """How many bytes more it holds."""
        return self.new - self.base


def peak_owners(base: Sequence[NamedRun], new: Sequence[NamedRun]) -> tuple[PeakOwner, ...]:
    """The owners of both peaks, those first that changed most; none where nobody was recorded."""
    sides = [_at_peak(base), _at_peak(new)]
    if not all(sides):
        return ()
    keys = dict.fromkeys(key for side in sides for key in side)
    rows = []
    for key in keys:
        held = [side[key] for side in sides if key in side]
        before, now = (side[key].bytes if key in side else 0 for side in sides)
        rows.append(PeakOwner(*key, before, now, held[-1].source))
    rows.sort(key=lambda row: (-abs(row.difference), -row.new, row.name))
    return tuple(rows)


def _at_peak(runs: Iterable[NamedRun]) -> dict[tuple[str, str, str], MemoryRow]:
    """By name, kind and device, of a typical run; the largest peak of its devices is told."""
    ranked = sorted(
        (run for run in runs if len(run.metadata.allocations)),
        key=lambda run: run.metadata.peak_bytes(),
    )
    if not ranked:
        return {}
    rows = memory_profile([ranked[len(ranked) // 2]]).rows
    return {(row.key, row.kind, row.device): row for row in rows}
