"""`stepscope report`: the runs in a file or directory as one HTML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click

_UNITS: Final = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}
_UNITS_OF_1024: Final = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_LEAST: Final = 100_000
DEFAULT_NAME: Final = "report.html"


def _bytes(_ctx: Any, _option: Any, value: str) -> int:
    """The bytes in `20MB`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    units = {**_UNITS, **_UNITS_OF_1024}
    if found is None or found[2].upper() not in units:
        raise click.BadParameter(f"{value!r} is no size; 20MB is one")
    size = round(float(found[1]) * units[found[2].upper()])
    if size < _LEAST:
        raise click.BadParameter(f"{value!r} is less than any report; the least is 100KB")
    return size


@click.command(
    name="report",
    epilog="Example: stepscope report stepscope-out -o report.html",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_NAME,
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--max-size",
    callback=_bytes,
    default="20MB",
    show_default=True,
    metavar="SIZE",
    help="Leave out detail above that; totals stay right, and the page says what was left out.",
)
def command(paths: tuple[Path, ...], output: Path, max_size: int) -> None:
    """Write the pages of `stepscope view` for PATH as one HTML file.

    It needs no network and no server: it opens from disk, from a mail or from the artefacts of a CI
    run. Several paths are compared with each other.
    """
    from stepscope.cli.arguments.saved_runs import working
    from stepscope.cli.output import terminal, wording
    from stepscope.metadata import readable
    from stepscope.web.recordings import Recordings
    from stepscope.web.report import write_report
    from stepscope.web.run_sources import FilesSource

    with working("writing the report"):
        report = write_report(Recordings(FilesSource(paths), follow=False), output, max_size)
    size = readable.size(len(report.content))
    terminal.echo(f"wrote {wording.plain(str(output))} ({size})")
    for sentence in report.folded:
        terminal.echo(f"folded: {wording.plain(sentence)}")
