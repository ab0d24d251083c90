"""Tables that a command shows: on a terminal, as JSON or as CSV, sorted, filtered and cut alike.

A command describes its columns once. On a terminal they fit its width: what matters less is left
out first (`Column.rank`), then names fold; only one of more than 300 letters is shortened, and a
number is never cut. JSON and CSV hold every column, unrounded, and every row unless the user limits
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import click
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from stepscope.cli.output import terminal, wording

F = TypeVar("F", bound=Callable[..., Any])
ROWS_SHOWN = 20
_GAP = 2
_NARROWEST = 12
"""A column of names is not made narrower than this."""
_READABLE = 40
"""Columns of lesser rank give way to names up to this long."""
_LONG, _MOST_LINES = 300, 8
"""What has more letters than that is shown in no more lines than that."""
_ENDS_KEPT = 4000
"""Letters at each end of a text that are looked at: more than such lines hold on any screen."""
_BAR = range(8, 25)
_POINT = r"(?<=\d)[.,](?=\d)"
_PIECE = rf"(?:[^/ _.,]|{_POINT})*(?:(?!{_POINT})[/ _.,])|(?:[^/ _.,]|{_POINT})+"
"""What is not broken if it fits: up to a separator, which the point of a number is not."""
_BREAKS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (rf"(?:^[/ _.,]+)?(?:{_PIECE})", r".+?(?:(?<=[a-z])(?=[A-Z])|$)", r".")
)
"""What is kept together, and what of that where it is too long: a piece, a word, a letter."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the row's field, its title, and how a value reads.

    `rank` 0 is always shown; others where there is room, 1 rather than 2. It is never narrower
    than `least`.
    """

    field: str
    title: str
    text: Callable[[Any], str] = str
    right: bool = False
    rank: int = 0
    style: str = ""
    least: int = 0


# Widths that hold any value: the layout does not change from one measurement to the next.
def time_column(field: str, title: str, *, rank: int = 0) -> Column:
    """Nanoseconds."""
    return Column(field, title, wording.spent, right=True, rank=rank, least=7)


def size_column(field: str, title: str, *, rank: int = 0) -> Column:
    """Bytes."""
    return Column(field, title, wording.size, right=True, rank=rank, least=8)


def share_column(field: str, title: str, *, rank: int = 0) -> Column:
    """Fractions of 1."""
    return Column(field, title, wording.share, right=True, rank=rank, least=6)


def count_column(field: str, title: str, *, rank: int = 0) -> Column:
    """Whole numbers."""
    return Column(field, title, wording.count, right=True, rank=rank)


@dataclass(frozen=True, slots=True)
class TableChoice:
    """What the user asked of a table; `limit` is None where nothing was said and 0 for all."""

    sort: str | None = None
    limit: int | None = None
    pattern: str | None = None
    as_json: bool = False
    as_csv: bool = False

    def cut(self, rows: list[Any], otherwise: int = 0) -> list[Any]:
        """As many rows as asked for; `otherwise` so many, 0 for all."""
        count = otherwise if self.limit is None else self.limit
        return rows[:count] if count else rows


def table_options(command: F | None = None, *, limit: int = ROWS_SHOWN) -> Any:
    """The options that every table has; the command gets them as `choice`."""
    if command is None:
        return partial(table_options, limit=limit)

    def gathered(*args: Any, **values: Any) -> Any:
        names = [field.name for field in fields(TableChoice)]
        choice = TableChoice(**{name: values.pop(name) for name in names})
        if choice.as_json and choice.as_csv:
            raise click.UsageError("--json and --csv exclude each other")
        return command(*args, choice=choice, **values)

    gathered.__doc__ = command.__doc__
    gathered.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--csv", "as_csv", is_flag=True, help="Write CSV, every column unrounded."),
        click.option("--json", "as_json", is_flag=True, help="Write JSON, everything there is."),
        click.option(
            "--filter",
            "pattern",
            metavar="REGEX",
            help="Only rows in whose first column this is found.",
        ),
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            metavar="N",
            help=f"So many rows; 0 for all.  [default: {limit}; all in JSON and CSV]",
        ),
        click.option(
            "--sort", metavar="COLUMN", help="Order by this column, the largest number first."
        ),
    ):
        gathered = option(gathered)
    return gathered


def arranged(rows: Sequence[Any], columns: Sequence[Column], choice: TableChoice) -> list[Any]:
    """The rows that match, in the order asked for (numbers: the largest first); not yet cut."""
    found = list(rows)
    if choice.pattern is not None:
        try:
            matches = re.compile(choice.pattern).search
        except re.error as error:
            raise click.BadParameter(
                f"{choice.pattern!r} is no regular expression: {error}", param_hint="--filter"
            ) from None
        first = columns[0]
        # What is shown may be shorter than what is there: a device's name, the path of a file.
        found = [
            row
            for row in found
            if matches(str(value := getattr(row, first.field))) or matches(first.text(value))
        ]
    if choice.sort is not None:
        field = _field(choice.sort, columns)
        values = [getattr(row, field) for row in found]
        numbers = all(isinstance(value, int | float) for value in values)
        found.sort(key=lambda row: _key(getattr(row, field), numbers), reverse=numbers)
    return found


def _key(value: Any, number: bool) -> Any:
    return value if number else str(value)


def _field(wanted: str, columns: Sequence[Column]) -> str:
    for column in columns:
        if wanted.lower() in (column.field.lower(), column.title.lower()):
            return column.field
    known = ", ".join(column.title or column.field for column in columns)
    raise click.BadParameter(
        f"there is no column {wanted!r}; there are {known}", param_hint="--sort"
    )


# -- for people --------------------------------------------------------------------------------


def show_table(
    rows: Sequence[Any],
    columns: Sequence[Column],
    choice: TableChoice,
    *,
    bar: str = "",
    what: str = "row",
    plural: str | None = None,
    limit: int = ROWS_SHOWN,
) -> None:
    """Print the rows as a table for people; `bar` names a field from 0 to 1 to draw as well."""
    screen = terminal.console()
    found = arranged(rows, columns, choice)
    shown = choice.cut(found, limit)
    if not shown:
        title = columns[0].title
        whose = "" if title == what else f" whose {title}"
        said = f"{whose} matches {choice.pattern!r}" if choice.pattern else ""
        screen.print(Text(f"no {what}{said}", style="dim"))
        return
    screen.print(grid(shown, columns, screen.width, bar), soft_wrap=True)
    if len(found) > len(shown):
        rest = wording.number(len(found) - len(shown), what, plural)
        count, _, name = rest.partition(" ")
        screen.print(Text(f"and {count} more {name} (--limit 0 shows all)", style="dim"))


def grid(
    rows: Sequence[Any], columns: Sequence[Column], width: int, bar: str = ""
) -> RenderableType:
    """The rows as a table of at most this width."""
    cells = {
        column.field: [_cell_text(column, getattr(row, column.field)) for row in rows]
        for column in columns
    }
    widths = _widths(columns, cells, width)
    shown = [column for column in columns if column.field in widths]
    folded = {c.field: [_folded(cell, widths[c.field]) for cell in cells[c.field]] for c in shown}
    for column in shown:
        # Folded after a separator, a name may need less than it was given.
        lines = [cell_len(line) for cell in folded[column.field] for line in cell]
        widths[column.field] = max([cell_len(column.title), column.least, *lines])
    used = sum(widths.values()) + _GAP * (len(shown) - 1)
    drawn = min(_BAR[-1], width - used - _GAP) if bar else 0
    if drawn not in _BAR:
        drawn = 0
    top = max((getattr(row, bar) for row in rows), default=0.0) if drawn else 0.0

    text = Text(no_wrap=True, overflow="crop")
    heads = [[column.title] for column in shown]
    _line(text, shown, widths, heads, 0, lambda _column: "bold")
    text.append("\n" + "─" * (used + (_GAP + drawn if drawn else 0)))
    for number, row in enumerate(rows):
        lines_of = [folded[column.field][number] for column in shown]
        for part in range(max(map(len, lines_of))):
            text.append("\n")
            end = _line(text, shown, widths, lines_of, part, lambda column: column.style)
            drawing = bar_of(getattr(row, bar), top, drawn) if drawn and part == 0 else Text()
            if drawing:
                text.append(" " * (used - end + _GAP))
                text.append_text(drawing)
    return text


def _cell_text(column: Column, value: Any) -> str:
    """What a cell says, cut before it is measured: no more of it than could ever be shown."""
    if isinstance(value, str):
        value = _cut(value)
    return wording.plain(_cut(column.text(value)))


def _cut(text: str) -> str:
    if len(text) <= 2 * _ENDS_KEPT:
        return text
    return f"{text[:_ENDS_KEPT]}…{text[-_ENDS_KEPT:]}"


def _line(
    text: Text,
    columns: Sequence[Column],
    widths: dict[str, int],
    cells: Sequence[Sequence[str]],
    part: int,
    style: Callable[[Column], str],
) -> int:
    """Append one line of a row; gives how far it reaches."""
    reach = gap = 0
    for column, lines in zip(columns, cells, strict=True):
        room = widths[column.field]
        value = lines[part] if part < len(lines) else ""
        free = room - cell_len(value)
        before = free if column.right else 0
        if value:
            text.append(" " * (gap + before))
            text.append(value, style=style(column))
            reach += gap + before + cell_len(value)
            gap = room - before - cell_len(value) + _GAP
        else:
            gap += room + _GAP
    return reach


def _widths(columns: Sequence[Column], cells: dict[str, list[str]], width: int) -> dict[str, int]:
    """How wide each column is that has room, in their order."""
    natural = {
        c.field: max([cell_len(c.title), c.least, *map(cell_len, cells[c.field])]) for c in columns
    }

    def narrowest(column: Column, names: int) -> int:
        whole = natural[column.field]
        return whole if column.right else min(whole, max(names, cell_len(column.title)))

    columns = [c for c in columns if any(cells[c.field]) or (c.title and not c.rank)]
    shown: list[Column] = [column for column in columns if column.rank == 0]
    for rank in sorted({column.rank for column in columns if column.rank}):
        tried = [*shown, *(column for column in columns if column.rank == rank)]
        first = tried[0]
        needed = sum(narrowest(c, _READABLE if c is first else 2 * _NARROWEST) for c in tried)
        if needed + _GAP * (len(tried) - 1) > width:
            break
        shown = tried
    shown = [column for column in columns if column in shown]
    sizes = {c.field: narrowest(c, _NARROWEST) for c in shown}
    free = width - sum(sizes.values()) - _GAP * (len(shown) - 1)
    # What is left goes to the narrowest that folds: short names stay whole, long ones share.
    while free > 0:
        folding = [c.field for c in shown if sizes[c.field] < natural[c.field]]
        if not folding:
            break
        sizes[min(folding, key=sizes.__getitem__)] += 1
        free -= 1
    return sizes


def _folded(text: str, width: int) -> list[str]:
    """The text in lines of this width, broken after a separator where there is one.

    Of a text that would fill a screen the beginning and the end are shown.
    """
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    _fill(lines, text, width, _BREAKS)
    if len(text) > _LONG and len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        lines = [*lines[:half], "…", *lines[-half:]]
    return [line.rstrip() for line in lines]


def _fill(lines: list[str], text: str, width: int, breaks: Sequence[re.Pattern[str]]) -> None:
    """Write the text on from the last line."""
    for piece in breaks[0].findall(text):
        size = cell_len(piece.rstrip())
        if cell_len(lines[-1]) + size > width and lines[-1]:
            lines.append("")
        if size > width and len(breaks) > 1:
            _fill(lines, piece, width, breaks[1:])
        else:
            lines[-1] += piece


def bar_of(value: float, largest: float, width: int) -> Text:
    """A bar in eighths of a character; the largest fills the width."""
    eighths = round(value / largest * width * 8) if largest > 0 else 0
    whole, part = divmod(eighths, 8)
    return Text("█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else ""), style="cyan")


# -- for programs ------------------------------------------------------------------------------


def write_for_programs(
    result: Any,
    rows: Sequence[Any],
    columns: Sequence[Column],
    choice: TableChoice,
    *,
    csv_rows: Sequence[Any] | None = None,
    without: Sequence[str] = (),
) -> bool:
    """Write JSON or CSV if that was asked for; whether it was.

    A wish that makes no sense is an error here, before anything is printed.
    JSON is the whole result with `rows` in place of its own; CSV is the rows alone (`csv_rows`,
    where they differ) and their fields but those in `without`.
    """
    arranged((), columns, choice)
    if choice.as_json:
        found = choice.cut(arranged(rows, columns, choice))
        terminal.write_data(replace(result, rows=tuple(found)).to_json() + "\n")
    elif choice.as_csv:
        _write_csv(rows if csv_rows is None else csv_rows, columns, choice, without)
    return choice.as_json or choice.as_csv


def _write_csv(
    rows: Sequence[Any], columns: Sequence[Column], choice: TableChoice, without: Sequence[str]
) -> None:
    from stepscope.export.csv import csv_lines  # with all exports; few commands need it

    known = dict.fromkeys([*_fields(rows), *(column.field for column in columns)])
    names = [name for name in known if name not in without]
    found = choice.cut(arranged(rows, columns, choice))
    cells = ([_cell(getattr(row, name)) for name in names] for row in found)
    terminal.write_data(csv_lines([names, *cells]))


def _fields(rows: Sequence[Any]) -> Iterator[str]:
    if rows and is_dataclass(rows[0]):
        yield from (field.name for field in fields(rows[0]))


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else value
