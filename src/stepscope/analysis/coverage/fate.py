"""What became of one place of the user's graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepscope.analysis.coverage.users_graph import CALLS, CONDITIONALS, LOOPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.analysis.coverage.executed import Ran

CONTROL: Final = CALLS | CONDITIONALS | LOOPS
"""Ops whose functions are executed in their place."""


@dataclass(frozen=True, slots=True)
class Fate:
    """A state, the other party to it, and the executions that count for the place."""

    state: str
    detail: str = ""
    executions: int = 0
    total_ns: int = 0


def summed(state: str, detail: str, rows: Iterable[Ran]) -> Fate:
    """The verdict on a place for which these executions count."""
    rows = list(rows)
    executions = sum(row.executions for row in rows)
    return Fate(state, detail, executions, sum(row.total_ns for row in rows))
