"""The page Overview: how it went, what limits it, where the time and the memory went."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis import account, layer_profile, memory_profile, op_profile
from stepscope.analysis.advice import BYTES, AdviceSums, program_at
from stepscope.analysis.intervals import highest_places
from stepscope.analysis.memory.tensor_lives import tensor_lives
from stepscope.analysis.profile.layers import layer_lines
from stepscope.analysis.program import verdict_words
from stepscope.analysis.program.account import STEPS
from stepscope.errors import StepscopeError
from stepscope.metadata import readable
from stepscope.metadata.readable import number, time, writable
from stepscope.web.resources.session import typical

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis import Account, StepRow
    from stepscope.analysis.advice import Finding
    from stepscope.analysis.program.verdict import StepVerdict
    from stepscope.metadata import InFlight, RunMetadata
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked
    from stepscope.web.survey import LossRow, RunRow, Survey

__all__ = ["overview"]

_COLUMNS: Final = 2_000
_TOP: Final = 10
_CURVE: Final = 300
_ADVICE: Final = 3
_MOST_TO_ADVISE: Final = 20_000
"""Of runs with more executions the page has no advice: `stepscope advise` takes its time."""
_MOST_TO_RANK: Final = 2_000_000
"""Of runs with more executions the page does not name the slowest ops; the page Ops has them."""
_LABELS: Final = {
    "computing": "computing",
    "python_ops": "Python in ops",
    "transfers": "transfers",
    "input": "waiting for input",
    "threads": "waiting for a thread",
    "calling": "calling the engine",
    "nothing": "nothing",
}


def overview(recordings: Recordings, _asked: Asked) -> dict[str, Any]:
    """What a person wants to know first."""
    found: dict[str, Any] = recordings.kept("overview", lambda: _overview(recordings))
    return found


def _overview(recordings: Recordings) -> dict[str, Any]:
    survey = recordings.survey
    said = verdict_words.worth_saying(survey.verdict)
    spent = _spent(recordings)
    whole = sum(row.ns for row in survey.rows)
    cost = survey.overhead_ns
    fraction = cost / max(1, whole - cost)
    # A run that failed before its first op has no length to compare with.
    ran = any(row.ops for row in survey.rows)
    return {
        "failure": _failure(recordings),
        "verdict": [_verdict(row) for row in said],
        "besides": [
            *(f"between steps: {words}" for words in verdict_words.between_steps(survey.verdict)),
            *(f"memory grows: {words}" for words in verdict_words.leaks(survey.verdict)),
        ],
        "spent": "" if spent is None else verdict_words.spent(spent),
        "account": [] if spent is None else [row for row in spent.rows if row.ns],
        "advice": _advice(recordings),
        "bar": _bar(recordings, said),
        "steps": {"rows": [_steps(recordings, row.step) for row in survey.verdict.rows]},
        "top": _top(recordings),
        "slowest": _slowest(recordings),
        "memory": _memory(recordings),
        "losses": _losses(survey),
        "complete": not survey.losses,
        "damage": survey.damage,
        "cost": {
            "ns": cost,
            "fraction": fraction,
            "text": "" if not cost else readable.cost(cost, fraction) if ran else time(cost),
        },
    }


def _losses(survey: Survey) -> list[dict[str, Any]]:
    """What runs lack, each once: reasons that name a figure of the run are one for each run."""
    alike: dict[str, list[LossRow]] = {}
    for row in survey.losses:
        alike.setdefault(row.what, []).append(row)
    return [
        {
            "what": what,
            "count": sum(row.lost for row in rows),
            "runs": sum(row.runs for row in rows),
            "reason": rows[0].reason
            + (f" (of other runs: {number(len(rows) - 1, 'more reason')})" * (len(rows) > 1)),
        }
        for what, rows in alike.items()
    ]


def _failure(recordings: Recordings) -> dict[str, Any] | None:
    """The first of the runs that failed, and how many did."""
    failed = [row for row in recordings.survey.rows if not row.ok]
    if not failed:
        return None
    first = next((row for row in failed if row.out_of_memory), failed[0])
    metadata = recordings.one(first.number)
    status = metadata.status
    refused = metadata.out_of_memory
    return {
        "run": first.number,
        "name": first.name,
        "code": status.in_words,
        "message": "\n".join(
            readable.first_lines("\n".join(readable.telling_lines(status.message)), 6)
        ),
        "in_flight": [_in_flight(metadata, op) for op in status.outcomes],
        "failed_runs": len(failed),
        "oom": refused
        and {
            "request_bytes": refused.request.bytes,
            "op": refused.request.op,
            "device": readable.device(refused.request.device),
            "limit": refused.limit,
            "live": refused.live,
            "advice": refused.advice,
        },
    }


def _in_flight(run: RunMetadata, op: InFlight) -> dict[str, Any]:
    """An op that was running when the run ended: what the graph calls it, and where it was made.

    The error of a function names it as the function has it, without the call that ran it.
    """
    within = "/" + op.name
    node = next((name for name in run.sources if name.endswith(within)), op.name)
    if op.name in run.sources:
        node = op.name
    line = readable.place(run.sources.get(node, ""))
    return {**asdict(op), "node": node, "line": line}


def _verdict(row: StepVerdict) -> dict[str, Any]:
    step = row.step
    once = not step.rest
    ns = step.first_ns if once else step.median_ns
    return {
        "key": step.key,
        "figure_ns": ns,
        "figure": f"{readable.time(ns)}, once" if once else f"{readable.time(ns)} a step",
        "length": verdict_words.length(row),
        "cause": verdict_words.cause(row),
        "runs": step.runs,
        "limits": list(row.limits),
    }


def _spent(recordings: Recordings) -> Account | None:
    """Where the wall clock of the program went; None where the record is of runs alone."""
    paths = recordings.source.paths
    if len(paths) != 1:
        return None
    try:
        return account(paths[0])
    except StepscopeError:
        return None


def _advice(recordings: Recordings) -> list[dict[str, Any]]:
    """What to change, the best first; nothing of several sets, which are not one program."""
    rows = recordings.survey.rows
    if len({row.set for row in rows}) > 1 or max(row.ops for row in rows) > _MOST_TO_ADVISE:
        return []
    sums = AdviceSums()
    for run in recordings.each():
        sums.add(run)
    paths = recordings.source.paths
    program = program_at(paths[0]) if len(paths) == 1 else None
    # A function whose tracing lies inside of another's is found twice, in the same words.
    once: dict[str, Finding] = {}
    for row in sums.advice(program).rows:
        once.setdefault(row.sentence, row)
    return [
        {
            "what": row.sentence,
            "gain_ns": None if row.unit == BYTES else row.gain,
            "error_ns": None if row.unit == BYTES else (row.high - row.low) / 2,
            "check": _check(row.id, paths),
        }
        for row in list(once.values())[:_ADVICE]
    ]


def _check(finding: str, paths: tuple[Path, ...]) -> str:
    """The command that says, after the change, what it came to."""
    if len(paths) != 1:
        return ""
    words = ["stepscope", "advise", "--check", finding, writable(str(paths[0]))]
    return readable.plain(f"{shlex.join(words)} NEW")


def _bar(recordings: Recordings, said: list[StepVerdict]) -> dict[str, Any] | None:
    """One average step of the kind that took longest in all, by what its time was."""
    if not said:
        return None
    step = said[0].step
    parts = recordings.survey.parts.of(step.key)
    whole = sum(parts.values())
    order = [*STEPS, "nothing"]
    return {
        "per": f"run of {step.key}" if step.key else "run",
        "ns": whole,
        "parts": [
            {"key": key, "label": _LABELS[key], "ns": parts[key], "share": parts[key] / whole}
            for key in sorted(parts, key=order.index)
            if whole
        ],
    }


def _steps(recordings: Recordings, row: StepRow) -> dict[str, Any]:
    """A row of `stepscope steps`; of many runs the longest of each stretch."""
    numbers = [run.number for run in recordings.survey.rows if run.kind == row.key and run.ok]
    lengths = np.array(row.lengths_ns, np.int64)
    kept = highest_places(lengths, _COLUMNS)
    plain = {
        name: getattr(row, name)
        for name in row.__slots__
        if name not in ("lengths_ns", "first_run", "worst_run", "outliers")
    }
    place = [run.number for run in recordings.survey.rows]
    return {
        **plain,
        "first_run": _number(place, row.first_run),
        "worst_run": _number(place, row.worst_run),
        "outliers": [
            {
                "run": _number(place, outlier.run),
                "ns": outlier.ns,
                "over_ns": outlier.over_ns,
                "causes": list(outlier.causes),
            }
            for outlier in row.outliers
        ],
        "lengths_ns": lengths[kept],
        "numbers": np.array(numbers, np.int64)[kept] if len(numbers) == len(lengths) else kept,
    }


def _number(numbers: list[int], place: int) -> int:
    """What a run is called that an analysis counted among those that can be read."""
    return numbers[place] if 0 <= place < len(numbers) else -1


def _top(recordings: Recordings) -> dict[str, Any]:
    """Where the time goes: by layer where layers are known, else by type of op."""
    tree = layer_profile(recordings.each())
    if tree.named > 0.5:
        rows = [row for row in tree.rows if row.own_ns]
        rows.sort(key=lambda row: -row.own_ns)
        lines = layer_lines(recordings.one(typical(recordings)))
        return {
            "by": "layer",
            "rows": [
                {
                    "key": row.key,
                    "line": readable.place(lines.get(row.key, "")),
                    "self_ns": row.own_ns,
                    "share": row.own_ns / max(1, tree.self_ns),
                    "calls": row.calls,
                }
                for row in rows[:_TOP]
            ],
        }
    profile = op_profile(recordings.each(), "type")
    return {
        "by": "type",
        "rows": [
            {
                "key": row.key,
                "line": "",
                "self_ns": row.self_ns,
                "share": row.share,
                "calls": row.calls,
            }
            for row in profile.rows[:_TOP]
        ],
    }


def _slowest(recordings: Recordings) -> list[dict[str, Any]]:
    """The ops that took most time of their own; none of runs so large that it takes its time."""
    if sum(row.ops for row in recordings.survey.rows) > _MOST_TO_RANK:
        return []
    return [
        {
            "key": row.key,
            "type": row.op,
            "self_ns": row.self_ns,
            "share": row.share,
            "calls": row.calls,
        }
        for row in op_profile(recordings.each(), "name").rows[:_TOP]
        if row.self_ns
    ]


def _memory(recordings: Recordings) -> dict[str, Any] | None:
    """The run with the highest peak: when, by whom, and live bytes over it."""
    rows = [row for row in recordings.survey.rows if row.peak_bytes]
    if not rows:
        return None
    highest: RunRow = max(rows, key=lambda row: row.peak_bytes)
    run = recordings.one(highest.number)
    profile = memory_profile([(highest.name, run)])
    if not profile.devices:
        return None
    device = profile.devices[0]
    lives = tensor_lives(run, device.device)
    at = lives.thinned(_CURVE)
    owners: dict[str, int] = {}
    for row in profile.rows:
        if row.device == device.device:
            owners[row.kind] = owners.get(row.kind, 0) + row.bytes
    whole = max(1, device.peak_bytes)
    held = [row for row in profile.rows if row.device == device.device]
    return {
        "device": readable.device(device.device),
        "peak_bytes": device.peak_bytes,
        "peak_ns": float(lives.moment[lives.peak]) if lives.peak >= 0 else None,
        "run": highest.number,
        "at": held[0].key if held else "",
        "owners": [
            {"label": kind, "bytes": size, "share": size / whole}
            for kind, size in sorted(owners.items(), key=lambda item: -item[1])
        ],
        "curve": {"ns": lives.moment[at], "bytes": lives.live[at]},
        "estimated": device.estimated,
    }
