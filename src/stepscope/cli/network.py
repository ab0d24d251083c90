"""`stepscope network`: traffic between the tasks of a cluster, and who kept whom waiting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.arguments.cluster_runs import say_clocks, say_missing
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from stepscope.analysis import Network
    from stepscope.cli.output.tables import Column, TableChoice

_GROUPINGS = ("edge", "pair", "op")
_STEPS_SHOWN = 10


@click.command(
    name="network",
    epilog="Example: stepscope network logs --by pair",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@click.option(
    "--by",
    type=click.Choice(_GROUPINGS),
    default="edge",
    show_default=True,
    help="What to sum up by.",
)
@table_options
def command(paths: tuple[Path, ...], by: Any, choice: TableChoice) -> None:
    """What moved between the tasks of a cluster, how long it took, and who was late.

    PATH is a run of a cluster, or a directory for each worker; a directory of such directories is
    all of them. A receive waits until its tensor was made, and then for it to arrive; "idle" is for
    how long the receiving task had nothing else to do. Times are by the first task's clock. Of each
    step it names the task or the link that the others waited for most, and what that cost.
    """
    from stepscope.analysis import WorkerRuns, network, workers_at
    from stepscope.cli.arguments.saved_runs import working
    from stepscope.cli.output import tables

    runs = WorkerRuns(workers_at(*paths))
    with working("reading runs"):
        found = network(runs, by)
    columns = _columns(by)
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    _say_totals(found)
    tables.show_table(found.rows, columns, choice, what="transfer")
    _say_stragglers(found)
    say_clocks(found.clocks)
    say_missing(runs)


def _columns(by: str) -> list[Column]:
    from stepscope.cli.output import tables

    named = {
        "edge": [
            tables.Column("producer", "made by", style="bold"),
            tables.Column("source", "from"),
            tables.Column("target", "to"),
            tables.Column("consumer", "used by", rank=2),
        ],
        "pair": [
            tables.Column("source", "from", style="bold"),
            tables.Column("target", "to", style="bold"),
        ],
        "op": [
            tables.Column("producer", "made by", style="bold"),
            tables.Column("consumer", "used by", rank=2),
        ],
    }
    return [
        *named[by],
        tables.count_column("calls", "calls"),
        tables.size_column("bytes", "moved"),
        tables.time_column("waiting_ns", "waiting"),
        tables.time_column("moving_ns", "moving"),
        tables.time_column("idle_ns", "idle"),
        tables.Column("rate", "rate", _rate, right=True, rank=1, least=10),
        tables.time_column("max_ns", "longest", rank=3),
    ]


def _rate(bytes_per_second: float) -> str:
    from stepscope.cli.output import wording

    return f"{wording.size(int(bytes_per_second))}/s" if bytes_per_second else "-"


def _say_totals(found: Network) -> None:
    from stepscope.cli.output import terminal, wording

    number = wording.number
    kinds = ((found.transfers, "transfer"), (found.collectives, "collective"))
    counted = [number(count, kind) for count, kind in kinds if count] or [number(0, "transfer")]
    size = f" of {wording.size(found.bytes)}" if found.bytes else ""
    screen = terminal.console()
    screen.print(
        f"{number(len(found.tasks), 'task')} · {number(found.steps, 'step')} · "
        f"{' and '.join(counted)}{size}"
    )
    if found.unmatched:
        screen.print(
            f"{number(found.unmatched, 'transfer')} whose producer is not in the record: "
            "their waiting counts as moving"
        )
    screen.print()


def _say_stragglers(found: Network) -> None:
    from stepscope.cli.output import tables, terminal, wording

    if not found.stragglers:
        return
    screen = terminal.console()
    costliest = sorted(found.stragglers, key=lambda late: -late.cost_ns)[:_STEPS_SHOWN]
    screen.print(f"\nwhat steps waited for most ({wording.number(len(costliest), 'step')} shown)")
    columns = [
        tables.Column("run", "step", style="bold"),
        tables.Column("name", "late"),
        tables.Column("kind", "kind", rank=1),
        tables.time_column("cost_ns", "cost"),
        tables.share_column("share", "of step"),
        tables.count_column("waiting", "tasks waited", rank=2),
        tables.time_column("waited_ns", "together", rank=2),
    ]
    screen.print(tables.grid(costliest, columns, screen.width))
