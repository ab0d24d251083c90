"""The memory of a run over time: each tensor from its allocation to its end, and who held how much.

Several events may have happened at one nanosecond. Here each has a moment of its own, a fraction
after the one before, so that what was live at a moment is what had begun by then and not ended, and
sums to the live bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np

from stepscope.analysis.memory.profile import event_times
from stepscope.analysis.profile.layers import layers_of
from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.memory.allocations import FAILED, FREE
from stepscope.metadata.memory.out_of_memory import shape_text
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepscope.metadata import AllocationColumns, RunMetadata

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]

__all__ = ["GROUPINGS", "Alive", "By", "Owner", "TensorLives", "tensor_lives"]

By: TypeAlias = Literal["kind", "op", "type", "layer", "source"]
GROUPINGS: tuple[str, ...] = get_args(By)
OTHERS: Final = "(others)"
_UNKNOWN: Final = "(unknown)"


@dataclass(frozen=True, slots=True)
class Owner:
    """Bytes of a holder at the points of a curve."""

    key: str
    bytes: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Alive:
    """Tensors, one row each. `to_ns` is infinite of one that was not freed; `address` 0 is none."""

    names: StringColumn
    kinds: StringColumn
    bytes: Ints
    from_ns: Floats
    to_ns: Floats
    shapes: StringColumn
    dtypes: StringColumn
    sources: StringColumn
    layers: StringColumn
    address: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.bytes)

    def select(self, rows: Any) -> Alive:
        """Some of the rows."""
        return Alive(*(getattr(self, name)[rows] for name in self.__slots__))

    def at(self, moment: float) -> Alive:
        """Those that were live at a moment."""
        return self.select((self.from_ns <= moment) & (self.to_ns > moment))


@dataclass(frozen=True, slots=True, eq=False)
class TensorLives:
    """The memory of one device in one run; moments count from `base_ns`.

    `live[i]` bytes were live from `moment[i]` on. `tensors` are all that were allocated.
    """

    device: str
    base_ns: int
    moment: Floats
    live: Ints
    peak: int
    """The place of the highest in `live`, -1 where nothing ever was."""
    tensors: Alive
    _events: AllocationColumns
    _owners: Callable[[By], StringColumn]

    def thinned(self, points: int, from_ns: float = 0.0, to_ns: float = np.inf) -> Ints:
        """Places in `live`, not more than that: of each stretch of time the highest."""
        inside = np.flatnonzero((self.moment >= from_ns) & (self.moment <= to_ns))
        if len(inside) <= points:
            return inside
        times = self.moment[inside]
        width = (times[-1] - times[0]) / points or 1.0
        column = np.minimum(((times - times[0]) / width).astype(np.int64), points - 1)
        order = np.lexsort((-self.live[inside], column))
        firsts = np.flatnonzero(np.diff(column[order], prepend=-1))
        return np.sort(inside[order[firsts]])

    def owners(self, by: By, at: Ints, most: int) -> tuple[Owner, ...]:
        """Who held how much at places of `live`; the largest at the peak, and the others as one."""
        column = self._owners(by)
        counted = _counted(self._events)
        held: Counter[int] = Counter()
        until = self.peak + 1 if self.peak >= 0 else len(counted)
        sums = np.zeros(len(column.table), np.int64)
        np.add.at(sums, column.codes[:until], counted[:until])
        held.update({code: int(size) for code, size in enumerate(sums.tolist()) if size})
        # Those that held nothing at the peak may have held much before or after it.
        largest = [code for code, _ in held.most_common(most)]
        if len(largest) < most:
            known = set(largest)
            largest += [code for code in range(len(column.table)) if code not in known]
        largest = largest[:most]
        found = []
        rest = self.live[at].astype(np.float64)
        for code in largest:
            bytes_ = np.cumsum(np.where(column.codes == code, counted, 0))[at].astype(np.float64)
            if bytes_.any():
                found.append(Owner(column.table[code], bytes_))
                rest = rest - bytes_
        if rest.any():
            found.append(Owner(OTHERS, rest))
        return tuple(found)


def tensor_lives(run: RunMetadata, device: str) -> TensorLives:
    """The tensors on a device in a run, and live bytes over time.

    Without a record of single allocations there is nothing in it.
    """
    every = run.allocations
    times = event_times(run, every)
    mine = np.flatnonzero(every.device == device)
    events, times = every.select(mine), times[mine]
    ops = run.ops
    begin = [int(part.min()) for part in (ops.start_ns, times) if len(part)]
    base = int(ops.start_ns.min()) if len(ops) else min(begin, default=0)
    moments = _moments(times - base)
    live = np.cumsum(_counted(events))
    freed = events.freed_by()
    rows = np.flatnonzero((events.event != FREE) & (events.event != FAILED))
    types, layers, sources = _of_names(run)

    def owners(by: By) -> StringColumn:
        if by == "kind":
            return events.kinds
        known = {"type": types, "layer": layers, "source": sources}.get(by)
        if known is None:
            return events.names
        return _renamed(events.names, known)

    ends = np.where(freed[rows] >= 0, moments[freed[rows]] if len(moments) else np.inf, np.inf)
    own = events.select(rows)
    tensors = Alive(
        names=own.names,
        kinds=own.kinds,
        bytes=own.bytes,
        from_ns=moments[rows],
        to_ns=ends,
        shapes=StringColumn.of(["" if s is None else shape_text(s) for s in own.shape]),
        dtypes=StringColumn.of([dtype_name(int(d)) if d else "" for d in own.dtype]),
        sources=_renamed(own.names, sources, ""),
        layers=_renamed(own.names, layers, ""),
        address=own.address,
    )
    return TensorLives(
        device=device,
        base_ns=base,
        moment=moments,
        live=live,
        peak=int(live.argmax()) if len(live) and live.max() > 0 else -1,
        tensors=tensors,
        _events=events,
        _owners=owners,
    )


def _counted(events: AllocationColumns) -> Ints:
    counted: Ints = np.where(events.event == FAILED, 0, events.bytes)
    return counted


def _moments(times: Ints) -> Floats:
    """Times in order as numbers of which no two are the same."""
    count = len(times)
    if not count:
        return np.zeros(0)
    firsts = np.flatnonzero(np.diff(times, prepend=times[0] - 1))
    sizes = np.diff(firsts, append=count)
    within = np.arange(count) - np.repeat(firsts, sizes)
    moments: Floats = times + within / np.repeat(sizes, sizes)
    return moments


def _of_names(run: RunMetadata) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The type, the layer and the line of each node by its name."""
    facts = run.ops.facts
    names = facts.names.values.tolist()
    types = dict(zip(names, facts.ops.values.tolist(), strict=True))
    layers = dict(zip(names, (place.layer for place in layers_of(run)), strict=True))
    return types, layers, run.sources


def _renamed(column: StringColumn, known: dict[str, str], other: str = _UNKNOWN) -> StringColumn:
    return StringColumn.of([known.get(name) or other for name in column.table]).look_up(
        column.codes
    )
