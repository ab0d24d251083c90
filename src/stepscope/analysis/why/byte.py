"""Who held memory at an instant of a run: since when, until whom, made by which op and line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.execution.edges import Edges
from stepscope.analysis.memory.flame import PEAK, highest_peak, instant_ns
from stepscope.analysis.memory.tensor_lives import tensor_lives
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import Runs, named_runs
from stepscope.analysis.why.op import rows_of
from stepscope.errors import StepscopeError
from stepscope.metadata.memory.allocations import HELD, PERSISTENT_KINDS
from stepscope.metadata.readable import plain, time

if TYPE_CHECKING:
    from stepscope.metadata import OpColumns

__all__ = ["ByteCauses", "Holder", "why_bytes"]


@dataclass(frozen=True, slots=True)
class Holder:
    """A tensor that was live: made by `op`, from `from_ns` until `to_ns`, freed after `until`.

    `to_ns` is -1 of one that was not freed in the run, `until` is "" where no op took it.
    """

    op: str
    type: str
    run: int
    kind: str
    bytes: int
    share: float
    from_ns: int
    to_ns: int
    until: str
    reason: str
    line: str
    shape: str
    dtype: str


@dataclass(frozen=True, slots=True)
class ByteCauses(Result):
    """Who held the memory of a device at an instant of a run, the largest first.

    The rows sum to `bytes`. Times count from the run's beginning.
    """

    rows: tuple[Holder, ...]
    run: int
    device: str
    at_ns: int
    bytes: int
    peak_bytes: int
    estimated: bool


def why_bytes(
    runs: Runs, at: str = PEAK, *, device: str | None = None, number: int | None = None
) -> ByteCauses:
    """Who held memory at an instant: since when, until whom, made by which op and line.

    `at` is "peak", or a time after the run's beginning such as "120ms". Of several runs it is the
    one with the highest peak; without `device`, the device with it. `StepscopeError` where no
    single allocations were recorded, or the instant is after the run. `number` is what rows call
    the run; without one it is its place in `runs`.

    Example:
        >>> why_bytes(run, "peak").rows[0].op  # doctest: +SKIP
        'dense/MatMul'
    """
    wanted = instant_ns(at)
    named = named_runs(runs)
    run, where, peak = highest_peak(named, device)
    metadata, ops = run.metadata, run.metadata.ops
    lives = tensor_lives(metadata, where)
    begin = min(0, int(np.floor(lives.moment[0])))
    if wanted is None:
        moment = float(lives.moment[lives.peak])
    else:
        ends = [lives.moment[-1], *((ops.end_ns.max() - lives.base_ns,) if len(ops) else ())]
        length = int(max(ends)) - begin
        if wanted > length:
            took = f"{at} is after the end of the run, which took {time(length)}"
            raise StepscopeError(f"{took}; write an instant in it, or peak")
        moment = float(np.nextafter(begin + wanted + 1, begin + wanted))
    alive = lives.tensors.at(moment)
    place = number if number is not None else next(
        i for i, one in enumerate(named) if one.metadata is metadata
    )  # fmt: skip
    lasts = _Lasts(ops, lives.base_ns)
    events = metadata.allocations
    held = set(events.names.values[(events.event == HELD) & (events.device == where)].tolist())
    whole = int(alive.bytes.sum())
    rows = []
    for i in np.argsort(-alive.bytes, kind="stable").tolist():
        op, kind = alive.names.values[i], alive.kinds.values[i]
        freed = alive.to_ns[i] != np.inf
        since, size = float(alive.from_ns[i]), int(alive.bytes[i])
        until = lasts.reader(op, since, float(alive.to_ns[i])) if freed else ""
        rows.append(
            Holder(
                op=str(op),
                type=lasts.types.get(str(op), ""),
                run=place,
                kind=str(kind),
                bytes=size,
                share=size / whole if whole else 0.0,
                from_ns=int(np.floor(since)) - begin,
                to_ns=int(np.floor(alive.to_ns[i])) - begin if freed else -1,
                until=until,
                reason=_held(str(kind), op in held, freed, until, str(op)),
                line=str(alive.sources.values[i]),
                shape=str(alive.shapes.values[i]),
                dtype=str(alive.dtypes.values[i]),
            )
        )
    made = ByteCauses(
        rows=tuple(rows),
        run=place,
        device=where,
        at_ns=int(np.floor(moment)) - begin,
        bytes=whole,
        peak_bytes=peak,
        estimated=metadata.completeness.memory_is_estimated,
    )
    return made_of(made, runs)


def _held(kind: str, before: bool, freed: bool, until: str, op: str) -> str:
    if kind in PERSISTENT_KINDS or before:
        said = "was there before the run" if before else f"is kept after the run, as {kind}"
        return said + (f"; freed after {plain(until)}" if until else "")
    if not freed:
        return "was not freed in the run"
    if until == op:
        return "was freed by the op that made it"
    return (
        f"was freed when {plain(until)} had taken it"
        if until
        else "was freed; after whom is not known"
    )


class _Lasts:
    """Which op was the last to take what another made."""

    def __init__(self, ops: OpColumns, base_ns: int) -> None:
        self._ops, self._base = ops, base_ns
        self.types = dict(
            zip(ops.facts.names.values.tolist(), ops.facts.ops.values.tolist(), strict=True)
        )
        self._readers: dict[str, list[int]] = {}
        names = ops.name.tolist()
        for row, before in enumerate(Edges.of(ops).before if len(ops) else ()):
            for maker in before:
                self._readers.setdefault(names[maker], []).append(row)

    def reader(self, op: str, since: float, until: float) -> str:
        """The last that had begun when the tensor was freed; itself, where it was over then."""
        starts, ends = self._ops.start_ns - self._base, self._ops.end_ns - self._base
        begun = [
            row
            for row in self._readers.get(op, ())
            if starts[row] <= until + 1 and ends[row] >= since
        ]
        if begun:
            return str(self._ops.name[max(begun, key=lambda row: (ends[row], row))])
        own = rows_of(self._ops, op)
        own = own[(starts[own] <= since + 1) & (ends[own] >= until)]
        return op if len(own) else ""
