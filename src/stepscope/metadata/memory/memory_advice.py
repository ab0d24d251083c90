"""The one line of advice of an out-of-memory report.

Whatever it says follows from the figures of the report; where they tell nothing it is silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.metadata.memory.allocations import PERSISTENT_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stepscope.metadata.memory.allocations import AllocationColumns
    from stepscope.metadata.memory.out_of_memory import Growth, HeldMemory, MemoryRequest

__all__ = ["BatchHint", "advice"]

_DOMINATES = 0.5


@dataclass(frozen=True, slots=True)
class BatchHint:
    """What was fed as a batch: its leading dimension, and by which feed.

    `scaling` are the ops whose outputs have the batch as their leading dimension, where the
    engine knows them. Without it, tensors that have the same leading dimension are taken for such
    ones, and the advice says that it does so.
    """

    size: int
    feed: str = ""
    scaling: Collection[str] | None = None
    whole: Sequence[tuple[int, int]] | None = None
    """Where the engine knows the whole run beforehand: at each moment of it the bytes that do not
    depend on the batch, and those that do."""


def advice(
    request: MemoryRequest,
    alive: AllocationColumns,
    rows: Sequence[HeldMemory],
    grown: Sequence[Growth],
    live: int,
    cached: int | None,
    limit: int | None,
    batch: BatchHint | None,
) -> str:
    """What would make the request fit, or who holds most; "" where the figures tell neither."""
    if limit is not None:
        missing = live + request.bytes - limit
        if missing <= 0:
            return (
                f"live and requested bytes together are {-missing:,} below the limit: the free "
                "memory is not in one piece, or not all of it was free at that moment."
            )
        smaller = _smaller_batch(request, alive, live, limit, batch)
        if smaller:
            return smaller
        if request.bytes > limit:
            return (
                f"the request alone is {request.bytes - limit:,} bytes above the limit; nothing "
                "that could be freed makes it fit."
            )
        leak = _persistent_growth(rows, grown, missing)
        if leak:
            return leak
    elif cached is not None and cached >= request.bytes > 0:
        return (
            f"{cached:,} bytes are kept for reuse and not live, at least as many as were asked "
            "for; giving them back would make room."
        )
    elif request.bytes > live:
        return (
            f"the request alone is larger than all that is live ({live:,} bytes); what it asks "
            "for is what to look at, not what is held."
        )
    return _largest(rows, live, None if limit is None else live + request.bytes - limit)


def _smaller_batch(
    request: MemoryRequest,
    alive: AllocationColumns,
    live: int,
    limit: int,
    batch: BatchHint | None,
) -> str:
    """The largest batch with which the request would have fitted."""
    if batch is None or batch.size < 2 or not _leads(request.shape, batch.size):
        return ""
    if batch.scaling is not None and request.op not in batch.scaling:
        return ""
    grows = np.array(
        [
            _leads(shape, batch.size)
            and kind not in PERSISTENT_KINDS - {"feed"}
            and (batch.scaling is None or op in batch.scaling)
            for shape, kind, op in zip(
                alive.shape.tolist(), alive.kind.tolist(), alive.name.tolist(), strict=True
            )
        ],
        dtype=bool,
    )
    held = int(alive.bytes[grows].sum()) if len(grows) else 0
    # Rounded up per tensor, so that the answer fits whatever an element's size is.
    each = int((-(-alive.bytes[grows] // batch.size)).sum()) if len(grows) else 0
    each += -(-request.bytes // batch.size)
    fits = (limit - (live - held)) // each
    feed = f" of {batch.feed}" if batch.feed else ""
    known = "" if batch.scaling is not None else f"if the leading {batch.size:,} is the batch, "
    if fits < 1:
        fixed = live - held
        return (
            f"{known}not even a batch of 1{feed} would fit: {fixed:,} of the live bytes do not "
            "depend on it."
        )
    if batch.whole is not None:
        return _batch_of_the_whole_run(batch, limit, known, feed)
    return (
        f"{known}this request would fit with a batch{feed} of at most {fits:,} instead of "
        f"{batch.size:,}: {held:,} of the live bytes and the request shrink with it. What later "
        "ops need is not known here and may ask for a smaller one."
    )


def _batch_of_the_whole_run(batch: BatchHint, limit: int, known: str, feed: str) -> str:
    """The largest batch with which no moment of the run exceeds the limit."""
    fits = batch.size - 1
    fixed_most = 0
    for fixed, scaling in batch.whole or ():
        fixed_most = max(fixed_most, fixed)
        if scaling:
            fits = min(fits, (limit - fixed) // -(-scaling // batch.size))
    if fits < 1 or fixed_most > limit:
        return (
            f"{known}not even a batch of 1{feed} would fit: up to {fixed_most:,} bytes of the run "
            "do not depend on it."
        )
    return (
        f"{known}a batch{feed} of at most {fits:,} instead of {batch.size:,} would fit, the ops "
        "after this one included."
    )


def _leads(shape: tuple[int, ...] | None, size: int) -> bool:
    return bool(shape) and shape is not None and shape[0] == size


def _persistent_growth(rows: Sequence[HeldMemory], grown: Sequence[Growth], missing: int) -> str:
    """Something that stays between runs and has grown by what is missing now."""
    kinds = {row.op: row.kind for row in rows if row.persistent and row.kind != "feed"}
    for growth in grown:
        more = growth.now - growth.before
        if growth.op in kinds and more >= missing:
            return (
                f"the {kinds[growth.op]} {growth.op} holds {more:,} bytes more than in the last "
                f"run that fitted; without these the request would fit ({missing:,} are missing)."
            )
    return ""


def _largest(rows: Sequence[HeldMemory], live: int, missing: int | None) -> str:
    short = "" if missing is None else f"; {missing:,} bytes are missing"
    persistent = sum(row.bytes for row in rows if row.persistent)
    if not rows or live <= 0:
        return ""
    first = rows[0]
    place = f" ({first.source})" if first.source else ""
    if first.persistent and first.bytes >= _DOMINATES * live:
        return (
            f"the {first.kind} {first.op}{place} holds {first.bytes / live:.0%} of the live bytes "
            f"and keeps them between ops{short}."
        )
    if persistent >= _DOMINATES * live:
        return (
            f"variables, queues and feeds hold {persistent / live:.0%} of the live bytes; they "
            f"stay whatever the ops of the run free{short}."
        )
    return f"{first.op}{place} holds the most, {first.bytes / live:.0%} of the live bytes{short}."
