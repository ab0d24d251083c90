"""The analyses on large runs: a million ops, a thousand runs, a long chain. Seconds beyond loading.

Synthetic runs: how long an analysis takes depends on how many executions, names and edges there
are, not on what was executed.

And every command on two hundred recorded runs of a thousand ops, of either engine, as a user waits
for it: a process that starts, reads, answers and ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Result, at_most
from benchmarks.timeline import MILLION, synthetic
from stepscope.analysis import critical_path, diff, op_profile
from stepscope.metadata import OpColumns, Recording, RunMetadata, StringColumn
from stepscope.metadata.wire.labels import make_label

RUNS, OPS = 1000, 1000
CHAIN = 100_000
TIMES = 3
PROGRAM = Path(__file__).parent / "programs" / "thousand_ops.py"
LONGEST_S = 1.0
ENGINES = ("embedded", "tensorflow")
QUESTIONS = (
    "info", "steps", "top", "top --by name", "top --by layer", "top --by line", "top --by file",
    "top --by function", "top --by device", "top --by thread", "top --work", "account", "retraces",
    "input", "advise", "why layer_20/Tanh", "why 42", "why peak", "memory", "memory --growth",
    "memory --flame", "memory --at 1ms", "path", "parallelism", "placement", "coverage", "network",
    "diff",
)  # fmt: skip


def seconds(work: Callable[[], object]) -> float:
    """The median of a few times."""
    spent = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        work()
        spent.append(time.perf_counter() - begun)
    return float(np.median(spent))


def row(what: str, ops: int, spent: float, limit: float | None) -> Result:
    """`ours` are the executions, `theirs` the seconds they took."""
    target, met = ("", None) if limit is None else at_most(limit, spent)
    return Result(f"{what}: executions, seconds", ops, spent, spent, target, met, unit="")


def chain(length: int, *, edges: bool) -> RunMetadata:
    """Ops on one thread, each of which waits for the one before, by its inputs or by the code."""
    names = [f"step_{i}" for i in range(length)]
    start = 10 * np.arange(length) + 1_794_784_521_809_562_390
    ops = OpColumns.build(
        name=names, op=StringColumn.repeated("Add", length),
        label=[make_label(name, "Add", names[i - 1 : i] if edges else []) for i, name in
               enumerate(names)],
        device=StringColumn.repeated("/device:CPU:0", length), thread=np.ones(length),
        scheduled_ns=start, start_ns=start + 2, end_ns=start + 9,
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops))
    _ = metadata.ops
    return metadata


def profiles(_tf: Any) -> Iterator[Result]:
    """`stepscope top`: by op type, by name, and where each op has a name of its own."""
    for what, nodes, by, limit in (
        ("top", 1000, "op", 2.0),
        ("top --by name", 1000, "name", 2.0),
        ("top --by name, all of them different", MILLION, "name", None),
    ):
        run = synthetic(MILLION, nodes=nodes)
        _ = run.ops.output_bytes
        spent = seconds(lambda run=run, by=by: op_profile(run, by))
        yield row(f"{what}, 1,000,000 ops", MILLION, spent, limit)


def differences(_tf: Any) -> Iterator[Result]:
    """`stepscope diff` of a thousand runs on each side, recorded in turns and not."""
    for what, shift in (("in turns", 5_000_000), ("one after the other", RUNS * 10_000_000)):
        sides = [[synthetic(OPS, 10_000_000 * i + at) for i in range(RUNS)] for at in (0, shift)]
        for side in sides:
            for run in side:
                _ = run.ops
        spent = seconds(lambda sides=sides: diff(*sides))
        yield row(f"diff of 2 x 1,000 runs of 1,000 ops, {what}", 2 * RUNS * OPS, spent, 5.0)


def paths(_tf: Any) -> Iterator[Result]:
    """`stepscope path` of a long chain; ten times as long takes about ten times as long."""
    for what, edges in (("", True), (" of eager ops", False)):
        runs = chain(CHAIN // 10, edges=edges), chain(CHAIN, edges=edges)
        tenth, spent = (seconds(lambda run=run: critical_path(run)) for run in runs)
        yield row(f"path of a chain{what}, 100,000 ops", CHAIN, spent, 10.0)
        target, met = at_most(20, spent / tenth)
        yield Result(f"path of a chain{what}: seconds for 100,000 ops, for 10,000", spent, tenth,
                     spent / tenth, target, met, unit="")  # fmt: skip


def commands(_tf: Any) -> Iterator[Result]:
    """Every command that answers a question, on 200 runs of 1,000 ops; the slowest engine counts.

    `STEPSCOPE_COMMANDS` may name some of them, with commas between.
    """
    wanted = os.environ.get("STEPSCOPE_COMMANDS", "").split(",")
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        for engine in ENGINES:
            stepscope(place, "run", "--engine", engine, "--trace", "full", "--out", engine, PROGRAM)
        for question in QUESTIONS if wanted == [""] else wanted:
            spent = [
                seconds(partial(stepscope, place, *question.split(), *_asked_of(question, engine)))
                for engine in ENGINES
            ]
            target, met = at_most(LONGEST_S, max(spent))
            yield Result(
                f"stepscope {question}, 200 runs of 1,000 ops: {', '.join(ENGINES)}, slower one",
                *spent, max(spent), target, met, unit="s",
            )  # fmt: skip


def _asked_of(question: str, engine: str) -> list[str]:
    """The recordings that a question is asked of."""
    return [engine] * (2 if question == "diff" else 1)


def stepscope(place: Path, *arguments: object) -> None:
    """Run a command there, to its end; as one that is installed, its modules are compiled once."""
    command = [sys.executable, "-m", "stepscope", *map(str, arguments)]
    compiled = {"PYTHONPYCACHEPREFIX": str(place / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        command, cwd=place, env=os.environ | compiled, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


GROUPS = (profiles, differences, paths, commands)
