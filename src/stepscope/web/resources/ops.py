"""The page Ops: what took the time, as `stepscope top` sums it up, and as an icicle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from stepscope.analysis import layer_profile, op_profile
from stepscope.analysis.profile.icicle import Of
from stepscope.analysis.profile.icicle import icicle as icicle_of
from stepscope.analysis.profile.sparklines import sparklines
from stepscope.metadata.strings import StringColumn
from stepscope.web.resources.asked import WrongParameterError
from stepscope.web.resources.columns import columns_of

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["icicle", "ops"]

BY: Final = ("type", "name", "layer", "line", "file", "function", "device", "thread")
_MOST_ROWS: Final = 2_000
_SPARK_ROWS: Final = 200
_SPARK_COLUMNS: Final = 100


def _run(asked: Asked) -> int | None:
    run = asked.run()
    if run == "step":
        raise WrongParameterError("run must be a number here, or all")
    return None if run in (None, "all") else cast("int", run)


def ops(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """The rows of `stepscope top`, largest first, with how each developed over the runs."""
    by, run = asked.choice("by", BY), _run(asked)
    return recordings.kept(("ops", by, run), lambda: _ops(recordings, by, run))


def _ops(recordings: Recordings, by: str, run: int | None) -> dict[str, Any]:
    if by == "layer":
        tree = layer_profile(recordings.only(run))
        found: Any = tree
        largest = sorted(tree.rows, key=lambda row: -row.self_ns)[:_MOST_ROWS]
        kept = {row.key for row in largest}
        rows = [row for row in tree.rows if row.key in kept]
        rest = [row for row in tree.rows if row.key not in kept and row.depth == 0]
    else:
        found = op_profile(recordings.only(run), by)
        rows, rest = list(found.rows[:_MOST_ROWS]), list(found.rows[_MOST_ROWS:])
    value: dict[str, Any] = {
        "by": by,
        "runs": found.runs,
        "calls": found.calls,
        "total_ns": found.total_ns,
        "self_ns": found.self_ns,
        "covered_ns": found.covered_ns,
        "not_ok": [{"status": status, "runs": n} for status, n in found.not_ok.items()],
        "rows": columns_of(rows),
        "rest": {
            "rows": len(rest),
            "calls": sum(row.calls for row in rest),
            "self_ns": sum(row.self_ns for row in rest),
            "total_ns": sum(row.total_ns for row in rest),
            "bytes": sum(row.bytes for row in rest),
        },
        "folded": [],
    }
    if rest:
        value["folded"].append(
            f"{len(rows) + len(rest):,} rows, of which the {len(rows):,} largest are here; the "
            "others are one row"
        )
    if run is None and found.runs > 1:
        keys = [row.key for row in rows[:_SPARK_ROWS]]
        numbers = [row.number for row in recordings.survey.rows]
        lines = sparklines(recordings.each(), by, keys, _SPARK_COLUMNS)
        value["spark"] = {
            "rows": len(keys),
            "runs": np.array([numbers[i] for i in lines.run.tolist()], np.int64),
            "ns": lines.ns.astype(np.float32),
        }
    return value


def icicle(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """Scopes or files, each with what is inside of it."""
    of, by = asked.choice("of", ("scope", "file")), asked.choice("by", ("time", "bytes"))
    run = _run(asked)
    found = recordings.kept(
        ("icicle", of, run), lambda: icicle_of(recordings.only(run), cast("Of", of))
    )
    place = 0 if by == "time" else 1
    nodes = found.nodes
    folded = f"{found.folded:,} small parts are summed up as others" if found.folded else ""
    return {
        "names": [node.name for node in nodes],
        "parent": np.array([node.parent for node in nodes], np.int32),
        "value": np.array([node.values[place] for node in nodes]),
        "own": np.array([node.own[place] for node in nodes]),
        "calls": np.array([node.calls for node in nodes], np.int64),
        "type": StringColumn.of([node.type for node in nodes]),
        "unit": "ns" if by == "time" else "bytes",
        "folded": [folded] if folded else [],
    }
