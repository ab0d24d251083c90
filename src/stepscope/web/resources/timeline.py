"""The page Timeline: lanes and marks of a run, tiles of its executions, what lies in a stretch."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis.cluster.messages import traffic
from stepscope.analysis.execution.timeline import CATEGORIES, COLUMNS
from stepscope.analysis.memory.tensor_lives import tensor_lives
from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.run_length import run_span
from stepscope.analysis.runs import NamedRun
from stepscope.metadata import readable
from stepscope.metadata.strings import StringColumn
from stepscope.web.resources.asked import WrongParameterError
from stepscope.web.resources.looked_at import MOST_FOR_PATH, LookedAt, looked_at
from stepscope.web.resources.shortened import shortened

if TYPE_CHECKING:
    from stepscope.analysis import CriticalPath
    from stepscope.analysis.execution.timeline import Tile, TimelineRows
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["between", "edges", "tile", "timeline"]

_MOST_MARKS: Final = 2_000
_MOST_TRANSFERS: Final = 2_000
_STRIP: Final = 512
_MEMORY_POINTS: Final = 1_000
_MOST_PATH: Final = 5_000
_MOST_EDGES: Final = 200


def timeline(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """What is drawn whatever is looked at: lanes, marks, the critical path, memory."""
    here = looked_at(recordings, asked)
    found: dict[str, Any] = here.kept("timeline resource", lambda: _timeline(here))
    return found


def _timeline(here: LookedAt) -> dict[str, Any]:
    drawn = here.timeline()
    strip = drawn.strip(_STRIP)
    folded = []
    if here.left_out:
        folded.append(f"{readable.number(here.left_out, 'later run')} cannot be drawn beside them")
    path = here.path()
    if path is None and len(here.runs) == 1 and len(drawn):
        folded.append(
            f"no critical path: the run has more than {MOST_FOR_PATH:,} executions; "
            "`stepscope path` finds it"
        )
    number = here.numbers[0] if len(here.numbers) == 1 else None
    return {
        "run": number if number is not None and number >= 0 else here.key,
        "name": here.name,
        "kind": RunKinds().of(NamedRun(here.name, here.run)) if number is not None else "",
        "base_ns": str(drawn.base_ns),
        "from_ns": 0,
        "to_ns": drawn.to_ns,
        "ops": len(drawn),
        "lanes": [
            {
                "id": place,
                "device": readable.device(lane.device),
                "group": readable.device(lane.device),
                "name": lane.name,
                "thread": lane.thread,
                "rows": lane.rows,
                "kind": lane.kind,
                "busy_ns": lane.busy_ns,
            }
            for place, lane in enumerate(drawn.lanes)
        ],
        "types": list(drawn.types),
        "layers": list(drawn.layers),
        "categories": list(CATEGORIES),
        "marks": _marks(here, drawn),
        "path": None if path is None else _path(drawn, path),
        "memory": _memory(here, drawn),
        "overview": {
            "columns": _STRIP,
            "busy": strip.busy.astype(np.float32),
            "type": strip.type,
        },
        "transfers": _transfers(here, drawn),
        "tile_columns": COLUMNS,
        "max_level": drawn.max_level,
        "folded": folded,
    }


def _marks(here: LookedAt, drawn: TimelineRows) -> dict[str, Any]:
    marks: list[tuple[str, float, float, str, int]] = []
    for number, run in zip(here.numbers, here.runs, strict=True):
        began, ended = run_span(run)
        label = f"run {number}" if number >= 0 else here.name
        marks.append((label, began - drawn.base_ns, ended - drawn.base_ns, "run", number))
        if not run.status.ok and len(run.ops):
            at = float(run.ops.end_ns.max() - drawn.base_ns)
            marks.append((run.status.in_words, at, at, "failure", number))
        refused = run.out_of_memory
        if refused is not None and refused.request.time_ns:
            at = float(refused.request.time_ns - drawn.base_ns)
            marks.append(("out of memory", at, at, "oom", number))
    if len(here.runs) == 1:
        marks += _steps(here, drawn)
    if len(marks) > _MOST_MARKS:
        marks = sorted(marks, key=lambda mark: mark[1] - mark[2])[:_MOST_MARKS]
        marks.sort(key=lambda mark: mark[1])
    return {
        "label": [mark[0] for mark in marks],
        "from_ns": np.array([mark[1] for mark in marks], np.float64),
        "to_ns": np.array([mark[2] for mark in marks], np.float64),
        "kind": StringColumn.of([mark[3] for mark in marks]),
        "run": np.array([mark[4] for mark in marks], np.int32),
    }


def _steps(here: LookedAt, drawn: TimelineRows) -> list[tuple[str, float, float, str, int]]:
    """The steps inside a run, where it has several."""
    ops = here.run.ops
    steps, place = np.unique(ops.step, return_inverse=True)
    if not 1 < len(steps) <= _MOST_MARKS:
        return []
    first = np.full(len(steps), np.iinfo(np.int64).max)
    last = np.full(len(steps), np.iinfo(np.int64).min)
    np.minimum.at(first, place, ops.start_ns)
    np.maximum.at(last, place, ops.end_ns)
    each = zip(steps.tolist(), first.tolist(), last.tolist(), strict=True)
    base = drawn.base_ns
    return [(f"step {s}", float(a - base), float(b - base), "step", here.numbers[0])
            for s, a, b in each]  # fmt: skip


def _path(drawn: TimelineRows, path: CriticalPath) -> dict[str, Any]:
    """The parts of the path, each with the execution that it is of, where that is found."""
    rows: dict[str, list[int]] = defaultdict(list)
    wanted = {part.name for part in path.rows}
    for place, code in enumerate(drawn.names.codes.tolist()):
        name = drawn.names.table[code]
        if name in wanted:
            rows[name].append(place)
    parts = path.rows
    folded = []
    if len(parts) > _MOST_PATH:
        longest = sorted(parts, key=lambda part: -part.ns)[:_MOST_PATH]
        parts = tuple(sorted(longest, key=lambda part: part.start_ns))
        folded = [f"of the {len(path.rows):,} parts of the path the {_MOST_PATH:,} longest"]
    places = [_execution(drawn, rows[part.name], part.end_ns - drawn.base_ns) for part in parts]
    return {
        "length_ns": path.length_ns,
        "by_kind": path.by_kind,
        "lane": np.array([drawn.lane[p] if p >= 0 else -1 for p in places], np.int32),
        "row": np.array([drawn.row[p] if p >= 0 else -1 for p in places], np.int32),
        "from_ns": np.array([part.start_ns - drawn.base_ns for part in parts], np.float64),
        "to_ns": np.array([part.end_ns - drawn.base_ns for part in parts], np.float64),
        "kind": StringColumn.of([part.kind for part in parts]),
        "name": StringColumn.of([part.name for part in parts]),
        "blocked_by": StringColumn.of([part.blocked_by for part in parts]),
        "savings": list(path.savings),
        "folded": folded,
    }


def _execution(drawn: TimelineRows, places: list[int], end: int) -> int:
    """The execution of a node that a part of the path is of: the first that ends after it."""
    after = [place for place in places if drawn.end[place] >= end]
    if after:
        return min(after, key=lambda place: int(drawn.end[place]))
    return places[-1] if places else -1


def _memory(here: LookedAt, drawn: TimelineRows) -> dict[str, Any] | None:
    if len(here.runs) > 1:
        return None
    peaks = here.run.device_peaks()
    if not any(peaks.values()) or not len(here.run.allocations):
        return None
    device = max(peaks, key=lambda name: peaks[name])
    lives = here.kept(("lives", device), lambda: tensor_lives(here.run, device))
    at = lives.thinned(_MEMORY_POINTS)
    shift = lives.base_ns - drawn.base_ns
    return {
        "device": readable.device(device),
        "ns": lives.moment[at] + shift,
        "bytes": lives.live[at],
        "peak_bytes": peaks[device],
        "peak_ns": float(lives.moment[lives.peak] + shift) if lives.peak >= 0 else None,
    }


def _transfers(here: LookedAt, drawn: TimelineRows) -> dict[str, Any] | None:
    """What moved between tasks, as arrows from lane to lane."""
    if len(here.runs) > 1 or len({lane.device for lane in drawn.lanes}) < 2:
        return None
    found = [m for m in traffic(here.run.ops).messages if m.producer >= 0]
    found.sort(key=lambda message: message.sent_ns - message.received_ns)
    found = found[:_MOST_TRANSFERS]
    lane_of = np.zeros(len(here.run.ops), np.int32)
    lane_of[drawn.row] = drawn.lane
    return {
        "from_lane": lane_of[[m.producer for m in found]] if found else lane_of[:0],
        "to_lane": lane_of[[m.receive for m in found]] if found else lane_of[:0],
        "from_row": np.array([m.producer for m in found], np.int64),
        "to_row": np.array([m.receive for m in found], np.int64),
        "from_ns": np.array([m.sent_ns - drawn.base_ns for m in found], np.float64),
        "to_ns": np.array([m.received_ns - drawn.base_ns for m in found], np.float64),
        "bytes": np.array([m.bytes for m in found], np.int64),
        "name": StringColumn.of([m.tensor for m in found]),
    }


def tile(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """Executions of a stretch of time: boxes, and densities where they are thin."""
    here = looked_at(recordings, asked)
    level, index = asked.number("level", 0), asked.number("index", 0)
    try:
        here.timeline().span_of(level, index)
    except ValueError as error:
        raise WrongParameterError(str(error)) from None
    found: dict[str, Any] = here.kept(
        ("tile", level, index), lambda: shaped(here.timeline().tile(level, index), here)
    )
    return found


def shaped(found: Tile, here: LookedAt) -> dict[str, Any]:
    """A tile as it is sent."""
    boxes = found.boxes
    names = boxes.name.compact()
    value: dict[str, Any] = {
        "level": found.level,
        "index": found.index,
        "from_ns": found.from_ns,
        "to_ns": found.to_ns,
        "whole": found.whole,
        "columns": found.columns,
        "boxes": {
            "lane": boxes.lane,
            "depth": boxes.depth,
            "start": boxes.start.astype(np.int64),
            "ns": boxes.ns.astype(np.int64),
            "type": boxes.type.astype(np.uint16),
            "category": boxes.category,
            "layer": boxes.layer.astype(np.uint16),
            "node": names.codes.astype(np.uint32),
            "row": boxes.row.astype(np.uint32),
            "cut": boxes.cut,
        },
        "names": [shortened(name) for name in names.table],
        "density": {
            "lane": found.density.lane.astype(np.uint16),
            "column": found.density.column.astype(np.uint16),
            "busy": found.density.busy,
            "type": found.density.type.astype(np.uint16),
            "category": found.density.category.astype(np.uint8),
            "count": found.density.calls.astype(np.uint32),
        },
    }
    if len(here.runs) > 1:
        numbers = np.array(here.numbers, np.int64)
        value["boxes"]["run"] = numbers[boxes.run]
    return value


def between(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """What ran in a stretch of time, summed by type of op."""
    here = looked_at(recordings, asked)
    drawn = here.timeline()
    start = max(0, int(asked.time("from", 0.0)))
    end = min(drawn.to_ns, int(asked.time("to", float(drawn.to_ns))))
    if end <= start:
        raise WrongParameterError(f"to must be after from; they were {end} and {start}")
    rows = drawn.sums(start, end)
    return {
        "by": "type",
        "from_ns": start,
        "ns": end - start,
        "ops": sum(row.calls for row in rows),
        "self_ns": sum(row.self_ns for row in rows),
        "rows": [row._asdict() for row in rows],
    }


def edges(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """What an execution waited for, and what waited for it."""
    here = looked_at(recordings, asked)
    row = asked.number("row")
    found, drawn = here.edges(), here.timeline()
    if found is None:
        return {"inputs": [], "outputs": [], "folded": [
            f"no arrows: the run has more than {MOST_FOR_PATH:,} executions"]}  # fmt: skip
    if not 0 <= row < len(found.before):
        raise WrongParameterError(f"row must be 0 to {len(found.before) - 1}; it was {row}")
    place = here.kept("places", lambda: np.argsort(drawn.row, kind="stable"))

    def ends(rows: list[int]) -> list[dict[str, Any]]:
        places = [int(place[r]) for r in rows[:_MOST_EDGES]]
        return [
            {
                "row": int(drawn.row[p]),
                "name": drawn.names.table[drawn.names.codes[p]],
                "lane": int(drawn.lane[p]),
                "depth": int(drawn.depth[p]),
                "from_ns": int(drawn.start[p]),
                "to_ns": int(drawn.end[p]),
            }
            for p in places
        ]

    after = here.kept("after", lambda: _after(found.before))
    return {"inputs": ends(found.before[row]), "outputs": ends(after.get(row, []))}


def _after(before: list[list[int]]) -> dict[int, list[int]]:
    after: dict[int, list[int]] = defaultdict(list)
    for row, inputs in enumerate(before):
        for other in inputs:
            after[other].append(row)
    return after
