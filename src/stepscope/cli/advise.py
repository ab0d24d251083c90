"""`stepscope advise`: what to change in a program, what that would gain, and whether it did."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import named_runs
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis import Advice, Finding
    from stepscope.analysis.advice import Evidence
    from stepscope.analysis.advice.check import Check
    from stepscope.cli.output.tables import Column, TableChoice
    from stepscope.proofs import Proof

_EVIDENCE_SHOWN = 3
_DETAILS = 5


@click.command(
    name="advise",
    epilog="Example: stepscope advise stepscope-out/train",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH")
@click.option(
    "--check",
    "finding",
    metavar="FINDING",
    help="Compare what this finding of a recording predicted with another recording, made after "
    "the change: stepscope advise --check FINDING OLD NEW.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="Apply what the findings say to the recorded graph, run old and new in turns on the "
    "embedded engine, and compare with what was predicted.",
)
@click.option("--finding", "only", metavar="FINDING", help="With --prove: this one alone.")
@table_options
def command(
    paths: tuple[Path, ...], finding: str | None, prove: bool, only: str | None, choice: TableChoice
) -> None:
    """What to change in the program recorded in PATH, ranked by what that would gain.

    Each finding has what was seen (ops with their times), the line, what to do, and the gain that
    is predicted, with an interval that holds in 19 of 20: recorded runs are replayed with the
    change, and it is said by how much a replay without it misses a recorded run: by its own op
    times and the model of the engine, and by what the other runs tell.

    After the change, record the program again: --check FINDING OLD NEW says what it came to.

    Of a recording of the embedded engine, --prove says so before anything is changed: the graph
    with the change runs against the graph as it was. What was fed is made up, in its type and
    shape. Changes that are not in the graph (Python functions, input) cannot be proved.
    """
    if only is not None and not prove:
        raise click.UsageError("--finding goes with --prove")
    if prove and finding is not None:
        raise click.UsageError("--prove takes one recording, --check two: not both")
    if finding is not None:
        if len(paths) != 2:
            raise click.UsageError("--check takes two recordings: --check FINDING OLD NEW")
        _check(finding, *paths, choice)
        return
    if len(paths) != 1:
        raise click.UsageError("one PATH at a time; two are for --check FINDING OLD NEW")
    if prove:
        _prove(paths[0], only, choice)
    else:
        _advise(paths[0], choice)


def _advise(path: Path, choice: TableChoice) -> None:
    from rich.text import Text

    from stepscope.cli.output import run_report, tables, terminal, wording

    found = _advice(path)
    columns = _columns()
    if tables.write_for_programs(
        found, found.rows, columns, choice, without=("evidence", "rewrite")
    ):
        return
    screen = terminal.console()
    screen.print(
        f"{wording.number(found.runs, 'run')} · {wording.time(found.total_ns)} in all · "
        f"{wording.number(len(found.rows), 'finding')}"
    )
    if found.rows:
        screen.print()
        tables.show_table(found.rows, columns, choice, what="finding")
        shown = choice.cut(tables.arranged(found.rows, columns, choice), tables.ROWS_SHOWN)
        for row in shown[:_DETAILS]:
            screen.print()
            for line in _details(row, path):
                screen.print(Text(run_report.filled(line, screen.width)), soft_wrap=True)
    else:
        screen.print("nothing that these rules know of would gain 1% of a step")
    for lacking in found.lacking:
        screen.print()
        screen.print(
            Text(run_report.filled(f"not known: {wording.plain(lacking)}", screen.width)),
            soft_wrap=True,
        )


def _advice(path: Path) -> Advice:
    from stepscope.analysis.advice import AdviceSums, program_at
    from stepscope.analysis.cluster.clock import OneClock
    from stepscope.metadata import iter_runs

    sums = AdviceSums()
    for run in OneClock(lambda: iter_runs(path)).passing(named_runs(path)):
        sums.add(run)
    return sums.advice(program_at(path))


def _columns() -> list[Column]:
    from stepscope.cli.output import tables, wording

    return [
        tables.Column("id", "finding", wording.plain, style="bold"),
        tables.Column("gains", "would save", right=True),
        tables.Column("share", "share", lambda share: f"{share:.0%}", right=True),
        tables.time_column("total_ns", "in all", rank=1),
        tables.Column("step", "of", wording.plain, rank=2),
        tables.Column("title", "because", wording.plain, rank=1),
    ]


def _details(row: Finding, path: Path) -> Iterator[str]:
    """What was found, seen, and is to be done, a paragraph each."""
    from stepscope.cli.output import wording

    at = f" ({wording.place(row.line)})" if row.line else ""
    yield f"{wording.plain(row.id)}  {wording.plain(row.title)}{at}"
    yield f"  do     {wording.plain(row.advice)}"
    seen = [_seen(row, one) for one in row.evidence[:_EVIDENCE_SHOWN]]
    more = len(row.evidence) - len(seen)
    rest = f" and {more:,} more (--json has all)" if more > 0 else ""
    yield f"  seen   {', '.join(seen)}{rest}"
    known = f"  known  from {wording.number(row.replayed, 'run')}"
    if row.model_error is not None:
        known += f"; the replay of one by its own op times is off by {row.model_error:.1%}"
    if row.total_ns and row.replayed > 1:
        known += f", by what the others tell by {row.error:.1%}"
    yield known
    yield wording.plain(
        f"  check  stepscope advise --check {shlex.quote(row.id)} {shlex.quote(str(path))} NEW"
    )


def _seen(row: Finding, one: Evidence) -> str:
    """A row of the evidence: what it is, and what it took or holds."""
    from stepscope.cli.output import wording

    name = wording.plain(one.what)
    if one.ns:
        return f"{name} {wording.time(one.ns)}"
    return f"{name} {wording.size(one.bytes)}" if not row.total_ns and one.bytes else name


# -- predicted against achieved ----------------------------------------------------------------


def _check(name: str, old: Path, new: Path, choice: TableChoice) -> None:
    from stepscope.analysis.advice.check import chosen
    from stepscope.cli.output import terminal

    finding = chosen(_advice(old), name)
    found = _compared(finding, old, new)
    if choice.as_json:
        terminal.write_data(found.to_json() + "\n")
        return
    if choice.as_csv:
        raise click.UsageError("--check writes text or --json")
    screen = terminal.console()
    for line in _said(found):
        screen.print(line, soft_wrap=True, markup=False)


def _compared(finding: Finding, old: Path, new: Path) -> Check:
    from stepscope.analysis import memory_growth, steps
    from stepscope.analysis.advice import BYTES, GROWTH
    from stepscope.analysis.advice.check import growth_check, peak_check, step_check

    if finding.unit == BYTES:
        return peak_check(finding, _peak(old), _peak(new))
    if finding.unit == GROWTH:
        return growth_check(finding, memory_growth(old), memory_growth(new))
    return step_check(finding, steps(named_runs(old)), steps(named_runs(new)))


def _peak(path: Path) -> int:
    """The highest peak of all runs there."""
    return max((run.metadata.peak_bytes() for run in named_runs(path)), default=0)


def _said(found: Check) -> Iterator[str]:
    from stepscope.cli.output import wording

    finding = found.finding
    said, per = finding.said, finding.per
    yield f"{wording.plain(finding.id)}  {wording.plain(finding.title)}"
    yield (
        f"  before     {said(found.before)}{per} ({wording.plain(finding.step)})\n"
        f"  after      {said(found.after)}{per} ({wording.plain(found.step_after)})"
    )
    yield (
        f"  predicted  {said(finding.gain)} less, between {said(finding.low)} and "
        f"{said(finding.high)}"
    )
    yield _achieved(found)


def _achieved(found: Check) -> str:
    said = found.finding.said
    less = "less" if found.achieved >= 0 else "more"
    return (
        f"  achieved   {said(abs(found.achieved))} {less} ± "
        f"{said((found.most - found.least) / 2)}: "
        + ("inside the predicted interval" if found.inside else "outside of the predicted interval")
        + (f", the prediction was off by {found.error:.0%}" if found.achieved > 0 else "")
    )


# -- on the recorded graph ---------------------------------------------------------------------


def _prove(path: Path, only: str | None, choice: TableChoice) -> None:
    from rich.text import Text

    from stepscope.cli.output import run_report, terminal
    from stepscope.proofs import prove

    found = prove(path, only)
    if choice.as_json:
        terminal.write_data(found.to_json() + "\n")
        return
    if choice.as_csv:
        raise click.UsageError("--prove writes text or --json")
    screen = terminal.console()
    if not found.rows:
        screen.print("there is no finding to prove")
    for number, row in enumerate(found.rows):
        if number:
            screen.print()
        for line in _proved(row):
            screen.print(Text(run_report.filled(line, screen.width)), soft_wrap=True)


def _proved(row: Proof) -> Iterator[str]:
    from stepscope.analysis.advice import BYTES
    from stepscope.cli.output import wording

    finding, check = row.finding, row.check
    yield f"{wording.plain(finding.id)}  {wording.plain(finding.title)}"
    if check is None:
        yield f"  not proved: {wording.plain(row.lacking)}"
        return
    said, per = finding.said, finding.per
    yield f"  before     {said(check.before)}{per}: the graph as it was recorded"
    yield f"  after      {said(check.after)}{per}: the graph with the change"
    scaled = check.finding
    here = f" ({row.scale:.2f} times what was recorded, as the step takes here)" * (
        not 0.95 < row.scale < 1.05
    )
    yield (
        f"  predicted  {said(scaled.gain)} less, between {said(scaled.low)} and "
        f"{said(scaled.high)}{here}"
    )
    yield _achieved(check) + f"; {wording.number(row.pairs, 'pair')} of runs in turns"
    if finding.unit == BYTES:
        more = "longer" if row.added_ns >= 0 else "shorter"
        within = wording.time(row.added_within_ns)
        yield f"  time       a step takes {wording.time(abs(row.added_ns))} {more} ± {within}"
    if row.difference is not None:
        same = "the same" if not row.difference else f"the same to {row.difference:.1g}"
        yield f"  results    {same if row.difference < 1 else 'are different'}"
    if row.made:
        yield f"  fed        made values: {wording.plain(', '.join(row.made))}"
