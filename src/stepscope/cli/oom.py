"""`stepscope oom`: why a run ran out of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.arguments.saved_runs import all_runs, every_run_option, runs_argument
from stepscope.cli.output.held_memory import by_option
from stepscope.cli.output.tables import table_options
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from stepscope.analysis import OutOfMemoryProfile
    from stepscope.cli.arguments.saved_runs import SavedRun
    from stepscope.cli.output.tables import TableChoice

_CURVES = {
    "allocations": "from every allocation of the run",
    "log": "from the allocation log, counted back from the failure",
    "sampled log": "an estimate, from a sampled allocation log",
}
_GROWN_SHOWN = 10


@click.command(
    name="oom",
    epilog="Example: stepscope oom --plot stepscope-out/train",
)
@runs_argument
@every_run_option
@click.option("--plot", is_flag=True, help="Also plot live bytes over time, up to the failure.")
@by_option
@table_options
def command(path: Path, number: int | None, plot: bool, by: Any, choice: TableChoice) -> None:
    """Who held the memory when a run in PATH ran out of it.

    What was asked for and refused, the live tensors (whose bytes sum to what was live), what grew
    since the last run that fitted, and what would help. Of several runs, the first that ran out of
    memory is shown, and the others are named.
    """
    from stepscope.analysis import oom
    from stepscope.cli.output import held_memory, tables, terminal, wording

    runs = all_runs(path, number)
    failed = [run for run in runs if run.metadata.out_of_memory is not None]
    if not failed and len(runs) > 1:
        raise StepscopeError(_none(path, runs))
    profile = oom([run[:2] for run in failed[:1] or runs], by)
    if tables.write_for_programs(profile, profile.rows, held_memory.columns(by), choice):
        return
    _show(profile, by, plot, choice)
    if len(failed) > 1:
        others = ", ".join(run.name.removeprefix("run ") for run in failed[1:])
        shown = wording.plain(others)
        terminal.console().print(f"\nout of memory too: run {shown} (--run shows them)")


def _none(path: Path, runs: Sequence[SavedRun]) -> str:
    exhausted = sum(run.metadata.status.code == "RESOURCE_EXHAUSTED" for run in runs)
    if not exhausted:
        return (
            f"{path}: none of the {len(runs):,} runs ran out of memory; `stepscope memory` shows "
            "what they held"
        )
    return (
        f"{path}: {exhausted:,} of the {len(runs):,} runs ran out of memory, but without a report "
        "on it; one is made where the run asks for it "
        "(RunOptions(report_tensor_allocations_upon_oom=True)) or is traced (stepscope run "
        "--trace full)"
    )


def _show(profile: OutOfMemoryProfile, by: str, plot: bool, choice: TableChoice) -> None:
    from rich.text import Text

    from stepscope.cli.output import held_memory, terminal

    screen = terminal.console()
    screen.print(_heading(profile))
    if plot:
        screen.print()
        screen.print(_plot(profile, screen.width))
    screen.print()
    held_memory.show(profile.rows, by, choice)
    if profile.grown is not None:
        screen.print()
        screen.print(_growth(profile))
    if profile.advice:
        screen.print()
        screen.print(Text.assemble(("advice: ", "bold green"), profile.advice))


def _heading(profile: OutOfMemoryProfile) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from stepscope.cli.output import wording
    from stepscope.metadata.memory.out_of_memory import shape_text

    request = profile.request
    slot = f":{request.slot}" if request.slot > 0 else ""
    shape = "" if request.shape is None else shape_text(request.shape)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("out of memory", wording.plain(profile.run))
    grid.add_row("asked by", Text(wording.plain(f"{request.op}{slot}"), style="bold red"))
    if request.source:
        grid.add_row("", wording.place(request.source))
    grid.add_row(
        "asked for", wording.plain(f"{_exactly(request.bytes)}  {shape} {profile.dtype}".rstrip())
    )
    grid.add_row("device", wording.device(request.device))
    grid.add_row("limit", "the machine's own" if profile.limit is None else _exactly(profile.limit))
    grid.add_row("live", _exactly(profile.live))
    grid.add_row("cached", "not known" if profile.cached is None else _exactly(profile.cached))
    return grid


def _plot(profile: OutOfMemoryProfile, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from stepscope.cli.output.area_plot import Curve, area_plot

    if not len(profile.time_ns):
        return Text(
            "no plot: allocations over time were not recorded; stepscope run --trace full or "
            "RunOptions(allocation_log_buffer_size=1000) records them",
            style="yellow",
        )
    curve = Curve(profile.time_ns, profile.live_bytes)
    return Group(
        Text(f"live bytes up to the failure, {_CURVES[profile.curve]}", style="dim"),
        area_plot(curve, width, limit=profile.limit, refused=profile.request.bytes),
    )


def _growth(profile: OutOfMemoryProfile) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from stepscope.cli.output import wording

    if not profile.grown:
        return Text("nothing that is live grew since the last run that fitted", style="dim")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    for style in ("bold", "", ""):
        grid.add_column(style=style, overflow="fold")
    for row in profile.grown[:_GROWN_SHOWN]:
        change = f"{row.before:,} → {row.now:,}"
        grid.add_row(
            f"+{row.now - row.before:,}", wording.plain(row.op), change, wording.place(row.source)
        )
    rest = profile.grown[_GROWN_SHOWN:]
    if rest:
        grid.add_row(f"+{sum(row.now - row.before for row in rest):,}", f"{len(rest):,} more")
    return Group(Text("grew since the last run that fitted, in bytes", style="bold"), grid)


def _exactly(count: int) -> str:
    from stepscope.metadata import readable

    return f"{count:,} bytes" if count < 1024 else f"{readable.size(count)} ({count:,} bytes)"
