"""`stepscope top`: where the time went."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from stepscope.analysis.profile.op_profile import GROUPINGS, OLDER
from stepscope.cli.arguments.saved_runs import each_run, every_run_option, named_runs, runs_argument
from stepscope.cli.output.tables import ROWS_SHOWN, table_options
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis import LayerProfile, LayerRow, ModelTime, OpProfile
    from stepscope.analysis.sampling.sampled_profile import SampledProfile
    from stepscope.cli.output.tables import Column, TableChoice

    _OneOf = click.Choice[str]
else:
    _OneOf = click.Choice  # before click 8.2 it takes no type

_MENTIONED = 0.0005
"""What is a smaller share than this would be said to be 0.0%."""
_ROWS = {"type": "op type", "name": "op"}


class _Grouping(_OneOf):
    """What to sum up by; what it was called before is understood and not listed."""

    def __init__(self) -> None:
        super().__init__([by for by in GROUPINGS if by != "scope"])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        value = OLDER.get(value, value)
        return value if value in GROUPINGS else super().convert(value, param, ctx)


@click.command(
    name="top",
    epilog="Example: stepscope top stepscope-out --by layer --depth 2",
)
@runs_argument
@every_run_option
@click.option(
    "--by", type=_Grouping(), default="type", show_default=True, help="What to sum up by."
)
@click.option(
    "--depth", type=click.IntRange(min=1), metavar="N",
    help="With --by layer, so many levels of the tree.  [default: all]",
)  # fmt: skip
@click.option(
    "--apart", is_flag=True,
    help="With --by layer, forward, backward and optimizer of each apart, however narrow it is.",
)  # fmt: skip
@click.option(
    "--work", is_flag=True,
    help="What they calculated and moved, by recorded shapes, and how near that is to what this "
    "machine reaches.",
)  # fmt: skip
@table_options
def command(
    path: Path, number: int | None, by: Any, depth: int | None, apart: bool, work: bool,
    choice: TableChoice,
) -> None:  # fmt: skip
    """Which ops took the time, over all runs in PATH.

    "self" leaves out what ran nested inside an op; "busy" is the time in which at least one of
    them was running, which is less than the total where they ran side by side.

    A layer is a layer of Keras or a scope of names, with all that is below it: its forward and
    backward ops, and those of the optimizer that update its variables. Ops outside of any are
    known by the line that made them. Above the table stands how much of what the model does is in
    its layers, what the program does around it (input, runs without layers) not counted. A line,
    file or function is of the program, where an op was made.

    Of a recording with a budget, in which few steps are there of many, what is shown is estimated
    for all of them (not by layer): each run is weighed by how many steps it stands for. By type and
    by name it comes from summaries of all runs whose op times were noted, otherwise from those that
    were kept.
    """
    from stepscope.analysis import layer_profile, op_profile
    from stepscope.cli.output import tables

    if work:
        from stepscope.cli.output.work_table import show_work

        if depth is not None or apart:
            raise StepscopeError("--depth and --apart are not for --work")
        show_work(path, number, by, _columns(by)[0], choice)
        return
    if by == "layer":
        tree = layer_profile(each_run(path, number), depth)
        columns = _layer_columns(tree, apart, flat=choice.sort is not None or bool(choice.pattern))
        if not tables.write_for_programs(tree, tree.rows, columns, choice):
            around = _of_model(tree.model, tree.self_ns)
            _show(tree, _largest(tree.rows, choice), columns, choice, "layer", around)
        return
    if depth is not None or apart:
        raise StepscopeError("--depth and --apart are for --by layer")
    columns = _columns(by)
    estimated = _estimated(path, by) if number is None else None
    if estimated is not None:
        columns.append(tables.Column("share_within", "±", _points, right=True))
        if not tables.write_for_programs(estimated, estimated.rows, columns, choice):
            _show(estimated, estimated.rows, columns, choice, _ROWS.get(by, by))
        return
    profile = op_profile(each_run(path, number), by)
    if not tables.write_for_programs(profile, profile.rows, columns, choice):
        _show(profile, profile.rows, columns, choice, _ROWS.get(by, by))


def _estimated(path: Path, by: Any) -> SampledProfile | None:
    """For all steps of a recording with a budget: by its summaries, else by the runs it kept."""
    from stepscope.analysis.sampling.sampled_profile import sampled_profile
    from stepscope.analysis.sampling.summed_profile import GROUPINGS as SUMMED
    from stepscope.analysis.sampling.summed_profile import profile_of_summaries
    from stepscope.analysis.sampling.weights import Weights, sampled_at

    found = sampled_at(path)
    if found is None:
        return None
    if by in SUMMED and any(summary.with_times for summary in found[1].summaries):
        return profile_of_summaries(found[1], by)
    return sampled_profile(named_runs(path), Weights.of(found[1]), by)


def _points(within: float) -> str:
    """How far a share may be off, in points."""
    return f"{100 * within:.1f}"


def _show(
    profile: OpProfile | LayerProfile,
    rows: Any,
    columns: list[Column],
    choice: TableChoice,
    what: str,
    more: str = "",
) -> None:
    from stepscope.cli.output import tables, terminal, wording

    ran, ops = wording.number(profile.runs, "run"), wording.number(profile.calls, "op")
    steps = getattr(profile, "steps", 0)
    times = f"{wording.time(profile.self_ns)} of work in {wording.time(profile.covered_ns)}"
    at_once = f" ({profile.parallelism:.2f} at once)" if profile.covered_ns else ""
    screen = terminal.console()
    if steps:
        screen.print(
            f"{wording.number(steps, 'step')}, estimated from {ran} whose op times were noted, "
            "each weighed by how many it stands for; a share is within ± points of that of all "
            "steps, 19 times of 20"
        )
    screen.print(f"{ran if not steps else f'{steps:,} steps'} · {ops} · {times}{at_once}")
    if more:
        screen.print(more)
    for ending, count in profile.not_ok.items():
        which = "" if profile.runs == 1 else f"{count:,} of {ran}: "
        screen.print(f"{which}status {ending}; not every op may be here", style="yellow")
    screen.print()
    tables.show_table(rows, columns, choice, bar="share", what=what)
    left = len(profile.rows) - len(rows)
    if left:
        screen.print(
            f"and {wording.number(left, 'smaller layer')} (--limit 0 shows all)", style="dim"
        )


def _of_model(model: ModelTime, whole_ns: int) -> str:
    """How much of what a model does is in its layers, and what the program does beside it."""
    from stepscope.cli.output import wording

    if not model.self_ns:
        return ""
    parts = {
        "in the loss": model.loss_ns,
        "in metrics": model.metrics_ns,
        "of the optimizer as a whole": model.optimizer_ns,
        "by lines outside of layers": model.lines_ns,
        "unknown": model.unnamed_ns,
    }
    text = f"{wording.share(model.layers_ns / model.self_ns)} of their work in layers"
    for what, ns in sorted(parts.items(), key=lambda part: -part[1]):
        if ns > _MENTIONED * model.self_ns:
            text += f", {wording.share(ns / model.self_ns)} {what}"
    elsewhere = whole_ns - model.self_ns - model.input_ns
    beside = {"taking input": model.input_ns, "in runs without layers": elsewhere}
    told = [f"{wording.time(ns)} {what}" for what, ns in beside.items()
            if ns > _MENTIONED * whole_ns]  # fmt: skip
    aside = f" (not counted: {', '.join(told)})" if told else ""
    return f"{wording.number(model.runs, 'run')} with layers: {text}{aside}"


def _largest(rows: tuple[LayerRow, ...], choice: TableChoice) -> tuple[LayerRow, ...]:
    """As many rows as there is to show, the largest, in the order of the tree."""
    count = ROWS_SHOWN if choice.limit is None else choice.limit
    if choice.sort is not None or choice.pattern or not count or len(rows) <= count:
        return rows
    order = sorted(range(len(rows)), key=lambda i: (-rows[i].self_ns, i))
    return tuple(rows[i] for i in sorted(order[:count]))


def _columns(by: str) -> list[Column]:
    from stepscope.cli.output import tables, wording

    shortened = {
        "device": wording.device,
        "line": wording.place,
        "function": wording.place,
        "file": wording.file,
    }
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


def _layer_columns(tree: LayerProfile, apart: bool, *, flat: bool) -> list[Column]:
    from stepscope.cli.output import tables

    rank = 0 if apart else 1
    named = tables.Column("key", "layer", style="bold")
    phases = [
        tables.time_column(f"{phase}_ns", phase, rank=rank)
        for phase in ("forward", "backward", "optimizer")
        if apart or any(getattr(row, f"{phase}_ns") for row in tree.rows)
    ]
    return [
        named if flat else replace(named, text=_indented),
        tables.count_column("calls", "calls"),
        tables.time_column("self_ns", "self"),
        tables.share_column("share", "share"),
        *phases,
        tables.time_column("own_ns", "own", rank=2),
        tables.size_column("bytes", "output", rank=3),
    ]


def _indented(path: str) -> str:
    """The last part of a path, as far in as there are others before it."""
    *above, name = path.split("/")
    return "  " * len(above) + name


def _device(name: str) -> str:
    from stepscope.cli.output import wording

    return wording.device(name) if name else "(several)"
