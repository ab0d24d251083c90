"""The page that says which engine supports which field, written from the engines' own tables.

python -m stepscope.cli.support_table docs/support.md            writes it
python -m stepscope.cli.support_table --check docs/support.md    fails where it is stale
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each engine fills its column from a table of its own: {field: (state, note)}.
_NOT_YET = ("TensorFlow session", "TensorFlow function", "TensorFlow eager")

_INTRODUCTION = """\
# What each engine does with each option

Written from the code by `make docs`; a test fails when it is stale. A field that an engine does
not support is refused with `UnimplementedError`, never ignored.
"""


def support_page(embedded: Mapping[str, tuple[str, str]]) -> str:
    """The page as Markdown."""
    columns = ("field", "embedded", *_NOT_YET)
    lines = [
        _INTRODUCTION,
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
    ]
    for field, (state, _) in embedded.items():
        cells = (f"`{field}`", state, *("not yet" for _ in _NOT_YET))
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    noted = [(field, note) for field, (_, note) in embedded.items() if note]
    if noted:
        lines.append("\n## Notes on the embedded engine\n")
        lines.extend(f"- `{field}`: {note}" for field, note in noted)
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


@click.command(epilog="Example: python -m stepscope.cli.support_table --check docs/support.md")
@click.option("--check", is_flag=True, help="Compare with the file instead of writing it.")
@click.argument("page", type=click.Path(dir_okay=False, path_type=Path))
def command(page: Path, check: bool) -> None:
    """Write the support table to PAGE, as Markdown."""
    from stepscope.runtime.support import SUPPORT

    wanted = support_page(SUPPORT)
    if not check:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(wanted, encoding="utf-8")
        return
    found = page.read_text(encoding="utf-8") if page.exists() else ""
    if found != wanted:
        changes = difflib.unified_diff(
            found.splitlines(), wanted.splitlines(), str(page), "from the code", lineterm=""
        )
        click.echo("\n".join(changes), err=True)
        raise click.ClickException(f"{page} is stale; `make docs` writes it again")


if __name__ == "__main__":
    command(prog_name="python -m stepscope.cli.support_table")
