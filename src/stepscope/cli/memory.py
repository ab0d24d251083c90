"""`stepscope memory`: live bytes over time, the peak, and who held it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.arguments.saved_runs import all_runs, every_run_option, kept_runs, runs_argument
from stepscope.cli.output.held_memory import by_option
from stepscope.cli.output.tables import table_options
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis import DeviceMemory, MemoryProfile
    from stepscope.cli.arguments.saved_runs import SavedRun
    from stepscope.cli.output.tables import TableChoice


@click.command(
    name="memory",
    epilog="Example: stepscope memory --growth stepscope-out/train",
)
@runs_argument
@every_run_option
@click.option("--device", metavar="NAME", help="This device only, such as CPU:0.")
@click.option("--growth", is_flag=True, help="What grows from step to step: leaks.")
@click.option("--flame", is_flag=True, help="Who held it as a tree of name scopes.")
@click.option(
    "--at",
    "instant",
    metavar="INSTANT",
    help="The tree at a time after the run's beginning (120ms, 1.5s), or at its peak.",
)
@by_option
@table_options
def command(
    path: Path, number: int | None, device: str | None, growth: bool, flame: bool,
    instant: str | None, by: Any, choice: TableChoice,
) -> None:  # fmt: skip
    """How much memory the runs in PATH held over time, and who held it at the peak.

    Several runs are shown one after the other in time; the table is of the one with the highest
    peak. Its rows sum to the peak. --growth compares what was held when each run of a kind began:
    a row per owner that holds more each time, by how much in a step, from the least to the most.
    Of a recording with a budget few runs have their memory: it is said of how many steps the peak
    may be higher.
    --flame and --at show who held memory at one instant, scope by scope.
    """
    if growth and (flame or instant is not None):
        raise click.UsageError("--growth is of all runs, --flame and --at of an instant of one")
    if growth:
        from stepscope.cli.output.memory_growth import show_growth

        show_growth(path, choice)
        return
    if flame or instant is not None:
        from stepscope.cli.output.memory_flame import show_flame

        show_flame(path, number, instant or "peak", device, choice)
        return
    from stepscope.analysis import memory_profile
    from stepscope.cli.output import held_memory, run_report, tables, terminal

    runs, rests_on = _runs(path, number)
    profile = memory_profile([run[:2] for run in runs], by)
    if not profile.devices:
        raise StepscopeError(
            f"{path}: no memory was recorded; record it with `stepscope run --trace full`, or "
            "trace_level=RunOptions.FULL_TRACE in the options of the run"
        )
    if device is not None:
        profile = _only(profile, device)
    if tables.write_for_programs(profile, profile.rows, held_memory.columns(by), choice):
        return
    if rests_on:
        run_report.say(rests_on)
        terminal.console().print()
    for count, memory in enumerate(profile.devices):
        if count:
            terminal.console().print()
        _show(profile, memory, choice)


def _runs(path: Path, number: int | None) -> tuple[list[SavedRun], str]:
    """The runs to look at; of a recording with a budget, what they say of all steps, in words."""
    from stepscope.analysis.sampling.chosen_runs import recorded_in_detail
    from stepscope.analysis.sampling.weights import sampled_at

    found = sampled_at(path) if number is None else None
    if found is None:
        return all_runs(path, number), ""
    chosen = recorded_in_detail(found[1])
    return kept_runs(*found, chosen.runs), chosen.why


def _only(profile: MemoryProfile, wanted: str) -> MemoryProfile:
    from stepscope.cli.output.held_memory import device_named

    device = device_named(wanted, [memory.device for memory in profile.devices])
    return replace(
        profile,
        devices=tuple(memory for memory in profile.devices if memory.device == device),
        rows=tuple(row for row in profile.rows if row.device == device),
    )


def _show(profile: MemoryProfile, memory: DeviceMemory, choice: TableChoice) -> None:
    from rich.text import Text

    from stepscope.cli.output import held_memory, terminal, wording
    from stepscope.cli.output.area_plot import Curve, area_plot

    screen = terminal.console()
    start = int(memory.time_ns[0]) if len(memory.time_ns) else 0
    about = "about " if memory.estimated else ""
    when = f" after {wording.time(memory.peak_ns - start)}" if memory.peak_ns else ""
    where = f", in {wording.plain(memory.run)}" if profile.runs > 1 else ""
    screen.print(
        Text.assemble(
            (wording.device(memory.device), "bold cyan"),
            f"  peak {about}{wording.size(memory.peak_bytes)} ({memory.peak_bytes:,} bytes)"
            f"{when}{where}",
        ),
        soft_wrap=True,
    )
    if memory.estimated:
        screen.print(
            "An estimate, by what ops put out: what kernels take for themselves is not in it, and "
            "buffers that are reused count twice. stepscope run --memory records every byte.",
            style="yellow",
        )
    if not len(memory.time_ns):
        screen.print(
            "Single allocations were not recorded: there is no curve and nobody to name. "
            "stepscope run --trace full records them.",
            style="yellow",
        )
        return
    lasting, passing = memory.persistent_at_peak, memory.temporary_at_peak
    screen.print(
        f"at the peak {wording.share(lasting / memory.peak_bytes)} was in variables, queues and "
        f"feeds, {wording.share(passing / memory.peak_bytes)} in tensors of the run"
        if memory.persistent_bytes.any()
        else "variables, queues and feeds: none were recorded on this device",
        style="dim",
    )
    screen.print()
    curve = Curve(memory.time_ns, memory.live_bytes, memory.persistent_bytes)
    screen.print(area_plot(curve, screen.width))
    screen.print()
    rows = [row for row in profile.rows if row.device == memory.device]
    held_memory.show(rows, profile.by, choice)
