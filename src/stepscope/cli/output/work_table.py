"""`stepscope top --work`: what ops calculated and moved, and how near that is to the machine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis import work_profile
from stepscope.analysis.work import machine
from stepscope.cli.arguments.saved_runs import each_run, working
from stepscope.cli.output import tables, terminal, wording

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis.work.work_profile import WorkProfile
    from stepscope.cli.output.tables import Column, TableChoice

_LACKS_SHOWN = 5


def show_work(path: Path, number: int | None, by: str, key: Column, choice: TableChoice) -> None:
    """Print the work of the runs in a path; `key` is the first column."""
    with working("measuring this machine, once"):
        reach, file = machine.machine_reach()
    found = work_profile(each_run(path, number), by, reach)
    columns = [
        key,
        tables.count_column("calls", "calls"),
        tables.time_column("self_ns", "self"),
        tables.share_column("share", "share"),
        tables.Column("flops", "flops", _count, right=True, least=7),
        tables.size_column("bytes", "moved"),
        tables.Column("flops_per_s", "GFLOP/s", _giga, right=True),
        tables.Column("bytes_per_s", "GB/s", _giga, right=True, rank=1),
        tables.Column("reach", "of reach", _reach, right=True),
        tables.Column("bound", "bound by", rank=2),
        tables.count_column("uncounted", "uncounted", rank=3),
    ]
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    screen = terminal.console()
    ran, ops = wording.number(found.runs, "run"), wording.number(found.calls, "op")
    spent = wording.time(found.self_ns)
    screen.print(f"{ran} · {ops} · {spent} of work · {_count(found.flops)} operations")
    kept = f"; kept in {wording.file(str(file))}" if file is not None else ""
    screen.print(
        f"this machine reaches {reach.flops_per_s / 1e9:.1f} GFLOP/s and "
        f"{reach.bytes_per_s / 1e9:.1f} GB/s (measured {reach.measured}{kept})",
        style="dim",
    )
    screen.print()
    tables.show_table(found.rows, columns, choice, bar="share", what=found.by)
    _show_lacking(found)


def _show_lacking(found: WorkProfile) -> None:
    if not found.lacking:
        return
    screen = terminal.console()
    screen.print()
    screen.print(f"not counted: {wording.number(found.uncounted, 'op')} of {found.calls:,}")
    for lack in found.lacking[:_LACKS_SHOWN]:
        screen.print(f"  {lack.calls:,}: {wording.plain(lack.what)}", style="dim")
    if len(found.lacking) > _LACKS_SHOWN:
        screen.print(f"  and {len(found.lacking) - _LACKS_SHOWN} more reasons", style="dim")
    said = " ".join(lack.what for lack in found.lacking)
    if "no shapes" in said:
        screen.print("record shapes: trace_level=FULL_TRACE, or `stepscope run --trace full`")
    if "graph is not there" in said:
        screen.print("record the graph too: RunOptions(output_partition_graphs=True)")


def _count(value: float) -> str:
    """`5.02 M`; `-` for none."""
    if not value:
        return "-"
    for power, unit in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power:
            return f"{value / 10**power:.2f} {unit}"
    return f"{value:.0f}"


def _giga(per_second: float) -> str:
    if not per_second:
        return "-"
    value = per_second / 1e9
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.01 else "<0.01"


def _reach(part: float) -> str:
    return wording.share(part) if part else "-"
