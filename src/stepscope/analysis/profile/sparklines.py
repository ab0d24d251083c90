"""How what a group of ops took developed over runs: what a sparkline draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analysis.intervals import highest_places, self_times, sums_at
from stepscope.analysis.profile.layers import layers_of
from stepscope.analysis.profile.op_profile import groups_by
from stepscope.analysis.runs import iter_named_runs
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.runs import Runs
    from stepscope.metadata import RunMetadata

__all__ = ["Sparklines", "sparklines"]


class Sparklines(NamedTuple):
    """Self time per key (rows) and run (columns).

    Of more runs than there are columns, each column is the longest of some; `run` says which.
    """

    run: NDArray[np.int64]
    ns: NDArray[np.int64]


def sparklines(runs: Runs, by: str, keys: Sequence[str], most: int) -> Sparklines:
    """The self time of these groups in each run; `by` is as in `op_profile`.

    A layer has all that is below it, as in `layer_profile`.
    """
    number = {key: i for i, key in enumerate(keys)}
    _, groups = groups_by(by)
    columns: list[NDArray[np.int64]] = []
    for run in iter_named_runs(runs):
        ops = run.metadata.ops
        own = self_times(ops.start_ns, ops.end_ns, ops.thread)
        if by == "layer":
            columns.append(_by_layer(run.metadata, own, number))
            continue
        key = groups(run.metadata)
        place = np.array([number.get(text, len(keys)) for text in key.table], np.int64)
        sums = sums_at(place[key.codes] if len(place) else place, own, len(keys) + 1)
        columns.append(sums[:-1])
    if not columns:
        return Sparklines(np.zeros(0, np.int64), np.zeros((len(keys), 0), np.int64))
    ns = np.stack(columns, axis=1)
    if ns.shape[1] <= most:
        return Sparklines(np.arange(ns.shape[1]), ns)
    longest = highest_places(ns.sum(axis=0), most)
    return Sparklines(longest, ns[:, longest])


def _by_layer(
    run: RunMetadata, own: NDArray[np.int64], number: dict[str, int]
) -> NDArray[np.int64]:
    keys = StringColumn.of([place.layer for place in layers_of(run)])
    sums = sums_at(keys.codes[run.ops.node].astype(np.int64), own, len(keys.table))
    found = np.zeros(len(number), np.int64)
    for path, ns in zip(keys.table, sums.tolist(), strict=True):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            place = number.get("/".join(parts[:depth]))
            if place is not None:
                found[place] += ns
    return found
