"""How a run shows itself in a notebook: what it was, and which op types took its time."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.metadata import readable
from stepscope.notebook import markup

__all__ = ["run_html"]

_TYPES_SHOWN = 8
_DEVICES_SHOWN = 50


def run_html(metadata: Any) -> str:
    """A short table of facts, and a bar per op type."""
    ops = metadata.ops
    status = metadata.status
    length = int(ops.end_ns.max() - ops.start_ns.min()) if len(ops) else 0
    pairs = [
        ("status", ": ".join(filter(None, (status.in_words, _how(metadata))))),
        ("engine", metadata.engine or "not said"),
        ("ops", f"{len(ops):,} executions within {readable.time(length)}"),
    ]
    if status.in_flight:
        pairs.append(("in flight", ", ".join(status.in_flight)))
    peaks = metadata.device_peaks()
    for device, peak in list(peaks.items())[:_DEVICES_SHOWN]:
        short = readable.device(device)
        pairs.append(("device", f"{short}, peak {readable.size(peak)}" if peak else short))
    if len(peaks) > _DEVICES_SHOWN:
        pairs.append(("device", f"and {len(peaks) - _DEVICES_SHOWN:,} more"))
    if metadata.overhead.ns:
        spent = metadata.overhead
        pairs.append(("overhead", readable.cost(spent.ns, spent.fraction)))
    pairs += [
        ("not measured", f"{f'{loss.count:,} ' if loss.count else ''}{loss.what}: {loss.reason}")
        for loss in metadata.completeness.losses
    ]
    return markup.section("RunMetadata", markup.facts(pairs), _by_type(ops) if len(ops) else "")


def _how(metadata: Any) -> str:
    """What an error's message says; of a long report on memory only what was asked for."""
    report = metadata.out_of_memory
    if report is None:
        return "\n".join(readable.first_lines(metadata.status.message))
    asked, where = readable.size(report.request.bytes), readable.device(report.request.device)
    return (
        f"{report.request.op} asked for {asked} on {where}; "
        "stepscope.analysis.oom(metadata) says who has it"
    )


def _by_type(ops: Any) -> str:
    spent = np.maximum(ops.end_ns - ops.start_ns, 0)
    count = len(ops.ops.table)
    times = np.bincount(ops.ops.codes, weights=spent, minlength=count)
    calls = np.bincount(ops.ops.codes, minlength=count)
    whole, longest = float(times.sum()) or 1.0, float(times.max()) or 1.0
    order = [i for i in np.argsort(-times, kind="stable").tolist() if calls[i]]
    rows = [
        (
            ops.ops.table[i],
            f"{calls[i]:,}",
            readable.time(float(times[i])),
            f"{times[i] / whole:.1%}",
            markup.bar(times[i] / longest),
        )
        for i in order[:_TYPES_SHOWN]
    ]
    rest = order[_TYPES_SHOWN:]
    if rest:
        other = float(times[rest].sum())
        rows.append(
            (
                f"{len(rest):,} more",
                f"{int(calls[rest].sum()):,}",
                readable.time(other),
                f"{other / whole:.1%}",
                markup.bar(other / longest, markup.COLOURS[-1]),
            )
        )
    return markup.table(("op", "calls", "time", "share", ""), rows, right=(1, 2, 3))
