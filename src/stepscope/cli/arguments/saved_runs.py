"""The runs that a command is given: a file, a directory or a TensorBoard logdir.

Runs are numbered from 0 in the order of their files; `--run` takes that number. A file that cannot
be read is left out, which is said on stderr; only `stepscope info` lists it. While reading takes
long, a bar on the terminal says how far it is.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepscope.errors import UnreadableFileError
from stepscope.metadata.readable import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress

    from stepscope.metadata import LoadedRun, RunMetadata
    from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording

__all__ = [
    "SavedRun",
    "all_runs",
    "each_run",
    "every_run_option",
    "kept_runs",
    "named_runs",
    "no_such_run",
    "one_run",
    "readable_runs",
    "run_option",
    "runs",
    "runs_argument",
    "say_choice",
    "working",
]

_QUICK_S = 1.0
_NAMED = 5

runs_argument = click.argument("path", type=click.Path(path_type=Path), metavar="PATH")
run_option = click.option(
    "--run",
    "number",
    type=int,
    metavar="N",
    help="Which of several runs, counted from 0; -1 is the last.  [default: a typical one]",
)
every_run_option = click.option(
    "--run",
    "number",
    type=int,
    metavar="N",
    help="This one of several runs only, counted from 0; -1 is the last.  [default: all]",
)


class SavedRun(NamedTuple):
    """A run, with what to call it: where it was found, and its number if there are several."""

    name: str
    metadata: RunMetadata
    found: str
    """What the file or directory calls it."""
    why: str = ""
    """Why it is this one of several, where nobody said which."""
    number: int = 0
    """What `--run` calls it."""


def all_runs(path: Path, number: int | None = None, *, unread: bool = False) -> list[SavedRun]:
    """Every run in a file or below a directory, or the one of this number.

    With `unread` also those that only say that their file cannot be read.
    """
    if number is not None:
        return [one_run(path, number)]
    numbered = enumerate(runs(path)) if unread else readable_runs(path)
    found = []
    for place, run in numbered:
        # Decoded here, where the bar sees it, rather than in the analysis.
        _ = run.metadata.ops
        found.append((place, run))
    return [
        SavedRun(
            str(path) if len(found) == 1 else _numbered(i, run.name),
            run.metadata,
            run.name,
            number=i,
        )
        for i, run in found
    ]


def _numbered(number: int, name: str) -> str:
    return f"run {number}" if name in ("", str(number)) else f"run {number} ({name})"


def one_run(path: Path, number: int | None) -> SavedRun:
    """The run of this number; without one a typical one (see `typical_run`), and why.

    Of all runs only the one looked for stays in memory.
    """
    if number is None:
        sampled = _typical_of_sample(path)
        if sampled is not None:
            return sampled
        from stepscope.analysis.typical_run import typical_run

        chosen = typical_run((place, run.metadata) for place, run in readable_runs(path))
        found = next(islice(runs(path), chosen.number, None))
        name = _numbered(chosen.number, found.name) if chosen.why else str(path)
        why = f"{chosen.why}; --run takes another" if chosen.why else ""
        return SavedRun(name, found.metadata, found.name, why, chosen.number)
    count = 0
    kept: list[tuple[int, LoadedRun]] = []
    for run in runs(path):
        if count == number or number < 0:
            kept = [*kept, (count, run)][-max(-number, 1) :]
        count += 1
    if not -count <= number < count:
        raise no_such_run(path, number, count)
    place, found = kept[0]
    _say_damage(_damage(path, found))
    name = str(path) if count == 1 else _numbered(place, found.name)
    return SavedRun(name, found.metadata, found.name, number=place)


def _typical_of_sample(path: Path) -> SavedRun | None:
    """Of a recording with a budget, in which slow runs are more than their share, a usual one."""
    from stepscope.analysis.sampling.chosen_runs import typical_of_sample
    from stepscope.analysis.sampling.weights import sampled_at

    found = sampled_at(path)
    chosen = typical_of_sample(found[1]) if found is not None else None
    if found is None or chosen is None:
        return None
    runs = kept_runs(*found, chosen.runs)
    return runs[0]._replace(why=f"{chosen.why}; --run takes another") if runs else None


def kept_runs(store: Path, recording: StepsRecording, chosen: Sequence[KeptRun]) -> list[SavedRun]:
    """Some runs of a recording with a budget; only these are read."""
    from stepscope.analysis.sampling.chosen_runs import places
    from stepscope.metadata.readers.store_file import numbered_runs

    place = dict(zip((run.number for run in chosen), places(recording, chosen), strict=True))
    name = {run.number: run.name for run in chosen}
    return [
        SavedRun(_numbered(place[n], name[n]), metadata, name[n], number=place[n])
        for n, metadata in numbered_runs(store, place)
    ]


def say_choice(run: SavedRun) -> None:
    """Say which of several runs this is, and why."""
    from rich.text import Text

    from stepscope.cli.output import terminal, wording

    if run.why:
        terminal.console().print(Text(f"{wording.plain(run.name)}: {run.why}", style="dim"))


def each_run(path: Path, number: int | None = None) -> Iterator[RunMetadata]:
    """Every run in turn, none of them kept in memory; or the one of this number."""
    if number is not None:
        yield one_run(path, number).metadata
        return
    for _, run in readable_runs(path):
        yield run.metadata


def named_runs(path: Path) -> Iterator[LoadedRun]:
    """Every run in turn with the name that its file has for it, none of them kept in memory."""
    for _, run in readable_runs(path):
        yield run


def readable_runs(path: Path) -> Iterator[tuple[int, LoadedRun]]:
    """The runs with their numbers; files that cannot be read are named on stderr."""
    from stepscope.cli.output import terminal
    from stepscope.metadata.readers import is_unread

    count, left_out = 0, []
    damage: dict[str, None] = {}
    for number, run in enumerate(runs(path)):
        if is_unread(run.metadata):
            left_out.append(run.metadata.status.message)
        else:
            count += 1
            damage.update(dict.fromkeys(_damage(path, run)))
            yield number, run
    _say_damage(list(damage))
    if left_out and not count:
        what = "the run" if len(left_out) == 1 else f"any of the {len(left_out):,} runs"
        raise UnreadableFileError(f"cannot read {what} in {path}; the first: {left_out[0]}")
    for reason in left_out[:_NAMED]:
        terminal.echo(f"stepscope: left out, as it cannot be read: {plain(reason)}", err=True)
    if len(left_out) > _NAMED:
        terminal.echo(f"stepscope: and {len(left_out) - _NAMED:,} more files", err=True)


def _damage(path: Path, run: LoadedRun) -> list[str]:
    """What is missing because its file is damaged or cut, and where, if it is one of several."""
    where = f"{run.name}: " if path.is_dir() else ""
    return [where + loss.reason for loss in run.metadata.completeness.damage]


def _say_damage(damage: list[str]) -> None:
    from stepscope.cli.output import terminal

    for what in damage[:_NAMED]:
        terminal.echo(f"stepscope: not all could be read: {plain(what)}", err=True)
    if len(damage) > _NAMED:
        terminal.echo(f"stepscope: and {len(damage) - _NAMED:,} more damaged files", err=True)


def no_such_run(path: Path, number: int, count: int) -> click.BadParameter:
    """What to raise where a path holds fewer runs than that."""
    return click.BadParameter(f"there is no run {number}; {path} holds {count}", param_hint="--run")


def runs(*paths: Path) -> Iterator[LoadedRun]:
    """The runs in files or directories, one at a time, with a progress bar if it takes long."""
    from stepscope.metadata import iter_runs

    began = time.monotonic()
    bar: Progress | None = None
    task: Any = None
    try:
        count = 0
        for path in paths:
            for run in iter_runs(path):
                count += 1
                if bar is not None:
                    bar.update(task, completed=count)
                elif time.monotonic() - began > _QUICK_S and sys.stderr.isatty():
                    bar = _progress()
                    task = bar.add_task("reading runs", total=_expected(paths, count))
                    bar.start()
                yield run
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on the terminal that something is going on, if the block takes long."""
    if not sys.stderr.isatty():
        yield
        return
    bar = _progress(counts=False)
    bar.add_task(what, total=None)
    late = threading.Timer(_QUICK_S, bar.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        bar.stop()


def _progress(*, counts: bool = True) -> Progress:
    from rich import progress

    from stepscope.cli.output import terminal

    numbers = (progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        *(numbers if counts else (progress.TimeElapsedColumn(),)),
        console=terminal.console(stderr=True),
        transient=True,
    )


def _expected(paths: tuple[Path, ...], so_far: int) -> int | None:
    """How many runs there will be, if each is a file of its own."""
    files = sum(
        sum(1 for _ in path.rglob("*run_metadata*.pb")) if path.is_dir() else 1 for path in paths
    )
    return files if files > so_far else None
