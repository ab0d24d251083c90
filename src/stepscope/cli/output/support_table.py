"""The page that says which engine supports which field, written from the engines' own tables.

python -m stepscope.cli.output.support_table docs/support.md            writes it
python -m stepscope.cli.output.support_table --check docs/support.md    fails where it is stale
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import click

Support = Mapping[str, tuple[str, str]]
"""An engine's own table: field to (state, note)."""

_INTRODUCTION = """\
# What each engine does with each option

Written from the code by `make docs`; a test fails when it is stale. A field that an engine does
not support is refused with `UnimplementedError`, never ignored.
"""


def support_page(engines: Mapping[str, Support]) -> str:
    """The page as Markdown: a column per engine, and the notes of each below the table."""
    columns = ("field", *engines)
    lines = [
        _INTRODUCTION,
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
    ]
    fields = dict.fromkeys(field for support in engines.values() for field in support)
    for field in fields:
        states = (support.get(field, ("-", ""))[0] for support in engines.values())
        lines.append(f"| {' | '.join(map(_cell, (f'`{field}`', *states)))} |")
    for engine, support in engines.items():
        noted = [(field, note) for field, (_, note) in support.items() if note]
        if noted:
            lines.append(f"\n## Notes: {engine}\n")
            lines.extend(f"- `{field}`: {note}" for field, note in noted)
    return "\n".join(lines) + "\n"


def engines() -> dict[str, Support]:
    """Every engine's table, by the name of the engine."""
    from stepscope.adapters.tensorflow.support import SUPPORT as TENSORFLOW
    from stepscope.runtime.support import SUPPORT as EMBEDDED

    names = {engine: engine.replace("tensorflow", "TensorFlow") for engine in TENSORFLOW}
    return {"embedded": EMBEDDED, **{names[engine]: TENSORFLOW[engine] for engine in TENSORFLOW}}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


@click.command(
    epilog="Example: python -m stepscope.cli.output.support_table --check docs/support.md"
)
@click.option("--check", is_flag=True, help="Compare with the file instead of writing it.")
@click.argument("page", type=click.Path(dir_okay=False, path_type=Path))
def command(page: Path, check: bool) -> None:
    """Write the support table to PAGE, as Markdown."""
    from stepscope.cli.output import terminal

    wanted = support_page(engines())
    if not check:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(wanted, encoding="utf-8")
        return
    found = page.read_text(encoding="utf-8") if page.exists() else ""
    if found != wanted:
        changes = difflib.unified_diff(
            found.splitlines(), wanted.splitlines(), str(page), "from the code", lineterm=""
        )
        terminal.echo("\n".join(changes), err=True)
        raise click.ClickException(f"{page} is stale; `make docs` writes it again")


if __name__ == "__main__":
    command(prog_name="python -m stepscope.cli.output.support_table")
