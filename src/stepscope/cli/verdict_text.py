"""The verdict in words: what a person sees first. Renders; computes nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rich.text import Text

from stepscope.analysis.account import STEPS
from stepscope.analysis.verdict import INPUT, LAYER, OUTSIDE, PYTHON
from stepscope.cli import report, wording
from stepscope.cli.command_line import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.analysis import Account, Retraces, Verdict
    from stepscope.analysis.verdict import Limit, StepVerdict

__all__ = ["next_commands", "spent", "steps", "traced_again"]

_KINDS_SHOWN: Final = 4
_WORTH: Final = 0.02
"""A kind of step that took less of the time in all is not spoken of."""
_CAUSE: Final = 0.05
_SECOND: Final = 0.1
_FEW: Final = 5
_RETRACES_SHOWN: Final = 3
_PARTS: Final = (
    ("imports", ("imports",)),
    ("tracing", ("tracing",)),
    ("planning", ("planning",)),
    ("first runs", ("first_runs",)),
    ("steps", STEPS),
    ("runs not recorded", ("unrecorded",)),
    ("eager ops between steps", ("eager",)),
    ("Python before, between and after", ("before", "between", "after")),
    ("recording", ("recording",)),
)


def spent(account: Account, *, recording: bool = True) -> str:
    """Where the wall clock went: `41.2 s: 3.10 s imports, 34.8 s in 1,600 steps, ...`.

    Without `recording`, what that took is said elsewhere.
    """
    parts = []
    for title, keys in _PARTS:
        ns = account.ns(*keys)
        ours = title == "recording"
        if not ns or (not recording if ours else ns < _WORTH * account.whole_ns):
            continue
        said = f"{wording.time(ns)} {title}"
        if keys == STEPS:
            said = f"{wording.time(ns)} in {_steps(account.runs - account.first_runs)}"
        if ours:
            said += f" ({ns / max(1, account.whole_ns):.1%})"
        parts.append(said)
    return f"{wording.time(account.whole_ns)}: {', '.join(parts)}"


def _steps(count: int) -> str:
    return wording.number(count, "step")


def steps(verdict: Verdict, width: int) -> Text | None:
    """What limits each kind of step, the one that took longest in all first."""
    rows = [row for row in verdict.rows if row.step.lengths_ns]
    least = _WORTH * verdict.total_ns
    shown = [row for row in rows if row.step.total_ns >= least][:_KINDS_SHOWN]
    if not shown:
        return None
    text = Text()
    for number, row in enumerate(shown):
        name = wording.plain(row.step.key)
        said = f"{name}  {_length(row)}{_because(row)}"
        lines = report.filled(said, width).splitlines()
        text.append("\n" if number else "")
        whole = "\n".join(lines)
        text.append(whole[: len(name)], style="bold")
        text.append(whole[len(name) :])
    return text


def _length(row: StepVerdict) -> str:
    step = row.step
    if not step.rest:
        return f"{wording.time(step.first_ns)}, once"
    first = wording.time(step.first_ns)
    if step.rest < _FEW:
        after = f"{wording.number(step.rest, 'run')} after the first, which took {first}"
        return f"{wording.time(step.median_ns)} a step ({after})"
    return f"{wording.time(step.median_ns)} a step (p90 {wording.time(step.p90_ns)}, first {first})"


def _because(row: StepVerdict) -> str:
    if not row.limits:
        return "; no op of it was recorded, so what took the time is not known"
    largest = row.limits[0]
    if largest.share < _CAUSE:
        return ", no single cause stands out"
    said = f", {_limit(largest)}"
    second = row.limits[1] if len(row.limits) > 1 else None
    if second is not None and second.share >= _SECOND:
        said += f"; {_limit(second)}"
    return said


def _limit(limit: Limit) -> str:
    share = f"{limit.share:.0%}"
    at = f" ({wording.place(limit.line)})" if limit.line else ""
    mostly = f", mostly {wording.plain(limit.op)}" if limit.op else ""
    name = wording.plain(limit.name)
    if limit.kind == INPUT:
        if limit.stages:
            stages = [f"`{stage}` at {wording.place(line)}" for stage, line in limit.stages[:2]]
            return f"{share} waiting for input: {' and '.join(stages)}"
        return f"{share} waiting for input{at}"
    if limit.kind == PYTHON:
        return f"{share} in Python, the op `{name}`{at}"
    if limit.kind == OUTSIDE:
        return f"{share} outside of all ops: calling, and Python around it"
    assert limit.kind == LAYER
    if limit.line.endswith(name) or name.startswith("("):
        return f"{share} at {wording.place(limit.line) or name}{mostly}"
    *above, last = name.split("/")
    inner = "/".join([*above[1:], last])
    what = inner if last in _PLAIN else f"layer {inner}"
    return f"{share} in {what}{at}{mostly}"


_PLAIN: Final = frozenset(["input", "loss", "metrics", "optimizer", "output"])
"""Parts of a step that are no layers."""


def traced_again(retraces: Retraces) -> list[Text]:
    """Functions that were traced more than once, with what changed."""
    lines = []
    for row in retraces.rows[:_RETRACES_SHOWN]:
        times = wording.number(row.times, "time")
        where = f" ({wording.place(row.where)})" if row.where else ""
        changed = f"{row.cause} of {row.argument}" if row.argument else row.cause
        values = f" {' then '.join(map(wording.plain, row.values[:2]))}" if row.values else ""
        lines.append(
            Text.assemble(
                ("traced again", "bold"),
                f": `{wording.plain(row.function)}` {times}, {wording.time(row.lost_ns)}: "
                f"{wording.plain(changed)}{values}{where}",
            )
        )
    if len(retraces.rows) > _RETRACES_SHOWN:
        rest = len(retraces.rows) - _RETRACES_SHOWN
        lines.append(Text(f"and {rest:,} more (stepscope retraces)", style="dim"))
    return lines


def next_commands(verdict: Verdict, directory: Path | str, *, noted: bool) -> Text | None:
    """What to look at next, as commands; `noted` says whether the program as a whole is known."""
    where = shlex.quote(str(directory))
    kinds = {row.limits[0].kind for row in verdict.rows if row.limits}
    wanted: Sequence[str] = [
        *(["input"] if INPUT in kinds else []),
        *(["top --by line"] if PYTHON in kinds else []),
        *(["top --by layer"] if LAYER in kinds else []),
        *(["account"] if noted and OUTSIDE in kinds else []),
        "steps",
    ]
    known = [command for command in wanted if command.split()[0] in COMMANDS]
    if not any(row.limits for row in verdict.rows):
        return None
    commands = [wording.plain(f"stepscope {command} {where}") for command in known[:3]]
    # One per line, so that it can be copied.
    return Text.assemble(("next", "bold"), "  ", "\n      ".join(commands))
