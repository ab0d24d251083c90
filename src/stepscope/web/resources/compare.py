"""The page Compare: two sets of runs, with the statistics of `stepscope diff`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis import diff, memory_profile
from stepscope.analysis.compare.diff_words import in_words
from stepscope.analysis.profile.icicle import diff_icicle
from stepscope.web.resources.asked import CannotAnswerError, WrongParameterError
from stepscope.web.resources.columns import columns_of

if TYPE_CHECKING:
    from stepscope.analysis import Diff
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["compare"]

_MOST_ROWS: Final = 2_000
_MOST_OWNERS: Final = 50
_FOR_MEMORY: Final = 200


def compare(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """What became slower or larger from one set to another."""
    sets = len(recordings.source.labels)
    if sets < 2:
        raise CannotAnswerError(
            "there is one set of runs", "give two paths to compare them: stepscope view BASE NEW"
        )
    base, new = asked.number("base", 0), asked.number("new", 1)
    by = asked.choice("by", ("name", "type"))
    for name, number in (("base", base), ("new", new)):
        if not 0 <= number < sets:
            raise WrongParameterError(f"{name} must be 0 to {sets - 1}; it was {number}")
    found: dict[str, Any] = recordings.kept(
        ("compare", f"{base} {new} {by}"), lambda: _compare(recordings, base, new, by)
    )
    return found


def _compare(recordings: Recordings, base: int, new: int, by: str) -> dict[str, Any]:
    sides = [[run.metadata for run in recordings.each(of_set)] for of_set in (base, new)]
    for side, of_set in zip(sides, (base, new), strict=True):
        if not side:
            label = recordings.source.labels[of_set]
            raise CannotAnswerError(f"there is no run in {label}")
    found = diff(*sides, by="op" if by == "type" else "name")
    tree = diff_icicle(found)
    rows = sorted(found.rows, key=lambda row: (not row.significant, -abs(row.new - row.base)))
    value: dict[str, Any] = {
        **{name: getattr(found, name) for name in ("base_runs", "new_runs", "level", "least")},
        "by": by,
        "labels": [recordings.source.labels[base], recordings.source.labels[new]],
        "rows": columns_of(rows[:_MOST_ROWS]),
        "total": found.total,
        "memory": list(found.memory),
        "appeared": _named(found.appeared),
        "gone": _named(found.gone),
        "notes": list(found.notes),
        "left_out": {
            "base": [{"status": s, "runs": n} for s, n in found.base_left_out.items()],
            "new": [{"status": s, "runs": n} for s, n in found.new_left_out.items()],
        },
        "sentences": _sentences(found),
        "icicle": {
            "names": [node.name for node in tree.nodes],
            "parent": np.array([node.parent for node in tree.nodes], np.int32),
            "base": np.array([node.values[0] for node in tree.nodes]),
            "new": np.array([node.values[1] for node in tree.nodes]),
        },
        "owners": _owners(sides),
        "folded": [],
    }
    if len(rows) > _MOST_ROWS:
        value["folded"].append(
            f"{len(rows):,} ops, of which the {_MOST_ROWS:,} that changed most are here"
        )
    if tree.folded:
        value["folded"].append(f"{tree.folded:,} small parts are summed up as others")
    return value


def _sentences(found: Diff) -> list[str]:
    return [in_words(row) for row in (found.total, *found.memory)]


def _named(values: dict[str, float]) -> dict[str, Any]:
    items = sorted(values.items(), key=lambda item: -item[1])[:_MOST_ROWS]
    return {"name": [name for name, _ in items], "ns": np.array([ns for _, ns in items])}


def _owners(sides: list[list[Any]]) -> list[dict[str, Any]]:
    """Who held the peaks, on both sides."""
    held: list[Counter[tuple[str, str]]] = []
    for side in sides:
        profile = memory_profile(side[:_FOR_MEMORY])
        top = profile.devices[0].device if profile.devices else ""
        held.append(
            Counter({(row.key, row.kind): row.bytes for row in profile.rows if row.device == top})
        )
    keys = sorted(
        {*held[0], *held[1]},
        key=lambda key: (-abs(held[1][key] - held[0][key]), -held[0][key], key),
    )
    return [
        {"key": key[0], "kind": key[1], "base_bytes": held[0][key], "new_bytes": held[1][key]}
        for key in keys[:_MOST_OWNERS]
    ]
