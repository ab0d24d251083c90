"""Less detail, where a trace has to stay small, with the totals kept.

Ops shorter than a threshold are folded: those that follow each other on a lane, with no longer op
in between, become one slice from the start of the first to the end of the last. Its arguments say
how many calls of which op type it stands for and how long they took, so that calls and time per op
type over the whole trace are what they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.execution.lanes import drawing_order
from stepscope.export.chrome.run_sources import LONGEST_NS
from stepscope.export.json_rows import escaped, int_texts, interleave, thousandth_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns

    Ints: TypeAlias = NDArray[np.int64]

# More than the texts around the values of a folded slice, and around one op type in it.
_SLICE_BYTES = 190
_TYPE_BYTES = 40


class Detail(NamedTuple):
    """How much a trace shows.

    `counter_points` is per run and device, None for all of them. Ops shorter than `fold_below_ns`
    are folded: neighbours of one type with `same_type_only`, else all neighbours that began in the
    same stretch of `stretch_ns`, counted from the first op of the trace.
    """

    flows: bool = True
    counter_points: int | None = None
    fold_below_ns: int = 0
    same_type_only: bool = True
    stretch_ns: int = LONGEST_NS


class Folded(NamedTuple):
    """What is left of a run: the rows that stay, and groups of those that do not.

    Of the groups `first` and `last` bound the time, `lane` is where they are drawn; `group`, `op`,
    `calls`, `spent` and `bytes` have an entry per group and op type in it, sorted by group.
    """

    kept: Ints
    first: Ints
    last: Ints
    lane: Ints
    group: Ints
    op: Ints
    calls: Ints
    spent: Ints
    bytes: Ints


def fold(ops: OpColumns, end: Ints, lanes: Ints, detail: Detail, base_ns: int) -> Folded:
    """Fold the ops of a run that are shorter than `detail` says."""
    spent = end - ops.start_ns
    order = drawing_order(ops.start_ns, end)
    short = spent[order] < detail.fold_below_ns
    kept, folded = order[~short], order[short]
    # By lane, on each in drawing order.
    folded = folded[np.argsort(lanes[folded], kind="stable")]
    lane, start, until = lanes[folded].astype(np.int64), ops.start_ns[folded], end[folded]
    between = _between_kept(ops, end, lanes, kept, lane, start)
    top = _top_level(lane, start, until)
    tops = np.flatnonzero(top)
    codes = ops.ops.codes[folded].astype(np.int64)
    same = (lane[tops[1:]] == lane[tops[:-1]]) & (between[tops[1:]] == between[tops[:-1]])
    if detail.same_type_only:
        same &= codes[tops[1:]] == codes[tops[:-1]]
    else:
        stretch = (start[tops] - base_ns) // detail.stretch_ns
        same &= stretch[1:] == stretch[:-1]
    begins = np.zeros(len(folded), bool)
    begins[tops[:1]] = True
    begins[tops[1:][~same]] = True
    group = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    if not len(firsts):
        none = np.empty(0, np.int64)
        return Folded(kept, none, none, none, none, none, none, none, none)
    types = len(ops.ops.table)
    keys, which = np.unique(group * types + codes, return_inverse=True)
    return Folded(
        kept,
        start[firsts],
        np.maximum.reduceat(until, firsts),
        lane[firsts],
        keys // types,
        keys % types,
        np.bincount(which),
        _sum(which, spent[folded], len(keys)),
        _sum(which, ops.output_bytes[folded], len(keys)),
    )


def _sum(which: Ints, values: Ints, count: int) -> Ints:
    total = np.zeros(count, np.int64)
    np.add.at(total, which, values)
    return total


def _between_kept(
    ops: OpColumns, end: Ints, lanes: Ints, kept: Ints, lane: Ints, start: Ints
) -> Ints:
    """For each folded row a number that changes where a slice that stays begins or ends.

    A folded slice is shorter than those that stay, so it lies within one such stretch of its lane.
    """
    of_kept = lanes[kept].astype(np.int64)
    bounds = np.concatenate([ops.start_ns[kept], end[kept]])
    low = int(min(bounds.min(initial=0), start.min(initial=0)))
    width = int(max(bounds.max(initial=0), start.max(initial=0))) - low + 1
    if int(max(of_kept.max(initial=0), lane.max(initial=0)) + 1) * width < LONGEST_NS:
        # Lanes one after the other in time, so that one search serves them all.
        sorted_bounds = np.sort(np.tile(of_kept * width, 2) + (bounds - low))
        return np.searchsorted(sorted_bounds, lane * width + (start - low), side="right")
    number = np.zeros(len(start), np.int64)
    for one in np.unique(lane).tolist():
        stay = kept[of_kept == one]
        here = lane == one
        of_lane = np.sort(np.concatenate([ops.start_ns[stay], end[stay]]))
        number[here] = np.searchsorted(of_lane, start[here], side="right")
    return number


def _top_level(lane: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Whether a row, sorted by lane and in drawing order, lies within none of those before it."""
    if not len(start):
        return np.zeros(0, bool)
    # Lanes one after the other in time, so that one running maximum serves them all.
    low = int(start.min())
    width = int(end.max()) - low + 1
    if int(lane.max() + 1) * width < 1 << 62:
        shift = lane * width - low
        until = np.maximum.accumulate(end + shift)
        return np.append(True, (start + shift)[1:] >= until[:-1])
    top = np.ones(len(start), bool)
    for one in np.unique(lane).tolist():
        rows = np.flatnonzero(lane == one)
        until = np.maximum.accumulate(end[rows])
        top[rows[1:]] = start[rows][1:] >= until[:-1]
    return top


def bytes_of(folded: Folded, ops: OpColumns, slice_bytes: float) -> float:
    """About how long the text of a folded run is, and rather more than less."""
    lengths = np.array([len(op.encode(errors="replace")) for op in ops.ops.table] or [0])
    types = float((lengths[folded.op] + _TYPE_BYTES).sum())
    names = float(lengths[folded.op].sum())
    return len(folded.kept) * slice_bytes + len(folded.first) * _SLICE_BYTES + types + names


def folded_slices(
    folded: Folded, ops: OpColumns, places: list[str], run: str, base_ns: int, block: int
) -> Iterator[bytes]:
    """The slices that stand for groups of ops."""
    if not len(folded.first):
        return
    table = [escaped(op) for op in ops.ops.table]
    parts = interleave(
        (
            '"',
            [table[code] for code in folded.op.tolist()],
            '":{"calls":',
            int_texts(folded.calls),
            ',"total_us":',
            thousandth_texts(folded.spent),
            ',"bytes":',
            int_texts(folded.bytes),
            "}",
        ),
        len(folded.op),
    )
    width = len(parts) // len(folded.op)
    told = ["".join(parts[i : i + width]) for i in range(0, len(parts), width)]
    bounds = np.searchsorted(folded.group, np.arange(len(folded.first) + 1))
    calls = np.add.reduceat(folded.calls, bounds[:-1])
    name = escaped(run)
    for first in range(0, len(folded.first), block):
        rows = range(first, min(first + block, len(folded.first)))
        texts = []
        for row in rows:
            begin, stop = int(bounds[row]), int(bounds[row + 1])
            count = int(calls[row])
            what = table[int(folded.op[begin])] if stop - begin == 1 else "ops"
            # A single call keeps its type for a name; the word tells it from the op's own slice.
            label = f"{count:,} × {what}" if count > 1 else f"{what} (folded)"
            at, length = thousandth_texts(
                np.array([folded.first[row] - base_ns, folded.last[row] - folded.first[row]])
            )
            texts.append(
                f'{{"ph":"X","cat":"folded","name":"{label}{places[int(folded.lane[row])]}{at},'
                f'"dur":{length},"args":{{"run":"{name}","calls":{count},'
                f'"ops":{{{",".join(told[begin:stop])}}}}}}},\n'
            )
        yield "".join(texts).encode()
