"""`stepscope top`: where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepscope.analysis.op_profile import GROUPINGS
from stepscope.cli.saved_runs import each_run, every_run_option, runs_argument
from stepscope.cli.tables import table_options

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.cli.tables import Choice, Column

_ROWS = {"op": "op type", "name": "op", "source": "line"}


@click.command(
    name="top",
    short_help="Which ops took the time.",
    epilog="Example: stepscope top stepscope-out --by name --limit 10",
)
@runs_argument
@every_run_option
@click.option(
    "--by", type=click.Choice(GROUPINGS), default="op", show_default=True, help="What to sum up by."
)
@table_options
def command(path: Path, number: int | None, by: Any, choice: Choice) -> None:
    """Which ops took the time, over all runs in PATH.

    "self" leaves out what ran nested inside an op; "busy" is the time in which at least one of
    them was running, which is less than the total where they ran side by side.
    """
    from stepscope.analysis import op_profile
    from stepscope.cli import tables, terminal, wording

    profile = op_profile(each_run(path, number), by)
    columns = _columns(by)
    if tables.write_for_programs(profile, profile.rows, columns, choice):
        return
    ran, ops = wording.number(profile.runs, "run"), wording.number(profile.calls, "op")
    times = f"{wording.time(profile.self_ns)} of work in {wording.time(profile.covered_ns)}"
    at_once = f" ({profile.parallelism:.2f} at once)" if profile.covered_ns else ""
    screen = terminal.console()
    screen.print(f"{ran} · {ops} · {times}{at_once}")
    for ending, count in profile.not_ok.items():
        which = "" if profile.runs == 1 else f"{count:,} of {ran}: "
        screen.print(f"{which}status {ending}; not every op may be here", style="yellow")
    screen.print()
    tables.show_table(profile.rows, columns, choice, bar="share", what=_ROWS.get(by, by))


def _columns(by: str) -> list[Column]:
    from stepscope.cli import tables, wording

    shortened = {"device": wording.device, "source": wording.place}
    return [
        tables.Column("key", by, shortened.get(by, str), style="bold"),
        *([tables.Column("op", "op", rank=2)] if by == "name" else []),
        *([] if by == "device" else [tables.Column("device", "device", _device, rank=3)]),
        tables.count_column("calls", "calls"),
        tables.time_column("self_ns", "self"),
        tables.share_column("share", "share"),
        tables.time_column("total_ns", "total", rank=4),
        tables.time_column("covered_ns", "busy", rank=1),
        tables.time_column("mean_ns", "mean"),
        tables.time_column("max_ns", "longest", rank=5),
        tables.time_column("p50_ns", "p50/run", rank=6),
        tables.time_column("p90_ns", "p90/run", rank=6),
        tables.size_column("bytes", "output", rank=1),
    ]


def _device(name: str) -> str:
    from stepscope.cli import wording

    return wording.device(name) if name else "(several)"
