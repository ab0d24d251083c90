"""The verdict in words: what a person sees first. Renders; computes nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rich.text import Text

from stepscope.analysis.program import verdict_words
from stepscope.analysis.program.verdict import INPUT, LAYER, OUTSIDE, PYTHON, TRACED
from stepscope.cli.arguments.command_line import COMMANDS
from stepscope.cli.output import run_report, wording

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.analysis import Advice, Retraces, Verdict

__all__ = ["leaks", "next_commands", "steps", "traced_again"]

_RETRACES_SHOWN: Final = 3
_BETWEEN: Final = "between steps"
_GROWS: Final = "memory grows"


def steps(verdict: Verdict, width: int, advice: Advice | None = None) -> Text | None:
    """What limits each kind of step and what would help, the one that took longest in all first."""
    shown = verdict_words.worth_saying(verdict)
    if not shown:
        return None
    text = Text()
    for row in shown:
        name = wording.plain(row.step.key)
        joint = ", " if row.limits else "; "
        said = f"{name}  {verdict_words.length(row)}{joint}{verdict_words.cause(row)}"
        _append(text, name, said, width)
        remedy = verdict_words.remedy(verdict, row, advice)
        if remedy:
            text.append("\n" + run_report.filled(wording.plain(remedy), width, "  "))
    for said in verdict_words.between_steps(verdict):
        _append(text, _BETWEEN, f"{_BETWEEN}  {said}", width)
    return text


def _append(text: Text, name: str, said: str, width: int) -> None:
    """Add a sentence that begins with a name."""
    text.append("\n" if text else "")
    whole = run_report.filled(said, width)
    text.append(whole[: len(name)], style="bold")
    text.append(whole[len(name) :])


def leaks(verdict: Verdict, width: int) -> list[Text]:
    """What grows from step to step."""
    lines = []
    for said in verdict_words.leaks(verdict):
        text = Text()
        _append(text, _GROWS, f"{_GROWS}  {said}", width)
        lines.append(text)
    return lines


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


def next_commands(
    verdict: Verdict, directory: Path | str, *, noted: bool, advised: bool = False
) -> Text | None:
    """What to look at next, as commands; `noted` says whether the program as a whole is known.

    `advised`: there is advice on what to change.
    """
    where = shlex.quote(str(directory))
    kinds = {row.limits[0].kind for row in verdict.rows if row.limits}
    if verdict_words.between_steps(verdict):
        kinds.add(INPUT)
    wanted: Sequence[str] = [
        *(["advise"] if advised else []),
        *(["memory --growth"] if verdict.leaks else []),
        *(["input"] if INPUT in kinds else []),
        *(["retraces"] if TRACED in kinds else []),
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
