"""What is shown of whatever is selected: an op, a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis.coverage.report import STATES
from stepscope.analysis.execution.timeline import CATEGORIES
from stepscope.analysis.intervals import highest_places
from stepscope.metadata import readable
from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.memory.out_of_memory import shape_text
from stepscope.metadata.wire.labels import parse_label
from stepscope.web.resources.asked import WrongParameterError
from stepscope.web.resources.covered import covered
from stepscope.web.resources.looked_at import LookedAt, looked_at
from stepscope.web.resources.search import nodes_of
from stepscope.web.resources.source_lines import lines_around

if TYPE_CHECKING:
    from stepscope.analysis.coverage.report import CoverageRow
    from stepscope.analysis.profile.node_times import NodeTimes
    from stepscope.metadata import RunMetadata
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["layer", "op"]

_COLUMNS: Final = 500
_MOST_INPUTS: Final = 100
_MOST_OPS: Final = 50


def op(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """All that is known of an execution: by its row, or of a node the longest one."""
    here = looked_at(recordings, asked)
    if len(here.runs) > 1:
        raise WrongParameterError("run must be one run here")
    row, place = _row(here, asked)
    return shown_op(here, row, place) if place >= 0 else _unmeasured(here, asked.text("name"))


def _row(here: LookedAt, asked: Asked) -> tuple[int, int]:
    """The row of an execution (-1: the node did not run), and its node among `nodes_of`."""
    nodes = nodes_of(here)
    ops = here.run.ops
    places: dict[int, int] = here.kept(
        "place of node", lambda: {node: place for place, node in enumerate(nodes.node)}
    )
    if asked.text("row"):
        row = asked.number("row")
        if not 0 <= row < len(ops):
            raise WrongParameterError(f"row must be 0 to {len(ops) - 1}; it was {row}")
        return row, places[int(ops.node[row])]
    name = asked.text("name")
    by_name: dict[str, int] = here.kept(
        "place of name", lambda: {n: p for p, n in reversed(list(enumerate(nodes.name)))}
    )
    if name not in by_name:
        return -1, -1
    place = by_name[name]
    return nodes.longest[place], place


def _unmeasured(here: LookedAt, name: str) -> dict[str, Any]:
    """What is known of a node without an execution: what became of it, and its line."""
    known = covered(here).coverage
    fate = next((r for r in known.rows if r.name == name), None) if known is not None else None
    outcome = next((op for op in here.run.status.outcomes if op.name == name), None)
    if fate is None and outcome is None:
        raise WrongParameterError(f"there is no op {name[:200]!r} in this run")
    line = here.run.sources.get(name, "")
    return {
        "name": name,
        "type": fate.op if fate is not None else "",
        "row": -1,
        "line": readable.place(line),
        "executions": 0,
        "self_ns": 0,
        "share": 0.0,
        "inputs": [],
        "outputs": [],
        "output_bytes": 0,
        "times": _times(here, name),
        "placement": _placement(here.run, name),
        "coverage": fate and _coverage(fate),
        "outcome": outcome,
        "on_path": False,
        "memory": None,
        "source": lines_around(line) if line else None,
    }


def shown_op(here: LookedAt, row: int, place: int) -> dict[str, Any]:
    """The panel of an execution; of a node of the record that did not run the row is -1."""
    run, ops = here.run, here.run.ops
    nodes = nodes_of(here)
    name, kind = nodes.name[place], nodes.type[place]
    known = covered(here).coverage
    fate = None
    if known is not None:
        fate = here.kept("fates", lambda: {r.name: r for r in known.rows}).get(name)
    path = here.path()
    on_path = path is not None and name in here.kept("path names", lambda: set(path.names))
    whole = max(1, sum(nodes.self_ns))
    facts = ops.facts
    label = str(facts.all_labels.values[nodes.node[place]])
    line = nodes.line[place]
    found: dict[str, Any] = {
        "name": name,
        "type": kind,
        "row": row,
        "layer": nodes.layer[place],
        "phase": nodes.phase[place],
        "line": readable.place(line),
        "label": label,
        "executions": nodes.calls[place],
        "self_ns": nodes.self_ns[place],
        "share": nodes.self_ns[place] / whole,
        "inputs": _inputs(here, nodes, parse_label(name, label)[1]),
        "times": _times(here, name),
        "placement": _placement(run, name),
        "coverage": fate and _coverage(fate),
        "outcome": next((op for op in run.status.outcomes if op.name == name), None),
        "on_path": on_path,
        "source": lines_around(line) if line else None,
        "outputs": [],
        "output_bytes": 0,
        "memory": None,
    }
    if row >= 0:
        found |= _execution(here, nodes, row)
    return found


def _coverage(fate: CoverageRow) -> dict[str, Any]:
    """What became of a node of the user's graph, in words."""
    return {
        "state": fate.state,
        "detail": fate.detail,
        "reason": fate.reason,
        "meaning": STATES.get(fate.state, ""),
    }


def _execution(here: LookedAt, nodes: NodeTimes, row: int) -> dict[str, Any]:
    ops, drawn = here.run.ops, here.timeline()
    base = drawn.base_ns
    start, end = int(ops.start_ns[row]), int(ops.end_ns[row])
    ready = int(ops.scheduled_ns[row])
    at = drawn.place_of(row)
    tensors = ops.tensors
    mine = np.flatnonzero(tensors.op_index == row).tolist()
    thread = int(ops.thread[row])
    return {
        "device": readable.device(ops.devices.table[ops.devices.codes[row]]),
        "thread": ops.thread_names.get(thread, "") or (f"thread {thread}" if thread else ""),
        "lane": int(drawn.lane[at]),
        "depth": int(drawn.depth[at]),
        "category": CATEGORIES[int(drawn.category[at])],
        "scheduled_ns": ready - base if ready else None,
        "start_ns": start - base,
        "end_ns": end - base,
        "ns": max(0, end - start),
        "own_ns": int(nodes.own[row]),
        "waited_ns": max(0, start - ready) if ready else 0,
        "outputs": [
            {
                "slot": int(tensors.slot[i]),
                "shape": "" if tensors.shape[i] is None else shape_text(tensors.shape[i]),
                "dtype": dtype_name(int(tensors.dtype[i])),
                "bytes": int(tensors.bytes[i]),
            }
            for i in mine
        ],
        "output_bytes": int(ops.output_bytes[row]),
        "memory": _memory(here.run, row),
    }


def _memory(run: RunMetadata, row: int) -> dict[str, int] | None:
    """What the kernel used beside its outputs, where that was recorded."""
    memory = run.ops.memory
    mine = np.flatnonzero(memory.op_index == row)
    if not len(mine):
        return None
    return {
        "total_bytes": int(memory.total_bytes[mine].sum()),
        "peak_bytes": int(memory.peak_bytes[mine].sum()),
        "live_bytes": int(memory.live_bytes[mine].sum()),
    }


def _inputs(here: LookedAt, nodes: NodeTimes, references: list[str]) -> list[dict[str, Any]]:
    from stepscope.analysis.execution.edges import input_node

    by_name: dict[str, int] = here.kept(
        "place of name", lambda: {n: p for p, n in reversed(list(enumerate(nodes.name)))}
    )
    ops = here.run.ops
    found = []
    for reference in references[:_MOST_INPUTS]:
        name = input_node(reference)
        place = by_name.get(name)
        row = nodes.longest[place] if place is not None else -1
        outputs = [] if row < 0 else np.flatnonzero(ops.tensors.op_index == row).tolist()
        slot = reference.rpartition(":")[2]
        wanted = int(slot) if slot.isdecimal() and name != reference else 0
        tensor = next((i for i in outputs if ops.tensors.slot[i] == wanted), None)
        shape = None if tensor is None else ops.tensors.shape[tensor]
        found.append(
            {
                "name": name,
                "control": reference.startswith("^"),
                "type": nodes.type[place] if place is not None else "",
                "row": row,
                "shape": "" if shape is None else shape_text(shape),
                "dtype": "" if tensor is None else dtype_name(int(ops.tensors.dtype[tensor])),
                "bytes": 0 if tensor is None else int(ops.tensors.bytes[tensor]),
            }
        )
    return found


def _times(here: LookedAt, name: str) -> dict[str, Any]:
    """The self time of a node in each run that has it."""
    rows = here.recordings.survey.rows
    if len(rows) < 2 or here.numbers[0] < 0:
        return {"runs": [], "ns": [], "median_ns": None, "p90_ns": None, "max_ns": None}
    found = here.recordings.survey.history.of(name)
    kept = highest_places(found.ns.astype(np.int64), _COLUMNS)
    some = len(found.ns) > 0
    return {
        "runs": found.run[kept],
        "ns": np.rint(found.ns[kept]).astype(np.int64),
        "median_ns": float(np.median(found.ns)) if some else None,
        "p90_ns": float(np.percentile(found.ns, 90)) if some else None,
        "max_ns": float(found.ns.max()) if some else None,
    }


def _placement(run: RunMetadata, name: str) -> dict[str, Any] | None:
    for placed in run.placements:
        if placed.node == name:
            return {
                "requested": readable.device(placed.requested),
                "assigned": readable.device(placed.assigned),
                "reason": placed.reason,
                "differs": bool(placed.requested) and placed.requested not in placed.assigned,
            }
    return None


def layer(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """A layer in one run, with the ops in it that took the most time."""
    here = looked_at(recordings, asked)
    name = asked.text("name")
    nodes = nodes_of(here)
    inside = [
        place
        for place, path in enumerate(nodes.layer)
        if path == name or path.startswith(f"{name}/")
    ]
    if not inside:
        raise WrongParameterError(f"there is no layer {name[:200]!r} in this run")
    by_phase: dict[str, int] = {}
    for place in inside:
        by_phase[nodes.phase[place]] = by_phase.get(nodes.phase[place], 0) + nodes.self_ns[place]
    spent = sum(nodes.self_ns[place] for place in inside)
    lines = [nodes.line[place] for place in inside if nodes.line[place]]
    return {
        "name": name,
        "calls": sum(nodes.calls[place] for place in inside),
        "self_ns": spent,
        "share": spent / max(1, sum(nodes.self_ns)),
        **{f"{phase}_ns": by_phase.get(phase, 0) for phase in ("forward", "backward", "optimizer")},
        "line": readable.place(lines[0]) if lines else "",
        "ops": [
            {"name": nodes.name[p], "type": nodes.type[p], "self_ns": nodes.self_ns[p]}
            for p in inside[:_MOST_OPS]
        ],
        "all": len(inside),
    }
