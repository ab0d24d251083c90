"""`stepscope info`: what a saved file holds, in a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stepscope.metadata import RunMetadata


@click.command(
    name="info", epilog="Example: stepscope info stepscope-out/train/run_000001/run_metadata.pb"
)
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> None:
    """Show what a saved run holds.

    Its engine, how it ended, ops, devices, threads, and what was not measured.
    """
    from rich.console import Console

    from stepscope.metadata import load

    console = Console(highlight=False, markup=False, emoji=False)
    loaded = load(file)
    runs = loaded if isinstance(loaded, list) else [loaded]
    for number, metadata in enumerate(runs):
        if number:
            console.print()
        console.print(_summary(file, metadata))


def _summary(file: Path, metadata: RunMetadata) -> RenderableType:
    from rich.table import Table

    from stepscope.cli import wording

    ops = metadata.ops
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("file", str(file))
    grid.add_row("engine", metadata.engine or "not said in the file")
    grid.add_row("status", metadata.status.code)
    if metadata.status.message:
        grid.add_row("", metadata.status.message.strip())
    for op in metadata.status.outcomes:
        grid.add_row("in flight", f"{op.name} ({op.outcome.replace('_', ' ')})")
    spent = int((ops.end_ns - ops.start_ns).sum())
    kinds = len(set(ops.op.tolist()))
    grid.add_row(
        "ops",
        f"{wording.number(len(ops), 'execution')} of {wording.number(kinds, 'op type')} "
        f"in {wording.time(spent)}",
    )
    for device in dict.fromkeys(ops.device.tolist()):
        peak = metadata.peak_bytes(device)
        held = f"  (peak {wording.size(peak)})" if peak else ""
        grid.add_row("device", f"{wording.device(device)}{held}")
    threads = len(set(ops.thread.tolist()))
    grid.add_row("threads", f"{threads:,}")
    if metadata.overhead.ns:
        cost = metadata.overhead
        grid.add_row("overhead", f"{wording.time(cost.ns)} ({wording.share(cost.fraction)})")
    if metadata.completeness.complete:
        grid.add_row("not measured", "nothing is missing that the engine knows of")
    for loss in metadata.completeness.losses:
        amount = f"{loss.count:,} " if loss.count else ""
        grid.add_row("not measured", f"{amount}{loss.what}: {loss.reason}")
    return grid
