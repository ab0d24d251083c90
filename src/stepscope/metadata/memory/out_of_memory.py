"""The out-of-memory report: what was asked for, who held every byte, and what would help.

`out_of_memory` makes the report from what was alive when a request was refused. Its rows sum to
the live bytes, exactly; every sentence of its advice follows from its figures.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.memory.allocations import FAILED, FREE, PERSISTENT_KINDS
from stepscope.metadata.memory.memory_advice import BatchHint, advice
from stepscope.metadata.readable import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.metadata.memory.allocations import AllocationColumns

__all__ = [
    "BatchHint",
    "Growth",
    "HeldMemory",
    "MemoryRequest",
    "OutOfMemory",
    "held_memory",
    "out_of_memory",
    "shape_text",
]

_SHAPES_SHOWN = 3
_ROWS_SHOWN = 20
_GROWN_SHOWN = 5


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """What was asked for and refused. `shape` None, `dtype` 0, `slot` -1, `source` "": not known.

    `dtype` is a number of TensorFlow's `DataType`.
    """

    op: str
    bytes: int
    device: str
    slot: int = -1
    shape: tuple[int, ...] | None = None
    dtype: int = 0
    source: str = ""
    time_ns: int = 0


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """The live tensors of one op: how many, of which shapes, and their bytes together."""

    op: str
    source: str
    kind: str
    device: str
    tensors: int
    bytes: int
    shapes: str = ""

    @property
    def persistent(self) -> bool:
        """Whether it outlives the ops of a run: variables, what queues hold, what was fed."""
        return self.kind in PERSISTENT_KINDS


@dataclass(frozen=True, slots=True)
class Growth:
    """An op that holds more than in the last run that fitted."""

    op: str
    source: str
    before: int
    now: int


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A request that was refused, and who held the memory at that moment.

    `limit` is the device's in bytes, None for the machine's own. `live` are the bytes in tensors
    and the sum of `rows`, the largest first; `cached` are freed bytes kept for reuse, which are
    not live, or None where nobody tells. `grown` is None where no earlier run fitted; `advice` is
    "" where there is none.
    """

    request: MemoryRequest
    limit: int | None
    live: int
    cached: int | None
    rows: tuple[HeldMemory, ...]
    grown: tuple[Growth, ...] | None = None
    advice: str = ""

    def text(self, rows: int = _ROWS_SHOWN) -> str:
        """The report as part of an error's message, with so many rows of the table."""
        parts = [asked(self.request), self._balance(), *self._table(rows)]
        parts.extend(self._growth())
        if self.advice:
            parts.append(f"Advice: {self.advice}")
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, all rows in it, ready for JSON."""
        plain = asdict(self)
        plain["request"]["dtype"] = dtype_name(self.request.dtype)
        return plain

    def _balance(self) -> str:
        limit = "the machine's own" if self.limit is None else _exactly(self.limit)
        cached = "not known" if self.cached is None else _exactly(self.cached)
        return f"Limit: {limit}. Live: {_exactly(self.live)}. Cached: {cached}."

    def _table(self, shown: int) -> list[str]:
        if not self.rows:
            return ["No tensor was live."]
        head, rest = self.rows[:shown], self.rows[shown:]
        cells: list[tuple[str, ...]] = [
            ("bytes", "share", "tensors", "kind", "op", "shapes", "made at")
        ]
        cells.extend(
            (
                f"{row.bytes:,}",
                f"{row.bytes / self.live:.1%}" if self.live else "",
                f"{row.tensors:,}",
                row.kind,
                row.op,
                row.shapes,
                row.source,
            )
            for row in head
        )
        if rest:
            left = sum(row.bytes for row in rest)
            cells.append(
                (
                    f"{left:,}",
                    f"{left / self.live:.1%}" if self.live else "",
                    f"{sum(row.tensors for row in rest):,}",
                    "",
                    f"{len(rest):,} more",
                    "",
                    "",
                )
            )
        tensors = sum(row.tensors for row in self.rows)
        cells.append((f"{self.live:,}", "", f"{tensors:,}", "", "in all", "", ""))
        return ["Live tensors, the largest first:", *_aligned(cells, right=3)]

    def _growth(self) -> list[str]:
        if self.grown is None:
            return []
        if not self.grown:
            return ["Nothing that is live grew since the last run that fitted."]
        lines = ["Grew since the last run that fitted:"]
        for row in self.grown[:_GROWN_SHOWN]:
            place = f"  {row.source}" if row.source else ""
            lines.append(
                f"  +{row.now - row.before:,} bytes  {row.op}  "
                f"({row.before:,} then, {row.now:,} now){place}"
            )
        rest = self.grown[_GROWN_SHOWN:]
        if rest:
            lines.append(f"  +{sum(r.now - r.before for r in rest):,} bytes  {len(rest):,} more")
        return lines


def asked(request: MemoryRequest) -> str:
    """One sentence: which op asked for what, where."""
    what = "" if request.shape is None else f" for a tensor of shape {shape_text(request.shape)}"
    kind = dtype_name(request.dtype)
    if kind:
        what += f" and type {kind}" if what else f" of type {kind}"
    slot = f":{request.slot}" if request.slot > 0 else ""
    place = f", made at {request.source}" if request.source else ""
    return (
        f"{request.op}{slot} asked for {_exactly(request.bytes)}{what} on {request.device}{place}."
    )


def out_of_memory(
    request: MemoryRequest,
    alive: AllocationColumns,
    *,
    sources: Mapping[str, str] | None = None,
    limit: int | None = None,
    cached: int | None = 0,
    last_fit: Mapping[str, int] | None = None,
    batch: BatchHint | None = None,
) -> OutOfMemory:
    """The report on a refused request.

    `alive` are the allocations that were live at that moment. With a limit only those on the
    request's device count, as the limit does; without one the machine refused, and all devices
    share its memory. `sources` gives the line that made an op, `last_fit` the bytes each op held
    at the peak of the last run that fitted, `batch` what was fed as a batch.
    """
    sources = sources or {}
    counted = (alive.event != FREE) & (alive.event != FAILED)
    if limit is not None:
        counted &= alive.device == request.device
    alive = alive.select(counted)
    if not request.source and request.op in sources:
        request = MemoryRequest(**{**asdict(request), "source": sources[request.op]})
    rows = held_memory(alive, sources)
    live = int(alive.bytes.sum())
    grown = None if last_fit is None else _grown(rows, last_fit)
    return OutOfMemory(
        request=request,
        limit=limit,
        live=live,
        cached=cached,
        rows=rows,
        grown=grown,
        advice=advice(request, alive, rows, grown or (), live, cached, limit, batch),
    )


def held_memory(
    alive: AllocationColumns, sources: Mapping[str, str] | None = None
) -> tuple[HeldMemory, ...]:
    """Live allocations grouped by op, line, kind and device, the largest first."""
    sources = sources or {}
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    keys = zip(alive.name.tolist(), alive.kind.tolist(), alive.device.tolist(), strict=True)
    for row, key in enumerate(keys):
        groups[key].append(row)
    rows = [
        HeldMemory(
            op=op,
            source=sources.get(op, ""),
            kind=kind,
            device=device,
            tensors=len(members),
            bytes=int(np.sum(alive.bytes[members])),
            shapes=_shapes(alive, members),
        )
        for (op, kind, device), members in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.op, row.kind, row.device)))


def _grown(rows: tuple[HeldMemory, ...], before: Mapping[str, int]) -> tuple[Growth, ...]:
    now: Counter[str] = Counter()
    source: dict[str, str] = {}
    for row in rows:
        now[row.op] += row.bytes
        source[row.op] = row.source
    grown = [
        Growth(op, source[op], int(before.get(op, 0)), bytes_now)
        for op, bytes_now in now.items()
        if bytes_now > before.get(op, 0)
    ]
    return tuple(sorted(grown, key=lambda row: (row.before - row.now, row.op)))


def _shapes(alive: AllocationColumns, members: list[int]) -> str:
    counts: Counter[str] = Counter()
    for row in members:
        shape, kind = alive.shape[row], dtype_name(int(alive.dtype[row]))
        text = " ".join(part for part in ("" if shape is None else shape_text(shape), kind) if part)
        if text:
            counts[text] += 1
    shown = [
        text if count == 1 else f"{count:,} x {text}"
        for text, count in counts.most_common(_SHAPES_SHOWN)
    ]
    if len(counts) > len(shown):
        shown.append(f"{len(counts) - len(shown):,} more shapes")
    return ", ".join(shown)


def shape_text(shape: tuple[int, ...]) -> str:
    """`[32,784]`; a dimension that is not known is a question mark."""
    return f"[{','.join('?' if size < 0 else str(size) for size in shape)}]"


def _exactly(count: int) -> str:
    return f"{count:,} bytes" if count < 1024 else f"{count:,} bytes ({size(count)})"


def _aligned(rows: list[tuple[str, ...]], right: int) -> list[str]:
    """The rows as lines, their first `right` columns aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if column < right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
