"""`stepscope diff`: is the new program slower or larger, and a gate on it for CI."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.analysis.compare.diff_words import in_words, percent
from stepscope.cli.arguments.saved_runs import all_runs, kept_runs
from stepscope.cli.output import tables, terminal, wording
from stepscope.cli.output.tables import table_options
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.analysis import Diff, DiffRow
    from stepscope.cli.output.tables import TableChoice
    from stepscope.metadata import RunMetadata

_BOUND = re.compile(r"\s*(time|memory)\s*>\s*(\d+(?:\.\d+)?)\s*%\s*\Z")
_MARKDOWN = re.compile(r"[\\`*_\[\]<|&@#]")
_REGRESSED = 1
_OWNERS_SHOWN = 5
_FAILS = "runs of the new program fail, and none of the old one did"


def _bounds(_ctx: Any, _option: Any, value: str | None) -> dict[str, float] | None:
    """The bounds in `time>5%,memory>1%`."""
    if value is None:
        return None
    bounds = {}
    for part in value.split(","):
        match = _BOUND.match(part)
        if match is None:
            raise click.BadParameter(
                f"{part!r} is no bound; write 'time>5%,memory>1%', in quotes, as a shell takes > "
                "for a file to write to"
            )
        bounds[match[1]] = float(match[2]) / 100
    return bounds


@click.command(
    name="diff",
    epilog="Example: stepscope diff --fail-on 'time>5%,memory>1%' base/ new/",
)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--by",
    type=click.Choice(["name", "op"]),
    default="name",
    show_default=True,
    help="Compare nodes, or op types.",
)
@click.option(
    "--fail-on",
    "bounds",
    callback=_bounds,
    metavar="BOUNDS",
    help="Exit with 1 on a significant regression beyond these, e.g. 'time>5%,memory>1%'.",
)
@click.option("--markdown", is_flag=True, help="Write a summary for a pull request.")
@click.option(
    "--level",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, True, True),
    help="The accepted chance of any false alarm.",
)
@table_options
def command(
    base: Path,
    new: Path,
    by: Any,
    bounds: dict[str, float] | None,
    markdown: bool,
    level: float,
    choice: TableChoice,
) -> int:
    """Compare the runs in BASE with those in NEW: time per op and in total, and peak memory.

    A difference is significant if a distribution-free test says so after correction for the number
    of ops, and if it is at least 3%. 30 runs on each side are a good number; fewer than 4 never
    suffice. Record in turns, a few runs of BASE, a few of NEW, and so on, at least five times each:
    a machine is faster in one minute than in the next, and if one side is recorded after the other
    that cannot be told from a change of the program, so only large changes count.

    Of a recording with a budget the random sample is compared: what was kept for being slow would
    make it look slower than it was. Runs that did not end well are left out, and said.

    Exit codes: 0 no regression; 1, with --fail-on, a significant regression; 2 an error, or, with
    --fail-on, runs of NEW that failed where none of BASE did. Bounds that these runs cannot tell
    about are named on stderr.
    """
    from stepscope.analysis import diff

    sides = [_side(base, "base"), _side(new, "new")]
    found = diff(*(runs for runs, _ in sides), by=by, level=level)
    found = replace(found, notes=(*(note for _, note in sides if note), *found.notes))
    worse: tuple[DiffRow, ...] = ()
    if bounds is not None:
        worse = found.regressions(time=bounds.get("time"), memory=bounds.get("memory"))
    columns = [
        tables.Column("name", by, style="bold"),
        tables.Column("op", "type", rank=2),
        tables.time_column("base", "base"),
        tables.time_column("new", "new"),
        tables.Column("change", "change", percent, right=True, least=7),
        tables.Column("low", "from", percent, right=True, rank=1, least=7),
        tables.Column("high", "to", percent, right=True, rank=1, least=7),
        tables.Column("p", "p", "{:.2g}".format, right=True, least=6),
        tables.Column("effect", "effect", "{:+.2f}".format, right=True, rank=2),
        tables.Column("significant", "", lambda yes: "significant" if yes else ""),
    ]
    every = (found.total, *found.rows, *found.memory)
    if tables.write_for_programs(found, found.rows, columns, choice, csv_rows=every):
        pass
    elif markdown:
        terminal.echo(_markdown(found, worse, bounds, choice, columns))
    else:
        _show(found, columns, choice)
    return _verdict(found, worse, bounds)


def _side(path: Path, side: str) -> tuple[list[RunMetadata], str]:
    """The runs to compare; of a recording with a budget its random sample, which is said."""
    from stepscope.analysis.sampling.chosen_runs import random_sample
    from stepscope.analysis.sampling.weights import sampled_at

    found = sampled_at(path)
    chosen = random_sample(found[1]) if found is not None else None
    if found is None or chosen is None or not chosen.runs:
        return [run.metadata for run in all_runs(path)], ""
    runs = kept_runs(*found, chosen.runs)
    return [run.metadata for run in runs], f"{side}: {chosen.why}"


def _show(found: Diff, columns: Any, choice: TableChoice) -> None:
    screen = terminal.console()
    screen.print(f"{wording.number(found.base_runs, 'run')} against {found.new_runs}")
    for row in (found.total, *found.memory):
        screen.print(in_words(row))
    screen.print()
    tables.show_table(found.rows, columns, choice, what="op")
    _show_peaks(found)
    for title, names in (("new", found.appeared), ("gone", found.gone)):
        if names:
            first = list(names.items())[:5]
            few = ", ".join(f"{wording.plain(name)} ({wording.time(ns)})" for name, ns in first)
            more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
            screen.print(f"{title}: {few}{more}")
    for note in found.notes:
        screen.print(f"note: {wording.plain(note)}")


def _show_peaks(found: Diff) -> None:
    """Who holds more or less at the peak than before."""
    changed = [row for row in found.peaks if row.difference]
    if not changed:
        return
    screen = terminal.console()
    columns = [
        tables.Column("name", "held at the peak by", style="bold"),
        tables.Column("kind", "kind"),
        tables.size_column("base", "base"),
        tables.size_column("new", "new"),
        tables.Column("difference", "more", _more, right=True, least=9),
        tables.Column("source", "made at", wording.place, rank=1),
    ]
    screen.print()
    screen.print(tables.grid(changed[:_OWNERS_SHOWN], columns, screen.width), soft_wrap=True)
    if len(changed) > _OWNERS_SHOWN:
        screen.print(f"and {len(changed) - _OWNERS_SHOWN:,} more (--json has all)", style="dim")


def _more(difference: int) -> str:
    sign = "-" if difference < 0 else "+"
    return f"{sign}{wording.size(abs(difference))}"


def _verdict(found: Diff, worse: tuple[DiffRow, ...], bounds: dict[str, float] | None) -> int:
    """Say whether the new program is worse beyond the bounds; the exit code that says so too."""
    if bounds is None:
        return 0
    for row in worse:
        terminal.echo(f"regression: {in_words(row)}", err=True)
    if worse:
        return _REGRESSED
    if found.fails:
        raise StepscopeError(f"--fail-on: {_FAILS}")
    for line in _unanswered(found, bounds):
        terminal.echo(f"--fail-on: {line}", err=True)
    terminal.echo("no regression", err=True)
    return 0


def _unanswered(found: Diff, bounds: dict[str, float]) -> list[str]:
    """Bounds that were asked for and cannot be judged: that nothing was found says little then."""
    from stepscope.analysis.compare.times_test import FEWEST_RUNS

    lines = []
    if "time" in bounds and min(found.base_runs, found.new_runs) < FEWEST_RUNS:
        lines.append(
            f"whether time became worse cannot be told from {found.base_runs} against "
            f"{found.new_runs} runs; record at least {FEWEST_RUNS} on each side, better 30"
        )
    if "memory" in bounds and not found.memory:
        lines.append(
            "whether memory became worse cannot be told, as it was not recorded on both sides; "
            "record with --trace full, or leave memory out"
        )
    return lines


def _markdown(
    found: Diff,
    worse: tuple[DiffRow, ...],
    bounds: dict[str, float] | None,
    choice: TableChoice,
    columns: Any,
) -> str:
    if bounds is None:
        title = "Stepscope: comparison"
    else:
        title = "Stepscope: regression" if worse else "Stepscope: no regression"
        title = f"Stepscope: {_FAILS}" if found.fails and not worse else title
    lines = [f"### {title}", "", f"{found.base_runs} runs against {found.new_runs}.", ""]
    lines += [f"- {_cell(in_words(row))}" for row in (found.total, *found.memory)]
    if found.fails:
        lines.append(f"- {_FAILS}")
    changed = tables.arranged([row for row in found.rows if row.significant], columns, choice)
    shown = choice.cut(changed, tables.ROWS_SHOWN)
    if shown:
        lines += ["", "| op | type | base | new | change | p |", "|---|---|--:|--:|--:|--:|"]
        lines += [
            f"| {_code(row.name)} | {_cell(row.op)} | {wording.time(row.base)} "
            f"| {wording.time(row.new)} | {percent(row.change)} | {row.p:.2g} |"
            for row in shown
        ]
        if rest := len(changed) - len(shown):
            lines += ["", f"And {wording.number(rest, 'more op')}."]
    else:
        lines += ["", "No op changed significantly."]
    if found.appeared or found.gone:
        appeared = wording.number(len(found.appeared), "new op")
        lines += ["", f"{appeared}, {len(found.gone):,} gone."]
    return "\n".join([*lines, *(f"\n_{_cell(note)}_" for note in found.notes)])


def _cell(text: str) -> str:
    """Text that stays text, and in its cell of a Markdown table: no link, no picture, no HTML."""
    return _MARKDOWN.sub(r"\\\g<0>", wording.plain(text))


def _code(name: str) -> str:
    """A name as it is, in a cell of a Markdown table."""
    text = wording.plain(name).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"
