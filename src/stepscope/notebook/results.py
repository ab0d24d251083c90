"""How each analysis shows itself in a notebook: a table, and a plot where a look says more."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from stepscope.analysis.compare.diff import Diff, DiffRow
from stepscope.analysis.coverage.report import STATES, Coverage
from stepscope.analysis.execution.critical_path import CriticalPath
from stepscope.analysis.execution.parallelism import Parallelism
from stepscope.analysis.execution.placement import PlacementReport
from stepscope.analysis.memory.profile import MemoryProfile, MemoryRow, OutOfMemoryProfile
from stepscope.analysis.profile.op_profile import OpProfile
from stepscope.metadata.readable import device, number, size, time
from stepscope.notebook import markup

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["view"]

_LANES_SHOWN = 40


@singledispatch
def view(result: Any) -> str:
    """A result as HTML. Names in it are escaped."""
    raise TypeError(f"there is no view of {type(result).__name__}")


@view.register
def _(found: OpProfile) -> str:
    title = (
        f"{number(found.runs, 'run')}, {number(found.calls, 'op')}: {time(found.self_ns)} "
        f"of work in {time(found.covered_ns)}"
    )
    top = max((row.share for row in found.rows), default=0.0) or 1.0
    rows = [
        (
            row.key,
            f"{row.calls:,}",
            time(row.self_ns),
            f"{row.share:.1%}",
            markup.bar(row.share / top),
            time(row.covered_ns),
            time(row.mean_ns),
            time(row.max_ns),
            size(row.bytes),
        )
        for row in found.rows
    ]
    heads = (found.by, "calls", "self", "share", "", "busy", "mean", "longest", "output")
    return markup.section(title, markup.table(heads, rows, (1, 2, 3, 5, 6, 7, 8), "rows"))


@view.register
def _(found: MemoryProfile) -> str:
    parts = []
    for memory in found.devices:
        peak = f"peak {size(memory.peak_bytes)}"
        where = f", in {memory.run}" if found.runs > 1 else ""
        plot = ""
        if len(memory.time_ns) > 1:
            series = [("temporary", memory.live_bytes.tolist())]
            if memory.persistent_bytes.any():
                series.append(("variables, queues, feeds", memory.persistent_bytes.tolist()))
            length = time(int(memory.time_ns[-1] - memory.time_ns[0]))
            plot = markup.area(
                memory.time_ns.tolist(),
                series,
                f"live bytes of {memory.device}",
                size(memory.peak_bytes),
                length,
            )
        held = [row for row in found.rows if row.device == memory.device]
        parts.append(
            markup.section(
                f"{device(memory.device)}: {peak}{where}", plot, _holders(held, found.by)
            )
        )
    return markup.section(f"memory of {number(found.runs, 'run')}", *parts)


def _holders(rows: Sequence[MemoryRow], by: str) -> str:
    cells = [
        (row.key, f"{row.bytes:,}", f"{row.share:.1%}", markup.bar(row.share), row.kind, row.shapes,
         row.source)
        for row in rows
    ]  # fmt: skip
    heads = (by, "bytes", "share", "", "kind", "shapes", "made at")
    return markup.table(heads, cells, (1, 2), "holders")


@view.register
def _(found: OutOfMemoryProfile) -> str:
    request = found.request
    pairs = [
        ("asked by", f"{request.op} {request.source}".rstrip()),
        ("asked for", f"{size(request.bytes)} ({request.bytes:,} bytes) of {found.dtype}"),
        ("device", device(request.device)),
        ("limit", "the machine's own" if found.limit is None else f"{found.limit:,} bytes"),
        ("live", f"{found.live:,} bytes"),
    ]
    if found.advice:
        pairs.append(("advice", found.advice))
    plot = ""
    if len(found.time_ns) > 1:
        length = time(int(found.time_ns[-1] - found.time_ns[0]))
        live = found.live_bytes.tolist()
        plot = markup.area(
            found.time_ns.tolist(),
            [("live", live)],
            "live bytes up to the failure",
            size(max(live)),
            length,
        )
    return markup.section(
        f"out of memory: {found.run}", markup.facts(pairs), plot, _holders(found.rows, "op")
    )


@view.register
def _(found: CriticalPath) -> str:
    kinds = sorted(found.by_kind.items(), key=lambda item: -item[1])
    whole = found.length_ns or 1
    rows = [
        (part.name, part.op, part.kind, time(part.ns), markup.bar(part.ns / whole),
         device(part.device), part.blocked_by)
        for part in found.rows
    ]  # fmt: skip
    heads = ("op", "type", "part", "time", "", "device", "behind")
    saved = [(s.name, s.op, time(s.path_ns), time(s.saved_ns)) for s in found.savings]
    savings = markup.section(
        "if an op were 10% faster",
        markup.table(("op", "type", "on the path", "the run is shorter by"), saved, (2, 3), "ops"),
    )
    return markup.section(
        f"critical path of {time(found.length_ns)}",
        markup.strip(kinds) if kinds else "",
        markup.table(heads, rows, (3,), "parts"),
        savings if saved else "",
    )


@view.register
def _(found: Parallelism) -> str:
    shown = found.rows[:_LANES_SHOWN]
    plot = markup.lanes([(device(lane.name), lane.busy) for lane in shown], "busy lanes over time")
    rows = [
        (device(lane.name), lane.kind, f"{lane.ops:,}", f"{lane.fraction:.1%}", time(lane.busy_ns),
         time(lane.idle_waiting_ns), time(lane.idle_nothing_ns))
        for lane in found.rows
    ]  # fmt: skip
    heads = ("lane", "kind", "ops", "busy", "time", "held up", "nothing to do")
    title = f"{found.average:.2f} ops at once over {time(found.length_ns)}"
    return markup.section(
        title, plot if shown else "", markup.table(heads, rows, (2, 3, 4, 5, 6), "lanes")
    )


@view.register
def _(found: PlacementReport) -> str:
    rows = [
        (
            row.name,
            row.op,
            device(row.assigned),
            device(row.requested) or "-",
            row.reason,
            f"{row.calls:,}",
        )
        for row in found.rows
    ]
    heads = ("op", "type", "device", "asked for", "why", "calls")
    moved = [
        (t.tensor, device(t.source), device(t.target), f"{t.calls:,}", size(t.bytes), time(t.ns))
        for t in found.transfers
    ]
    transfers = markup.section(
        "moved between devices",
        markup.table(
            ("tensor", "from", "to", "calls", "bytes", "time"), moved, (3, 4, 5), "tensors"
        ),
    )
    return markup.section(
        f"{number(len(found.different), 'op')} not where asked for",
        markup.strip([(device(name), count) for name, count in found.devices.items()]),
        markup.table(heads, rows, (5,), "ops"),
        transfers if moved else "",
    )


@view.register
def _(found: Coverage) -> str:
    counts = [(state, f"{count:,}", STATES[state]) for state, count in found.counts().items()]
    rows = [
        (row.name, row.op, row.reason, f"{row.executions:,}", time(row.total_ns), row.function)
        for row in found.rows
    ]
    heads = ("node", "type", "fate", "calls", "time", "function")
    return markup.section(
        number(len(found.rows), "node"),
        markup.table(("fate", "nodes", ""), counts, (1,)),
        markup.table(heads, rows, (3, 4), "nodes"),
    )


@view.register
def _(found: Diff) -> str:
    every = [found.total, *found.memory, *found.rows]
    rows = [
        (_named(row), row.op, _amount(row, row.base), _amount(row, row.new), f"{row.change:+.1%}",
         f"{row.low:+.1%} to {row.high:+.1%}", f"{row.p:.2g}",
         "significant" if row.significant else "")
        for row in every
    ]  # fmt: skip
    heads = ("", "type", "base", "new", "change", "interval", "p", "")
    pairs = [
        (title, ", ".join(names))
        for title, names in (("new", found.appeared), ("gone", found.gone))
        if names
    ]
    pairs += [("note", note) for note in found.notes]
    return markup.section(
        f"{number(found.base_runs, 'run')} against {found.new_runs:,}",
        markup.table(heads, rows, (2, 3, 4, 6), "ops"),
        markup.facts(pairs) if pairs else "",
    )


def _named(row: DiffRow) -> str:
    what, of, name = row.name.partition("peak of ")
    return f"{of}{device(name)}" if of and not what else row.name


def _amount(row: DiffRow, value: float) -> str:
    return time(value) if row.metric == "time" else size(round(value))
