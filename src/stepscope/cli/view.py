"""`stepscope view`: the runs in a file or directory as pages in the browser."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click


@click.command(
    name="view",
    epilog="Example: stepscope view stepscope-out",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Listen on this port.  [default: one that is free]",
)
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
def command(paths: tuple[Path, ...], port: int, no_browser: bool) -> None:
    """Show the runs in PATH in the browser, until Control-C.

    What is still being written is followed: new runs show as they come. Several paths are compared
    with each other. The server listens on this machine alone, and answers only to who has the
    address that is printed, which holds a secret.
    """
    import webbrowser

    from stepscope.cli.output import terminal, wording
    from stepscope.web.recordings import Recordings
    from stepscope.web.run_sources import FilesSource
    from stepscope.web.server import open_viewer

    source = FilesSource(paths)
    viewer = open_viewer(Recordings(source), port)
    try:
        terminal.echo(f"stepscope view: {viewer.address}")
        if source.awaits_runs():
            where = wording.plain(" ".join(source.labels))
            terminal.echo(f"there is no run in {where} yet: it waits for runs, and shows them")
        terminal.flush()
        if not no_browser:
            webbrowser.open(viewer.address)
        with contextlib.suppress(KeyboardInterrupt):
            viewer.serve()
    finally:
        viewer.close()
