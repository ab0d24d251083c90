"""What is said of a recorded program before any table: where its time went, and what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stepscope.analysis.program import verdict_words
from stepscope.cli.output import run_report, verdict_text
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from stepscope.analysis import Account, Advice, Retraces, Verdict
    from stepscope.analysis.program.account import AccountedRuns

__all__ = ["parts"]


def parts(
    found: Verdict, advice: Advice, record: Path, directory: Path, width: int,
    recording_ns: int | None = None, times: AccountedRuns | None = None,
) -> list[RenderableType]:  # fmt: skip
    """The verdict, with what the record notes of the program as a whole where it does.

    `advice` is what is said of each kind of step beside what limits it.
    `directory` is what the commands that come next are to be given; `recording_ns` is what
    recording cost so far, where all of it is said in the end. `times` are of the recorded runs, for
    who has read them.
    """
    account, retraces = _noted(record, times)
    said: list[RenderableType] = []
    if account is not None:
        said.append(Text(run_report.filled(verdict_words.spent(account, recording_ns), width)))
    lines = verdict_text.steps(found, width, advice)
    again = verdict_text.traced_again(retraces) if retraces is not None else []
    grows = verdict_text.leaks(found, width)
    spoken = [*([lines] if lines is not None else []), *grows, *again]
    if spoken:
        said.append(Text("\n").join(spoken))
    coming = verdict_text.next_commands(
        found, directory, noted=account is not None, advised=bool(advice.rows)
    )
    if coming is not None:
        said.append(coming)
    return said


def _noted(record: Path, times: AccountedRuns | None) -> tuple[Account | None, Retraces | None]:
    """What is known of the program as a whole; None where the record is of runs alone."""
    from stepscope.analysis import account, retraces
    from stepscope.analysis.program.account import one_program

    try:
        program = one_program(record)
        return account(program, times), retraces(program)
    except StepscopeError:
        return None, None
